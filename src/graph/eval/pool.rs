//! Pooling.

use reflex_tir::DType;

use super::error::{EvalError, Result};
use super::scalar::{Scalar, Scalars, decode, each, floats, tensor};
use super::shape::count;
use crate::literal::Literal;
use crate::op::{PoolAttrs, PoolKind};

/// Output size of a pooling along an axis: rounded down, or up without windows that start in the
/// padding.
pub(crate) fn pooled_size(attrs: &PoolAttrs, axis: usize, input: i64) -> i64 {
    let (before, after) = (attrs.pads_begin[axis], attrs.pads_end[axis]);
    let (step, window) = (attrs.strides[axis], attrs.dilations[axis] * (attrs.kernel[axis] - 1));
    let span = input + before + after - window - 1;
    let floor = span.div_euclid(step) + 1;
    if !attrs.ceil || span.rem_euclid(step) == 0 || floor * step >= input + before {
        return floor;
    }
    floor + 1
}

/// The cells of one window along one axis: positions inside, and how many the average with
/// padding counts (cells of the padded input, not those beyond it).
fn cells(attrs: &PoolAttrs, axis: usize, input: i64, at: i64) -> (Vec<i64>, i64) {
    let start = at * attrs.strides[axis] - attrs.pads_begin[axis];
    let all = (0..attrs.kernel[axis]).map(|k| start + k * attrs.dilations[axis]);
    let counted = all.clone().filter(|p| *p < input + attrs.pads_end[axis]).count() as i64;
    (all.filter(|p| (0..input).contains(p)).collect(), counted)
}

/// Flat spatial positions of each window in order, with the counted cells.
fn windows(attrs: &PoolAttrs, input: &[i64], output: &[i64]) -> Vec<(Vec<usize>, i64)> {
    let mut all = vec![(vec![0usize], 1i64)];
    for axis in 0..input.len() {
        let per: Vec<_> = (0..output[axis]).map(|o| cells(attrs, axis, input[axis], o)).collect();
        let mut next = Vec::with_capacity(all.len() * per.len());
        for (base, counted) in &all {
            for (inside, n) in &per {
                let join = |b: &usize| {
                    let row = b * input[axis] as usize;
                    inside.iter().map(move |p| row + *p as usize)
                };
                next.push((base.iter().flat_map(join).collect(), counted * n));
            }
        }
        all = next;
    }
    all
}

pub(super) fn pool(attrs: &PoolAttrs, x: &Literal) -> Result<Vec<Literal>> {
    let spatial = x.shape().len().wrapping_sub(2);
    let lists =
        [&attrs.kernel, &attrs.strides, &attrs.pads_begin, &attrs.pads_end, &attrs.dilations];
    let good = x.shape().len() >= 2
        && lists.iter().all(|l| l.len() == spatial)
        && attrs.strides.iter().chain(&attrs.dilations).chain(&attrs.kernel).all(|v| *v > 0);
    if !good {
        return Err(EvalError::new(format!("pooling of {x:?} with {attrs:?}")));
    }
    let input = &x.shape()[2..];
    let output: Vec<i64> = (0..spatial).map(|i| pooled_size(attrs, i, input[i])).collect();
    let mut shape = x.shape()[..2].to_vec();
    shape.extend_from_slice(&output);
    count(&shape)?;
    let (maps, cells) = (count(&x.shape()[..2])?, count(input)?);
    let windows = windows(attrs, input, &output);
    match attrs.kind {
        PoolKind::Max { indices } => {
            let (values, at) = each!(decode(x)?, v => max(&v, x.dtype(), maps, cells, &windows));
            let mut out = vec![tensor(x.dtype(), shape.clone(), &values)?];
            if indices {
                out.push(tensor(DType::I64, shape, &at)?);
            }
            Ok(out)
        }
        PoolKind::Average { count_pads } => {
            let v = floats(x)?;
            let y = each_window(&v, maps, cells, &windows, |values, counted| {
                let n = if count_pads { counted } else { values.len() as i64 };
                values.iter().sum::<f64>() / n as f64
            });
            Ok(vec![tensor(x.dtype(), shape, &Scalars::Float(y))?])
        }
        PoolKind::Lp(p) => {
            let v = floats(x)?;
            let p = f64::from(p);
            let y = each_window(&v, maps, cells, &windows, |values, _| {
                values.iter().map(|v| v.abs().powf(p)).sum::<f64>().powf(1.0 / p)
            });
            Ok(vec![tensor(x.dtype(), shape, &Scalars::Float(y))?])
        }
    }
}

fn each_window(
    x: &[f64],
    maps: usize,
    cells: usize,
    windows: &[(Vec<usize>, i64)],
    f: impl Fn(&[f64], i64) -> f64,
) -> Vec<f64> {
    (0..maps)
        .flat_map(|map| windows.iter().map(move |w| (map, w)))
        .map(|(map, (at, counted))| {
            let values: Vec<f64> = at.iter().map(|i| x[map * cells + i]).collect();
            f(&values, *counted)
        })
        .collect()
}

fn max<T: Scalar>(
    x: &[T],
    dtype: DType,
    maps: usize,
    cells: usize,
    windows: &[(Vec<usize>, i64)],
) -> (Scalars, Scalars) {
    let (mut values, mut indices) = (vec![], vec![]);
    for map in 0..maps {
        for (window, _) in windows {
            let mut best: Option<(T, usize)> = None;
            for i in window {
                let value = x[map * cells + i];
                if best.is_none_or(|(b, _)| value > b) {
                    best = Some((value, map * cells + i));
                }
            }
            // An empty window gives the least value and no position.
            let least = || (T::lowest(dtype), usize::MAX);
            let (value, at) = best.unwrap_or_else(least);
            values.push(value);
            indices.push(if at == usize::MAX { -1 } else { at as i128 });
        }
    }
    (T::wrap(values), Scalars::Int(indices))
}
