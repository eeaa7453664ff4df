//! Quantisation: conversions, and integer matrix multiplication and convolution in exact int32
//! arithmetic.

use std::rc::Rc;

use reflex_graph::{Binary, Op, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::spatial::{Padded, convolve};
use super::table::{Table, all, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::tensor::dtype;
use crate::value::{Dequantised, OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("ConvInteger", conv_integer),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic_quantize),
    ("MatMulInteger", matmul_integer),
    ("QLinearConv", qlinear_conv),
    ("QLinearMatMul", qlinear_matmul),
    ("QuantizeLinear", quantize),
];

/// The range of an 8- or 16-bit integer type.
fn range(to: DType) -> Result<(f64, f64)> {
    match to {
        DType::U8 => Ok((0.0, 255.0)),
        DType::I8 => Ok((-128.0, 127.0)),
        DType::U16 => Ok((0.0, 65535.0)),
        DType::I16 => Ok((-32768.0, 32767.0)),
        other => Err(unsupported(format!("quantisation to {other}"))),
    }
}

/// A scale or zero point laid along the axes of `x`: one number, one per index of an axis, or
/// one per block of an axis.
fn laid_out(cx: &mut ImportContext, call: &Call, p: &Tensor, x: &Tensor) -> Result<Tensor> {
    let block = call.int("block_size", 0)?;
    let given = call.int("axis", 1)?;
    if p.rank() == 0 || p.rank() == 1 && p.count() == Some(1) {
        return cx.reshape(p, &[]);
    }
    let at = axis(given, x.rank())?;
    if p.rank() == 1 && block == 0 {
        let mut shape = vec![Expr::i64(1); x.rank()];
        shape[at] = p.shape()[0].clone();
        return cx.reshape(p, &shape);
    }
    if block <= 0 || p.rank() != x.rank() {
        return Err(invalid(format!("scale {} for {} with block_size {block}", p.ty, x.ty)));
    }
    let apart = cx.unsqueeze(p, &[at + 1])?;
    let mut wide = apart.shape().to_vec();
    wide[at + 1] = Expr::i64(block);
    let wide = cx.broadcast(&apart, &wide)?;
    let mut shape = p.shape().to_vec();
    shape[at] = dims::simplify(&(shape[at].clone() * block));
    let merged = cx.reshape(&wide, &shape)?;
    cx.slice(&merged, at, &Expr::i64(0), &x.shape()[at])
}

fn dequantize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let to = match call.int("output_dtype", 0)? {
        0 => scale.dtype(),
        code => dtype(i32::try_from(code).unwrap_or(0))?,
    };
    let mut wide = cx.cast(x, DType::I32)?;
    if let Some(zero) = call.opt(2)? {
        let zero = laid_out(cx, call, zero, x)?;
        let zero = cx.cast(&zero, DType::I32)?;
        wide = cx.sub(&wide, &zero)?;
    }
    let wide_scale = laid_out(cx, call, scale, x)?;
    let steps = cx.cast(&wide, DType::F32)?;
    let wide_scale = cx.cast(&wide_scale, DType::F32)?;
    let y = cx.mul(&steps, &wide_scale)?;
    let mut y = cx.cast(&y, to)?;
    let bytes = matches!(x.dtype(), DType::U8 | DType::I8) && scale.rank() <= 1;
    if bytes && y.dtype() == DType::F32 && call.int("block_size", 0)? == 0 {
        let axis =
            if x.rank() == 0 { 0 } else { axis(call.int("axis", 1)?, x.rank()).unwrap_or(0) };
        let (x, scale, zero_point) = (x.clone(), scale.clone(), call.opt(2)?.cloned());
        y.dequantised = Some(Rc::new(Dequantised { x, scale, zero_point, axis }));
    }
    one(y)
}

/// Most products of differences of 8-bit integers whose sum surely fits into int32.
const MAX_DEPTH: i64 = 33_000;

impl Dequantised {
    /// Whether there is one scale.
    fn is_per_tensor(&self) -> bool {
        self.scale.count() == Some(1)
    }

    fn quantised(&self) -> Quantised<'_> {
        Quantised { x: &self.x, zero_point: self.zero_point.as_ref() }
    }
}

