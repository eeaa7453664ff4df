//! Elementwise functions that the graph has too, comparisons, conversions and clipping.

use reflex_graph::{Binary, Op, Unary};
use reflex_tir::DType;

use super::packed_weights::{converted_integers, scaled_integers};
use super::table::{Table, one};
use super::text;
use crate::call::{Call, axis};
use crate::context::{ImportContext, Operator};
use crate::error::{Result, invalid, unsupported};
use crate::narrow::{self, Conversion, ScaleRounding};
use crate::proto::data_type;
use crate::tensor::{computes, dtype, supported};
use crate::value::{OnnxValue, Tensor};

macro_rules! unary {
    ($f:ident) => {
        (|cx, call| one(cx.unary(Unary::$f, call.input(0)?)?)) as Operator
    };
}

macro_rules! binary {
    ($f:ident) => {
        (|cx, call| elementwise(cx, call, Binary::$f)) as Operator
    };
}

pub(super) const TABLE: Table = &[
    ("Abs", abs),
    ("Acos", unary!(Acos)),
    ("Acosh", unary!(Acosh)),
    ("Add", binary!(Add)),
    ("And", binary!(And)),
    ("Asin", unary!(Asin)),
    ("Asinh", unary!(Asinh)),
    ("Atan", unary!(Atan)),
    ("Atanh", unary!(Atanh)),
    ("BitCast", bit_cast),
    ("BitShift", bit_shift),
    ("BitwiseAnd", binary!(BitAnd)),
    ("BitwiseNot", unary!(BitNot)),
    ("BitwiseOr", binary!(BitOr)),
    ("BitwiseXor", binary!(BitXor)),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Ceil", unary!(Ceil)),
    ("Clip", clip),
    ("Cos", unary!(Cos)),
    ("Cosh", unary!(Cosh)),
    ("Div", binary!(Div)),
    ("Equal", equal),
    ("Erf", unary!(Erf)),
    ("Exp", unary!(Exp)),
    ("Floor", unary!(Floor)),
    ("Greater", binary!(Greater)),
    ("GreaterOrEqual", binary!(GreaterEqual)),
    ("IsInf", is_inf),
    ("IsNaN", unary!(IsNan)),
    ("Less", binary!(Less)),
    ("LessOrEqual", binary!(LessEqual)),
    ("Log", unary!(Log)),
    ("Max", |cx, call| fold(cx, call, Binary::Max)),
    ("Mean", mean),
    ("Min", |cx, call| fold(cx, call, Binary::Min)),
    ("Mod", modulo),
    ("Mul", product),
    ("Neg", unary!(Neg)),
    ("Not", unary!(Not)),
    ("Or", binary!(Or)),
    ("Pow", pow),
    ("Reciprocal", unary!(Reciprocal)),
    ("Round", unary!(Round)),
    ("Sigmoid", unary!(Sigmoid)),
    ("Sign", unary!(Sign)),
    ("Sin", unary!(Sin)),
    ("Sinh", unary!(Sinh)),
    ("Sqrt", unary!(Sqrt)),
    ("Sub", binary!(Sub)),
    ("Sum", |cx, call| fold(cx, call, Binary::Add)),
    ("Tan", unary!(Tan)),
    ("Tanh", unary!(Tanh)),
    ("Where", choose),
    ("Xor", binary!(Xor)),
];

/// Before opset 7 the second operand was laid along the first by attributes.
fn elementwise(cx: &mut ImportContext, call: &Call, f: Binary) -> Result<Vec<OnnxValue>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if call.opset >= 7 || !call.flag("broadcast")? {
        return one(cx.binary(f, a, b)?);
    }
    let Some(given) = call.int_opt("axis")? else { return one(cx.binary(f, a, b)?) };
    let first = axis(given, a.rank())?;
    let trailing = a.rank().checked_sub(first + b.rank());
    let trailing = trailing.ok_or_else(|| invalid(format!("axis {given} for {}", b.ty)))?;
    let axes: Vec<usize> = (b.rank()..b.rank() + trailing).collect();
    let b = cx.unsqueeze(b, &axes)?;
    one(cx.binary(f, a, &b)?)
}

