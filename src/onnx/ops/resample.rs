//! Resampling whose scales, regions or filters the graph's `Resize` does not have: axis by axis, a
//! gather of the elements that each output reads and their weighted sum.
//!
//! Coordinates are float64, as in ONNX's reference. With antialiasing the filter is stretched by the
//! scale, as its definition says (Pillow's resizing is the model of it).

use reflex_graph::{Binary, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::sample::work_type;
use crate::context::ImportContext;
use crate::error::Result;
use crate::value::Tensor;

/// The elements that an output is made of.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Filter {
    /// One, chosen by a rounding.
    Nearest(Rounding),
    /// Two, or more with antialiasing.
    Linear,
    /// Four, or more with antialiasing; coefficient `a`.
    Cubic(f64),
}

/// Rounding of nearest coordinates.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

/// Coordinate transformations.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    /// A region; outside of the input the value is this.
    CropAndResize(f64),
}

/// A resampling, the same on every axis.
#[derive(Clone, Copy)]
pub(super) struct Resampling {
    pub filter: Filter,
    pub coordinates: Coordinates,
    pub antialias: bool,
    pub exclude_outside: bool,
}

/// The resampling of one axis.
pub(super) struct ResizedAxis {
    pub axis: usize,
    /// Output over input size: float64 scalar.
    pub scale: Tensor,
    /// Output size.
    pub extent: Expr,
    /// Start and end of the region, 0 to 1: float64 scalars.
    pub region: Option<[Tensor; 2]>,
}

impl Resampling {
    /// `x` resampled on some axes.
    pub fn apply(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        axes: &[ResizedAxis],
    ) -> Result<Tensor> {
        let mut y = x.clone();
        if !matches!(self.filter, Filter::Nearest(_)) {
            y = cx.cast(&y, work_type(x.dtype()))?;
        }
        for axis in axes {
            y = self.along(cx, &y, axis)?;
        }
        cx.cast(&y, x.dtype())
    }

    fn along(&self, cx: &mut ImportContext, x: &Tensor, axis: &ResizedAxis) -> Result<Tensor> {
        let from = x.shape()[axis.axis].clone();
        let at = self.source(cx, axis, &from)?;
        let y = match self.filter {
            Filter::Nearest(rounding) => {
                let at = rounded(cx, &at, rounding)?;
                let at = within(cx, &at, &from)?;
                cx.take(x, &at, axis.axis)?
            }
            Filter::Linear | Filter::Cubic(_) => self.filtered(cx, x, axis, &at, &from)?,
        };
        let Coordinates::CropAndResize(value) = self.coordinates else { return Ok(y) };
        let zero = cx.num(0.0, DType::F64)?;
        let last = cx.dim_as(&(from - 1), DType::F64)?;
        let below = cx.binary(Binary::Less, &at, &zero)?;
        let above = cx.binary(Binary::Greater, &at, &last)?;
        let outside = cx.binary(Binary::Or, &below, &above)?;
        let mut shape = vec![Expr::i64(1); y.rank()];
        shape[axis.axis] = axis.extent.clone();
        let outside = cx.reshape(&outside, &shape)?;
        let value = cx.num(value, y.dtype())?;
        cx.choose(&outside, &value, &y)
    }

    /// The coordinate in the input of each output.
    fn source(&self, cx: &mut ImportContext, axis: &ResizedAxis, from: &Expr) -> Result<Tensor> {
        let place = cx.iota(&axis.extent)?;
        let place = cx.cast(&place, DType::F64)?;
        let size = cx.dim_as(from, DType::F64)?;
        let last = cx.binary_num(Binary::Sub, &size, 1.0)?;
        let one = cx.num(1.0, DType::F64)?;
        // The output size before it was made whole.
        let length = cx.mul(&axis.scale, &size)?;
        let single = cx.binary(Binary::Equal, &length, &one)?;
        let spans = cx.sub(&length, &one)?;
        let spans = cx.choose(&single, &one, &spans)?;
        let half = cx.binary_num(Binary::Add, &place, 0.5)?;
        let half = cx.div(&half, &axis.scale)?;
        let half = cx.binary_num(Binary::Sub, &half, 0.5)?;
        let zero = cx.num(0.0, DType::F64)?;
        match self.coordinates {
            Coordinates::HalfPixel => Ok(half),
            Coordinates::Asymmetric => cx.div(&place, &axis.scale),
            Coordinates::HalfPixelSymmetric => {
                let extent = cx.dim_as(&axis.extent, DType::F64)?;
                let part = cx.div(&extent, &length)?;
                let rest = cx.sub(&one, &part)?;
                let centre = cx.binary_num(Binary::Mul, &size, 0.5)?;
                let offset = cx.mul(&centre, &rest)?;
                cx.add(&offset, &half)
            }
            Coordinates::PytorchHalfPixel => {
                let many =
                    cx.num(f64::from(u8::from(axis.extent.as_int() != Some(1))), DType::BOOL)?;
                cx.choose(&many, &half, &zero)
            }
            Coordinates::AlignCorners => {
                let way = cx.mul(&place, &last)?;
                let at = cx.div(&way, &spans)?;
                cx.choose(&single, &zero, &at)
            }
            Coordinates::CropAndResize(_) => {
                let whole = [zero.clone(), one.clone()];
                let [start, end] = axis.region.as_ref().unwrap_or(&whole);
                let part = cx.sub(end, start)?;
                let way = cx.mul(&part, &last)?;
                let middle = cx.binary_num(Binary::Mul, &way, 0.5)?;
                let way = cx.mul(&place, &way)?;
                let at = cx.div(&way, &spans)?;
                let at = cx.choose(&single, &middle, &at)?;
                let first = cx.mul(start, &last)?;
                cx.add(&at, &first)
            }
        }
    }

