//! Reductions, arg reductions and running sums.

use reflex_graph::{ArgReduceKind, Binary, Op, ReduceKind, ScanKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::dynamic_axis::DynamicAxis;
use super::run_time_axes::SplitAxes;
use super::table::{Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("ArgMax", |cx, call| arg(cx, call, ArgReduceKind::Max)),
    ("ArgMin", |cx, call| arg(cx, call, ArgReduceKind::Min)),
    ("CumProd", |cx, call| scan(cx, call, ScanKind::Prod)),
    ("CumSum", |cx, call| scan(cx, call, ScanKind::Sum)),
    ("ReduceL1", |cx, call| reduce(cx, call, l1)),
    ("ReduceL2", |cx, call| reduce(cx, call, l2)),
    ("ReduceLogSum", |cx, call| reduce(cx, call, log_sum)),
    ("ReduceLogSumExp", |cx, call| reduce(cx, call, log_sum_exp)),
    ("ReduceMax", |cx, call| reduce(cx, call, |cx, r| extreme(cx, r, ReduceKind::Max))),
    ("ReduceMean", |cx, call| reduce(cx, call, mean)),
    ("ReduceMin", |cx, call| reduce(cx, call, |cx, r| extreme(cx, r, ReduceKind::Min))),
    ("ReduceProd", |cx, call| reduce(cx, call, |cx, r| r.apply(cx, ReduceKind::Prod, r.x))),
    ("ReduceSum", |cx, call| reduce(cx, call, |cx, r| r.apply(cx, ReduceKind::Sum, r.x))),
    ("ReduceSumSquare", |cx, call| reduce(cx, call, sum_square)),
];

/// A reduction with its axes resolved.
struct Reduction<'a> {
    x: &'a Tensor,
    axes: Vec<usize>,
    keep_dims: bool,
    /// The size of an axis that is known only at run time: it may be zero.
    dynamic: Option<Expr>,
}

impl Reduction<'_> {
    fn apply(&self, cx: &mut ImportContext, kind: ReduceKind, x: &Tensor) -> Result<Tensor> {
        let result = match self.keep_dims {
            true => cx.reduce_keep_dims(kind, x, &self.axes)?,
            false => cx.reduce(kind, x, &self.axes)?,
        };
        let Some(size) = &self.dynamic else { return Ok(result) };
        if x.dtype() == DType::U64 {
            return Err(unsupported("uint64 along an axis that is data"));
        }
        let empty = cx.binary_num(Binary::Equal, &Tensor::dim(size), 0.0)?;
        let neutral = cx.num(neutral(kind, x.dtype()), x.dtype())?;
        cx.choose(&empty, &neutral, &result)
    }
}

/// The neutral element: the reduction of no elements.
fn neutral(kind: ReduceKind, dtype: DType) -> f64 {
    let bits = i32::from(dtype.bits);
    let (low, high) = match dtype {
        _ if dtype.is_float() => (f64::NEG_INFINITY, f64::INFINITY),
        _ if dtype.is_uint() => (0.0, 2f64.powi(bits) - 1.0),
        // Not exact in f64: the conversion to int64 saturates at the number meant.
        DType::I64 => (-(2f64.powi(63)), 2f64.powi(63)),
        _ => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0),
    };
    match kind {
        ReduceKind::Sum => 0.0,
        ReduceKind::Mean => f64::NAN,
        ReduceKind::Prod => 1.0,
        ReduceKind::Max => low,
        ReduceKind::Min => high,
    }
}

fn reduce(
    cx: &mut ImportContext,
    call: &Call,
    f: fn(&mut ImportContext, &Reduction) -> Result<Tensor>,
) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let keep_dims = call.flag_or_true("keepdims")?;
    let noop = call.flag("noop_with_empty_axes")?;
    let run_time = call.opt(1)?.filter(|axes| axes.as_ints().is_none());
    if let Some(axes) = run_time.filter(|axes| axes.count() == Some(1) && x.rank() > 1) {
        let split = DynamicAxis::split(cx, x, axes)?;
        let dynamic = Some(split.flat.shape()[1].clone());
        let r = Reduction { x: &split.flat, axes: vec![1], keep_dims: false, dynamic };
        let result = f(cx, &r)?;
        return one(match keep_dims {
            true => split.kept(cx, &result)?,
            false => split.removed(cx, &result)?,
        });
    }
    if let Some(axes) = run_time.filter(|axes| axes.count().is_some_and(|n| n > 1)) {
        let split = SplitAxes::split(cx, x, axes)?;
        let dynamic = Some(split.flat.shape()[1].clone());
        let r = Reduction { x: &split.flat, axes: vec![1], keep_dims: false, dynamic };
        let result = f(cx, &r)?;
        return one(match keep_dims {
            true => split.ones(cx, &result)?,
            false => split.removed(cx, &result)?,
        });
    }
    let axes = match run_time {
        // Axes known only at run time do not matter where there is one axis, named once.
        Some(axes) if x.rank() == 1 && axes.count() == Some(1) => Some(vec![0]),
        Some(axes) if axes.count() == Some(0) => Some(vec![]),
        _ => call.axes(1, x.rank())?,
    };
    let axes = match axes.filter(|axes| !axes.is_empty()) {
        Some(axes) => axes,
        None if noop => return one(x.clone()),
        None => (0..x.rank()).collect(),
    };
    one(f(cx, &Reduction { x, axes, keep_dims, dynamic: None })?)
}

