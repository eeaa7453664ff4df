//! Normalisations, in inference.

use reflex_graph::{Binary, Op, ReduceKind, Unary, Value, dims};
use reflex_tir::{DType, Expr};

use super::table::{Results, Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("_batch_norm_no_update", batch),
    ("_fused_rms_norm", rms),
    ("_native_batch_norm_legit", batch),
    ("_native_batch_norm_legit_no_training", batch),
    ("batch_norm", batch),
    ("group_norm", group),
    ("instance_norm", instance),
    ("layer_norm", layer),
    ("native_batch_norm", batch),
    ("native_group_norm", group),
    ("native_layer_norm", layer),
    ("rms_norm", rms),
];

/// Statistics and weights of channels in one type.
fn channels(
    cx: &mut ImportContext,
    v: Option<Value>,
    x: Value,
    dtype: DType,
) -> Result<Option<Value>> {
    let Some(v) = v else { return Ok(None) };
    let v = cx.cast(v, dtype)?;
    cx.along(v, 1, cx.rank(x)).map(Some)
}

/// `x * a + b` with `a = weight / sqrt(variance + eps)`, `b = bias - mean * a`: both fold to constants.
fn batch(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("input")?;
    let training = call.flag("training", false)?;
    let epsilon = call.float("eps", 1e-5)?;
    call.ignore(&["momentum", "cudnn_enabled"]);
    let statistics = [call.opt("running_mean")?, call.opt("running_var")?];
    let (mean, variance) = match statistics {
        [Some(_), Some(_)] if training => {
            return Err(unsupported("batch norm in training: call eval() on the module first"));
        }
        [Some(mean), Some(variance)] => (mean, variance),
        // By those of the batch itself.
        _ => {
            let axes: Vec<usize> = (0..cx.rank(x)).filter(|axis| *axis != 1).collect();
            return own_statistics(cx, call, x, &axes, epsilon);
        }
    };
    let (weight, bias) = (call.opt("weight")?, call.opt("bias")?);
    let wide = cx.wide(x)?;
    let dtype = cx.dtype(wide);
    let (mean, variance) = (cx.cast(mean, dtype)?, cx.cast(variance, dtype)?);
    let raised = cx.binary_num(Binary::Add, variance, epsilon)?;
    let root = cx.unary(Unary::Sqrt, raised)?;
    let scale = match weight {
        Some(weight) => cx.cast(weight, dtype)?,
        None => cx.num(1.0, dtype)?,
    };
    let a = cx.div(scale, root)?;
    let shift = cx.mul(mean, a)?;
    let bias = match bias {
        Some(bias) => cx.cast(bias, dtype)?,
        None => cx.num(0.0, dtype)?,
    };
    let b = cx.sub(bias, shift)?;
    let rank = cx.rank(x);
    let (a, b) = (cx.along(a, 1, rank)?, cx.along(b, 1, rank)?);
    let scaled = cx.mul(wide, a)?;
    let y = cx.add(scaled, b)?;
    one(cx.cast(y, cx.dtype(x))?)
}

/// `(x - mean) / sqrt(variance + eps)` over axes.
fn normalised(cx: &mut ImportContext, x: Value, axes: &[usize], epsilon: f64) -> Result<Value> {
    let mean = cx.reduce(ReduceKind::Mean, x, axes, true)?;
    let centred = cx.sub(x, mean)?;
    let square = cx.mul(centred, centred)?;
    let variance = cx.reduce(ReduceKind::Mean, square, axes, true)?;
    let raised = cx.binary_num(Binary::Add, variance, epsilon)?;
    let root = cx.unary(Unary::Sqrt, raised)?;
    cx.div(centred, root)
}

/// Weight and bias, if they are there.
fn affine(
    cx: &mut ImportContext,
    mut y: Value,
    weight: Option<Value>,
    bias: Option<Value>,
) -> Result<Value> {
    if let Some(weight) = weight {
        y = cx.mul(y, weight)?;
    }
    if let Some(bias) = bias {
        y = cx.add(y, bias)?;
    }
    Ok(y)
}