fn product(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let mut results = elementwise(cx, call, Binary::Mul)?;
    if let Some(OnnxValue::Tensor(y)) = results.first_mut() {
        y.dequantised = scaled_integers(call.input(0)?, call.input(1)?);
    }
    Ok(results)
}

/// Of numbers, or of strings.
fn equal(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if call.inputs.iter().any(|input| matches!(input, Some(OnnxValue::Strings(_)))) {
        return one(text::equal(cx, call)?);
    }
    elementwise(cx, call, Binary::Equal)
}

fn abs(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    if x.dtype().is_uint() { one(x.clone()) } else { one(cx.unary(Unary::Abs, x)?) }
}

fn bit_shift(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, by) = (call.input(0)?, call.input(1)?);
    let f = match call.text("direction", "")? {
        "LEFT" => Binary::Shl,
        "RIGHT" => Binary::Shr,
        other => return Err(invalid(format!("direction `{other}`"))),
    };
    let bits = f64::from(x.dtype().bits);
    // The graph operator does not define shifts by the width or more: here they give zero, and of a
    // signed number its sign.
    if f == Binary::Shr && x.dtype().is_int() {
        let by = cx.binary_num(Binary::Min, by, bits - 1.0)?;
        return one(cx.binary(f, x, &by)?);
    }
    let by = &cx.binary_num(Binary::Min, by, bits)?;
    let width = cx.num(bits, by.dtype())?;
    let inside = cx.binary(Binary::Less, by, &width)?;
    let zero = cx.num(0.0, by.dtype())?;
    let amount = cx.choose(&inside, by, &zero)?;
    let shifted = cx.binary(f, x, &amount)?;
    let zero = cx.num(0.0, x.dtype())?;
    one(cx.choose(&inside, &shifted, &zero)?)
}

fn cast(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let to = call.int_opt("to")?.ok_or_else(|| invalid("attribute `to` is missing"))?;
    if to == i64::from(data_type::STRING) {
        call.ignore(&["saturate", "round_mode"]);
        return text::of_numbers(cx, call);
    }
    let to = dtype(i32::try_from(to).unwrap_or(0))?;
    convert(cx, call, to)
}

fn cast_like(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if let Some(Some(OnnxValue::Strings(_))) = call.inputs.get(1) {
        call.ignore(&["saturate", "round_mode"]);
        return text::of_numbers(cx, call);
    }
    let to = call.input(1)?.dtype();
    convert(cx, call, to)
}

fn convert(cx: &mut ImportContext, call: &Call, to: DType) -> Result<Vec<OnnxValue>> {
    let to = supported(to)?;
    if let Some(Some(OnnxValue::Strings(_))) = call.inputs.first() {
        call.ignore(&["saturate", "round_mode"]);
        return text::as_numbers(cx, call, to);
    }
    let x = call.input(0)?;
    let saturate = call.flag_or_true("saturate")?;
    let round = match call.text("round_mode", "up")? {
        "up" => ScaleRounding::Up,
        "down" => ScaleRounding::Down,
        "nearest" => ScaleRounding::Nearest,
        other => return Err(invalid(format!("round_mode `{other}`"))),
    };
    let narrow = [x.dtype(), to].into_iter().any(|t| narrow::carrier(t).is_some());
    let mut y = match narrow {
        true => cx.narrow_cast(x, to, Conversion { saturate, round })?,
        false => cx.cast(x, to)?,
    };
    if !narrow && y.dequantised.is_none() {
        y.dequantised = converted_integers(x, to);
    }
    one(y)
}

/// The same bits as another type of the same width.
fn bit_cast(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let to = call.int_opt("to")?.ok_or_else(|| invalid("attribute `to` is missing"))?;
    let to = dtype(i32::try_from(to).unwrap_or(0))?;
    let x = call.input(0)?;
    let narrow = [x.dtype(), to].into_iter().any(|t| narrow::carrier(t).is_some());
    if narrow || !computes(to) {
        return Err(unsupported(format!("the bits of {} as {to}", x.dtype())));
    }
    if x.dtype().bits != to.bits {
        return Err(invalid(format!("the bits of {} as {to}", x.dtype())));
    }
    one(cx.op(Op::Bitcast(to), &[x])?)
}

