//! Operators on features: Scaler, Normalizer, Binarizer, Imputer, FeatureVectorizer and
//! ArrayFeatureExtractor.

use reflex_graph::{Binary, GatherKind, Literal, Op, PadMode, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("ArrayFeatureExtractor", extract_features),
    ("Binarizer", binarizer),
    ("FeatureVectorizer", feature_vectorizer),
    ("Imputer", imputer),
    ("Normalizer", normalizer),
    ("Scaler", scaler),
];

/// A constant of float32 numbers, one for each feature or column.
pub(super) fn vector(values: &[f32]) -> Tensor {
    Tensor::literal(Literal::from_f32(vec![values.len() as i64], values))
}

/// An input whose elements are of one of the types that these operators take.
pub(super) fn numbers<'a>(call: &'a Call, index: usize) -> Result<&'a Tensor> {
    let x = call.input(index)?;
    match x.dtype() {
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => Ok(x),
        _ => Err(invalid(format!("input {index} has type {}", x.ty))),
    }
}

/// Rows of float32 features; a vector is one row.
pub(super) fn rows(cx: &mut ImportContext, call: &Call) -> Result<Tensor> {
    let x = cx.cast(numbers(call, 0)?, DType::F32)?;
    match x.rank() {
        1 => cx.unsqueeze(&x, &[0]),
        2 => Ok(x),
        _ => Err(invalid(format!("rows of features expected, not {}", x.ty))),
    }
}

/// Checks the width of rows, at run time where it is symbolic.
pub(super) fn check_width(cx: &mut ImportContext, x: &Tensor, width: usize) -> Result<()> {
    let (found, wanted) = (&x.shape()[1], Expr::i64(width as i64));
    if found.as_int().is_some_and(|found| found != width as i64) {
        return Err(invalid(format!("{} as rows, {width} features are needed", x.ty)));
    }
    cx.check_dim(found, &wanted)
}

/// Elements of the last axis by their positions.
fn extract_features(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let at = call.input(1)?;
    if at.dtype() != DType::I64 {
        return Err(invalid(format!("positions of type {}", at.ty)));
    }
    let at = cx.reshape(at, &[dims::product(at.shape())])?;
    let x = call.input(0)?;
    let last = x.rank().checked_sub(1).ok_or_else(|| invalid("a scalar has no features"))?;
    let found = cx.gather(GatherKind::Axis(last), x, &at)?;
    // Of a vector the result is a row.
    one(if last == 0 { cx.unsqueeze(&found, &[0])? } else { found })
}

/// 1 above the threshold, else 0.
fn binarizer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = numbers(call, 0)?;
    let threshold = call.float("threshold", 0.0)?;
    // A whole number is above a fraction where it is above the next lower whole number.
    let threshold = if x.dtype().is_float() { threshold } else { threshold.floor() };
    let threshold = cx.num(threshold, x.dtype())?;
    let above = cx.binary(Binary::Greater, x, &threshold)?;
    one(cx.cast(&above, x.dtype())?)
}

/// `(x - offset) * scale`, per feature or for all.
fn scaler(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let mut x = cx.cast(numbers(call, 0)?, DType::F32)?;
    let features = x.shape().last().and_then(|n| n.as_int());
    let fits = |list: &[f32]| list.len() == 1 || features.is_none_or(|n| n == list.len() as i64);
    for (name, f) in [("offset", Binary::Sub), ("scale", Binary::Mul)] {
        let Some(list) = call.floats(name)? else { continue };
        if !fits(list) || (x.rank() == 0 && list.len() != 1) {
            return Err(invalid(format!("`{name}` has {} elements", list.len())));
        }
        x = cx.binary(f, &x, &vector(list))?;
    }
    one(x)
}

/// Rows divided by their maximum, the sum of their magnitudes, or their length; rows of which that is
/// zero stay.
fn normalizer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = cx.cast(numbers(call, 0)?, DType::F32)?;
    if !(1..=2).contains(&x.rank()) {
        return Err(invalid(format!("rows of features expected, not {}", x.ty)));
    }
    let axis = [x.rank() - 1];
    let norm = match call.text("norm", "MAX")? {
        "MAX" => cx.reduce_keep_dims(ReduceKind::Max, &x, &axis)?,
        "L1" => {
            let magnitudes = cx.unary(Unary::Abs, &x)?;
            cx.reduce_keep_dims(ReduceKind::Sum, &magnitudes, &axis)?
        }
        "L2" => {
            let squares = cx.mul(&x, &x)?;
            let sum = cx.reduce_keep_dims(ReduceKind::Sum, &squares, &axis)?;
            cx.unary(Unary::Sqrt, &sum)?
        }
        other => return Err(invalid(format!("norm `{other}`"))),
    };
    let (zero, whole) = (cx.num(0.0, DType::F32)?, cx.num(1.0, DType::F32)?);
    let none = cx.binary(Binary::Equal, &norm, &zero)?;
    let norm = cx.choose(&none, &whole, &norm)?;
    one(cx.div(&x, &norm)?)
}

