//! Products of quantised operands as products of 8-bit integers in int32, with zero points as sums
//! around them.
//!
//! Decision: docs/decisions/0057-int8-dot-product.md

use std::rc::Rc;
use std::sync::Arc;

use reflex_graph::{Binary, Literal, Op, ReduceKind, dims};
use reflex_tir::{DType, Expr};

use super::spatial::{Padded, convolve};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::value::{Dequantised, Tensor};

/// A quantised operand.
#[derive(Clone, Copy)]
pub(super) struct Quantised<'a> {
    pub x: &'a Tensor,
    pub zero_point: Option<&'a Tensor>,
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
        1 if axis >= rank => Err(invalid(format!("zero points {} of a scalar", zero.ty))),
        1 => {
            let mut shape = vec![Expr::i64(1); rank];
            shape[axis] = zero.shape()[0].clone();
            cx.reshape(&zero, &shape)
        }
        _ => Ok(zero),
    }
}

fn is_zero(zero: &Tensor) -> bool {
    let known = zero.as_literal().and_then(Literal::to_i64);
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

/// The sums of the differences from the zero point for each index of an axis, where all of it is constant: computed
/// here, since in int32 operators large weights would be too large to fold.
fn constant_sums(q: Quantised<'_>, axis: usize) -> Option<Vec<i32>> {
    let literal = q.x.as_literal().filter(|_| q.is_byte())?;
    let size = |list: &[i64]| -> Option<usize> {
        list.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))
    };
    let (extent, inner) =
        (size(&literal.shape()[axis..=axis])?, size(&literal.shape()[axis + 1..])?);
    let zeros = match q.zero_point {
        None => vec![0],
        Some(zero) => zero.as_literal()?.to_i64()?,
    };
    let zero = |index: usize| match zeros.as_slice() {
        [zero] => Some(*zero),
        zeros if zeros.len() == extent => Some(zeros[index]),
        _ => None,
    };
    let mut sums = vec![0i32; extent];
    let signed = literal.dtype() == DType::I8;
    let value = |byte: u8| if signed { i32::from(byte.cast_signed()) } else { i32::from(byte) };
    let bytes = literal.bytes();
    for block in bytes.chunks_exact((extent * inner).max(1)) {
        for (sum, run) in sums.iter_mut().zip(block.chunks_exact(inner.max(1))) {
            *sum = run.iter().fold(*sum, |sum, byte| sum.wrapping_add(value(*byte)));
        }
    }
    let count = bytes.len().checked_div(extent)? as i32;
    for (index, sum) in sums.iter_mut().enumerate() {
        *sum = sum.wrapping_sub(count.wrapping_mul(zero(index)? as i32));
    }
    Some(sums)
}

/// A constant of such sums.
fn constant(shape: Vec<i64>, sums: &[i32]) -> Option<Tensor> {
    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    Literal::new(DType::I32, shape, Arc::new(bytes)).map(Tensor::literal)
}

/// `sum(b - zb)` of each column, `[.., 1, columns]`.
fn column_sums(cx: &mut ImportContext, given: Quantised<'_>, b: &Shifted) -> Result<Tensor> {
    let rank = b.x.rank();
    if rank == 2
        && let Some(sums) = constant_sums(given, 1)
        && let Some(sums) = constant(vec![1, sums.len() as i64], &sums)
    {
        return Ok(sums);
    }
    let mut wide = cx.cast(&b.x, DType::I32)?;
    if let Some(zero) = &b.zero {
        wide = cx.sub(&wide, zero)?;
    }
    cx.reduce_keep_dims(ReduceKind::Sum, &wide, &[rank - 2])
}

/// Matrix multiplication of quantised operands in int32:
/// `(a - za)(b - zb) = ab - zb sum(a) - za sum(b - zb)`, with the first product of uint8 by int8. All
/// of it wraps, so it is the same integer.
pub(super) fn int_matmul(
    cx: &mut ImportContext,
    a: Quantised<'_>,
    b: Quantised<'_>,
) -> Result<Tensor> {
    let (rank_a, rank_b) = (a.x.rank(), b.x.rank());
    if rank_a < 2 || rank_b < 2 || !a.is_byte() || !b.is_byte() {
        let a = centred(cx, a, rank_a.saturating_sub(2))?;
        let b = centred(cx, b, rank_b.saturating_sub(1))?;
        return cx.matmul(&a, &b);
    }
    let (a, given) = (shifted(cx, a, rank_a - 2, DType::U8)?, b);
    let b = shifted(cx, b, rank_b - 1, DType::I8)?;
    let mut sum = cx.op(Op::MatMulInteger, &[&a.x, &b.x])?;
    if let Some(zero) = &b.zero {
        let wide = cx.cast(&a.x, DType::I32)?;
        let rows = cx.reduce_keep_dims(ReduceKind::Sum, &wide, &[rank_a - 1])?;
        let part = cx.mul(&rows, zero)?;
        sum = cx.sub(&sum, &part)?;
    }
    if let Some(zero) = &a.zero {
        let columns = column_sums(cx, given, &b)?;
        let part = cx.mul(&columns, zero)?;
        sum = cx.sub(&sum, &part)?;
    }
    Ok(sum)
}

/// `sum(w - zw)` of each channel of the result.
fn channel_sums(cx: &mut ImportContext, given: Quantised<'_>, w: &Shifted) -> Result<Tensor> {
    if let Some(sums) = constant_sums(given, 0)
        && let Some(sums) = constant(vec![sums.len() as i64], &sums)
    {
        return Ok(sums);
    }
    let mut wide = cx.cast(&w.x, DType::I32)?;
    if let Some(zero) = &w.zero {
        wide = cx.sub(&wide, zero)?;
    }
    let axes: Vec<usize> = (1..w.x.rank()).collect();
    cx.reduce(ReduceKind::Sum, &wide, &axes)
}

/// The sum of what each result of the convolution with `w` reads: one output channel of ones in each
/// group, for all of the group's.
fn window_sums(cx: &mut ImportContext, padded: &Padded, w: &Tensor) -> Result<Tensor> {
    let [groups, outs] = [Expr::i64(padded.groups()), w.shape()[0].clone()];
    let ones =
        cx.filled(1.0, DType::I8, &[std::slice::from_ref(&groups), &w.shape()[1..]].concat())?;
    let mut windows = padded.convolve(cx, &ones)?;
    if padded.groups() > 1 {
        let apart = cx.unsqueeze(&windows, &[2])?;
        let mut wide = apart.shape().to_vec();
        wide[2] = dims::simplify(&outs.clone().floordiv(groups));
        let spread = cx.broadcast(&apart, &wide)?;
        wide.splice(1..3, [outs]);
        windows = cx.reshape(&spread, &wide)?;
    }
    Ok(windows)
}

/// A convolution of quantised operands in int32, with the same division of the product. Padding is the
/// input's zero point.
pub(super) fn int_conv(
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
    let (x, given) = (shifted(cx, x, 0, DType::U8)?, w);
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
        let windows = window_sums(cx, &padded, &w.x)?;
        let zero = per_channel(cx, zero)?;
        let part = cx.mul(&windows, &zero)?;
        sum = cx.sub(&sum, &part)?;
    }
    if let Some(zero) = &x.zero {
        let sums = channel_sums(cx, given, &w)?;
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

/// Sums of products of integers times the product of the operands' scales. A vector of scales of `b` is
/// read as of this shape.
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
