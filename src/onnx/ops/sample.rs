//! Sampling of feature maps at computed positions: the core of GridSample, DeformConv and RoiAlign.
//!
//! A map `[n, c, spatial...]` becomes rows of `c` channels, and each tap of the interpolation is one
//! gather of rows, so that no operator of its own is needed. Positions are computed in float32, or
//! float64 where they are given so.

use reflex_graph::{Binary, GatherKind, Op, OutOfRange, Unary, dims};
use reflex_tir::{DType, Expr};

use crate::context::ImportContext;
use crate::error::Result;
use crate::value::Tensor;

/// The value of positions outside of a map.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Outside {
    /// Zero.
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The map mirrored at its border.
    Reflection,
}

/// The elements that a sample is computed from.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Interpolation {
    /// The nearest one, ties to even.
    Nearest,
    /// Two along each axis.
    Linear,
    /// Four along each axis, by Keys' cubic convolution with `a = -0.75`.
    Cubic,
}

/// The border that positions are reflected at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Corners {
    /// The centres of the outermost elements (`align_corners`).
    Centres,
    /// Their outer edges.
    Edges,
}

/// A way of sampling.
#[derive(Clone, Copy)]
pub(super) struct Sampler {
    pub interpolation: Interpolation,
    pub outside: Outside,
    pub corners: Corners,
}

/// One element of an interpolation along one axis, for `[n, m]` samples.
struct Tap {
    /// int64, within the axis.
    index: Tensor,
    /// Bool: where the element exists; everywhere if absent.
    inside: Option<Tensor>,
    /// 1 if absent.
    weight: Option<Tensor>,
}