fn group(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("input")?;
    let groups = call.opt_int("num_groups")?.or(call.opt_int("group")?);
    let groups = groups.filter(|groups| *groups > 0).ok_or_else(|| invalid("no groups"))?;
    let epsilon = call.float("eps", 1e-5)?;
    call.ignore(&["cudnn_enabled", "N", "C", "HxW"]);
    let shape = cx.shape(x);
    let (n, c) = (cx.dim(x, 0)?, cx.dim(x, 1)?);
    if c.as_int().is_some_and(|c| c % groups != 0) {
        return Err(invalid(format!("{c:?} channels in {groups} groups")));
    }
    let wide = cx.wide(x)?;
    let per_group = dims::product(&shape[2..]) * c.floordiv(groups);
    let apart = cx.reshape(wide, &[n, Expr::i64(groups), per_group])?;
    let y = normalised(cx, apart, &[2], epsilon)?;
    let y = cx.reshape(y, &shape)?;
    let dtype = cx.dtype(wide);
    let weight = channels(cx, call.opt("weight")?, x, dtype)?;
    let bias = channels(cx, call.opt("bias")?, x, dtype)?;
    let y = affine(cx, y, weight, bias)?;
    one(cx.cast(y, cx.dtype(x))?)
}

fn instance(cx: &mut ImportContext, call: &Call) -> Results {
    if !call.flag("use_input_stats", true)? {
        return batch(cx, call);
    }
    let x = call.tensor("input")?;
    let epsilon = call.float("eps", 1e-5)?;
    call.ignore(&["running_mean", "running_var", "momentum", "cudnn_enabled"]);
    let axes: Vec<usize> = (2..cx.rank(x)).collect();
    own_statistics(cx, call, x, &axes, epsilon)
}

/// Normalises by the mean and the variance over axes, then scales and shifts channels.
fn own_statistics(
    cx: &mut ImportContext,
    call: &Call,
    x: Value,
    axes: &[usize],
    epsilon: f64,
) -> Results {
    let wide = cx.wide(x)?;
    let y = normalised(cx, wide, axes, epsilon)?;
    let dtype = cx.dtype(wide);
    let weight = channels(cx, call.opt("weight")?, x, dtype)?;
    let bias = channels(cx, call.opt("bias")?, x, dtype)?;
    let y = affine(cx, y, weight, bias)?;
    one(cx.cast(y, cx.dtype(x))?)
}

/// The first of the axes that a shape at the end of a tensor's has.
fn trailing(cx: &ImportContext, call: &Call, x: Value) -> Result<usize> {
    let count = call.dims("normalized_shape")?.len();
    let axis = cx.rank(x).checked_sub(count).filter(|_| count > 0);
    axis.ok_or_else(|| invalid("a normalized_shape of other axes than the tensor has"))
}

fn layer(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("input")?;
    let axis = trailing(cx, call, x)?;
    let epsilon = call.float("eps", 1e-5)?;
    call.ignore(&["cudnn_enable"]);
    let (weight, bias) = (call.opt("weight")?, call.opt("bias")?);
    let wide = cx.wide(x)?;
    let dtype = cx.dtype(wide);
    let own = cx.shape(x)[axis..].to_vec();
    let scale = match weight {
        Some(weight) => cx.cast(weight, dtype)?,
        None => {
            let ones = cx.num(1.0, dtype)?;
            cx.broadcast(ones, &own)?
        }
    };
    let mut args = vec![wide, scale];
    if let Some(bias) = bias {
        args.push(cx.cast(bias, dtype)?);
    }
    let y = cx.op(Op::LayerNorm { axis, epsilon }, &args)?;
    one(cx.cast(y, cx.dtype(x))?)
}

fn rms(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("input")?;
    let axis = trailing(cx, call, x)?;
    let wide = cx.wide(x)?;
    let dtype = cx.dtype(wide);
    let least = match cx.dtype(x) {
        DType::F64 => f64::EPSILON,
        DType::F16 => f64::powi(2.0, -10),
        DType::BF16 => f64::powi(2.0, -7),
        _ => f64::from(f32::EPSILON),
    };
    let epsilon = call.float("eps", least)?;
    let axes: Vec<usize> = (axis..cx.rank(x)).collect();
    let square = cx.mul(wide, wide)?;
    let mean = cx.reduce(ReduceKind::Mean, square, &axes, true)?;
    let raised = cx.binary_num(Binary::Add, mean, epsilon)?;
    let root = cx.unary(Unary::Sqrt, raised)?;
    let inverse = cx.unary(Unary::Reciprocal, root)?;
    let mut y = cx.mul(wide, inverse)?;
    if let Some(weight) = call.opt("weight")? {
        let weight = cx.cast(weight, dtype)?;
        y = cx.mul(y, weight)?;
    }
    one(cx.cast(y, cx.dtype(x))?)
}
