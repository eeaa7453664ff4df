//! Gathers, scatters, one-hot encoding and selection of the extreme elements.

use reflex_graph::{Binary, GatherKind, Literal, Op, ScatterKind, ScatterReduce, TensorType};
use reflex_tir::{DType, Expr};

use super::packed_weights::LEAST_ELEMENTS;
use super::quant::scaled_steps;
use super::table::{Table, all, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::emit::out_of_range;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("OneHot", one_hot),
    ("ReverseSequence", reverse_sequence),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TopK", top_k),
];

fn gather(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, x.rank())?;
    match rows_of_codes(cx, x, indices, axis)? {
        Some(y) => one(y),
        None => one(cx.gather(GatherKind::Axis(axis), x, indices)?),
    }
}

/// Rows of a constant matrix that is dequantised as a whole, by rows or by columns: rows of its integers, dequantised then. So a
/// table of embeddings stays as the file has it. `None` for small ones, whose floats stay in a cache.
fn rows_of_codes(
    cx: &mut ImportContext,
    x: &Tensor,
    indices: &Tensor,
    axis: usize,
) -> Result<Option<Tensor>> {
    let Some(d) = x.dequantised.as_deref().filter(|_| axis == 0) else { return Ok(None) };
    let shape = d.x.as_literal().map(Literal::shape);
    let Some(&[rows, columns]) = shape else { return Ok(None) };
    let extent = usize::try_from([rows, columns][d.axis.min(1)]).ok();
    let fits = |p: &Tensor| p.count() == Some(1) || p.count() == extent;
    let is_large = d.x.count().is_some_and(|n| n >= LEAST_ELEMENTS);
    if !is_large || !fits(&d.scale) || !d.zero_point.as_ref().is_none_or(fits) {
        return Ok(None);
    }
    let of_rows = |cx: &mut ImportContext, p: &Tensor| match p.count() == Some(1) || d.axis > 0 {
        true => Ok(p.clone()),
        false => {
            let p = cx.gather(GatherKind::Axis(0), p, indices)?;
            cx.unsqueeze(&p, &[indices.rank()])
        }
    };
    let codes = cx.gather(GatherKind::Axis(0), &d.x, indices)?;
    let zero = d.zero_point.as_ref().map(|zero| of_rows(cx, zero)).transpose()?;
    let scale = of_rows(cx, &d.scale)?;
    Ok(Some(scaled_steps(cx, &codes, zero.as_ref(), &scale)?))
}

fn gather_elements(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, x.rank())?;
    one(cx.gather(GatherKind::Elements(axis), x, indices)?)
}

pub(super) fn gather_nd(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let batch_dims = call.int("batch_dims", 0)?;
    let batch_dims = usize::try_from(batch_dims).map_err(|_| invalid("batch_dims"))?;
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axes = coordinate_axes(x, indices, batch_dims);
    let (kind, out_of_range) = (GatherKind::Nd { batch_dims }, out_of_range(indices, axes));
    one(cx.op(Op::Gather { kind, out_of_range }, &[x, indices])?)
}

/// The extents of the axes of `x` that a coordinate in the last axis of `indices` has.
fn coordinate_axes<'a>(x: &'a Tensor, indices: &Tensor, first: usize) -> &'a [Expr] {
    let depth = indices.shape().last().and_then(Expr::as_int);
    let depth = depth.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(0);
    x.shape().get(first..first + depth).unwrap_or_default()
}

fn combination(call: &Call) -> Result<ScatterReduce> {
    Ok(match call.text("reduction", "none")? {
        "none" => ScatterReduce::Replace,
        "add" => ScatterReduce::Add,
        "mul" => ScatterReduce::Mul,
        "max" => ScatterReduce::Max,
        "min" => ScatterReduce::Min,
        other => return Err(invalid(format!("reduction `{other}`"))),
    })
}

fn scatter_elements(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, x.rank())?;
    let out_of_range = out_of_range(indices, &x.shape()[axis..=axis]);
    let kind = ScatterKind::Elements(axis);
    let op = Op::Scatter { kind, reduce: combination(call)?, out_of_range };
    one(cx.op(op, &[x, indices, call.input(2)?])?)
}

fn scatter_nd(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let out_of_range = out_of_range(indices, coordinate_axes(x, indices, 0));
    let op = Op::Scatter { kind: ScatterKind::Nd, reduce: combination(call)?, out_of_range };
    let updates = fitting_updates(cx, x, indices, call.input(2)?)?;
    one(cx.op(op, &[x, indices, &updates])?)
}

