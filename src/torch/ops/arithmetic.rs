//! Arithmetic, comparisons and selection element by element, with PyTorch's promotion of types.

use reflex_graph::{Binary, Unary, Value};
use reflex_tir::DType;

use super::table::{Results, Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::dtype::result_type;
use crate::error::{Result, invalid, unsupported};
use crate::value::TorchValue;

pub(super) const TABLE: Table = &[
    ("__and__", |cx, call| bitwise(cx, call, Binary::BitAnd, Binary::And)),
    ("__lshift__", |cx, call| plain(cx, call, Binary::Shl)),
    ("__or__", |cx, call| bitwise(cx, call, Binary::BitOr, Binary::Or)),
    ("__rshift__", |cx, call| plain(cx, call, Binary::Shr)),
    ("__xor__", |cx, call| bitwise(cx, call, Binary::BitXor, Binary::Xor)),
    ("add", |cx, call| scaled(cx, call, Binary::Add, ["self", "other"])),
    ("addcdiv", |cx, call| combined(cx, call, Binary::Div)),
    ("addcmul", |cx, call| combined(cx, call, Binary::Mul)),
    ("atan2", atan2),
    ("bitwise_and", |cx, call| bitwise(cx, call, Binary::BitAnd, Binary::And)),
    ("bitwise_left_shift", |cx, call| plain(cx, call, Binary::Shl)),
    ("bitwise_or", |cx, call| bitwise(cx, call, Binary::BitOr, Binary::Or)),
    ("bitwise_right_shift", |cx, call| plain(cx, call, Binary::Shr)),
    ("bitwise_xor", |cx, call| bitwise(cx, call, Binary::BitXor, Binary::Xor)),
    ("clamp", clamp),
    ("clamp_max", clamp),
    ("clamp_min", clamp),
    ("copy", copy),
    ("div", divide),
    ("divide", divide),
    ("eq", |cx, call| plain(cx, call, Binary::Equal)),
    ("floor_divide", |cx, call| {
        let [a, b, _] = operands(cx, call, ["self", "other"])?;
        one(floor_divided(cx, a, b)?)
    }),
    ("fmod", |cx, call| plain(cx, call, Binary::TruncMod)),
    ("ge", |cx, call| plain(cx, call, Binary::GreaterEqual)),
    ("gt", |cx, call| plain(cx, call, Binary::Greater)),
    ("le", |cx, call| plain(cx, call, Binary::LessEqual)),
    ("lerp", lerp),
    ("logical_and", |cx, call| logical(cx, call, Binary::And)),
    ("logical_or", |cx, call| logical(cx, call, Binary::Or)),
    ("logical_xor", |cx, call| logical(cx, call, Binary::Xor)),
    ("lt", |cx, call| plain(cx, call, Binary::Less)),
    ("masked_fill", masked_fill),
    ("maximum", |cx, call| plain(cx, call, Binary::Max)),
    ("minimum", |cx, call| plain(cx, call, Binary::Min)),
    ("mul", |cx, call| plain(cx, call, Binary::Mul)),
    ("multiply", |cx, call| plain(cx, call, Binary::Mul)),
    ("ne", |cx, call| plain(cx, call, Binary::NotEqual)),
    ("pow", power),
    ("remainder", |cx, call| plain(cx, call, Binary::FloorMod)),
    ("rsub", |cx, call| scaled(cx, call, Binary::Sub, ["other", "self"])),
    ("sub", |cx, call| scaled(cx, call, Binary::Sub, ["self", "other"])),
    ("true_divide", divide),
    ("where", select),
    ("xlogy", xlogy),
];

/// The types that operands have, as promotion asks for them.
pub(super) fn common_type(cx: &ImportContext, operands: &[&TorchValue]) -> Result<DType> {
    let (mut tensors, mut scalars, mut numbers) = (vec![], vec![], vec![]);
    for operand in operands {
        match operand {
            TorchValue::Tensor(x) if cx.rank(*x) > 0 => tensors.push(cx.dtype(*x)),
            TorchValue::Tensor(x) => scalars.push(cx.dtype(*x)),
            TorchValue::Number(number) => numbers.push(number.dtype()),
            TorchValue::Other(what) => return Err(unsupported(format!("an operand is {what}"))),
            _ => return Err(invalid("an operand is neither a tensor nor a number")),
        }
    }
    let common = result_type([&tensors, &scalars, &numbers]);
    common.ok_or_else(|| invalid("it has no operands"))
}

/// An operand as a tensor of a type.
pub(super) fn operand(cx: &mut ImportContext, x: &TorchValue, dtype: DType) -> Result<Value> {
    match x {
        TorchValue::Tensor(x) => cx.cast(*x, dtype),
        TorchValue::Number(number) => cx.number(number, dtype),
        _ => Err(invalid("an operand is neither a tensor nor a number")),
    }
}

fn argument<'a>(call: &'a Call, name: &str) -> Result<&'a TorchValue> {
    call.get(name).ok_or_else(|| invalid(format!("argument `{name}` is missing")))
}

