//! Operators from quantised inputs to a quantised output: dequantise, compute in float32,
//! quantise.

use reflex_graph::{Op, PoolKind, ReduceKind, Unary, dims};
use reflex_tir::DType;

use super::quant::{channels_first, channels_last};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::ops::activation::{leaky, softmax_of};
use crate::ops::quant::rounded;
use crate::ops::spatial::pool;
use crate::ops::table::{Table, one};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("QLinearAdd", |cx, call| binary(cx, call, |cx, a, b| cx.add(a, b))),
    ("QLinearAveragePool", average_pool),
    ("QLinearConcat", concat),
    ("QLinearGlobalAveragePool", global_average_pool),
    ("QLinearLeakyRelu", |cx, call| {
        let alpha = call.float("alpha", 0.01)?;
        unary(cx, call, |cx, x| leaky(cx, x, alpha))
    }),
    ("QLinearMul", |cx, call| binary(cx, call, |cx, a, b| cx.mul(a, b))),
    ("QLinearReduceMean", reduce_mean),
    ("QLinearSigmoid", |cx, call| unary(cx, call, |cx, x| cx.unary(Unary::Sigmoid, x))),
    ("QLinearSoftmax", softmax),
    ("QLinearWhere", select),
];

/// The float32 value of the inputs `at` (elements), `at + 1` (scale) and `at + 2` (zero point).
fn value(cx: &mut ImportContext, call: &Call, at: usize) -> Result<Tensor> {
    let x = call.input(at)?;
    let mut wide = cx.cast(x, DType::I32)?;
    if let Some(zero) = call.opt(at + 2)? {
        let zero = scalar(cx, zero)?;
        let zero = cx.cast(&zero, DType::I32)?;
        wide = cx.sub(&wide, &zero)?;
    }
    let scale = scalar(cx, call.input(at + 1)?)?;
    let steps = cx.cast(&wide, DType::F32)?;
    cx.mul(&steps, &scale)
}

fn scalar(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    match x.count() {
        Some(1) => cx.reshape(x, &[]),
        _ => Err(invalid(format!("a scale or zero point of type {}", x.ty))),
    }
}

/// `y` in the scale of input `at` and the zero point after it, as `to`.
fn quantized(
    cx: &mut ImportContext,
    call: &Call,
    y: &Tensor,
    at: usize,
    to: DType,
) -> Result<Tensor> {
    let scale = scalar(cx, call.input(at)?)?;
    let steps = cx.div(y, &scale)?;
    let zero = match call.opt(at + 1)? {
        Some(zero) => Some(scalar(cx, zero)?),
        None => None,
    };
    rounded(cx, &steps, zero.as_ref(), to)
}

fn unary(
    cx: &mut ImportContext,
    call: &Call,
    f: impl FnOnce(&mut ImportContext, &Tensor) -> Result<Tensor>,
) -> Result<Vec<OnnxValue>> {
    let x = value(cx, call, 0)?;
    let y = f(cx, &x)?;
    one(quantized(cx, call, &y, 3, call.input(0)?.dtype())?)
}

fn binary(
    cx: &mut ImportContext,
    call: &Call,
    f: impl FnOnce(&mut ImportContext, &Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Vec<OnnxValue>> {
    let (a, b) = (value(cx, call, 0)?, value(cx, call, 3)?);
    let y = f(cx, &a, &b)?;
    one(quantized(cx, call, &y, 6, call.input(0)?.dtype())?)
}

fn select(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, y) = (value(cx, call, 1)?, value(cx, call, 4)?);
    let chosen = cx.choose(call.input(0)?, &x, &y)?;
    one(quantized(cx, call, &chosen, 7, call.input(1)?.dtype())?)
}

fn concat(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let count = call.inputs.len().saturating_sub(2);
    if count == 0 || !count.is_multiple_of(3) {
        return Err(invalid(format!("{count} inputs, not three for each tensor")));
    }
    let mut parts = vec![];
    for index in 0..count / 3 {
        parts.push(value(cx, call, 2 + 3 * index)?);
    }
    let along = call.axis("axis", 0, parts[0].rank())?;
    let joined = cx.concat(&parts, along)?;
    one(quantized(cx, call, &joined, 0, call.input(2)?.dtype())?)
}

fn softmax(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let flattens = call.int("opset", 13)? < 13;
    let given = call.int("axis", if flattens { 1 } else { -1 })?;
    unary(cx, call, |cx, x| {
        let at = axis(given, x.rank())?;
        if !flattens {
            return softmax_of(cx, x, at);
        }
        let (before, after) = x.shape().split_at(at);
        let flat = cx.reshape(x, &[dims::product(before), dims::product(after)])?;
        let soft = softmax_of(cx, &flat, 1)?;
        cx.reshape(&soft, x.shape())
    })
}

/// Runs `f` on `x` with its channels second, where the attribute says that they are last.
fn spatial(
    cx: &mut ImportContext,
    call: &Call,
    f: impl FnOnce(&mut ImportContext, &Tensor) -> Result<Tensor>,
) -> Result<Vec<OnnxValue>> {
    let last = call.flag("channels_last")?;
    unary(cx, call, |cx, x| {
        if !last {
            return f(cx, x);
        }
        let moved = channels_first(cx, x)?;
        let y = f(cx, &moved)?;
        channels_last(cx, &y)
    })
}

fn average_pool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let count_pads = call.flag("count_include_pad")?;
    spatial(cx, call, |cx, x| Ok(pool(cx, call, x, PoolKind::Average { count_pads })?.remove(0)))
}

fn global_average_pool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    spatial(cx, call, |cx, x| {
        let axes: Vec<usize> = (2..x.rank()).collect();
        cx.reduce_keep_dims(ReduceKind::Mean, x, &axes)
    })
}

fn reduce_mean(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let keep_dims = call.flag_or_true("keepdims")?;
    let given = call.ints("axes")?.unwrap_or_default();
    unary(cx, call, |cx, x| {
        let mut axes = given.iter().map(|a| axis(*a, x.rank())).collect::<Result<Vec<_>>>()?;
        axes.sort_unstable();
        axes.dedup();
        if axes.is_empty() {
            axes = (0..x.rank()).collect();
        }
        cx.op(Op::Reduce { kind: ReduceKind::Mean, axes, keep_dims }, &[x])
    })
}
