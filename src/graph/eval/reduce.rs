//! Reductions, scans and orderings along axes.

use reflex_tir::DType;

use super::error::{EvalError, Result};
use super::scalar::{Scalar, Scalars, decode, decode_range, each, floats, limits, tensor};
use super::shape::need_axis;
use crate::literal::Literal;
use crate::op::{ArgReduceKind, ReduceKind, ScanKind};
use crate::strides::{broadcast_strides, strides, walk};

/// `shape` with the reduced axes at 1.
fn kept_shape(shape: &[i64], axes: &[usize]) -> Vec<i64> {
    shape.iter().enumerate().map(|(i, d)| if axes.contains(&i) { 1 } else { *d }).collect()
}

/// Elements that are decoded at once: decoded ones take up to 16 times the bytes.
const PIECE: usize = 4096;

fn fold<T: Scalar>(x: &Literal, ones: &[i64], init: T, f: fn(T, T) -> T) -> Result<Vec<T>> {
    let mut out = vec![init; ones.iter().product::<i64>() as usize];
    let (mut piece, mut first, mut refused) = (Vec::<T>::new(), 0, None);
    walk(x.shape(), [&broadcast_strides(ones, x.shape().len())], |flat, [at]| {
        if flat == first + piece.len() && refused.is_none() {
            first = flat;
            match decode_range(x, flat..(flat + PIECE).min(x.count())).map(T::unwrap) {
                Ok(next) => piece = next,
                Err(why) => refused = Some(why),
            }
        }
        if let Some(value) = piece.get(flat - first) {
            out[at as usize] = f(out[at as usize], *value);
        }
    });
    match refused {
        None => Ok(out),
        Some(why) => Err(why),
    }
}

/// Reduces over `axes`, which the result keeps with one element.
pub(super) fn reduce(kind: ReduceKind, x: &Literal, axes: &[usize]) -> Result<Literal> {
    for axis in axes {
        need_axis(*axis, x.shape().len())?;
    }
    let ones = kept_shape(x.shape(), axes);
    let divisor: i64 = axes.iter().map(|a| x.shape()[*a]).product();
    let y = match decode_range(x, 0..0)? {
        Scalars::Float(_) => Scalars::Float(match kind {
            ReduceKind::Sum => fold(x, &ones, 0.0, Scalar::add)?,
            ReduceKind::Prod => fold(x, &ones, 1.0, Scalar::mul)?,
            ReduceKind::Max => fold(x, &ones, f64::NEG_INFINITY, Scalar::max)?,
            ReduceKind::Min => fold(x, &ones, f64::INFINITY, Scalar::min)?,
            ReduceKind::Mean => {
                let mut sum: Vec<f64> = fold(x, &ones, 0.0, Scalar::add)?;
                sum.iter_mut().for_each(|v| *v /= divisor as f64);
                sum
            }
        }),
        Scalars::Int(_) => Scalars::Int(match kind {
            ReduceKind::Sum => fold(x, &ones, 0, Scalar::add)?,
            ReduceKind::Prod => fold(x, &ones, 1, Scalar::mul)?,
            ReduceKind::Max => fold(x, &ones, limits(x.dtype()).0, Scalar::max)?,
            ReduceKind::Min => fold(x, &ones, limits(x.dtype()).1, Scalar::min)?,
            ReduceKind::Mean => {
                let mut sum: Vec<i128> = fold(x, &ones, 0, Scalar::add)?;
                sum.iter_mut().for_each(|v| *v /= i128::from(divisor.max(1)));
                sum
            }
        }),
    };
    tensor(x.dtype(), ones, &y)
}

/// The choice between equal elements.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ties {
    First,
    Last,
}

/// Index of the extreme along `axis`, which the result keeps with one element.
pub(super) fn arg_reduce(
    kind: ArgReduceKind,
    ties: Ties,
    x: &Literal,
    axis: usize,
) -> Result<Literal> {
    need_axis(axis, x.shape().len())?;
    if x.shape()[axis] == 0 {
        return Err(EvalError::new(format!("{kind:?} over the empty axis {axis} of {x:?}")));
    }
    let ones = kept_shape(x.shape(), &[axis]);
    let best = each!(decode(x)?, v => arg_best(kind, ties, &v, x.shape(), axis));
    tensor(DType::I64, ones, &Scalars::Int(best))
}

fn arg_best<T: Scalar>(
    kind: ArgReduceKind,
    ties: Ties,
    x: &[T],
    shape: &[i64],
    axis: usize,
) -> Vec<i128> {
    let step = strides(shape)[axis] as usize;
    let mut out = vec![];
    // Only the first element of each line along the axis starts a search.
    let mut from = strides(shape);
    from[axis] = 0;
    walk(&kept_shape(shape, &[axis]), [&from], |_, [start]| {
        let at = |i: usize| x[start as usize + i * step];
        let mut best = 0;
        for i in 1..shape[axis] as usize {
            let better = match kind {
                ArgReduceKind::Max => at(i) > at(best),
                ArgReduceKind::Min => at(i) < at(best),
            };
            if better || (ties == Ties::Last && at(i) == at(best)) {
                best = i;
            }
        }
        out.push(best as i128);
    });
    out
}

/// Calls `f` with the flat offsets of every line along `axis`.
fn lines(shape: &[i64], axis: usize, mut f: impl FnMut(&[usize])) {
    let step = strides(shape)[axis] as usize;
    walk(&kept_shape(shape, &[axis]), [&strides(shape)], |_, [start]| {
        let line: Vec<usize> =
            (0..shape[axis] as usize).map(|i| start as usize + i * step).collect();
        f(&line);
    });
}