/// Two operands, each in the type that they have in common, and the second once more: so three values have one type.
fn operands(cx: &mut ImportContext, call: &Call, names: [&str; 2]) -> Result<[Value; 3]> {
    let [a, b] = [argument(call, names[0])?, argument(call, names[1])?];
    let dtype = common_type(cx, &[a, b])?;
    let [a, b] = [operand(cx, a, dtype)?, operand(cx, b, dtype)?];
    Ok([a, b, b])
}

fn plain(cx: &mut ImportContext, call: &Call, f: Binary) -> Results {
    let [a, b, _] = operands(cx, call, ["self", "other"])?;
    one(arithmetic(cx, f, a, b)?)
}

/// A function of two tensors of one type. Bools are computed with as integers where the graph has no bools.
fn arithmetic(cx: &mut ImportContext, f: Binary, a: Value, b: Value) -> Result<Value> {
    let is_bool = cx.dtype(a) == DType::BOOL;
    let own = match f {
        Binary::Add | Binary::Max if is_bool => Binary::Or,
        Binary::Mul | Binary::Min if is_bool => Binary::And,
        other => other,
    };
    cx.binary(own, a, b)
}

/// `a + alpha * b`, or `a - alpha * b`.
fn scaled(cx: &mut ImportContext, call: &Call, f: Binary, names: [&str; 2]) -> Results {
    let [a, b, _] = operands(cx, call, names)?;
    let [a, b] = match call.opt_number("alpha")? {
        None => [a, b],
        Some(alpha) => {
            let alpha = cx.number(&alpha, cx.dtype(a))?;
            // Of `rsub` it is `self` that is scaled, which is the right operand there too.
            [a, cx.mul(b, alpha)?]
        }
    };
    one(arithmetic(cx, f, a, b)?)
}

fn divide(cx: &mut ImportContext, call: &Call) -> Results {
    let [mut a, mut b, _] = operands(cx, call, ["self", "other"])?;
    let mode = call.text("rounding_mode", "")?;
    let whole = !cx.dtype(a).is_float();
    match mode {
        "floor" => return one(floor_divided(cx, a, b)?),
        "trunc" if whole => return one(cx.div(a, b)?),
        _ => {}
    }
    if whole {
        [a, b] = [cx.cast(a, DType::F32)?, cx.cast(b, DType::F32)?];
    }
    let quotient = cx.div(a, b)?;
    match mode {
        "" => one(quotient),
        "trunc" => one(truncated(cx, quotient)?),
        other => Err(invalid(format!("rounding_mode `{other}`"))),
    }
}

/// A number without its fraction.
pub(super) fn truncated(cx: &mut ImportContext, x: Value) -> Result<Value> {
    let (down, up) = (cx.unary(Unary::Floor, x)?, cx.unary(Unary::Ceil, x)?);
    let negative = cx.binary_num(Binary::Less, x, 0.0)?;
    cx.choose(negative, up, down)
}

/// The quotient rounded down.
fn floor_divided(cx: &mut ImportContext, a: Value, b: Value) -> Result<Value> {
    let rest = cx.binary(Binary::FloorMod, a, b)?;
    let whole = cx.sub(a, rest)?;
    let quotient = cx.div(whole, b)?;
    if cx.dtype(a).is_float() { cx.unary(Unary::Round, quotient) } else { Ok(quotient) }
}

fn bitwise(cx: &mut ImportContext, call: &Call, f: Binary, of_bools: Binary) -> Results {
    let [a, b, _] = operands(cx, call, ["self", "other"])?;
    let f = if cx.dtype(a) == DType::BOOL { of_bools } else { f };
    one(cx.binary(f, a, b)?)
}

fn logical(cx: &mut ImportContext, call: &Call, f: Binary) -> Results {
    let [a, b] = [call.tensor("self")?, call.tensor("other")?];
    let [a, b] = [cx.cast(a, DType::BOOL)?, cx.cast(b, DType::BOOL)?];
    one(cx.binary(f, a, b)?)
}

/// `self + value * (tensor1 f tensor2)`
fn combined(cx: &mut ImportContext, call: &Call, f: Binary) -> Results {
    let [x, a, b] = [call.tensor("self")?, call.tensor("tensor1")?, call.tensor("tensor2")?];
    let list = [x, a, b].map(TorchValue::Tensor);
    let dtype = common_type(cx, &list.iter().collect::<Vec<_>>())?;
    let [x, a, b] = [cx.cast(x, dtype)?, cx.cast(a, dtype)?, cx.cast(b, dtype)?];
    let mut y = cx.binary(f, a, b)?;
    if let Some(value) = call.opt_number("value")? {
        let value = cx.number(&value, dtype)?;
        y = cx.mul(y, value)?;
    }
    one(cx.add(x, y)?)
}