/// The type that a map's elements are interpolated in.
pub(super) fn work_type(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

impl Sampler {
    /// Samples `[n, c, m]` of maps `[n, c, spatial...]`. `at` has the positions along each spatial
    /// axis, `[n, m]`, in elements: 0 is the centre of the first one.
    pub fn sample(&self, cx: &mut ImportContext, x: &Tensor, at: &[Tensor]) -> Result<Tensor> {
        let [n, c] = [0, 1].map(|i| x.shape()[i].clone());
        let spatial = &x.shape()[2..];
        let rows = cx.reshape(x, &[n, c, dims::product(spatial)])?;
        let rows = cx.transpose(&rows, &[0, 2, 1])?;
        let mut axes = vec![];
        for (extent, at) in spatial.iter().zip(at) {
            axes.push(self.taps(cx, at, extent)?);
        }
        let zero = Tensor::dim(&Expr::i64(0));
        let sum = blend(cx, &rows, &axes, spatial, &zero, None)?;
        let sum = cx.cast(&sum, x.dtype())?;
        cx.transpose(&sum, &[0, 2, 1])
    }

    fn taps(&self, cx: &mut ImportContext, at: &Tensor, extent: &Expr) -> Result<Vec<Tap>> {
        let nearest = self.interpolation == Interpolation::Nearest;
        let at = if nearest { cx.unary(Unary::Round, at)? } else { at.clone() };
        let at = self.moved_inside(cx, &at, extent)?;
        let base = cx.unary(Unary::Floor, &at)?;
        let (first, weights) = match self.interpolation {
            Interpolation::Nearest => (0, vec![None]),
            Interpolation::Linear => {
                let second = cx.sub(&at, &base)?;
                let one = cx.num(1.0, at.dtype())?;
                (0, vec![Some(cx.sub(&one, &second)?), Some(second)])
            }
            Interpolation::Cubic => {
                let fraction = cx.sub(&at, &base)?;
                (-1, cubic(cx, &fraction)?.into_iter().map(Some).collect())
            }
        };
        let mut taps = vec![];
        for (offset, weight) in weights.into_iter().enumerate() {
            let place = cx.binary_num(Binary::Add, &base, f64::from(first + offset as i32))?;
            taps.push(self.tap(cx, &place, extent, weight)?);
        }
        Ok(taps)
    }

    /// Positions beyond the border where they are taken to be.
    fn moved_inside(&self, cx: &mut ImportContext, at: &Tensor, extent: &Expr) -> Result<Tensor> {
        let (low, high) = self.border(cx, extent, at.dtype())?;
        let moved = match self.outside {
            Outside::Zeros => return Ok(at.clone()),
            Outside::Border => clamped(cx, at, extent)?,
            Outside::Reflection => reflected(cx, at, &low, &high)?,
        };
        let below = cx.binary(Binary::Less, at, &low)?;
        let above = cx.binary(Binary::Greater, at, &high)?;
        let out = cx.binary(Binary::Or, &below, &above)?;
        cx.choose(&out, &moved, at)
    }

    /// The tap at a whole position, which may be outside.
    fn tap(
        &self,
        cx: &mut ImportContext,
        place: &Tensor,
        extent: &Expr,
        weight: Option<Tensor>,
    ) -> Result<Tap> {
        let inside = match self.outside {
            Outside::Zeros => {
                let zero = cx.num(0.0, place.dtype())?;
                let end = cx.dim_as(extent, place.dtype())?;
                let from = cx.binary(Binary::GreaterEqual, place, &zero)?;
                let to = cx.binary(Binary::Less, place, &end)?;
                Some(cx.binary(Binary::And, &from, &to)?)
            }
            Outside::Border | Outside::Reflection => None,
        };
        let place = match self.outside {
            Outside::Reflection => {
                let (low, high) = self.border(cx, extent, place.dtype())?;
                reflected(cx, place, &low, &high)?
            }
            Outside::Zeros | Outside::Border => place.clone(),
        };
        let place = clamped(cx, &place, extent)?;
        Ok(Tap { index: cx.cast(&place, DType::I64)?, inside, weight })
    }

    /// The first and last position that are not outside.
    fn border(
        &self,
        cx: &mut ImportContext,
        extent: &Expr,
        dtype: DType,
    ) -> Result<(Tensor, Tensor)> {
        let margin = if self.corners == Corners::Centres { 0.0 } else { 0.5 };
        let last = cx.dim_as(&(extent.clone() - 1), dtype)?;
        Ok((cx.num(-margin, dtype)?, cx.binary_num(Binary::Add, &last, margin)?))
    }
}

/// `at` within `0..extent`.
fn clamped(cx: &mut ImportContext, at: &Tensor, extent: &Expr) -> Result<Tensor> {
    let last = cx.dim_as(&(extent.clone() - 1), at.dtype())?;
    let at = cx.binary(Binary::Min, at, &last)?;
    cx.binary_num(Binary::Max, &at, 0.0)
}

/// `at` mirrored at `low` and `high` until it is between them.
fn reflected(cx: &mut ImportContext, at: &Tensor, low: &Tensor, high: &Tensor) -> Result<Tensor> {
    let span = cx.sub(high, low)?;
    // An axis of one element has no span between centres.
    let span = cx.binary_num(Binary::Max, &span, 1.0)?;
    let from_low = cx.sub(at, low)?;
    let way = cx.unary(Unary::Abs, &from_low)?;
    let turns = cx.div(&way, &span)?;
    let turns = cx.unary(Unary::Floor, &turns)?;
    let done = cx.mul(&turns, &span)?;
    let rest = cx.sub(&way, &done)?;
    let half = cx.binary_num(Binary::Mul, &turns, 0.5)?;
    let whole = cx.unary(Unary::Floor, &half)?;
    let even = cx.binary(Binary::Equal, &half, &whole)?;
    let upwards = cx.add(low, &rest)?;
    let downwards = cx.sub(high, &rest)?;
    cx.choose(&even, &upwards, &downwards)
}

/// Weights of the four elements around, at `fraction` behind the second.
fn cubic(cx: &mut ImportContext, fraction: &Tensor) -> Result<Vec<Tensor>> {
    const A: f64 = -0.75;
    let one = cx.num(1.0, fraction.dtype())?;
    let two = cx.num(2.0, fraction.dtype())?;
    let back = cx.sub(&one, fraction)?;
    let distances = [cx.add(fraction, &one)?, fraction.clone(), back, cx.sub(&two, fraction)?];
    let far = [A, -5.0 * A, 8.0 * A, -4.0 * A];
    let near = [A + 2.0, -(A + 3.0), 0.0, 1.0];
    let mut weights = vec![];
    for (distance, polynomial) in distances.iter().zip([far, near, near, far]) {
        let mut sum = cx.num(polynomial[0], fraction.dtype())?;
        for coefficient in &polynomial[1..] {
            let product = cx.mul(&sum, distance)?;
            sum = cx.binary_num(Binary::Add, &product, *coefficient)?;
        }
        weights.push(sum);
    }
    Ok(weights)
}

/// The sum over the taps of the first axis of weight times the rest; `index` is that of the axes
/// before, row-major.
fn blend(
    cx: &mut ImportContext,
    rows: &Tensor,
    axes: &[Vec<Tap>],
    extents: &[Expr],
    index: &Tensor,
    inside: Option<&Tensor>,
) -> Result<Tensor> {
    let (Some((taps, axes)), Some((extent, extents))) = (axes.split_first(), extents.split_first())
    else {
        return element(cx, rows, index, inside);
    };
    let mut sum: Option<Tensor> = None;
    for tap in taps {
        let scaled = cx.mul(index, &Tensor::dim(&dims::simplify(extent)))?;
        let index = cx.add(&scaled, &tap.index)?;
        let both = match (inside, &tap.inside) {
            (Some(a), Some(b)) => Some(cx.binary(Binary::And, a, b)?),
            (a, b) => a.or(b.as_ref()).cloned(),
        };
        let mut part = blend(cx, rows, axes, extents, &index, both.as_ref())?;
        if let Some(weight) = &tap.weight {
            let work = work_type(part.dtype());
            part = cx.cast(&part, work)?;
            let weight = cx.cast(weight, work)?;
            let weight = cx.unsqueeze(&weight, &[2])?;
            part = cx.mul(&part, &weight)?;
        }
        sum = Some(match sum {
            Some(sum) => cx.add(&sum, &part)?,
            None => part,
        });
    }
    Ok(sum.expect("an axis has a tap"))
}

/// The rows `[n, m, c]` at `index`, zero outside.
fn element(
    cx: &mut ImportContext,
    rows: &Tensor,
    index: &Tensor,
    inside: Option<&Tensor>,
) -> Result<Tensor> {
    let at = cx.unsqueeze(index, &[2])?;
    let kind = GatherKind::Nd { batch_dims: 1 };
    let found = cx.op(Op::Gather { kind, out_of_range: OutOfRange::Clamp }, &[rows, &at])?;
    let Some(inside) = inside else { return Ok(found) };
    let inside = cx.unsqueeze(inside, &[2])?;
    let zero = cx.num(0.0, found.dtype())?;
    cx.choose(&inside, &found, &zero)
}