/// Attributes of a running sum or product.
pub(super) struct Scan {
    pub kind: ScanKind,
    pub axis: usize,
    /// Leave the element itself out.
    pub exclusive: bool,
    /// From the end.
    pub reverse: bool,
}

fn running<T: Scalar>(x: &[T], shape: &[i64], attrs: &Scan) -> Vec<T> {
    let mut out = x.to_vec();
    lines(shape, attrs.axis, |line| {
        let mut so_far = match attrs.kind {
            ScanKind::Sum => T::ZERO,
            ScanKind::Prod => T::ONE,
        };
        for i in 0..line.len() {
            let at = line[if attrs.reverse { line.len() - 1 - i } else { i }];
            let next = match attrs.kind {
                ScanKind::Sum => so_far.add(x[at]),
                ScanKind::Prod => so_far.mul(x[at]),
            };
            out[at] = if attrs.exclusive { so_far } else { next };
            so_far = next;
        }
    });
    out
}

pub(super) fn scan(x: &Literal, attrs: &Scan) -> Result<Literal> {
    need_axis(attrs.axis, x.shape().len())?;
    let y = each!(decode(x)?, v => Scalar::wrap(running(&v, x.shape(), attrs)));
    tensor(x.dtype(), x.shape().to_vec(), &y)
}

pub(super) fn softmax(x: &Literal, axis: usize) -> Result<Literal> {
    shifted_exponentials(x, axis, |shifted, sum| shifted.exp() / sum)
}

pub(super) fn log_softmax(x: &Literal, axis: usize) -> Result<Literal> {
    shifted_exponentials(x, axis, |shifted, sum| shifted - sum.ln())
}

/// Calls `f` with every element less the maximum of its line, and the line's sum of exponentials.
fn shifted_exponentials(x: &Literal, axis: usize, f: fn(f64, f64) -> f64) -> Result<Literal> {
    need_axis(axis, x.shape().len())?;
    let mut v = floats(x)?;
    lines(x.shape(), axis, |line| {
        let top = line.iter().fold(f64::NEG_INFINITY, |m, i| Scalar::max(m, v[*i]));
        let sum: f64 = line.iter().map(|i| (v[*i] - top).exp()).sum();
        for i in line {
            v[*i] = f(v[*i] - top, sum);
        }
    });
    tensor(x.dtype(), x.shape().to_vec(), &Scalars::Float(v))
}

pub(super) fn layer_norm(args: &[&Literal], axis: usize, epsilon: f64) -> Result<Literal> {
    let x = args[0];
    need_axis(axis, x.shape().len())?;
    let inner = super::shape::count(&x.shape()[axis..])?;
    let mut v = floats(x)?;
    for line in v.chunks_exact_mut(inner.max(1)) {
        let mean = line.iter().sum::<f64>() / inner as f64;
        let variance = line.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / inner as f64;
        let scale = 1.0 / (variance + epsilon).sqrt();
        line.iter_mut().for_each(|v| *v = (*v - mean) * scale);
    }
    let affine = |f: fn(f64, f64) -> f64, by: &Literal, v: &mut [f64]| -> Result<()> {
        let by = super::movement::broadcast(by, x.shape())?;
        floats(&by)?.iter().zip(v).for_each(|(b, v)| *v = f(*v, *b));
        Ok(())
    };
    affine(|v, s| v * s, args[1], &mut v)?;
    if let Some(bias) = args.get(2) {
        affine(|v, b| v + b, bias, &mut v)?;
    }
    tensor(x.dtype(), x.shape().to_vec(), &Scalars::Float(v))
}

/// Which end of the order comes first.
#[derive(Clone, Copy)]
pub(super) enum TopKOrder {
    Largest,
    Smallest,
}

pub(super) fn top_k(x: &Literal, axis: usize, k: i64, order: TopKOrder) -> Result<Vec<Literal>> {
    need_axis(axis, x.shape().len())?;
    if !(0..=x.shape()[axis]).contains(&k) {
        return Err(EvalError::new(format!("the top {k} along axis {axis} of {x:?}")));
    }
    let mut shape = x.shape().to_vec();
    shape[axis] = k;
    let (values, at) = each!(decode(x)?, v => top_lines(&v, x.shape(), &shape, axis, order));
    Ok(vec![tensor(x.dtype(), shape.clone(), &values)?, tensor(DType::I64, shape, &at)?])
}

/// The order of values, with NaN above all numbers.
fn nan_is_largest<T: Scalar>(a: T, b: T) -> std::cmp::Ordering {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

fn top_lines<T: Scalar>(
    x: &[T],
    shape: &[i64],
    out_shape: &[i64],
    axis: usize,
    top: TopKOrder,
) -> (Scalars, Scalars) {
    let total = out_shape.iter().product::<i64>() as usize;
    let (mut values, mut indices) = (vec![T::ZERO; total], vec![0i128; total]);
    let mut chosen = vec![];
    lines(shape, axis, |line| {
        let mut order: Vec<usize> = (0..line.len()).collect();
        // A stable sort keeps equal elements in index order either way.
        order.sort_by(|a, b| {
            let (a, b) = (x[line[*a]], x[line[*b]]);
            match top {
                TopKOrder::Largest => nan_is_largest(b, a),
                TopKOrder::Smallest => nan_is_largest(a, b),
            }
        });
        chosen.push(order.into_iter().map(|i| (i, x[line[i]])).collect::<Vec<_>>());
    });
    let mut line_number = 0;
    lines(out_shape, axis, |line| {
        for (at, (index, value)) in line.iter().zip(&chosen[line_number]) {
            values[*at] = *value;
            indices[*at] = *index as i128;
        }
        line_number += 1;
    });
    (T::wrap(values), Scalars::Int(indices))
}
