//! Axes, steps and extents that are data: what they mean is computed by integer operators on small
//! tensors, and read as symbolic dimensions.

use reflex_graph::{
    Binary, Op, OutOfRange, ReduceKind, ScanKind, ScatterKind, ScatterReduce, Unary, dims,
};
use reflex_tir::{DType, Expr};

use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::Tensor;

/// Axes as data, from the end when negative; the run checks that each is below `rank`.
pub(super) fn axes_below(cx: &mut ImportContext, axes: &Tensor, rank: i64) -> Result<Tensor> {
    if axes.rank() != 1 || axes.count().is_none() {
        return Err(unsupported(format!("axes of type {}", axes.ty)));
    }
    let axes = cx.cast(axes, DType::I64)?;
    let zero = Tensor::dim(&Expr::i64(0));
    let negative = cx.binary(Binary::Less, &axes, &zero)?;
    let wrapped = cx.binary_num(Binary::Add, &axes, rank as f64)?;
    let axes = cx.choose(&negative, &wrapped, &axes)?;
    let inside = cx.binary_num(Binary::Max, &axes, 0.0)?;
    let inside = cx.binary_num(Binary::Min, &inside, (rank - 1) as f64)?;
    let known = cx.dims_of(&inside, "axis")?;
    cx.check_elements(&axes, &known)?;
    Ok(Tensor::dims(&known))
}

/// `rest` with `values` at the positions `at`.
pub(super) fn put(
    cx: &mut ImportContext,
    rest: &Tensor,
    at: &Tensor,
    values: &Tensor,
) -> Result<Tensor> {
    let scatter = Op::Scatter {
        kind: ScatterKind::Elements(0),
        reduce: ScatterReduce::Replace,
        out_of_range: OutOfRange::Clamp,
    };
    cx.op(scatter, &[rest, at, values])
}

/// 1 at `axes`, 0 elsewhere below `rank`; the run checks that no axis is named twice.
fn marked(cx: &mut ImportContext, axes: &Tensor, rank: i64) -> Result<Tensor> {
    let zeros = cx.ints(&vec![0; usize::try_from(rank).unwrap_or(0)]);
    let count = axes.count().unwrap_or(0);
    let ones = cx.ints(&vec![1; count]);
    let marks = put(cx, &zeros, axes, &ones)?;
    let sum = cx.reduce(ReduceKind::Sum, &marks, &[0])?;
    let sum = cx.reshape(&sum, &[Expr::i64(1)])?;
    cx.check_elements(&sum, &[Expr::i64(count as i64)])?;
    Ok(marks)
}

/// Elements before each one, itself included, that are 1.
fn counted(cx: &mut ImportContext, marks: &Tensor) -> Result<Tensor> {
    cx.op(Op::Scan { kind: ScanKind::Sum, axis: 0, exclusive: false, reverse: false }, &[marks])
}

/// `1 - x`
fn opposite(cx: &mut ImportContext, marks: &Tensor) -> Result<Tensor> {
    let one = Tensor::dim(&Expr::i64(1));
    cx.sub(&one, marks)
}

/// Dimensions of size 1 at the axes of the result.
pub(super) fn unsqueeze(cx: &mut ImportContext, x: &Tensor, axes: &Tensor) -> Result<Tensor> {
    let rank = (x.rank() + axes.count().unwrap_or(0)) as i64;
    let axes = axes_below(cx, axes, rank)?;
    let new = marked(cx, &axes, rank)?;
    let old = opposite(cx, &new)?;
    // The dimension of an old axis comes after as many as there are old ones up to it.
    let source = counted(cx, &old)?;
    let dims = Tensor::dims(&[&[Expr::i64(1)], x.shape()].concat());
    let dims = cx.take(&dims, &source, 0)?;
    let zero = Tensor::dim(&Expr::i64(0));
    let is_new = cx.binary(Binary::NotEqual, &new, &zero)?;
    let one = Tensor::dim(&Expr::i64(1));
    let shape = cx.choose(&is_new, &one, &dims)?;
    let shape = cx.dims_of(&shape, "unsqueezed")?;
    cx.reshape(x, &shape)
}