/// The product of the operands' scales, which is multiplied with sums of products of their
/// integers. A vector of scales of `b` lies along the last of so many axes.
fn scaled(
    cx: &mut ImportContext,
    sum: &Tensor,
    [a, b]: [&Dequantised; 2],
    shape: &[Expr],
) -> Result<Tensor> {
    let left = cx.reshape(&a.scale, &[])?;
    let right =
        if b.is_per_tensor() { cx.reshape(&b.scale, &[])? } else { cx.reshape(&b.scale, shape)? };
    let scale = cx.mul(&left, &right)?;
    let sum = cx.cast(sum, DType::F32)?;
    cx.mul(&sum, &scale)
}

/// A matrix multiplication of dequantised operands as one of their integers, whose sums are exact
/// before they are scaled; `None` where scales or types do not allow it.
pub(super) fn dequantised_matmul(
    cx: &mut ImportContext,
    a: &Tensor,
    b: &Tensor,
) -> Result<Option<Tensor>> {
    let (Some(a), Some(b)) = (&a.dequantised, &b.dequantised) else { return Ok(None) };
    let (rank, depth) = (b.x.rank(), a.x.shape().last().and_then(Expr::as_int));
    let columns = b.is_per_tensor() || b.axis + 1 == rank;
    let small = depth.is_some_and(|depth| depth <= MAX_DEPTH);
    if a.x.rank() < 2 || rank < 2 || !a.is_per_tensor() || !columns || !small {
        return Ok(None);
    }
    let sum = int_matmul(cx, a.quantised(), b.quantised())?;
    let columns = [b.x.shape()[rank - 1].clone()];
    Ok(Some(scaled(cx, &sum, [a, b], &columns)?))
}

/// [`dequantised_matmul`] for convolutions; the bias is added to what is scaled.
pub(super) fn dequantised_conv(
    cx: &mut ImportContext,
    call: &Call,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    let (Some(x), Some(w)) = (&x.dequantised, &w.dequantised) else { return Ok(None) };
    let depth = w.x.shape().iter().skip(1).try_fold(1i64, |n, d| n.checked_mul(d.as_int()?));
    let channels = w.is_per_tensor() || w.axis == 0;
    let small = depth.is_some_and(|depth| depth <= MAX_DEPTH);
    let ranks = x.x.rank() > 2 && w.x.rank() == x.x.rank();
    if !ranks || !x.is_per_tensor() || !channels || !small {
        return Ok(None);
    }
    let sum = int_conv(cx, call, x.quantised(), w.quantised(), None)?;
    let mut along = vec![Expr::i64(1); w.x.rank() - 1];
    along[0] = w.x.shape()[0].clone();
    let y = scaled(cx, &sum, [x, w], &along)?;
    match bias {
        Some(bias) => {
            let bias = cx.reshape(bias, &along)?;
            Ok(Some(cx.add(&y, &bias)?))
        }
        None => Ok(Some(y)),
    }
}

/// A dequantised matrix with its axes exchanged.
pub(super) fn transposed(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let mut y = cx.transpose(x, &[1, 0])?;
    if let Some(d) = &x.dequantised {
        let (scale, zero_point) = (d.scale.clone(), d.zero_point.clone());
        let (x, axis) = (cx.transpose(&d.x, &[1, 0])?, 1 - d.axis.min(1));
        y.dequantised = Some(Rc::new(Dequantised { x, scale, zero_point, axis }));
    }
    Ok(y)
}

fn quantize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    call.ignore(&["saturate"]);
    let declared = match call.int("output_dtype", 0)? {
        0 => DType::U8,
        code => dtype(i32::try_from(code).unwrap_or(0))?,
    };
    if call.int("precision", 0)? > 1 {
        return Err(unsupported("attribute `precision`"));
    }
    let zero = call.opt(2)?;
    let to = zero.map_or(declared, Tensor::dtype);
    let scale = laid_out(cx, call, scale, x)?;
    let (x, scale) = (cx.cast(x, DType::F32)?, cx.cast(&scale, DType::F32)?);
    let steps = cx.div(&x, &scale)?;
    let zero = match zero {
        Some(zero) => Some(laid_out(cx, call, zero, &x)?),
        None => None,
    };
    one(rounded(cx, &steps, zero.as_ref(), to)?)
}

