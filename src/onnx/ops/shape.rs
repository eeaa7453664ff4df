//! Shapes, constants and generated tensors.

use reflex_graph::{Binary, Literal, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::dynamic_axis::{self, DynamicAxis};
use super::random;
use super::run_time_axes::{self, SplitAxes};
use super::table::{Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::strings;
use crate::tensor::{computes, dtype};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("BlackmanWindow", |cx, call| cosine_window(cx, call, [0.42, 0.5, 0.08])),
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("Dropout", dropout),
    ("Expand", expand),
    ("EyeLike", eye_like),
    ("Flatten", flatten),
    ("HammingWindow", |cx, call| cosine_window(cx, call, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
    ("HannWindow", |cx, call| cosine_window(cx, call, [0.5, 0.5, 0.0])),
    ("Identity", identity),
    ("Range", range),
    ("Reshape", reshape),
    ("Shape", shape),
    ("Size", |_, call| one(Tensor::dim(&dims::product(call.input(0)?.shape())))),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
];

fn identity(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let value = call.inputs.first().cloned().flatten();
    Ok(vec![value.ok_or_else(|| invalid("input 0 is missing"))?])
}

/// In inference the input itself; the mask is all true then.
fn dropout(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    if call.opset < 7 && !call.flag("is_test")? {
        return Err(unsupported("training mode"));
    }
    let mode = if call.opset >= 12 { call.opt(2)? } else { None };
    if let Some(mode) = mode.filter(|mode| mode.as_ints() != Some(vec![0])) {
        let half = cx.num(0.5, DType::F32)?;
        let ratio = call.opt(1)?.unwrap_or(&half);
        let [y, mask] = random::dropout(cx, call, ratio, mode)?;
        return Ok(vec![OnnxValue::Tensor(y), OnnxValue::Tensor(mask)]);
    }
    call.ignore(&["ratio", "seed"]);
    let mut outputs = one(x.clone())?;
    if call.wants(1) {
        let mask = if call.opset >= 10 { DType::BOOL } else { x.dtype() };
        outputs.push(OnnxValue::Tensor(cx.filled(1.0, mask, x.shape())?));
    }
    Ok(outputs)
}

fn constant(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if let Some(value) = call.tensor("value", |t| cx.constant(t))? {
        return Ok(vec![value]);
    }
    if call.has("value_string") {
        let bytes = strings::bytes(&[], &[call.text("value_string", "")?])?;
        return Ok(vec![OnnxValue::Strings(Tensor::literal(bytes))]);
    }
    if let Some(values) = call.texts("value_strings")? {
        return Ok(vec![OnnxValue::Strings(strings::constant(&values)?)]);
    }
    if let Some(value) = call.float_opt("value_float")? {
        return one(cx.num(value, DType::F32)?);
    }
    if let Some(value) = call.int_opt("value_int")? {
        return one(Tensor::dim(&Expr::i64(value)));
    }
    if let Some(values) = call.floats("value_floats")? {
        return one(Tensor::literal(Literal::from_f32(vec![values.len() as i64], values)));
    }
    if let Some(values) = call.ints("value_ints")? {
        return one(cx.ints(values));
    }
    match call.node.attribute.first() {
        Some(a) => Err(unsupported(format!("constants given as `{}`", a.name))),
        None => Err(invalid("a constant without a value")),
    }
}

fn constant_of_shape(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let value = match call.tensor("value", |t| cx.literal(t))? {
        Some(literal) if literal.count() == 1 => Tensor::constant(literal),
        Some(_) => return Err(invalid("the value has to be one element")),
        None => cx.num(0.0, DType::F32)?,
    };
    let value = cx.reshape(&value, &[])?;
    let shape = cx.dims_of(call.input(0)?, "shape")?;
    one(cx.broadcast(&value, &shape)?)
}

fn shape(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let rank = x.rank() as i64;
    let at = |value: i64| (if value < 0 { value + rank } else { value }).clamp(0, rank) as usize;
    let (start, end) = (at(call.int("start", 0)?), at(call.int("end", rank)?));
    one(Tensor::dims(x.shape().get(start..end).unwrap_or_default()))
}

fn reshape(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, to) = (call.input(0)?, call.input(1)?);
    let zero = if call.flag("allowzero")? { ZeroDim::Keep } else { ZeroDim::Copy };
    let shape = match to.as_elements() {
        Some(elements) => known_shape(x, &elements, zero)?,
        None => run_time_shape(cx, x, to, zero)?,
    };
    one(cx.reshape(x, &shape)?)
}

/// The meaning of 0 in the shape of a `Reshape` (attribute `allowzero`).
#[derive(Clone, Copy, PartialEq)]
enum ZeroDim {
    /// The input's dimension.
    Copy,
    /// An empty dimension.
    Keep,
}

/// Replaces 0 (copy) and -1 (the rest) in a shape that is known up to symbols.
fn known_shape(x: &Tensor, given: &[Expr], zero: ZeroDim) -> Result<Vec<Expr>> {
    let mut shape = given.to_vec();
    for (i, dim) in shape.iter_mut().enumerate() {
        if dim.as_int() == Some(0) && zero == ZeroDim::Copy {
            let source = x.shape().get(i);
            *dim = source.cloned().ok_or_else(|| invalid(format!("no extent {i} to copy")))?;
        }
    }
    let open: Vec<usize> = (0..shape.len()).filter(|i| shape[*i].as_int() == Some(-1)).collect();
    match open.as_slice() {
        [] => Ok(shape),
        [at] => {
            shape[*at] = Expr::i64(1);
            let rest = dims::product(&shape);
            if rest.as_int() == Some(0) {
                return Err(invalid("-1 beside an extent of 0"));
            }
            shape[*at] = dims::simplify(&dims::product(x.shape()).floordiv(rest));
            Ok(shape)
        }
        _ => Err(invalid("more than one -1 in a shape")),
    }
}

/// The same for a shape that is known only at run time.
fn run_time_shape(
    cx: &mut ImportContext,
    x: &Tensor,
    to: &Tensor,
    zero_dim: ZeroDim,
) -> Result<Vec<Expr>> {
    let count = to.count().filter(|_| to.rank() == 1);
    let count = count.ok_or_else(|| unsupported("a shape of unknown rank"))?;
    let mut to = cx.cast(to, DType::I64)?;
    let (zero, one) = (cx.num(0.0, DType::I64)?, cx.num(1.0, DType::I64)?);
    if zero_dim == ZeroDim::Copy {
        let source = |i: usize| x.shape().get(i).cloned().unwrap_or(Expr::i64(0));
        let copied = Tensor::dims(&(0..count).map(source).collect::<Vec<_>>());
        let copy = cx.binary(Binary::Equal, &to, &zero)?;
        to = cx.choose(&copy, &copied, &to)?;
    }
    let open = cx.binary(Binary::Less, &to, &zero)?;
    let fixed = cx.choose(&open, &one, &to)?;
    let product = cx.reduce(ReduceKind::Prod, &fixed, &[0])?;
    let divisor = cx.binary(Binary::Max, &product, &one)?;
    let total = Tensor::dim(&dims::product(x.shape()));
    let rest = cx.div(&total, &divisor)?;
    let filled = cx.choose(&open, &rest, &to)?;
    cx.dims_of(&filled, "shape")
}

fn flatten(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let given = call.int("axis", 1)?;
    let at = if given == x.rank() as i64 { x.rank() } else { axis(given, x.rank())? };
    let (rows, columns) = x.shape().split_at(at);
    one(cx.reshape(x, &[dims::product(rows), dims::product(columns)])?)
}

fn squeeze(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    if let Some(axes) = call.opt(1)?.filter(|a| a.as_ints().is_none() && a.count() == Some(1)) {
        let split = DynamicAxis::split(cx, x, axes)?;
        cx.check_dim(&split.flat.shape()[1], &Expr::i64(1))?;
        return one(split.removed(cx, &split.flat)?);
    }
    if let Some(axes) = call.opt(1)?.filter(|a| a.as_ints().is_none()) {
        let split = SplitAxes::split(cx, x, axes)?;
        cx.check_dim(&split.flat.shape()[1], &Expr::i64(1))?;
        return one(split.removed(cx, &split.flat)?);
    }
    let axes = match call.axes(1, x.rank())? {
        Some(axes) => axes,
        None => {
            let extents = x.const_shape();
            let extents = extents.ok_or_else(|| unsupported("no axes for symbolic extents"))?;
            (0..x.rank()).filter(|i| extents[*i] == 1).collect()
        }
    };
    for axis in &axes {
        match x.shape()[*axis].as_int() {
            Some(1) | None => {}
            Some(extent) => return Err(invalid(format!("axis {axis} has extent {extent}"))),
        }
    }
    // A symbolic dimension is checked at run time by the element count.
    one(cx.squeeze(x, &axes)?)
}

fn unsqueeze(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    if let Some(axes) = call.opt(1)?.filter(|a| a.as_ints().is_none() && a.count() == Some(1)) {
        return one(dynamic_axis::unsqueeze(cx, x, axes)?);
    }
    if let Some(axes) = call.opt(1)?.filter(|a| a.as_ints().is_none()) {
        return one(run_time_axes::unsqueeze(cx, x, axes)?);
    }
    let count = match call.ints("axes")? {
        Some(axes) => axes.len(),
        None => call.known_ints(1)?.ok_or_else(|| invalid("no axes"))?.len(),
    };
    let axes = call.axes(1, x.rank() + count)?.ok_or_else(|| invalid("no axes"))?;
    one(cx.unsqueeze(x, &axes)?)
}

fn expand(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, to) = (call.input(0)?, call.input(1)?);
    let mut shape = cx.dims_of(to, "shape")?;
    let lead = shape.len().saturating_sub(x.rank());
    let source = [vec![Expr::i64(1); lead], x.shape().to_vec()].concat();
    shape = [vec![Expr::i64(1); source.len() - shape.len()], shape].concat();
    // Broadcasting goes both ways: a dimension of 1 takes the input's.
    for (to, from) in shape.iter_mut().zip(&source) {
        if to.as_int() == Some(1) {
            *to = from.clone();
        } else if to.as_int().is_none() && from.as_int().is_some_and(|n| n != 1) {
            // The symbol is 1 or the input's dimension, which is checked at run time.
            let is_one = to.clone().equal(1);
            cx.check_dim(&Expr::select(is_one, from.clone(), to.clone()), from)?;
            *to = from.clone();
        }
    }
    one(cx.broadcast(x, &shape)?)
}

pub(super) fn range(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (start, limit, delta) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let dtype = start.dtype();
    let mut scalars = vec![];
    for x in [start, limit, delta] {
        scalars.push(cx.reshape(x, &[])?);
    }
    let step = delta.as_ints().and_then(|v| v.first().copied()).filter(|step| *step > 0);
    let span = cx.sub(&scalars[1], &scalars[0])?;
    let count = match (span.as_elements(), step) {
        (Some(span), Some(step)) => span[0].clone().ceildiv(step).max(0),
        _ => {
            // Exact for every count that fits memory.
            let (span, step) = (cx.cast(&span, DType::F64)?, cx.cast(&scalars[2], DType::F64)?);
            let steps = cx.div(&span, &step)?;
            let whole = cx.unary(Unary::Ceil, &steps)?;
            let whole = cx.cast(&whole, DType::I64)?;
            let count = cx.binary_num(Binary::Max, &whole, 0.0)?;
            cx.dims_of(&count, "count")?[0].clone()
        }
    };
    let positions = cx.iota(&count)?;
    let positions = cx.cast(&positions, dtype)?;
    let scaled = match scalars[2].as_number() {
        Some(1.0) => positions,
        _ => cx.mul(&positions, &scalars[2])?,
    };
    match scalars[0].as_number() {
        Some(0.0) => one(scaled),
        _ => one(cx.add(&scaled, &scalars[0])?),
    }
}

fn eye_like(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let to = match call.int_opt("dtype")? {
        Some(code) => dtype(i32::try_from(code).unwrap_or(0))?,
        None => x.dtype(),
    };
    let k = call.int("k", 0)?;
    let [rows, columns] = x.shape() else { return Err(invalid("needs a matrix")) };
    if !computes(to) {
        return Err(unsupported(format!("element type {to}")));
    }
    let (rows, columns) = (cx.iota(rows)?, cx.iota(columns)?);
    let rows = cx.unsqueeze(&rows, &[1])?;
    let shifted = cx.add(&rows, &Tensor::dim(&Expr::i64(k)))?;
    let diagonal = cx.binary(Binary::Equal, &shifted, &columns)?;
    one(cx.cast(&diagonal, to)?)
}

/// `a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)`
fn cosine_window(
    cx: &mut ImportContext,
    call: &Call,
    coefficients: [f64; 3],
) -> Result<Vec<OnnxValue>> {
    let periodic = call.flag_or_true("periodic")?;
    let to = dtype(i32::try_from(call.int("output_datatype", 1)?).unwrap_or(0))?;
    let size = cx.reshape(call.input(0)?, &[])?;
    let size = cx.dims_of(&size, "size")?[0].clone();
    let period = if periodic { size.clone() } else { size.clone() - 1 };
    let period = cx.dim_as(&period, DType::F32)?;
    let positions = cx.iota(&size)?;
    let positions = cx.cast(&positions, DType::F32)?;
    let turn = cx.binary_num(Binary::Mul, &positions, std::f64::consts::TAU)?;
    let angle = cx.div(&turn, &period)?;
    let wave = cx.unary(Unary::Cos, &angle)?;
    let [a0, a1, a2] = coefficients;
    let first = cx.binary_num(Binary::Mul, &wave, -a1)?;
    let mut y = cx.binary_num(Binary::Add, &first, a0)?;
    if a2 != 0.0 {
        let twice = cx.binary_num(Binary::Mul, &angle, 2.0)?;
        let wave = cx.unary(Unary::Cos, &twice)?;
        let second = cx.binary_num(Binary::Mul, &wave, a2)?;
        y = cx.add(&y, &second)?;
    }
    one(cx.cast(&y, to)?)
}