fn clip(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let bounds = if call.opset < 11 {
        let bound = |value: Option<f64>| value.map(|v| cx.num(v, x.dtype())).transpose();
        [bound(call.float_opt("min")?)?, bound(call.float_opt("max")?)?]
    } else {
        [call.opt(1)?.cloned(), call.opt(2)?.cloned()]
    };
    let mut result = x.clone();
    for (f, bound) in [Binary::Max, Binary::Min].into_iter().zip(bounds) {
        if let Some(bound) = bound {
            let bound = cx.reshape(&bound, &[])?;
            result = cx.binary(f, &result, &bound)?;
        }
    }
    one(result)
}

fn is_inf(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let (negative, positive) =
        (call.flag_or_true("detect_negative")?, call.flag_or_true("detect_positive")?);
    let found = cx.unary(Unary::IsInf, x)?;
    if negative && positive {
        return one(found);
    }
    let zero = cx.num(0.0, x.dtype())?;
    let side = match (negative, positive) {
        (true, _) => cx.binary(Binary::Less, x, &zero)?,
        (_, true) => cx.binary(Binary::Greater, x, &zero)?,
        // Nothing is both below and above.
        _ => cx.binary(Binary::NotEqual, &zero, &zero)?,
    };
    one(cx.binary(Binary::And, &found, &side)?)
}

/// A variadic operator from its binary form.
fn fold(cx: &mut ImportContext, call: &Call, f: Binary) -> Result<Vec<OnnxValue>> {
    one(folded(cx, call, f)?)
}

fn folded(cx: &mut ImportContext, call: &Call, f: Binary) -> Result<Tensor> {
    let inputs = call.tensors()?;
    let (first, rest) = inputs.split_first().ok_or_else(|| invalid("no inputs"))?;
    rest.iter().try_fold(first.clone(), |acc, x| cx.binary(f, &acc, x))
}

fn mean(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let sum = folded(cx, call, Binary::Add)?;
    one(cx.binary_num(Binary::Div, &sum, call.inputs.len() as f64)?)
}

fn modulo(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, y) = (call.input(0)?, call.input(1)?);
    let fmod = call.flag("fmod")?;
    if !fmod && x.dtype().is_float() && call.opset < 28 {
        return Err(invalid("fmod has to be 1 for floating-point types"));
    }
    if fmod || !x.dtype().is_float() {
        return one(cx.binary(if fmod { Binary::TruncMod } else { Binary::FloorMod }, x, y)?);
    }
    // As Python does, infinities included: the remainder moves to the divisor's side, and a zero
    // takes the divisor's sign.
    let rest = cx.binary(Binary::TruncMod, x, y)?;
    let zero = cx.num(0.0, x.dtype())?;
    let some = cx.binary(Binary::NotEqual, &rest, &zero)?;
    let below = cx.binary(Binary::Less, &rest, &zero)?;
    let divisor_below = cx.binary(Binary::Less, y, &zero)?;
    let apart = cx.binary(Binary::NotEqual, &below, &divisor_below)?;
    let other_side = cx.binary(Binary::And, &some, &apart)?;
    let moved = cx.add(&rest, y)?;
    let moved = cx.choose(&other_side, &moved, &rest)?;
    let negative_zero = cx.num(-0.0, x.dtype())?;
    let signed = cx.choose(&divisor_below, &negative_zero, &zero)?;
    one(cx.choose(&some, &moved, &signed)?)
}

fn pow(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, y) = (call.input(0)?, call.input(1)?);
    // The square is exact either way, and the product is much cheaper.
    if y.as_number() == Some(2.0) && y.rank() <= x.rank() {
        return one(cx.mul(x, x)?);
    }
    if x.dtype().is_float() || !y.dtype().is_float() {
        let y = cx.cast(y, x.dtype())?;
        return one(cx.binary(Binary::Pow, x, &y)?);
    }
    let (base, exponent) = (cx.cast(x, DType::F64)?, cx.cast(y, DType::F64)?);
    let power = cx.binary(Binary::Pow, &base, &exponent)?;
    one(cx.cast(&power, x.dtype())?)
}

fn choose(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    one(cx.op(Op::Where, &[call.input(0)?, call.input(1)?, call.input(2)?])?)
}
