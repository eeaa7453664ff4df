//! Operators on strings: comparison, concatenation and normalisation. Their bytes are the
//! last axis (see [`crate::strings`]). Conversions from and to numbers, splitting and regular expressions
//! are packed functions of the runtime (`reflex.text.*`).

use reflex_graph::{
    Binary, GatherKind, Op, OutOfRange, ReduceKind, TensorType, Type, Unary, Value, dims,
};
use reflex_runtime::text::{self, Rule};
use reflex_tir::{DType, Expr};

use super::data_dependent::selected;
use super::lookup;
use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::narrow;
use crate::strings;
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("RegexFullMatch", full_match),
    ("StringConcat", concat),
    ("StringNormalizer", normalizer),
    ("StringSplit", split),
];

/// Operators of com.microsoft.
pub(super) const CONTRIB: Table = &[("Tokenizer", tokenizer)];

/// The bytes of a tensor of strings.
fn input<'a>(call: &'a Call, index: usize) -> Result<&'a Tensor> {
    match call.inputs.get(index) {
        Some(Some(OnnxValue::Strings(x))) => Ok(x),
        _ => Err(invalid(format!("input {index} is no tensor of strings"))),
    }
}

fn last(x: &Tensor) -> (usize, Expr) {
    let axis = x.rank() - 1;
    (axis, x.shape()[axis].clone())
}

/// Whether strings are equal, with broadcasting.
pub(super) fn equal(cx: &mut ImportContext, call: &Call) -> Result<Tensor> {
    let (a, b) = (input(call, 0)?, input(call, 1)?);
    let width = dims::simplify(&last(a).1.max(last(b).1));
    let (a, b) = (cx.widened(a, &width)?, cx.widened(b, &width)?);
    let same = cx.binary(Binary::Equal, &a, &b)?;
    all_of(cx, &same)
}

/// Whether a mask is true along all of the last axis.
fn all_of(cx: &mut ImportContext, mask: &Tensor) -> Result<Tensor> {
    let numbers = cx.cast(mask, DType::U8)?;
    let lowest = cx.reduce(ReduceKind::Min, &numbers, &[mask.rank() - 1])?;
    cx.cast(&lowest, DType::BOOL)
}

/// The number of bytes of each string, int64. A zero byte inside of one counts.
fn lengths(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let (axis, width) = last(x);
    let filled = cx.cast(x, DType::BOOL)?;
    let ends = cx.iota(&width)?;
    let ends = cx.binary_num(Binary::Add, &ends, 1.0)?;
    let zero = Tensor::dim(&Expr::i64(0));
    let ends = cx.choose(&filled, &ends, &zero)?;
    cx.reduce(ReduceKind::Max, &ends, &[axis])
}

/// The bytes at positions along the last axis, and zero where a position is none.
fn at(cx: &mut ImportContext, x: &Tensor, places: &Tensor) -> Result<Tensor> {
    let (axis, width) = last(x);
    let zero = Tensor::dim(&Expr::i64(0));
    let low = cx.binary(Binary::GreaterEqual, places, &zero)?;
    let high = cx.binary(Binary::Less, places, &Tensor::dim(&width))?;
    let inside = cx.binary(Binary::And, &low, &high)?;
    let safe = cx.choose(&inside, places, &zero)?;
    let (kind, out_of_range) = (GatherKind::Elements(axis), OutOfRange::Clamp);
    let bytes = cx.op(Op::Gather { kind, out_of_range }, &[x, &safe])?;
    let none = cx.num(0.0, DType::U8)?;
    cx.choose(&inside, &bytes, &none)
}

fn concat(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (a, b) = (input(call, 0)?, input(call, 1)?);
    let width = dims::simplify(&(last(a).1 + last(b).1));
    let positions = cx.iota(&width)?;
    // Each string alone, then both: where the first has no byte, the second follows.
    let length = lengths(cx, a)?;
    let length = cx.unsqueeze(&length, &[length.rank()])?;
    let behind = cx.sub(&positions, &length)?;
    let zero = Tensor::dim(&Expr::i64(0));
    let first = cx.binary(Binary::Less, &behind, &zero)?;
    let wide_a = cx.widened(a, &width)?;
    let wide_b = cx.widened(b, &width)?;
    // Both in the shape of the result, for gathering.
    let shape = {
        let none = cx.binary(Binary::BitOr, &wide_a, &wide_b)?;
        none.shape().to_vec()
    };
    let (wide_a, wide_b) = (cx.broadcast(&wide_a, &shape)?, cx.broadcast(&wide_b, &shape)?);
    let behind = cx.broadcast(&behind, &shape)?;
    let second = at(cx, &wide_b, &behind)?;
    Ok(vec![OnnxValue::Strings(cx.choose(&first, &wide_a, &second)?)])
}