fn lerp(cx: &mut ImportContext, call: &Call) -> Results {
    let [a, b] = [call.tensor("self")?, call.tensor("end")?];
    let weight = operand(cx, argument(call, "weight")?, cx.dtype(a))?;
    let way = cx.sub(b, a)?;
    let part = cx.mul(way, weight)?;
    one(cx.add(a, part)?)
}

fn xlogy(cx: &mut ImportContext, call: &Call) -> Results {
    let [a, b, _] = operands(cx, call, ["self", "other"])?;
    let log = cx.unary(Unary::Log, b)?;
    let product = cx.mul(a, log)?;
    let zero = cx.num(0.0, cx.dtype(a))?;
    let none = cx.binary(Binary::Equal, a, zero)?;
    one(cx.choose(none, zero, product)?)
}

fn atan2(cx: &mut ImportContext, call: &Call) -> Results {
    let [y, x, _] = operands(cx, call, ["self", "other"])?;
    let slope = cx.div(y, x)?;
    let near = cx.unary(Unary::Atan, slope)?;
    let zero = cx.num(0.0, cx.dtype(y))?;
    let (left, below) = (cx.binary(Binary::Less, x, zero)?, cx.binary(Binary::Less, y, zero)?);
    let up = cx.binary_num(Binary::Add, near, std::f64::consts::PI)?;
    let down = cx.binary_num(Binary::Sub, near, std::f64::consts::PI)?;
    let far = cx.choose(below, down, up)?;
    let angle = cx.choose(left, far, near)?;
    // At the origin the quotient has no value.
    let (no_x, no_y) = (cx.binary(Binary::Equal, x, zero)?, cx.binary(Binary::Equal, y, zero)?);
    let origin = cx.binary(Binary::And, no_x, no_y)?;
    one(cx.choose(origin, zero, angle)?)
}

fn clamp(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let bounds = [call.get("min"), call.get("max")];
    let mut list = vec![TorchValue::Tensor(x)];
    list.extend(bounds.iter().flatten().map(|bound| (*bound).clone()));
    let dtype = common_type(cx, &list.iter().collect::<Vec<_>>())?;
    let mut y = cx.cast(x, dtype)?;
    for (bound, f) in bounds.into_iter().zip([Binary::Max, Binary::Min]) {
        if let Some(bound) = bound {
            let bound = operand(cx, bound, dtype)?;
            y = cx.binary(f, y, bound)?;
        }
    }
    one(y)
}

fn power(cx: &mut ImportContext, call: &Call) -> Results {
    let exponent = match argument(call, "exponent")? {
        TorchValue::Number(number) => number.known(),
        _ => None,
    };
    let [x, e, _] = operands(cx, call, ["self", "exponent"])?;
    if !cx.dtype(x).is_float() {
        return match exponent {
            Some(2.0) => one(cx.mul(x, x)?),
            _ => one(cx.binary(Binary::Pow, x, e)?),
        };
    }
    one(match exponent {
        Some(0.5) => cx.unary(Unary::Sqrt, x)?,
        Some(1.0) => x,
        Some(2.0) => cx.mul(x, x)?,
        Some(3.0) => {
            let square = cx.mul(x, x)?;
            cx.mul(square, x)?
        }
        Some(-1.0) => cx.unary(Unary::Reciprocal, x)?,
        Some(-0.5) => {
            let root = cx.unary(Unary::Sqrt, x)?;
            cx.unary(Unary::Reciprocal, root)?
        }
        _ => cx.binary(Binary::Pow, x, e)?,
    })
}

fn select(cx: &mut ImportContext, call: &Call) -> Results {
    let cond = call.tensor("condition")?;
    let cond = cx.cast(cond, DType::BOOL)?;
    if !call.has("self") && !call.has("other") {
        return Err(unsupported(
            "the places where a condition holds, whose count only a run knows",
        ));
    }
    let [a, b, _] = operands(cx, call, ["self", "other"])?;
    one(cx.choose(cond, a, b)?)
}

fn masked_fill(cx: &mut ImportContext, call: &Call) -> Results {
    let (x, mask) = (call.tensor("self")?, call.tensor("mask")?);
    let mask = cx.cast(mask, DType::BOOL)?;
    let value = operand(cx, argument(call, "value")?, cx.dtype(x))?;
    one(cx.choose(mask, value, x)?)
}

/// `src` in the type and shape of `self`.
fn copy(cx: &mut ImportContext, call: &Call) -> Results {
    let (x, new) = (call.tensor("self")?, call.tensor("src")?);
    let new = cx.cast(new, cx.dtype(x))?;
    let shape = cx.shape(x);
    one(cx.broadcast(new, &shape)?)
}
