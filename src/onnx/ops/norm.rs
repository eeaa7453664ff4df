//! Normalisations, in inference.

use reflex_graph::{Binary, Op, PoolAttrs, PoolKind, ReduceKind, Unary, dims};
use reflex_tir::Expr;

use super::reduce::{mean_of, moments};
use super::table::{Table, all, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("BatchNormalization", batch),
    ("GroupNormalization", group),
    ("InstanceNormalization", instance),
    ("LRN", local_response),
    ("LayerNormalization", layer),
    ("LpNormalization", lp),
    ("MeanVarianceNormalization", mean_variance),
    ("RMSNormalization", rms),
];

/// A per-channel vector over a tensor `[n, c, ...]`.
fn per_channel(cx: &mut ImportContext, v: &Tensor, x: &Tensor) -> Result<Tensor> {
    let v = cx.cast(v, x.dtype())?;
    let mut shape = vec![Expr::i64(1); x.rank().saturating_sub(1)];
    let first = shape.first_mut().ok_or_else(|| invalid("needs a channel axis"))?;
    *first = x.shape()[1].clone();
    cx.reshape(&v, &shape)
}

/// `x * a + b` with `a = scale / sqrt(variance + epsilon)`, `b = bias - mean * a`: both fold
/// to constants in a trained model.
fn batch(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let epsilon = call.float("epsilon", 1e-5)?;
    call.ignore(&["consumed_inputs"]);
    let momentum = call.float("momentum", 0.9)?;
    let trained = match call.opset {
        ..7 => !call.flag("is_test")?,
        // The number of results says it.
        7..14 => (1..5).any(|output| call.wants(output)),
        _ => call.flag("training_mode")?,
    };
    if call.opset < 9 && !call.flag_or_true("spatial")? {
        return Err(unsupported("attribute `spatial` of 0"));
    }
    if trained {
        return trained_batch(cx, call, epsilon, momentum);
    }
    let [scale, bias, mean, variance] =
        [call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?];
    let wide = variance.dtype();
    let raised = cx.binary_num(Binary::Add, variance, epsilon)?;
    let deviation = cx.unary(Unary::Sqrt, &raised)?;
    let scale = cx.cast(scale, wide)?;
    let a = cx.div(&scale, &deviation)?;
    let shift = cx.mul(mean, &a)?;
    let bias = cx.cast(bias, wide)?;
    let b = cx.sub(&bias, &shift)?;
    let a = per_channel(cx, &a, x)?;
    let b = per_channel(cx, &b, x)?;
    let scaled = cx.mul(x, &a)?;
    one(cx.add(&scaled, &b)?)
}

/// By the batch's own mean and variance, which move the running ones.
fn trained_batch(
    cx: &mut ImportContext,
    call: &Call,
    epsilon: f64,
    momentum: f64,
) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axes: Vec<usize> = (0..x.rank()).filter(|axis| *axis != 1).collect();
    let mean = mean_of(cx, x, &axes)?;
    let centred = cx.sub(x, &mean)?;
    let square = cx.mul(&centred, &centred)?;
    let variance = mean_of(cx, &square, &axes)?;
    let raised = cx.binary_num(Binary::Add, &variance, epsilon)?;
    let deviation = cx.unary(Unary::Sqrt, &raised)?;
    let y = cx.div(&centred, &deviation)?;
    let y = scale_and_shift(cx, &y, call.input(1)?, call.input(2)?)?;
    let mut results = vec![y];
    let mut saved = vec![];
    for (index, own) in [(3, mean), (4, variance)] {
        let running = call.input(index)?;
        let own = cx.reshape(&own, running.shape())?;
        let own = cx.cast(&own, running.dtype())?;
        let kept = cx.binary_num(Binary::Mul, running, momentum)?;
        saved.push(own.clone());
        let own = cx.binary_num(Binary::Mul, &own, 1.0 - momentum)?;
        results.push(cx.add(&kept, &own)?);
    }
    // Before opset 14 the batch's own mean and variance are results too.
    if call.opset < 14 {
        results.append(&mut saved);
    }
    all(results)
}

fn scale_and_shift(
    cx: &mut ImportContext,
    x: &Tensor,
    scale: &Tensor,
    bias: &Tensor,
) -> Result<Tensor> {
    let (scale, bias) = (per_channel(cx, scale, x)?, per_channel(cx, bias, x)?);
    let scaled = cx.mul(x, &scale)?;
    cx.add(&scaled, &bias)
}

fn instance(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let epsilon = call.float("epsilon", 1e-5)?;
    if x.rank() < 2 {
        return Err(invalid(format!("an instance of rank {}", x.rank())));
    }
    let count = dims::product(&x.shape()[2..]);
    let rows = cx.reshape(x, &[x.shape()[0].clone(), x.shape()[1].clone(), count])?;
    let normal = normalised_rows(cx, &rows, epsilon)?;
    let result = scale_and_shift(cx, &normal, call.input(1)?, call.input(2)?)?;
    one(cx.reshape(&result, x.shape())?)
}

/// The rows of the last axis with a mean of zero and a variance of one: a layer normalisation, whose
/// stages share one pass over rows.
fn normalised_rows(cx: &mut ImportContext, rows: &Tensor, epsilon: f64) -> Result<Tensor> {
    let axis = rows.rank() - 1;
    let unit = cx.num(1.0, rows.dtype())?;
    let unit = cx.broadcast(&unit, &rows.shape()[axis..])?;
    cx.op(Op::LayerNorm { axis, epsilon }, &[rows, &unit])
}