/// The type that strings stand between for a number: the widest of its kind.
fn widest(dtype: DType) -> Result<DType> {
    match dtype {
        _ if narrow::carrier(dtype).is_some() => {
            Err(unsupported(format!("a conversion between strings and {dtype}")))
        }
        _ if dtype.is_float() => Ok(DType::F64),
        _ if dtype.is_uint() => Ok(DType::U64),
        _ => Ok(DType::I64),
    }
}

/// The text of numbers; strings stay.
pub(super) fn of_numbers(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if let Some(Some(OnnxValue::Strings(x))) = call.inputs.first() {
        return Ok(vec![OnnxValue::Strings(x.clone())]);
    }
    let x = call.input(0)?;
    let x = cx.cast(x, widest(x.dtype())?)?;
    let width = if x.dtype().is_float() { text::FLOAT_BYTES } else { text::INT_BYTES };
    let mut shape = x.shape().to_vec();
    shape.push(Expr::i64(width as i64));
    let args = vec![cx.value(&x)?];
    let ty = TensorType::new(DType::U8, shape);
    Ok(vec![OnnxValue::Strings(cx.packed_tensor("reflex.text.from_numbers", args, ty))])
}

/// The numbers that strings stand for. What is none is an error at run time.
pub(super) fn as_numbers(cx: &mut ImportContext, call: &Call, to: DType) -> Result<Vec<OnnxValue>> {
    let numbers = numbers_of(cx, input(call, 0)?, to)?;
    one(numbers)
}

/// The numbers that the strings with these bytes stand for.
pub(super) fn numbers_of(cx: &mut ImportContext, x: &Tensor, to: DType) -> Result<Tensor> {
    let wide = widest(to)?;
    let of = cx.num(0.0, wide)?;
    let args = vec![cx.value(x)?, cx.value(&of)?];
    let ty = TensorType::new(wide, x.shape()[..x.rank() - 1].to_vec());
    let numbers = cx.packed_tensor("reflex.text.to_numbers", args, ty);
    cx.cast(&numbers, to)
}

/// A text of a node as an operand.
fn parameter(cx: &mut ImportContext, text: &str) -> Result<Value> {
    let bytes = strings::bytes(&[], &[text])?;
    cx.value(&Tensor::literal(bytes))
}

fn full_match(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = input(call, 0)?;
    if !call.has("pattern") {
        return Err(invalid("attribute `pattern` is missing"));
    }
    let pattern = call.text("pattern", "")?;
    text::full_match_pattern(pattern).map_err(|e| unsupported(e.to_string()))?;
    let args = vec![cx.value(x)?, parameter(cx, pattern)?];
    let ty = TensorType::new(DType::BOOL, x.shape()[..x.rank() - 1].to_vec());
    one(cx.packed_tensor("reflex.text.full_match", args, ty))
}

/// Pieces of strings, as many as the string with the most has, and their numbers.
fn split(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = input(call, 0)?;
    let (delimiter, most) = (call.text("delimiter", "")?, call.int("maxsplit", -1)?);
    let most = cx.value(&Tensor::dim(&Expr::i64(most)))?;
    let args = vec![cx.value(x)?, parameter(cx, delimiter)?, most];
    let both = cx.packed_object("reflex.text.split", args);
    let (axis, width) = last(x);
    let shape = x.shape()[..axis].to_vec();
    let mut pieces = shape.clone();
    pieces.extend([Expr::var(cx.b.sym("pieces")), width]);
    let mut part = |at: i64, ty: TensorType| -> Result<Tensor> {
        let at = cx.value(&Tensor::dim(&Expr::i64(at)))?;
        let value = cx.packed_object("reflex.sequence.at", vec![both, at]);
        let value = cx.b.match_cast_of(value, Type::Tensor(ty));
        Ok(cx.tensor_of(value))
    };
    let pieces = part(0, TensorType::new(DType::U8, pieces))?;
    let counts = part(1, TensorType::new(DType::I64, shape))?;
    Ok(vec![OnnxValue::Strings(pieces), OnnxValue::Tensor(counts)])
}

/// Tokens of strings, as many as the string with the most has.
fn tokenizer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = input(call, 0)?;
    if !(2..=3).contains(&x.rank()) {
        return Err(invalid("strings of shape [C] or [N, C] are needed"));
    }
    let separators = call.texts("separators")?.unwrap_or_default();
    let (mark, least) = (call.flag("mark")?, call.int("mincharnum", 1)?);
    let (rule, patterns) = match (separators.as_slice(), call.text("tokenexp", "")?) {
        ([], "") => return Err(invalid("neither `separators` nor `tokenexp`")),
        ([""], _) | ([], ".") if least > 1 => {
            return Err(invalid(format!("mincharnum {least} for single characters")));
        }
        ([""], _) | ([], ".") => (Rule::Characters, vec![]),
        ([], expression) => (Rule::Expression, vec![expression]),
        (separators, _) => (Rule::Separators, separators.to_vec()),
    };
    for pattern in &patterns {
        text::token_pattern(rule, pattern).map_err(|e| unsupported(e.to_string()))?;
    }
    let pad = call.text("pad_value", "")?;
    let patterns = strings::bytes(&[patterns.len() as i64], &patterns)?;
    let patterns = cx.value(&Tensor::literal(patterns))?;
    let options = [rule as i64, i64::from(mark), least].map(Expr::i64);
    let options = cx.value(&Tensor::dims(&options))?;
    let args = vec![cx.value(x)?, patterns, parameter(cx, pad)?, options];
    let (axis, width) = last(x);
    let mut shape = x.shape()[..axis].to_vec();
    let width = dims::simplify(&width.max(pad.len().max(usize::from(mark)) as i64));
    shape.extend([Expr::var(cx.b.sym("tokens")), width]);
    let tokens = cx.packed_object("reflex.text.tokens", args);
    let tokens = cx.b.match_cast_of(tokens, Type::Tensor(TensorType::new(DType::U8, shape)));
    Ok(vec![OnnxValue::Strings(cx.tensor_of(tokens))])
}

