//! Gathers and scatters.

use super::error::{EvalError, Result};
use super::scalar::{Scalar, Scalars, decode, ints, tensor};
use super::shape::{count, literal, need_axis};
use crate::literal::Literal;
use crate::op::{GatherKind, OutOfRange, ScatterKind, ScatterReduce};
use crate::strides::{strides, walk};

/// The position of an index that may count from the end.
fn resolve(index: i64, extent: i64, out_of_range: OutOfRange) -> Result<i64> {
    let at = if index < 0 { index + extent } else { index };
    match out_of_range {
        _ if (0..extent).contains(&at) => Ok(at),
        OutOfRange::Clamp if extent > 0 => Ok(at.clamp(0, extent - 1)),
        OutOfRange::Raise | OutOfRange::Clamp => {
            let message = format!("index {index} is out of range for an axis of {extent}");
            Err(EvalError::new(message))
        }
    }
}

pub(super) fn gather(
    kind: &GatherKind,
    mode: OutOfRange,
    x: &Literal,
    indices: &Literal,
) -> Result<Literal> {
    match kind {
        GatherKind::Axis(axis) => take(x, indices, *axis, mode),
        GatherKind::Elements(axis) => gather_elements(x, indices, *axis, mode),
        GatherKind::Nd { batch_dims } => gather_nd(x, indices, *batch_dims, mode),
    }
}

fn take(x: &Literal, indices: &Literal, axis: usize, mode: OutOfRange) -> Result<Literal> {
    need_axis(axis, x.shape().len())?;
    let extent = x.shape()[axis];
    let mut shape = x.shape()[..axis].to_vec();
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&x.shape()[axis + 1..]);
    let row = count(&x.shape()[axis + 1..])? * x.dtype().itemsize();
    let rows: Vec<i64> =
        ints(indices)?.into_iter().map(|i| resolve(i, extent, mode)).collect::<Result<_>>()?;
    let mut out = Vec::with_capacity(count(&shape)? * x.dtype().itemsize());
    for outer in 0..count(&x.shape()[..axis])? {
        for at in &rows {
            let from = (outer * extent as usize + *at as usize) * row;
            out.extend_from_slice(&x.bytes()[from..from + row]);
        }
    }
    literal(x.dtype(), shape, out)
}

/// Flat offset in `x` of each element of `indices`, replacing the coordinate along `axis`.
fn element_offsets(
    x: &Literal,
    indices: &Literal,
    axis: usize,
    mode: OutOfRange,
) -> Result<Vec<usize>> {
    let rank = x.shape().len();
    need_axis(axis, rank)?;
    let inside = indices.shape().len() == rank
        && (0..rank).all(|i| i == axis || indices.shape()[i] <= x.shape()[i]);
    if !inside {
        return Err(EvalError::new(format!("indices {indices:?} into {x:?} along {axis}")));
    }
    let at = ints(indices)?;
    let mut from = strides(x.shape());
    let step = std::mem::replace(&mut from[axis], 0);
    let mut out = Vec::with_capacity(at.len());
    let mut fault = None;
    walk(indices.shape(), [&from], |flat, [base]| match resolve(at[flat], x.shape()[axis], mode) {
        Ok(i) => out.push((base + i * step) as usize),
        Err(e) => fault = fault.take().or(Some(e)),
    });
    fault.map_or(Ok(out), Err)
}

fn pick(x: &Literal, shape: Vec<i64>, rows: &[usize], row: usize) -> Result<Literal> {
    let bytes = row * x.dtype().itemsize();
    let item = x.dtype().itemsize();
    let mut out = Vec::with_capacity(rows.len() * bytes);
    for at in rows {
        out.extend_from_slice(&x.bytes()[at * item..at * item + bytes]);
    }
    literal(x.dtype(), shape, out)
}

fn gather_elements(
    x: &Literal,
    indices: &Literal,
    axis: usize,
    mode: OutOfRange,
) -> Result<Literal> {
    let offsets = element_offsets(x, indices, axis, mode)?;
    pick(x, indices.shape().to_vec(), &offsets, 1)
}