/// A constant in place of what equals another one, NaN included.
fn imputer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = numbers(call, 0)?;
    let floats = call.floats("imputed_value_floats")?.filter(|v| !v.is_empty());
    let ints = call.ints("imputed_value_int64s")?.filter(|v| !v.is_empty());
    let replaced = call.float("replaced_value_float", 0.0)?;
    let replaced_int = call.int("replaced_value_int64", 0)?;
    let (imputed, missing) = match (floats, ints) {
        (Some(values), None) if x.dtype().is_float() => {
            let missing = if replaced.is_nan() {
                cx.unary(Unary::IsNan, x)?
            } else {
                cx.binary_num(Binary::Equal, x, replaced)?
            };
            (vector(values), missing)
        }
        (None, Some(values)) if x.dtype().is_int() => {
            let wanted = cx.cast(&cx.ints(&[replaced_int]), x.dtype())?;
            (cx.ints(values), cx.binary(Binary::Equal, x, &wanted)?)
        }
        (None, None) | (Some(_), Some(_)) => {
            return Err(invalid("one of imputed_value_floats and imputed_value_int64s is needed"));
        }
        _ => return Err(invalid(format!("imputed values of another type than {}", x.ty))),
    };
    let count = imputed.count().unwrap_or(0);
    let width = x.shape().last().map(|n| n.as_int());
    let fits = match width {
        None => false,
        Some(known) => count == 1 || known.is_none_or(|n| n == count as i64),
    };
    if !fits {
        return Err(invalid(format!("{count} imputed values for {}", x.ty)));
    }
    let imputed = cx.cast(&imputed, x.dtype())?;
    let wide = cx.broadcast(&imputed, x.shape())?;
    one(cx.choose(&missing, &wide, x)?)
}

/// Columns of all inputs beside each other, each cut or filled with zeros to its stated width.
fn feature_vectorizer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let widths = call.ints("inputdimensions")?.unwrap_or_default();
    if widths.len() != call.inputs.len() || widths.is_empty() {
        let (have, want) = (call.inputs.len(), widths.len());
        return Err(invalid(format!("{have} inputs, {want} inputdimensions")));
    }
    let mut parts = vec![];
    let mut count: Option<Expr> = None;
    for (index, width) in widths.iter().enumerate() {
        if !(0..=1 << 24).contains(width) {
            return Err(unsupported(format!("inputdimensions of {width}")));
        }
        let x = cx.cast(numbers(call, index)?, DType::F32)?;
        let x = match x.rank() {
            0 => return Err(invalid(format!("input {index} is a scalar"))),
            1 => cx.unsqueeze(&x, &[0])?,
            _ => {
                let inner = dims::product(&x.shape()[1..]);
                cx.reshape(&x, &[x.shape()[0].clone(), inner])?
            }
        };
        match &count {
            Some(count) => cx.check_dim(&x.shape()[0], count)?,
            None => count = Some(x.shape()[0].clone()),
        }
        parts.push(fitted(cx, &x, *width)?);
    }
    one(cx.concat(&parts, 1)?)
}

/// Rows with as many columns as wanted.
fn fitted(cx: &mut ImportContext, x: &Tensor, width: i64) -> Result<Tensor> {
    let missing = match x.shape()[1].as_int() {
        Some(have) => (width - have).max(0),
        None => width,
    };
    let mut x = x.clone();
    if missing > 0 {
        let (before, after) = (vec![Expr::i64(0); 2], vec![Expr::i64(0), Expr::i64(missing)]);
        let zero = cx.num(0.0, x.dtype())?;
        x = cx.op(Op::Pad { mode: PadMode::Constant, before, after }, &[&x, &zero])?;
    }
    cx.slice(&x, 1, &Expr::i64(0), &Expr::i64(width))
}