/// Strings without those of a list, in upper or lower case.
fn normalizer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    call.ignore(&["locale"]);
    let x = input(call, 0)?;
    let action = call.text("case_change_action", "NONE")?;
    let change = match action {
        "NONE" => None,
        "LOWER" => Some((b'A', b'Z', 32.0)),
        "UPPER" => Some((b'a', b'z', -32.0)),
        other => return Err(invalid(format!("case_change_action `{other}`"))),
    };
    let sensitive = call.flag("is_case_sensitive")?;
    let stop = call.texts("stopwords")?.unwrap_or_default();
    let rows = match x.rank() - 1 {
        1 => x.clone(),
        2 if x.shape()[0].as_int() == Some(1) => cx.squeeze(x, &[0])?,
        _ => return Err(invalid("strings of shape [C] or [1, C] are needed")),
    };
    let kept = match stop.is_empty() {
        true => rows.clone(),
        false => {
            let lower = |s: &str| s.to_ascii_lowercase();
            let stop: Vec<String> =
                stop.iter().map(|s| if sensitive { s.to_string() } else { lower(s) }).collect();
            if !sensitive && stop.iter().any(|s| !s.is_ascii()) {
                return Err(unsupported("stop words outside ASCII that ignore case"));
            }
            let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
            let compared = match sensitive {
                true => rows.clone(),
                false => cased(cx, &rows, (b'A', b'Z', 32.0))?,
            };
            let found = lookup::texts(cx, &compared, &stop)?;
            let keep = cx.unary(Unary::Not, &found.hit)?;
            let places = selected(cx, &keep)?;
            or_an_empty_string(cx, &rows, &places)?
        }
    };
    let changed = match change {
        None => kept,
        Some(change) => cased(cx, &kept, change)?,
    };
    let result = if x.rank() == 3 { cx.unsqueeze(&changed, &[0])? } else { changed };
    Ok(vec![OnnxValue::Strings(result)])
}

/// The strings at places; a single empty one where there are none.
fn or_an_empty_string(cx: &mut ImportContext, rows: &Tensor, places: &Tensor) -> Result<Tensor> {
    let empty = cx.filled(0.0, DType::U8, &[Expr::i64(1), rows.shape()[1].clone()])?;
    let table = cx.concat(&[rows.clone(), empty], 0)?;
    let count = places.shape()[0].clone();
    let none = Tensor::dims(std::slice::from_ref(&rows.shape()[0]));
    let wanted = dims::simplify(&count.max(1));
    let places = cx.concat(&[places.clone(), none], 0)?;
    let places = cx.slice(&places, 0, &Expr::i64(0), &wanted)?;
    cx.take(&table, &places, 0)
}

/// Letters of ASCII in the other case. Bytes of other characters are an error at run time: their
/// case depends on tables of Unicode and on a locale.
fn cased(cx: &mut ImportContext, x: &Tensor, change: (u8, u8, f64)) -> Result<Tensor> {
    let (from, to, by) = change;
    let wide = cx.cast(x, DType::I32)?;
    let axes: Vec<usize> = (0..x.rank()).collect();
    let ascii = cx.binary_num(Binary::Less, &wide, 128.0)?;
    let other = cx.unary(Unary::Not, &ascii)?;
    let other = cx.cast(&other, DType::I64)?;
    let others = cx.reduce(ReduceKind::Sum, &other, &axes)?;
    let others = cx.reshape(&others, &[1.into()])?;
    cx.check_elements(&others, &[Expr::i64(0)])?;
    let low = cx.binary_num(Binary::GreaterEqual, &wide, f64::from(from))?;
    let high = cx.binary_num(Binary::LessEqual, &wide, f64::from(to))?;
    let letter = cx.binary(Binary::And, &low, &high)?;
    let moved = cx.binary_num(Binary::Add, &wide, by)?;
    let bytes = cx.choose(&letter, &moved, &wide)?;
    cx.cast(&bytes, DType::U8)
}
