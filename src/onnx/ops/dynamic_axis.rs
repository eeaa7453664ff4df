//! Operators along an axis that is known only at run time: the tensor is split into `[outer, axis,
//! inner]`, with dimensions read at run time.

use reflex_graph::{Binary, ReduceKind};
use reflex_tir::{DType, Expr};

use crate::context::ImportContext;
use crate::error::Result;
use crate::value::Tensor;

/// A tensor split at a run-time axis.
pub(super) struct DynamicAxis {
    /// The tensor as `[outer, axis, inner]`.
    pub flat: Tensor,
    /// The tensor's own shape.
    dims: Tensor,
    /// The axis, checked and not negative: int64 scalar.
    axis: Tensor,
}

impl DynamicAxis {
    /// Splits `x` at the axis that is the only element of `axis`.
    pub fn split(cx: &mut ImportContext, x: &Tensor, axis: &Tensor) -> Result<DynamicAxis> {
        let rank = x.rank() as i64;
        let axis = axis_below(cx, axis, rank)?;
        let dims = Tensor::dims(x.shape());
        let positions = cx.ints(&(0..rank).collect::<Vec<i64>>());
        let (zero, one) = (Tensor::dim(&Expr::i64(0)), Tensor::dim(&Expr::i64(1)));
        let mut flat = vec![];
        let parts = [
            (Binary::Less, &one, ReduceKind::Prod),
            (Binary::Equal, &zero, ReduceKind::Sum),
            (Binary::Greater, &one, ReduceKind::Prod),
        ];
        for (side, neutral, kind) in parts {
            let inside = cx.binary(side, &positions, &axis)?;
            let kept = cx.choose(&inside, &dims, neutral)?;
            let extent = cx.reduce(kind, &kept, &[0])?;
            flat.push(cx.dims_of(&extent, "around")?[0].clone());
        }
        let flat = cx.reshape(x, &flat)?;
        Ok(DynamicAxis { flat, dims, axis })
    }

    /// A result `[outer, inner]` in the shape of a reduction that keeps the axis with size 1.
    pub fn kept(&self, cx: &mut ImportContext, result: &Tensor) -> Result<Tensor> {
        let positions = cx.ints(&(0..self.rank()).collect::<Vec<i64>>());
        let at = cx.binary(Binary::Equal, &positions, &self.axis)?;
        let one = Tensor::dim(&Expr::i64(1));
        let shape = cx.choose(&at, &one, &self.dims)?;
        reduced(cx, result, &shape)
    }

    /// A result `[outer, inner]` in the shape of a reduction that removes the axis.
    pub fn removed(&self, cx: &mut ImportContext, result: &Tensor) -> Result<Tensor> {
        // Positions from the axis on come from one further.
        let positions = cx.ints(&(0..self.rank() - 1).collect::<Vec<i64>>());
        let after = cx.binary(Binary::GreaterEqual, &positions, &self.axis)?;
        let after = cx.cast(&after, DType::I64)?;
        let source = cx.add(&positions, &after)?;
        let shape = cx.take(&self.dims, &source, 0)?;
        reduced(cx, result, &shape)
    }

    /// A result `[outer, extent, inner...]` in the tensor's shape with this extent at the axis, and
    /// another one at the last.
    pub fn replaced(
        &self,
        cx: &mut ImportContext,
        result: &Tensor,
        extent: &Expr,
        last: &Expr,
    ) -> Result<Tensor> {
        let positions = cx.ints(&(0..self.rank()).collect::<Vec<i64>>());
        let at = cx.binary(Binary::Equal, &positions, &self.axis)?;
        let shape = cx.choose(&at, &Tensor::dim(extent), &self.dims)?;
        let shape = cx.slice(&shape, 0, &Expr::i64(0), &Expr::i64(self.rank() - 1))?;
        let shape = cx.concat(&[shape, Tensor::dims(std::slice::from_ref(last))], 0)?;
        reduced(cx, result, &shape)
    }

    fn rank(&self) -> i64 {
        self.dims.count().unwrap_or(0) as i64
    }
}

/// An axis as data, from the end when negative; the run checks that it is below `rank`.
pub(super) fn axis_below(cx: &mut ImportContext, axis: &Tensor, rank: i64) -> Result<Tensor> {
    let axis = cx.cast(axis, DType::I64)?;
    let axis = cx.reshape(&axis, &[])?;
    let zero = Tensor::dim(&Expr::i64(0));
    let negative = cx.binary(Binary::Less, &axis, &zero)?;
    let wrapped = cx.binary_num(Binary::Add, &axis, rank as f64)?;
    let axis = cx.choose(&negative, &wrapped, &axis)?;
    let inside = cx.binary_num(Binary::Max, &axis, 0.0)?;
    let inside = cx.binary_num(Binary::Min, &inside, (rank - 1) as f64)?;
    let known = cx.dims_of(&inside, "axis")?;
    cx.check_elements(&axis, &known)?;
    Ok(Tensor::dim(&known[0]))
}

fn reduced(cx: &mut ImportContext, result: &Tensor, shape: &Tensor) -> Result<Tensor> {
    let shape = cx.dims_of(shape, "reduced")?;
    cx.reshape(result, &shape)
}

/// A dimension of size 1 inserted at a run-time axis of the result.
pub(super) fn unsqueeze(cx: &mut ImportContext, x: &Tensor, axis: &Tensor) -> Result<Tensor> {
    let rank = x.rank() as i64 + 1;
    let axis = axis_below(cx, axis, rank)?;
    let dims = Tensor::dims(&[&[Expr::i64(1)], x.shape()].concat());
    let positions = cx.ints(&(0..rank).collect::<Vec<i64>>());
    // Before the axis dimension `i`, at it the added 1, after it dimension `i - 1`.
    let before = cx.binary(Binary::Less, &positions, &axis)?;
    let at = cx.binary(Binary::Equal, &positions, &axis)?;
    let next = cx.binary_num(Binary::Add, &positions, 1.0)?;
    let source = cx.choose(&before, &next, &positions)?;
    let zero = Tensor::dim(&Expr::i64(0));
    let source = cx.choose(&at, &zero, &source)?;
    let last = cx.ints(&[rank - 1]);
    let source = cx.binary(Binary::Min, &source, &last)?;
    let shape = cx.take(&dims, &source, 0)?;
    let shape = cx.dims_of(&shape, "unsqueezed")?;
    cx.reshape(x, &shape)
}