    /// The weighted sums of the elements around each coordinate.
    fn filtered(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        axis: &ResizedAxis,
        at: &Tensor,
        from: &Expr,
    ) -> Result<Tensor> {
        let radius = if self.filter == Filter::Linear { 1.0 } else { 2.0 };
        let one = cx.num(1.0, DType::F64)?;
        let stretch = match self.antialias {
            true => cx.binary(Binary::Min, &axis.scale, &one)?,
            false => one.clone(),
        };
        let reach = cx.num(radius, DType::F64)?;
        let reach = cx.div(&reach, &stretch)?;
        let reach = cx.unary(Unary::Ceil, &reach)?;
        let reach = cx.cast(&reach, DType::I64)?;
        let reach = cx.dims_of(&reach, "reach")?[0].clone();
        let taps = cx.iota(&dims::simplify(&(reach.clone() * 2)))?;
        let taps = cx.add(&taps, &Tensor::dim(&dims::simplify(&(Expr::i64(1) - reach))))?;
        let taps = cx.cast(&taps, DType::F64)?;
        let at = cx.unsqueeze(at, &[1])?;
        let floor = cx.unary(Unary::Floor, &at)?;
        let place = cx.add(&floor, &taps)?;
        let distance = cx.sub(&place, &at)?;
        let distance = cx.unary(Unary::Abs, &distance)?;
        let distance = cx.mul(&distance, &stretch)?;
        let mut weight = self.weight(cx, &distance)?;
        let zero = cx.num(0.0, DType::F64)?;
        if self.exclude_outside {
            let end = cx.dim_as(from, DType::F64)?;
            let not_before = cx.binary(Binary::GreaterEqual, &place, &zero)?;
            let not_behind = cx.binary(Binary::Less, &place, &end)?;
            let inside = cx.binary(Binary::And, &not_before, &not_behind)?;
            weight = cx.choose(&inside, &weight, &zero)?;
        }
        if self.exclude_outside || self.antialias {
            let sum = cx.reduce_keep_dims(ReduceKind::Sum, &weight, &[1])?;
            let none = cx.binary(Binary::Equal, &sum, &zero)?;
            let sum = cx.choose(&none, &one, &sum)?;
            weight = cx.div(&weight, &sum)?;
        }
        let place = within(cx, &place, from)?;
        let elements = cx.take(x, &place, axis.axis)?;
        let mut shape = vec![Expr::i64(1); elements.rank()];
        shape[axis.axis..axis.axis + 2].clone_from_slice(weight.shape());
        let weight = cx.cast(&weight, x.dtype())?;
        let weight = cx.reshape(&weight, &shape)?;
        let products = cx.mul(&elements, &weight)?;
        cx.reduce(ReduceKind::Sum, &products, &[axis.axis + 1])
    }

    /// The filter at a distance.
    fn weight(&self, cx: &mut ImportContext, distance: &Tensor) -> Result<Tensor> {
        let zero = cx.num(0.0, DType::F64)?;
        let one = cx.num(1.0, DType::F64)?;
        let Filter::Cubic(a) = self.filter else {
            let line = cx.sub(&one, distance)?;
            return cx.binary(Binary::Max, &line, &zero);
        };
        let mut polynomials = vec![];
        for coefficients in [[a + 2.0, -(a + 3.0), 0.0, 1.0], [a, -5.0 * a, 8.0 * a, -4.0 * a]] {
            let mut sum = cx.num(coefficients[0], DType::F64)?;
            for coefficient in &coefficients[1..] {
                let product = cx.mul(&sum, distance)?;
                sum = cx.binary_num(Binary::Add, &product, *coefficient)?;
            }
            polynomials.push(sum);
        }
        let two = cx.num(2.0, DType::F64)?;
        let near = cx.binary(Binary::LessEqual, distance, &one)?;
        let reached = cx.binary(Binary::Less, distance, &two)?;
        let outer = cx.choose(&reached, &polynomials[1], &zero)?;
        cx.choose(&near, &polynomials[0], &outer)
    }
}

/// Coordinates as positions, int64, within an axis.
fn within(cx: &mut ImportContext, at: &Tensor, extent: &Expr) -> Result<Tensor> {
    let last = cx.dim_as(&(extent.clone() - 1), at.dtype())?;
    let at = cx.binary(Binary::Min, at, &last)?;
    let at = cx.binary_num(Binary::Max, &at, 0.0)?;
    cx.cast(&at, DType::I64)
}

fn rounded(cx: &mut ImportContext, at: &Tensor, rounding: Rounding) -> Result<Tensor> {
    match rounding {
        Rounding::Floor => cx.unary(Unary::Floor, at),
        Rounding::Ceil => cx.unary(Unary::Ceil, at),
        Rounding::PreferFloor => {
            let less = cx.binary_num(Binary::Sub, at, 0.5)?;
            cx.unary(Unary::Ceil, &less)
        }
        Rounding::PreferCeil => {
            let more = cx.binary_num(Binary::Add, at, 0.5)?;
            cx.unary(Unary::Floor, &more)
        }
    }
}
