//! Operators that only move elements; they work on bytes and so on every element type of
//! whole bytes.

use std::ops::Range;
use std::sync::Arc;

use reflex_tir::DType;

use super::error::{EvalError, Result};
use super::shape::{computed, count, literal, need_axis};
use crate::literal::Literal;
use crate::op::PadMode;
use crate::strides::{broadcast_strides, gather_strided, strides, walk_range};

fn item(x: &Literal) -> Result<usize> {
    if x.dtype().bits.is_multiple_of(8) && x.dtype().is_scalar() {
        return Ok(x.dtype().itemsize());
    }
    Err(EvalError::new(format!("{} elements are not whole bytes", x.dtype())))
}

pub(super) fn reshape(x: &Literal, shape: Vec<i64>) -> Result<Literal> {
    let text = format!("{x:?} does not have the element count of {shape:?}");
    x.reshaped(shape).ok_or_else(|| EvalError::new(text))
}

/// `x` without the given axes, which have one element.
pub(super) fn squeeze(x: &Literal, axes: &[usize]) -> Result<Literal> {
    let kept = x.shape().iter().enumerate().filter(|(i, _)| !axes.contains(i));
    reshape(x, kept.map(|(_, d)| *d).collect())
}

pub(super) fn transpose(x: &Literal, perm: &[usize]) -> Result<Literal> {
    item(x)?;
    let text = format!("{perm:?} does not permute the axes of {x:?}");
    x.permuted(perm).ok_or_else(|| EvalError::new(text))
}

pub(super) fn broadcast(x: &Literal, shape: &[i64]) -> Result<Literal> {
    let fits = x.shape().len() <= shape.len()
        && x.shape().iter().rev().zip(shape.iter().rev()).all(|(a, b)| a == b || *a == 1);
    if !fits {
        return Err(EvalError::new(format!("{x:?} does not broadcast to {shape:?}")));
    }
    let item = item(x)?;
    computed(x.dtype(), shape.to_vec(), [x], move |[x], shape| {
        let steps = broadcast_strides(x.shape(), shape.len());
        gather_strided(x.bytes(), item, shape, &steps, 0)
    })
}

/// The bytes of elements `range` of `x` broadcast to `shape`, which it fits.
pub(super) fn broadcast_range(x: &Literal, shape: &[i64], range: Range<usize>) -> Result<Vec<u8>> {
    let (item, steps) = (item(x)?, broadcast_strides(x.shape(), shape.len()));
    let mut bytes = Vec::with_capacity(range.len() * item);
    let from = x.bytes();
    walk_range(shape, &steps, range, |at, step, count| match step {
        1 => bytes.extend_from_slice(&from[at * item..][..count * item]),
        _ => (0..count).for_each(|i| {
            bytes.extend_from_slice(&from[(at + i * step) * item..][..item]);
        }),
    });
    Ok(bytes)
}

pub(super) fn concat(parts: &[&Literal], axis: usize) -> Result<Literal> {
    let first = parts[0];
    need_axis(axis, first.shape().len())?;
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for part in parts {
        let mut other = part.shape().to_vec();
        if part.dtype() != first.dtype() || other.len() != shape.len() {
            return Err(EvalError::new(format!("concat of {first:?} and {part:?}")));
        }
        let dim = std::mem::replace(&mut other[axis], shape[axis]);
        if other != shape {
            return Err(EvalError::new(format!("concat of {first:?} and {part:?} along {axis}")));
        }
        shape[axis] += dim;
    }
    let item = item(first)?;
    let outer = count(&shape[..axis])?;
    let mut out = Vec::with_capacity(count(&shape)? * item);
    for row in 0..outer {
        for part in parts {
            let bytes = part.bytes().len() / outer;
            out.extend_from_slice(&part.bytes()[row * bytes..(row + 1) * bytes]);
        }
    }
    literal(first.dtype(), shape, out)
}