/// `saturate(round(steps) + zero)`; sums of 16-bit numbers are exact in f32.
fn rounded(
    cx: &mut ImportContext,
    steps: &Tensor,
    zero: Option<&Tensor>,
    to: DType,
) -> Result<Tensor> {
    let (low, high) = range(to)?;
    let mut y = cx.unary(Unary::Round, steps)?;
    if let Some(zero) = zero {
        let zero = cx.cast(zero, y.dtype())?;
        y = cx.add(&y, &zero)?;
    }
    let y = cx.binary_num(Binary::Max, &y, low)?;
    let y = cx.binary_num(Binary::Min, &y, high)?;
    cx.cast(&y, to)
}

fn dynamic_quantize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axes: Vec<usize> = (0..x.rank()).collect();
    let most = cx.reduce(ReduceKind::Max, x, &axes)?;
    let least = cx.reduce(ReduceKind::Min, x, &axes)?;
    let most = cx.binary_num(Binary::Max, &most, 0.0)?;
    let least = cx.binary_num(Binary::Min, &least, 0.0)?;
    let span = cx.sub(&most, &least)?;
    let scale = cx.binary_num(Binary::Div, &span, 255.0)?;
    let offset = cx.div(&least, &scale)?;
    let offset = cx.unary(Unary::Neg, &offset)?;
    let zero = rounded(cx, &offset, None, DType::U8)?;
    let steps = cx.div(x, &scale)?;
    let y = rounded(cx, &steps, Some(&zero), DType::U8)?;
    all(vec![y, scale, zero])
}

/// A quantised operand.
#[derive(Clone, Copy)]
struct Quantised<'a> {
    x: &'a Tensor,
    zero_point: Option<&'a Tensor>,
}

impl Quantised<'_> {
    fn is_byte(&self) -> bool {
        matches!(self.x.dtype(), DType::U8 | DType::I8)
    }
}

/// An 8-bit operand, and its zero point in int32 unless that is 0.
struct Shifted {
    x: Tensor,
    zero: Option<Tensor>,
}

/// A zero point in int32, laid along `axis` of a tensor of so many axes where it is a vector.
fn zero_along(cx: &mut ImportContext, zero: &Tensor, axis: usize, rank: usize) -> Result<Tensor> {
    let zero = cx.cast(zero, DType::I32)?;
    match zero.rank() {
        1 if zero.count() == Some(1) => cx.reshape(&zero, &[]),
        1 => {
            let mut shape = vec![Expr::i64(1); rank];
            shape[axis] = zero.shape()[0].clone();
            cx.reshape(&zero, &shape)
        }
        _ => Ok(zero),
    }
}

fn is_zero(zero: &Tensor) -> bool {
    let known = zero.as_literal().and_then(reflex_graph::Literal::to_i64);
    known.is_some_and(|list| list.iter().all(|v| *v == 0))
}

/// The operand in another 8-bit type: elements and zero point are both 128 more or less, so that
/// differences stay.
fn shifted(cx: &mut ImportContext, q: Quantised<'_>, axis: usize, to: DType) -> Result<Shifted> {
    let zero = q.zero_point.map(|zero| zero_along(cx, zero, axis, q.x.rank())).transpose()?;
    if q.x.dtype() == to {
        return Ok(Shifted { x: q.x.clone(), zero: zero.filter(|zero| !is_zero(zero)) });
    }
    let top = if q.x.dtype() == DType::I8 { -128.0 } else { 128.0 };
    let flipped = cx.binary_num(Binary::BitXor, q.x, top)?;
    let x = cx.cast(&flipped, to)?;
    let by = if to == DType::U8 { 128.0 } else { -128.0 };
    let zero = match zero {
        Some(zero) => cx.binary_num(Binary::Add, &zero, by)?,
        None => cx.num(by, DType::I32)?,
    };
    Ok(Shifted { x, zero: Some(zero).filter(|zero| !is_zero(zero)) })
}