/// The updates with the extents that the indices and the data ask for. Where two extents depend on data,
/// that they are equal is seen at run time.
fn fitting_updates(
    cx: &mut ImportContext,
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
) -> Result<Tensor> {
    let Some((depth, batch)) = indices.shape().split_last() else { return Ok(updates.clone()) };
    let inner = depth.as_int().and_then(|depth| x.shape().get(usize::try_from(depth).ok()?..));
    let Some(inner) = inner else { return Ok(updates.clone()) };
    let wanted = [batch, inner].concat();
    let may_fit = |(a, b): (&Expr, &Expr)| a.as_int().is_none() || b.as_int().is_none() || a == b;
    let fits = updates.rank() == wanted.len() && updates.shape().iter().zip(&wanted).all(may_fit);
    if !fits || updates.shape() == wanted {
        return Ok(updates.clone());
    }
    let value = cx.value(updates)?;
    let value = cx.b.match_cast(value, TensorType::new(updates.dtype(), wanted));
    Ok(cx.tensor_of(value))
}

fn one_hot(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let given = call.int("axis", -1)?;
    let at = axis(given, indices.rank() + 1)?;
    let depth = cx.reshape(call.input(1)?, &[])?;
    let depth = cx.cast(&depth, DType::I64)?;
    let depth = cx.dims_of(&depth, "depth")?[0].clone();
    // Indices count from the end when negative, and hit nothing outside the depth.
    let indices = cx.cast(indices, DType::I64)?;
    let zero = Tensor::dim(&Expr::i64(0));
    let negative = cx.binary(Binary::Less, &indices, &zero)?;
    let wrapped = cx.add(&indices, &Tensor::dim(&depth))?;
    let indices = cx.choose(&negative, &wrapped, &indices)?;
    let indices = cx.unsqueeze(&indices, &[at])?;
    let positions = cx.iota(&depth)?;
    let mut shape = vec![Expr::i64(1); indices.rank()];
    shape[at] = depth;
    let positions = cx.reshape(&positions, &shape)?;
    let hit = cx.binary(Binary::Equal, &indices, &positions)?;
    let off = cx.slice(values, 0, &Expr::i64(0), &Expr::i64(1))?;
    let on = cx.slice(values, 0, &Expr::i64(1), &Expr::i64(1))?;
    let (off, on) = (cx.reshape(&off, &[])?, cx.reshape(&on, &[])?);
    one(cx.choose(&hit, &on, &off)?)
}

fn top_k(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axis = call.axis("axis", -1, x.rank())?;
    let largest = call.flag_or_true("largest")?;
    // Sorted results are right also where any order is.
    call.ignore(&["sorted"]);
    let k = match call.int_opt("k")? {
        Some(k) => Expr::i64(k),
        None => {
            let k = cx.reshape(call.input(1)?, &[])?;
            cx.dims_of(&k, "k")?[0].clone()
        }
    };
    all(cx.ops(Op::TopK { axis, k, largest }, &[x])?)
}

/// Element `i` of a sequence of length `n` comes from `n - 1 - i` where `i < n`.
fn reverse_sequence(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let (batch, time) = (call.int("batch_axis", 1)?, call.int("time_axis", 0)?);
    let (batch, time) = (axis(batch, x.rank())?, axis(time, x.rank())?);
    if batch + time != 1 || lengths.rank() != 1 {
        return Err(unsupported(format!("batch_axis {batch} with time_axis {time}")));
    }
    one(mirrored(cx, x, lengths, batch, time)?)
}

/// Reverses the first `lengths` elements of each sequence.
pub(super) fn mirrored(
    cx: &mut ImportContext,
    x: &Tensor,
    lengths: &Tensor,
    batch: usize,
    time: usize,
) -> Result<Tensor> {
    let steps = cx.iota(&x.shape()[time])?;
    let steps = cx.unsqueeze(&steps, &[batch])?;
    let lengths = cx.cast(lengths, DType::I64)?;
    let lengths = cx.unsqueeze(&lengths, &[time])?;
    let inside = cx.binary(Binary::Less, &steps, &lengths)?;
    let last = cx.binary_num(Binary::Sub, &lengths, 1.0)?;
    let mirrored = cx.sub(&last, &steps)?;
    let source = cx.choose(&inside, &mirrored, &steps)?;
    let trailing: Vec<usize> = (2..x.rank()).collect();
    let source = cx.unsqueeze(&source, &trailing)?;
    let source = cx.broadcast(&source, x.shape())?;
    cx.gather(GatherKind::Elements(time), x, &source)
}