/// A tensor whose axes are split by data into kept and other ones.
pub(super) struct SplitAxes {
    /// The tensor as `[kept, others]`.
    pub flat: Tensor,
    dims: Tensor,
    /// 1 for each of the others.
    others: Tensor,
    /// Kept axes, then the others.
    order: Tensor,
    kept: i64,
}

impl SplitAxes {
    /// Brings the axes to the end.
    pub fn split(cx: &mut ImportContext, x: &Tensor, axes: &Tensor) -> Result<SplitAxes> {
        let rank = x.rank() as i64;
        let kept = rank - axes.count().unwrap_or(0) as i64;
        if kept < 0 {
            return Err(invalid(format!("axes {} of {}", axes.ty, x.ty)));
        }
        let axes = axes_below(cx, axes, rank)?;
        let others = marked(cx, &axes, rank)?;
        let own = opposite(cx, &others)?;
        let (before, among) = (counted(cx, &own)?, counted(cx, &others)?);
        let before = cx.binary_num(Binary::Sub, &before, 1.0)?;
        let among = cx.binary_num(Binary::Add, &among, (kept - 1) as f64)?;
        let zero = Tensor::dim(&Expr::i64(0));
        let is_other = cx.binary(Binary::NotEqual, &others, &zero)?;
        let place = cx.choose(&is_other, &among, &before)?;
        let positions = cx.ints(&(0..rank).collect::<Vec<i64>>());
        let order = put(cx, &positions, &place, &positions)?;
        let dims = Tensor::dims(x.shape());
        let flat = permuted(cx, x, &dims, &order, kept)?;
        Ok(SplitAxes { flat, dims, others, order, kept })
    }

    /// A result `[kept]` in the shape of a reduction that keeps the axes with size 1.
    pub fn ones(&self, cx: &mut ImportContext, result: &Tensor) -> Result<Tensor> {
        let zero = Tensor::dim(&Expr::i64(0));
        let is_other = cx.binary(Binary::NotEqual, &self.others, &zero)?;
        let one = Tensor::dim(&Expr::i64(1));
        let shape = cx.choose(&is_other, &one, &self.dims)?;
        let shape = cx.dims_of(&shape, "reduced")?;
        cx.reshape(result, &shape)
    }

    /// A result `[kept]` in the shape of a reduction that removes the axes.
    pub fn removed(&self, cx: &mut ImportContext, result: &Tensor) -> Result<Tensor> {
        let own = cx.slice(&self.order, 0, &Expr::i64(0), &Expr::i64(self.kept))?;
        let shape = cx.take(&self.dims, &own, 0)?;
        let shape = cx.dims_of(&shape, "reduced")?;
        cx.reshape(result, &shape)
    }
}

/// `x` transposed by an order that is data, as a matrix whose rows are the first `rows` axes.
fn permuted(
    cx: &mut ImportContext,
    x: &Tensor,
    extents: &Tensor,
    order: &Tensor,
    rows: i64,
) -> Result<Tensor> {
    let rank = x.rank();
    let strides: Vec<Expr> = (0..rank).map(|i| dims::product(&x.shape()[i + 1..])).collect();
    let strides = cx.take(&Tensor::dims(&strides), order, 0)?;
    let extents = cx.take(extents, order, 0)?;
    let extents = cx.dims_of(&extents, "ordered")?;
    let total = dims::product(&extents);
    let (mut rest, mut at) = (cx.iota(&total)?, cx.num(0.0, DType::I64)?);
    for axis in (0..rank).rev() {
        let extent = Tensor::dim(&dims::simplify(&extents[axis].clone().max(1)));
        let index = cx.binary(Binary::FloorMod, &rest, &extent)?;
        rest = cx.div(&rest, &extent)?;
        let stride = cx.slice(&strides, 0, &Expr::i64(axis as i64), &Expr::i64(1))?;
        let part = cx.mul(&index, &stride)?;
        at = cx.add(&at, &part)?;
    }
    let flat = cx.reshape(x, &[dims::product(x.shape())])?;
    let moved = cx.take(&flat, &at, 0)?;
    let (rows, columns) = extents.split_at(usize::try_from(rows).unwrap_or(0));
    cx.reshape(&moved, &[dims::product(rows), dims::product(columns)])
}