/// Maximum or minimum; bools are reduced as uint8.
fn extreme(cx: &mut ImportContext, r: &Reduction, kind: ReduceKind) -> Result<Tensor> {
    if r.x.dtype() != DType::BOOL {
        return r.apply(cx, kind, r.x);
    }
    let wide = cx.cast(r.x, DType::U8)?;
    let reduced = r.apply(cx, kind, &wide)?;
    cx.cast(&reduced, DType::BOOL)
}

fn mean(cx: &mut ImportContext, r: &Reduction) -> Result<Tensor> {
    if r.x.dtype().is_float() {
        return r.apply(cx, ReduceKind::Mean, r.x);
    }
    let sum = r.apply(cx, ReduceKind::Sum, r.x)?;
    let count = dims::product(r.axes.iter().map(|axis| &r.x.shape()[*axis]));
    let count = cx.dim_as(&count, r.x.dtype())?;
    cx.div(&sum, &count)
}

fn l1(cx: &mut ImportContext, r: &Reduction) -> Result<Tensor> {
    let magnitude = if r.x.dtype().is_uint() { r.x.clone() } else { cx.unary(Unary::Abs, r.x)? };
    r.apply(cx, ReduceKind::Sum, &magnitude)
}

fn sum_square(cx: &mut ImportContext, r: &Reduction) -> Result<Tensor> {
    let square = cx.mul(r.x, r.x)?;
    r.apply(cx, ReduceKind::Sum, &square)
}

fn l2(cx: &mut ImportContext, r: &Reduction) -> Result<Tensor> {
    let sum = sum_square(cx, r)?;
    if sum.dtype().is_float() {
        return cx.unary(Unary::Sqrt, &sum);
    }
    let wide = cx.cast(&sum, DType::F64)?;
    let root = cx.unary(Unary::Sqrt, &wide)?;
    cx.cast(&root, r.x.dtype())
}

fn log_sum(cx: &mut ImportContext, r: &Reduction) -> Result<Tensor> {
    let sum = r.apply(cx, ReduceKind::Sum, r.x)?;
    cx.unary(Unary::Log, &sum)
}

/// Shifted by the maximum, so that nothing overflows; an infinite maximum is not shifted by.
fn log_sum_exp(cx: &mut ImportContext, r: &Reduction) -> Result<Tensor> {
    let kept =
        Reduction { keep_dims: true, axes: r.axes.clone(), dynamic: r.dynamic.clone(), ..*r };
    let most = kept.apply(cx, ReduceKind::Max, r.x)?;
    let infinite = cx.unary(Unary::IsInf, &most)?;
    let zero = cx.num(0.0, r.x.dtype())?;
    let shift = cx.choose(&infinite, &zero, &most)?;
    let shifted = cx.sub(r.x, &shift)?;
    let power = cx.unary(Unary::Exp, &shifted)?;
    let sum = kept.apply(cx, ReduceKind::Sum, &power)?;
    let log = cx.unary(Unary::Log, &sum)?;
    let result = cx.add(&log, &shift)?;
    if r.keep_dims { Ok(result) } else { cx.squeeze(&result, &r.axes) }
}

fn arg(cx: &mut ImportContext, call: &Call, kind: ArgReduceKind) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axis = call.axis("axis", 0, x.rank())?;
    let keep_dims = call.flag_or_true("keepdims")?;
    let select_last = call.flag("select_last_index")?;
    one(cx.op(Op::ArgReduce { kind, axis, keep_dims, select_last }, &[x])?)
}

fn scan(cx: &mut ImportContext, call: &Call, kind: ScanKind) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let exclusive = call.flag("exclusive")?;
    let reverse = call.flag("reverse")?;
    let given = call.input(1)?;
    let along = match given.as_ints() {
        Some(values) => axis(values.first().copied().unwrap_or(0), x.rank())?,
        None if x.rank() == 1 => 0,
        None => {
            let split = DynamicAxis::split(cx, x, given)?;
            let sums = cx.op(Op::Scan { kind, axis: 1, exclusive, reverse }, &[&split.flat])?;
            return one(cx.reshape(&sums, x.shape())?);
        }
    };
    one(cx.op(Op::Scan { kind, axis: along, exclusive, reverse }, &[x])?)
}

/// The mean of `x` over axes, which are kept.
pub(super) fn mean_of(cx: &mut ImportContext, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    cx.reduce_keep_dims(ReduceKind::Mean, x, axes)
}

/// Mean and `1 / sqrt(variance + epsilon)` over axes, which are kept, and the centred `x`.
pub(super) fn moments(
    cx: &mut ImportContext,
    x: &Tensor,
    axes: &[usize],
    epsilon: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let mean = mean_of(cx, x, axes)?;
    let centred = cx.sub(x, &mean)?;
    let square = cx.mul(&centred, &centred)?;
    let variance = mean_of(cx, &square, axes)?;
    let raised = cx.binary_num(Binary::Add, &variance, epsilon)?;
    let deviation = cx.unary(Unary::Sqrt, &raised)?;
    let inverse = cx.unary(Unary::Reciprocal, &deviation)?;
    Ok((mean, inverse, centred))
}