/// Flat offsets of the slices that the last axis of `indices` addresses, and their length.
fn slice_offsets(
    x: &Literal,
    indices: &Literal,
    batch: usize,
    mode: OutOfRange,
) -> Result<(Vec<usize>, usize)> {
    let bad = || EvalError::new(format!("indices {indices:?} into {x:?}, {batch} batch axes"));
    let depth = *indices.shape().last().ok_or_else(bad)? as usize;
    let (rank, lead) = (x.shape().len(), indices.shape().len() - 1);
    if batch + depth > rank || batch > lead || x.shape()[..batch] != indices.shape()[..batch] {
        return Err(bad());
    }
    let (from, at) = (strides(x.shape()), ints(indices)?);
    let per_batch = count(&indices.shape()[batch..lead])?;
    let row = count(&x.shape()[batch + depth..])?;
    let per_slab = count(&x.shape()[batch..])?;
    let mut out = vec![];
    for i in 0..count(&indices.shape()[..lead])? {
        let mut offset = (i / per_batch.max(1) * per_slab) as i64;
        for j in 0..depth {
            let axis = batch + j;
            offset += resolve(at[i * depth + j], x.shape()[axis], mode)? * from[axis];
        }
        out.push(offset as usize);
    }
    Ok((out, row))
}

fn gather_nd(x: &Literal, indices: &Literal, batch: usize, mode: OutOfRange) -> Result<Literal> {
    let (offsets, row) = slice_offsets(x, indices, batch, mode)?;
    let lead = indices.shape().len() - 1;
    let depth = indices.shape()[lead] as usize;
    let mut shape = indices.shape()[..lead].to_vec();
    shape.extend_from_slice(&x.shape()[batch + depth..]);
    pick(x, shape, &offsets, row)
}

pub(super) fn scatter(
    kind: &ScatterKind,
    reduce: ScatterReduce,
    mode: OutOfRange,
    x: &Literal,
    indices: &Literal,
    updates: &Literal,
) -> Result<Literal> {
    let (offsets, row) = match kind {
        ScatterKind::Elements(axis) => (element_offsets(x, indices, *axis, mode)?, 1),
        ScatterKind::Nd => slice_offsets(x, indices, 0, mode)?,
    };
    if updates.dtype() != x.dtype() || updates.count() != offsets.len() * row {
        return Err(EvalError::new(format!("scatter of {updates:?} at {indices:?} into {x:?}")));
    }
    if reduce == ScatterReduce::Replace {
        let item = x.dtype().itemsize();
        let mut out = x.bytes().to_vec();
        for (at, from) in offsets.iter().zip(updates.bytes().chunks_exact((row * item).max(1))) {
            out[at * item..(at + row) * item].copy_from_slice(from);
        }
        return literal(x.dtype(), x.shape().to_vec(), out);
    }
    let y = match (decode(x)?, decode(updates)?) {
        (Scalars::Float(x), Scalars::Float(u)) => {
            Scalars::Float(combine(x, &u, &offsets, row, reduce))
        }
        (Scalars::Int(x), Scalars::Int(u)) => Scalars::Int(combine(x, &u, &offsets, row, reduce)),
        _ => unreachable!("the element types are equal"),
    };
    tensor(x.dtype(), x.shape().to_vec(), &y)
}

fn combine<T: Scalar>(
    mut x: Vec<T>,
    updates: &[T],
    offsets: &[usize],
    row: usize,
    reduce: ScatterReduce,
) -> Vec<T> {
    for (slice, at) in offsets.iter().enumerate() {
        for i in 0..row {
            let (old, new) = (x[at + i], updates[slice * row + i]);
            x[at + i] = match reduce {
                ScatterReduce::Replace => new,
                ScatterReduce::Add => old.add(new),
                ScatterReduce::Mul => old.mul(new),
                ScatterReduce::Max => old.max(new),
                ScatterReduce::Min => old.min(new),
            };
        }
    }
    x
}