/// The operands of a slice as tensors.
pub(super) struct RunTimeSpans<'a> {
    pub starts: &'a Tensor,
    pub ends: &'a Tensor,
    pub axes: Option<&'a Tensor>,
    pub steps: Option<&'a Tensor>,
}

/// A slice whose axes or steps are data: a gather along each axis.
pub(super) fn slice(
    cx: &mut ImportContext,
    x: &Tensor,
    spans: &RunTimeSpans<'_>,
) -> Result<Tensor> {
    let rank = x.rank();
    let starts = cx.cast(spans.starts, DType::I64)?;
    let ends = cx.cast(spans.ends, DType::I64)?;
    let count = starts.count().filter(|n| starts.rank() == 1 && ends.count() == Some(*n));
    let count = count.ok_or_else(|| unsupported("starts and ends of unknown length"))?;
    let steps = match spans.steps {
        Some(steps) => cx.cast(steps, DType::I64)?,
        None => cx.ints(&vec![1; count]),
    };
    let axes = match spans.axes {
        Some(axes) => axes_below(cx, axes, rank as i64)?,
        None => cx.ints(&(0..count as i64).collect::<Vec<i64>>()),
    };
    if axes.count() != Some(count) || steps.count() != Some(count) || count > rank {
        return Err(invalid("starts, ends, axes and steps differ in length"));
    }
    // An axis that is not named is taken whole.
    let all = |value: i64| vec![value; rank];
    let zeros = cx.ints(&all(0));
    let ones = cx.ints(&all(1));
    let far = cx.ints(&all(i64::MAX));
    let starts = put(cx, &zeros, &axes, &starts)?;
    let ends = put(cx, &far, &axes, &ends)?;
    let steps = put(cx, &ones, &axes, &steps)?;
    let mut y = x.clone();
    for axis in 0..rank {
        let mut scalars = vec![];
        for list in [&starts, &ends, &steps] {
            let one = cx.slice(list, 0, &Expr::i64(axis as i64), &Expr::i64(1))?;
            scalars.push(cx.reshape(&one, &[])?);
        }
        let at = span(cx, &scalars[0], &scalars[1], &scalars[2], &x.shape()[axis])?;
        y = cx.take(&y, &at, axis)?;
    }
    Ok(y)
}

/// The positions of a slice of one axis, as NumPy has them.
fn span(
    cx: &mut ImportContext,
    start: &Tensor,
    end: &Tensor,
    step: &Tensor,
    extent: &Expr,
) -> Result<Tensor> {
    let dim = Tensor::dim(extent);
    let zero = Tensor::dim(&Expr::i64(0));
    let last = cx.binary_num(Binary::Sub, &dim, 1.0)?;
    let before = cx.num(-1.0, DType::I64)?;
    let up = cx.binary(Binary::Greater, step, &zero)?;
    let start_low = zero.clone();
    let start_high = cx.choose(&up, &dim, &last)?;
    let end_low = cx.choose(&up, &zero, &before)?;
    let mut bounds = vec![];
    for (given, low, high) in [(start, &start_low, &start_high), (end, &end_low, &start_high)] {
        let negative = cx.binary(Binary::Less, given, &zero)?;
        let shift = cx.choose(&negative, &dim, &zero)?;
        let place = cx.add(given, &shift)?;
        let place = cx.binary(Binary::Min, &place, high)?;
        bounds.push(cx.binary(Binary::Max, &place, low)?);
    }
    let (forward, backward) = (cx.sub(&bounds[1], &bounds[0])?, cx.sub(&bounds[0], &bounds[1])?);
    let way = cx.choose(&up, &forward, &backward)?;
    let size = cx.unary(Unary::Abs, step)?;
    let size = cx.binary_num(Binary::Max, &size, 1.0)?;
    let spare = cx.binary_num(Binary::Sub, &size, 1.0)?;
    let whole = cx.add(&way, &spare)?;
    let whole = cx.binary_num(Binary::Max, &whole, 0.0)?;
    let count = cx.div(&whole, &size)?;
    let count = cx.dims_of(&count, "extent")?[0].clone();
    let index = cx.iota(&count)?;
    let index = cx.mul(&index, step)?;
    cx.add(&bounds[0], &index)
}