/// `x - zero` in int32; a vector of zero points lies along `axis`.
fn centred(cx: &mut ImportContext, q: Quantised<'_>, axis: usize) -> Result<Tensor> {
    let wide = cx.cast(q.x, DType::I32)?;
    let Some(zero) = q.zero_point else { return Ok(wide) };
    let zero = zero_along(cx, zero, axis, q.x.rank())?;
    cx.sub(&wide, &zero)
}

/// Matrix multiplication of quantised operands in int32:
/// `(a - za)(b - zb) = ab - zb sum(a) - za sum(b - zb)`, with the first product of uint8 by int8. All
/// of it wraps, so it is the same integer.
fn int_matmul(cx: &mut ImportContext, a: Quantised<'_>, b: Quantised<'_>) -> Result<Tensor> {
    let (rank_a, rank_b) = (a.x.rank(), b.x.rank());
    if rank_a < 2 || rank_b < 2 || !a.is_byte() || !b.is_byte() {
        let a = centred(cx, a, rank_a.saturating_sub(2))?;
        let b = centred(cx, b, rank_b.saturating_sub(1))?;
        return cx.matmul(&a, &b);
    }
    let a = shifted(cx, a, rank_a - 2, DType::U8)?;
    let b = shifted(cx, b, rank_b - 1, DType::I8)?;
    let mut sum = cx.op(Op::MatMulInteger, &[&a.x, &b.x])?;
    if let Some(zero) = &b.zero {
        let wide = cx.cast(&a.x, DType::I32)?;
        let rows = cx.reduce_keep_dims(ReduceKind::Sum, &wide, &[rank_a - 1])?;
        let part = cx.mul(&rows, zero)?;
        sum = cx.sub(&sum, &part)?;
    }
    if let Some(zero) = &a.zero {
        let mut wide = cx.cast(&b.x, DType::I32)?;
        if let Some(other) = &b.zero {
            wide = cx.sub(&wide, other)?;
        }
        let columns = cx.reduce_keep_dims(ReduceKind::Sum, &wide, &[rank_b - 2])?;
        let part = cx.mul(&columns, zero)?;
        sum = cx.sub(&sum, &part)?;
    }
    Ok(sum)
}

fn matmul_integer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let a = Quantised { x: call.input(0)?, zero_point: call.opt(2)? };
    let b = Quantised { x: call.input(1)?, zero_point: call.opt(3)? };
    one(int_matmul(cx, a, b)?)
}

/// A convolution of quantised operands in int32, with the same division of the product. Padding is the
/// input's zero point.
fn int_conv(
    cx: &mut ImportContext,
    call: &Call,
    x: Quantised<'_>,
    w: Quantised<'_>,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let scalar = |zero: Option<&Tensor>| zero.is_none_or(|zero| zero.count() == Some(1));
    if !x.is_byte() || !w.is_byte() || !scalar(x.zero_point) {
        let x = centred(cx, x, 0)?;
        let w = centred(cx, w, 0)?;
        return convolve(cx, call, &x, &w, bias);
    }
    let x = shifted(cx, x, 0, DType::U8)?;
    let w = shifted(cx, w, 0, DType::I8)?;
    let spatial = w.x.rank().saturating_sub(2);
    let per_channel = |cx: &mut ImportContext, t: &Tensor| match t.rank() {
        0 => Ok(t.clone()),
        _ => {
            let channels = t.shape()[0].clone();
            cx.reshape(t, &[vec![channels], vec![Expr::i64(1); spatial]].concat())
        }
    };
    let padded = Padded::of(cx, call, &x.x, x.zero.as_ref(), &w.x)?;
    let mut sum = padded.convolve(cx, &w.x)?;
    if let Some(zero) = &w.zero {
        // One output channel of ones in each group sums what a result reads.
        let [groups, outs] = [Expr::i64(padded.groups()), w.x.shape()[0].clone()];
        let ones = cx.filled(1.0, DType::I8, &[&[groups.clone()], &w.x.shape()[1..]].concat())?;
        let mut windows = padded.convolve(cx, &ones)?;
        if padded.groups() > 1 {
            let apart = cx.unsqueeze(&windows, &[2])?;
            let mut wide = apart.shape().to_vec();
            wide[2] = dims::simplify(&outs.clone().floordiv(groups));
            let spread = cx.broadcast(&apart, &wide)?;
            wide.splice(1..3, [outs]);
            windows = cx.reshape(&spread, &wide)?;
        }
        let zero = per_channel(cx, zero)?;
        let part = cx.mul(&windows, &zero)?;
        sum = cx.sub(&sum, &part)?;
    }
    if let Some(zero) = &x.zero {
        let mut wide = cx.cast(&w.x, DType::I32)?;
        if let Some(other) = &w.zero {
            wide = cx.sub(&wide, other)?;
        }
        let axes: Vec<usize> = (1..w.x.rank()).collect();
        let sums = cx.reduce(ReduceKind::Sum, &wide, &axes)?;
        let sums = per_channel(cx, &sums)?;
        let part = cx.mul(&sums, zero)?;
        sum = cx.sub(&sum, &part)?;
    }
    match bias {
        Some(bias) => {
            let bias = per_channel(cx, bias)?;
            cx.add(&sum, &bias)
        }
        None => Ok(sum),
    }
}

