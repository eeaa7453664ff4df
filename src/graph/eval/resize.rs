//! Resampling: interpolation is separable, so each axis is one linear map.

use super::error::{EvalError, Result};
use super::linear::along_axis;
use super::scalar::{Scalars, decode, tensor};
use super::shape::count;
use crate::literal::Literal;
use crate::op::{ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest};

pub(super) fn resize(attrs: &ResizeAttrs, x: &Literal, shape: &[i64]) -> Result<Literal> {
    let rank = x.shape().len();
    let bad = || EvalError::new(format!("resize of {x:?} to {shape:?}"));
    if shape.len() != rank || attrs.scales.as_ref().is_some_and(|s| s.len() != rank) {
        return Err(bad());
    }
    if count(shape)? > 0 && x.count() == 0 {
        return Err(bad());
    }
    let (mut v, ints) = match decode(x)? {
        Scalars::Float(v) => (v, false),
        Scalars::Int(v) => (v.into_iter().map(|v| v as f64).collect(), true),
    };
    let mut now = x.shape().to_vec();
    for axis in 0..rank {
        let (from, to) = (now[axis], shape[axis]);
        let scale = attrs.scales.as_ref().map_or(to as f64 / from as f64, |s| s[axis]);
        if from == to && scale == 1.0 {
            continue;
        }
        let rows: Vec<_> =
            (0..to).map(|i| taps(attrs, source(attrs.coord, i, from, to, scale), from)).collect();
        v = along_axis(&v, &now, axis, &rows);
        now[axis] = to;
    }
    let y = if ints {
        Scalars::Int(v.into_iter().map(|v| v as i128).collect())
    } else {
        Scalars::Float(v)
    };
    tensor(x.dtype(), now, &y)
}

/// The input coordinate of output coordinate `i`.
fn source(coord: ResizeCoord, i: i64, from: i64, to: i64, scale: f64) -> f64 {
    let i = i as f64;
    match coord {
        ResizeCoord::HalfPixel => (i + 0.5) / scale - 0.5,
        ResizeCoord::PytorchHalfPixel if to > 1 => (i + 0.5) / scale - 0.5,
        ResizeCoord::PytorchHalfPixel => 0.0,
        ResizeCoord::AlignCorners if to == 1 => 0.0,
        ResizeCoord::AlignCorners => i * (from - 1) as f64 / (to - 1) as f64,
        ResizeCoord::Asymmetric => i / scale,
    }
}

/// Input positions and weights of one output position; positions outside clamp to the edge.
fn taps(attrs: &ResizeAttrs, at: f64, size: i64) -> Vec<(i64, f64)> {
    let clamp = |i: f64| (i as i64).clamp(0, size - 1);
    match attrs.mode {
        ResizeMode::Nearest(round) => {
            let i = match round {
                ResizeNearest::RoundPreferFloor => (at - 0.5).ceil(),
                ResizeNearest::RoundPreferCeil => (at + 0.5).floor(),
                ResizeNearest::Floor => at.floor(),
                ResizeNearest::Ceil => at.ceil(),
            };
            vec![(clamp(i), 1.0)]
        }
        ResizeMode::Linear => {
            let at = at.clamp(0.0, (size - 1) as f64);
            let low = at.floor();
            vec![(clamp(low), 1.0 - (at - low)), (clamp(low + 1.0), at - low)]
        }
        ResizeMode::Cubic { coefficient, exclude_outside } => {
            let low = at.floor();
            let mut out: Vec<(f64, f64)> = (-1..3)
                .map(|d| (low + f64::from(d), cubic(at - low - f64::from(d), coefficient)))
                .collect();
            if exclude_outside {
                out.retain(|(i, _)| (0.0..size as f64).contains(i));
                let sum: f64 = out.iter().map(|(_, w)| w).sum();
                out.iter_mut().for_each(|(_, w)| *w /= sum);
            }
            out.into_iter().map(|(i, w)| (clamp(i), w)).collect()
        }
    }
}

fn cubic(distance: f64, a: f64) -> f64 {
    let d = distance.abs();
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}