pub(super) fn slice(x: &Literal, begin: &[i64], extent: &[i64], step: &[i64]) -> Result<Literal> {
    let rank = x.shape().len();
    let bad = || EvalError::new(format!("slice {begin:?} + {extent:?} by {step:?} of {x:?}"));
    if begin.len() != rank || extent.len() != rank || step.len() != rank {
        return Err(bad());
    }
    let total = count(extent)?;
    let from = strides(x.shape());
    let (mut base, mut steps) = (0i64, vec![]);
    for axis in 0..rank {
        let last = step[axis]
            .checked_mul(extent[axis] - 1)
            .and_then(|d| d.checked_add(begin[axis]))
            .ok_or_else(bad)?;
        let inside = 0..x.shape()[axis];
        if total > 0 && !(inside.contains(&begin[axis]) && inside.contains(&last)) {
            return Err(bad());
        }
        base = base.wrapping_add(begin[axis].wrapping_mul(from[axis]));
        // The step of a single element is never taken and may overflow.
        steps.push(if extent[axis] > 1 { step[axis] * from[axis] } else { 0 });
    }
    let bytes = match total {
        0 => vec![],
        _ => gather_strided(x.bytes(), item(x)?, extent, &steps, base),
    };
    literal(x.dtype(), extent.to_vec(), bytes)
}

/// Returns the input position of element `at` of a padded axis; `None` stands for the fill value.
fn pad_source(mode: PadMode, at: i64, extent: i64) -> Option<i64> {
    match mode {
        _ if (0..extent).contains(&at) => Some(at),
        PadMode::Constant => None,
        PadMode::Edge => Some(at.clamp(0, extent - 1)),
        PadMode::Wrap => Some(at.rem_euclid(extent)),
        PadMode::Reflect if extent == 1 => Some(0),
        PadMode::Reflect => {
            let period = 2 * (extent - 1);
            let at = at.rem_euclid(period);
            Some(at.min(period - at))
        }
    }
}

pub(super) fn pad(
    mode: PadMode,
    x: &Literal,
    fill: Option<&Literal>,
    before: &[i64],
    after: &[i64],
) -> Result<Literal> {
    let rank = x.shape().len();
    let bad = || EvalError::new(format!("pad of {x:?} by {before:?} and {after:?}"));
    if before.len() != rank || after.len() != rank {
        return Err(bad());
    }
    let item = item(x)?;
    let fill = match fill {
        Some(l) if l.dtype() == x.dtype() && l.count() == 1 => l.bytes().to_vec(),
        Some(l) => return Err(EvalError::new(format!("pad of {x:?} with {l:?}"))),
        None => vec![0; item],
    };
    let shape: Option<Vec<i64>> =
        (0..rank).map(|i| x.shape()[i].checked_add(before[i])?.checked_add(after[i])).collect();
    let shape = shape.ok_or_else(bad)?;
    let total = count(&shape)?;
    if mode != PadMode::Constant && total > 0 && x.count() == 0 {
        return Err(bad());
    }
    let from = strides(x.shape());
    let sources: Vec<Vec<Option<i64>>> = (0..rank)
        .map(|axis| {
            (0..shape[axis])
                .map(|i| pad_source(mode, i - before[axis], x.shape()[axis]))
                .map(|s| s.map(|s| s * from[axis]))
                .collect()
        })
        .collect();
    let mut out = Vec::with_capacity(total * item);
    let unit = strides(&shape);
    for flat in 0..total as i64 {
        let source = (0..rank).try_fold(0i64, |sum, axis| {
            Some(sum + sources[axis][(flat / unit[axis] % shape[axis]) as usize]?)
        });
        match source {
            Some(at) => out.extend_from_slice(&x.bytes()[at as usize * item..][..item]),
            None => out.extend_from_slice(&fill),
        }
    }
    literal(x.dtype(), shape, out)
}

pub(super) fn iota(n: i64) -> Result<Literal> {
    count(&[n])?;
    Ok(Literal::from_i64(vec![n], &(0..n).collect::<Vec<_>>()))
}

/// A 1-D int64 tensor of these values.
pub(super) fn dims(values: &[i64]) -> Result<Literal> {
    Ok(Literal::from_i64(vec![values.len() as i64], values))
}

/// The only one of these values as an int64 scalar tensor.
pub(super) fn dim(values: &[i64]) -> Result<Literal> {
    match values {
        [_] => Ok(Literal::from_i64(vec![], values)),
        _ => Err(EvalError::new(format!("a scalar of {} values", values.len()))),
    }
}

/// An int64 scalar tensor.
pub(super) fn scalar_i64(value: i64) -> Literal {
    Literal::from_i64(vec![], &[value])
}

/// The bool scalar tensor `true`.
pub(super) fn scalar_true() -> Literal {
    Literal::new(DType::BOOL, vec![], Arc::new([1u8])).expect("one byte is one bool")
}