fn conv_integer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = Quantised { x: call.input(0)?, zero_point: call.opt(2)? };
    let w = Quantised { x: call.input(1)?, zero_point: call.opt(3)? };
    one(int_conv(cx, call, x, w, None)?)
}

/// An int32 accumulator in a new scale.
fn requantized(
    cx: &mut ImportContext,
    sum: &Tensor,
    scales: [&Tensor; 3],
    zero: &Tensor,
) -> Result<Tensor> {
    let [a, b, y] = scales;
    let ratio = cx.mul(a, b)?;
    let ratio = cx.div(&ratio, y)?;
    let ratio = cx.cast(&ratio, DType::F32)?;
    let wide = cx.cast(sum, DType::F32)?;
    let steps = cx.mul(&wide, &ratio)?;
    rounded(cx, &steps, Some(zero), zero.dtype())
}

fn qlinear_matmul(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let [a, a_scale, a_zero] = [call.input(0)?, call.input(1)?, call.input(2)?];
    let [b, b_scale, b_zero] = [call.input(3)?, call.input(4)?, call.input(5)?];
    let (y_scale, y_zero) = (call.input(6)?, call.input(7)?);
    if a_scale.rank() > 1 || a_scale.count() != Some(1) || y_scale.count() != Some(1) {
        return Err(unsupported("scales per row"));
    }
    let a_scale = cx.reshape(a_scale, &[])?;
    let y_scale = cx.reshape(y_scale, &[])?;
    let y_zero = cx.reshape(y_zero, &[])?;
    let a = Quantised { x: a, zero_point: Some(a_zero) };
    let b = Quantised { x: b, zero_point: Some(b_zero) };
    let sum = int_matmul(cx, a, b)?;
    one(requantized(cx, &sum, [&a_scale, b_scale, &y_scale], &y_zero)?)
}

fn qlinear_conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let [x, x_scale, x_zero] = [call.input(0)?, call.input(1)?, call.input(2)?];
    let [w, w_scale, w_zero] = [call.input(3)?, call.input(4)?, call.input(5)?];
    let (y_scale, y_zero) = (call.input(6)?, call.input(7)?);
    let inputs = Quantised { x, zero_point: Some(x_zero) };
    let weights = Quantised { x: w, zero_point: Some(w_zero) };
    let sum = int_conv(cx, call, inputs, weights, call.opt(8)?)?;
    let w_scale = match w_scale.count() {
        Some(1) => cx.reshape(w_scale, &[])?,
        _ => {
            let mut shape = vec![Expr::i64(1); x.rank() - 1];
            shape[0] = w_scale.shape()[0].clone();
            cx.reshape(w_scale, &shape)?
        }
    };
    let scalar = |cx: &mut ImportContext, t: &Tensor| cx.reshape(t, &[]);
    let (x_scale, y_scale) = (scalar(cx, x_scale)?, scalar(cx, y_scale)?);
    let y_zero = scalar(cx, y_zero)?;
    one(requantized(cx, &sum, [&x_scale, &w_scale, &y_scale], &y_zero)?)
}