fn group(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let epsilon = call.float("epsilon", 1e-5)?;
    let groups = call.int("num_groups", 0)?;
    call.ignore(&["stash_type"]);
    if groups <= 0 || x.rank() < 2 {
        return Err(invalid(format!("{groups} groups of rank {}", x.rank())));
    }
    let count = dims::product(&x.shape()[1..]).floordiv(groups);
    let grouped = cx.reshape(x, &[x.shape()[0].clone(), Expr::i64(groups), count])?;
    let normal = normalised_rows(cx, &grouped, epsilon)?;
    let (scale, bias) = (call.input(1)?, call.input(2)?);
    if call.opset >= 21 {
        let normal = cx.reshape(&normal, x.shape())?;
        return one(scale_and_shift(cx, &normal, scale, bias)?);
    }
    // Scale and bias were per group.
    let result = scale_and_shift(cx, &normal, scale, bias)?;
    one(cx.reshape(&result, x.shape())?)
}

fn layer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", -1, x.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    call.ignore(&["stash_type"]);
    let bias = call.opt(2)?;
    let whole = |t: &Tensor| t.shape() == &x.shape()[axis..];
    if !call.wants(1) && !call.wants(2) && whole(scale) && bias.is_none_or(whole) {
        let args: Vec<&Tensor> = [Some(x), Some(scale), bias].into_iter().flatten().collect();
        return one(cx.op(Op::LayerNorm { axis, epsilon }, &args)?);
    }
    let axes: Vec<usize> = (axis..x.rank()).collect();
    let (mean, inverse, centred) = moments(cx, x, &axes, epsilon)?;
    let normal = cx.mul(&centred, &inverse)?;
    let mut result = cx.mul(&normal, scale)?;
    if let Some(bias) = bias {
        result = cx.add(&result, bias)?;
    }
    all(vec![result, mean, inverse])
}

fn rms(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", -1, x.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    call.ignore(&["stash_type"]);
    let axes: Vec<usize> = (axis..x.rank()).collect();
    one(root_mean_square(cx, x, &axes, scale, epsilon)?)
}

/// `x / sqrt(mean(x^2) + epsilon) * scale` over the axes (Zhang and Sennrich 2019).
pub(super) fn root_mean_square(
    cx: &mut ImportContext,
    x: &Tensor,
    axes: &[usize],
    scale: &Tensor,
    epsilon: f64,
) -> Result<Tensor> {
    let square = cx.mul(x, x)?;
    let mean = mean_of(cx, &square, axes)?;
    let raised = cx.binary_num(Binary::Add, &mean, epsilon)?;
    let root = cx.unary(Unary::Sqrt, &raised)?;
    let normal = cx.div(x, &root)?;
    cx.mul(&normal, scale)
}

/// `x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta`; the sum is an
/// average pool along the channels that counts its padding.
fn local_response(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let (alpha, beta) = (call.float("alpha", 0.0001)?, call.float("beta", 0.75)?);
    let (bias, size) = (call.float("bias", 1.0)?, call.int("size", 0)?);
    if !(1..1 << 16).contains(&size) || x.rank() < 2 {
        return Err(invalid(format!("size {size} with rank {}", x.rank())));
    }
    let square = cx.mul(x, x)?;
    let (n, c, rest) = (x.shape()[0].clone(), x.shape()[1].clone(), dims::product(&x.shape()[2..]));
    let flat = cx.reshape(&square, &[n, Expr::i64(1), c, rest])?;
    let pool = PoolAttrs {
        kind: PoolKind::Average { count_pads: true },
        kernel: vec![size, 1],
        strides: vec![1, 1],
        pads_begin: vec![(size - 1) / 2, 0],
        pads_end: vec![size / 2, 0],
        dilations: vec![1, 1],
        ceil: false,
    };
    let mean = cx.op(Op::Pool(pool), &[&flat])?;
    let mean = cx.reshape(&mean, x.shape())?;
    let scaled = cx.binary_num(Binary::Mul, &mean, alpha)?;
    let raised = cx.binary_num(Binary::Add, &scaled, bias)?;
    let power = cx.binary_num(Binary::Pow, &raised, beta)?;
    one(cx.div(x, &power)?)
}

fn lp(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axis = call.axis("axis", -1, x.rank())?;
    let norm = match call.int("p", 2)? {
        1 => {
            let magnitude = cx.unary(Unary::Abs, x)?;
            cx.reduce_keep_dims(ReduceKind::Sum, &magnitude, &[axis])?
        }
        2 => {
            let square = cx.mul(x, x)?;
            let sum = cx.reduce_keep_dims(ReduceKind::Sum, &square, &[axis])?;
            cx.unary(Unary::Sqrt, &sum)?
        }
        p => return Err(invalid(format!("norm {p}"))),
    };
    // A vector of zeros stays one.
    let zero = cx.num(0.0, x.dtype())?;
    let unit = cx.num(1.0, x.dtype())?;
    let empty = cx.binary(Binary::Equal, &norm, &zero)?;
    let divisor = cx.choose(&empty, &unit, &norm)?;
    one(cx.div(x, &divisor)?)
}

fn mean_variance(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let given = call.ints("axes")?.unwrap_or(&[0, 2, 3]);
    let mut axes = given.iter().map(|a| axis(*a, x.rank())).collect::<Result<Vec<usize>>>()?;
    axes.sort_unstable();
    axes.dedup();
    let mean = mean_of(cx, x, &axes)?;
    let centred = cx.sub(x, &mean)?;
    let square = cx.mul(&centred, &centred)?;
    let variance = mean_of(cx, &square, &axes)?;
    let deviation = cx.unary(Unary::Sqrt, &variance)?;
    let divisor = cx.binary_num(Binary::Add, &deviation, 1e-9)?;
    one(cx.div(&centred, &divisor)?)
}
