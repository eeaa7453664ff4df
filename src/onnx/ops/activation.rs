//! Activations, decomposed into primitive functions.

use reflex_graph::{ArgReduceKind, Binary, Op, ReduceKind, Unary};
use reflex_tir::{DType, Expr};

use super::table::{Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("Celu", celu),
    ("Elu", elu),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", |cx, call| one(hard_swish(cx, call.input(0)?)?)),
    ("Hardmax", hardmax),
    ("LeakyRelu", leaky_relu),
    ("LogSoftmax", log_softmax),
    ("Mish", mish),
    ("PRelu", prelu),
    ("Relu", relu),
    ("Selu", selu),
    ("Shrink", shrink),
    ("Softmax", softmax),
    ("Softplus", |cx, call| one(softplus(cx, call.input(0)?)?)),
    ("Softsign", softsign),
    ("SwiGLU", swiglu),
    ("Swish", swish),
    ("ThresholdedRelu", thresholded_relu),
];

fn relu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    one(cx.binary_num(Binary::Max, call.input(0)?, 0.0)?)
}

/// `f(x)` where `x` is below zero, else `x`.
fn below_zero(cx: &mut ImportContext, x: &Tensor, low: &Tensor) -> Result<Tensor> {
    let zero = cx.num(0.0, x.dtype())?;
    let negative = cx.binary(Binary::Less, x, &zero)?;
    cx.choose(&negative, low, x)
}

fn leaky_relu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    one(leaky(cx, call.input(0)?, call.float("alpha", 0.01)?)?)
}

/// `alpha * x` where `x` is below zero, else `x`.
pub(super) fn leaky(cx: &mut ImportContext, x: &Tensor, alpha: f64) -> Result<Tensor> {
    let low = cx.binary_num(Binary::Mul, x, alpha)?;
    below_zero(cx, x, &low)
}

fn prelu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, slope) = (call.input(0)?, call.input(1)?);
    // Before opset 7 a vector was one slope per channel.
    let channels = call.opset < 7 && slope.rank() == 1 && x.rank() > 1;
    let trailing: Vec<usize> = (1..x.rank().saturating_sub(1)).collect();
    let slope = if channels { cx.unsqueeze(slope, &trailing)? } else { slope.clone() };
    let low = cx.mul(x, &slope)?;
    one(below_zero(cx, x, &low)?)
}

/// `scale * (exp(x / width) - 1)`, not evaluated above zero, where it could overflow.
fn expm1(cx: &mut ImportContext, x: &Tensor, width: f64, scale: f64) -> Result<Tensor> {
    let low = cx.binary_num(Binary::Min, x, 0.0)?;
    let low = if width == 1.0 { low } else { cx.binary_num(Binary::Div, &low, width)? };
    let power = cx.unary(Unary::Exp, &low)?;
    let less = cx.binary_num(Binary::Sub, &power, 1.0)?;
    cx.binary_num(Binary::Mul, &less, scale)
}

fn elu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let low = expm1(cx, x, 1.0, call.float("alpha", 1.0)?)?;
    one(below_zero(cx, x, &low)?)
}

fn celu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let alpha = call.float("alpha", 1.0)?;
    let low = expm1(cx, x, alpha, alpha)?;
    one(below_zero(cx, x, &low)?)
}

fn selu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let alpha = call.float("alpha", 1.673_263_2)?;
    let gamma = call.float("gamma", 1.050_701)?;
    let low = expm1(cx, x, 1.0, alpha)?;
    let result = below_zero(cx, x, &low)?;
    one(cx.binary_num(Binary::Mul, &result, gamma)?)
}

fn thresholded_relu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let alpha = cx.num(call.float("alpha", 1.0)?, x.dtype())?;
    let above = cx.binary(Binary::Greater, x, &alpha)?;
    let zero = cx.num(0.0, x.dtype())?;
    one(cx.choose(&above, x, &zero)?)
}

fn clamp01(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let low = cx.binary_num(Binary::Max, x, 0.0)?;
    cx.binary_num(Binary::Min, &low, 1.0)
}

fn hard_sigmoid(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (alpha, beta) = (call.float("alpha", 0.2)?, call.float("beta", 0.5)?);
    one(clamped_line(cx, call.input(0)?, alpha, beta)?)
}

/// `alpha * x + beta`, held to `0..=1`.
pub(super) fn clamped_line(
    cx: &mut ImportContext,
    x: &Tensor,
    alpha: f64,
    beta: f64,
) -> Result<Tensor> {
    let scaled = cx.binary_num(Binary::Mul, x, alpha)?;
    let line = cx.binary_num(Binary::Add, &scaled, beta)?;
    clamp01(cx, &line)
}

fn hard_swish(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let scaled = cx.binary_num(Binary::Mul, x, 1.0 / 6.0)?;
    let line = cx.binary_num(Binary::Add, &scaled, 0.5)?;
    let gate = clamp01(cx, &line)?;
    cx.mul(x, &gate)
}

/// `max(x, 0) + log(1 + exp(-|x|))`, which does not overflow.
fn softplus(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let magnitude = cx.unary(Unary::Abs, x)?;
    let negated = cx.unary(Unary::Neg, &magnitude)?;
    let power = cx.unary(Unary::Exp, &negated)?;
    let plus = cx.binary_num(Binary::Add, &power, 1.0)?;
    let log = cx.unary(Unary::Log, &plus)?;
    let high = cx.binary_num(Binary::Max, x, 0.0)?;
    cx.add(&high, &log)
}

fn mish(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let plus = softplus(cx, x)?;
    let gate = cx.unary(Unary::Tanh, &plus)?;
    one(cx.mul(x, &gate)?)
}

fn softsign(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let magnitude = cx.unary(Unary::Abs, x)?;
    let divisor = cx.binary_num(Binary::Add, &magnitude, 1.0)?;
    one(cx.div(x, &divisor)?)
}

fn swish(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    one(swish_of(cx, call, call.input(0)?)?)
}

fn swiglu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let gate = swish_of(cx, call, call.input(0)?)?;
    one(cx.mul(&gate, call.input(1)?)?)
}

fn swish_of(cx: &mut ImportContext, call: &Call, x: &Tensor) -> Result<Tensor> {
    let alpha = call.float("alpha", 1.0)?;
    let scaled = if alpha == 1.0 { x.clone() } else { cx.binary_num(Binary::Mul, x, alpha)? };
    let gate = cx.unary(Unary::Sigmoid, &scaled)?;
    cx.mul(x, &gate)
}

fn gelu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    match call.text("approximate", "none")? {
        "none" => one(gelu_erf(cx, x)?),
        "tanh" => one(gelu_tanh(cx, x)?),
        other => Err(invalid(format!("approximate `{other}`"))),
    }
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`
pub(super) fn gelu_erf(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let scaled = cx.binary_num(Binary::Mul, x, std::f64::consts::FRAC_1_SQRT_2)?;
    let curve = cx.unary(Unary::Erf, &scaled)?;
    gelu_gate(cx, x, &curve)
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`
pub(super) fn gelu_tanh(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let square = cx.mul(x, x)?;
    let cube = cx.mul(&square, x)?;
    let small = cx.binary_num(Binary::Mul, &cube, 0.044_715)?;
    let sum = cx.add(x, &small)?;
    let scale = (2.0 / std::f64::consts::PI).sqrt();
    let scaled = cx.binary_num(Binary::Mul, &sum, scale)?;
    let curve = cx.unary(Unary::Tanh, &scaled)?;
    gelu_gate(cx, x, &curve)
}

fn gelu_gate(cx: &mut ImportContext, x: &Tensor, curve: &Tensor) -> Result<Tensor> {
    let gate = cx.binary_num(Binary::Add, curve, 1.0)?;
    let half = cx.binary_num(Binary::Mul, x, 0.5)?;
    cx.mul(&half, &gate)
}

fn shrink(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let (bias, lambda) = (call.float("bias", 0.0)?, call.float("lambd", 0.5)?);
    let (low, high) = (cx.num(-lambda, x.dtype())?, cx.num(lambda, x.dtype())?);
    let below = cx.binary(Binary::Less, x, &low)?;
    let above = cx.binary(Binary::Greater, x, &high)?;
    let (raised, lowered) =
        (cx.binary_num(Binary::Add, x, bias)?, cx.binary_num(Binary::Sub, x, bias)?);
    let zero = cx.num(0.0, x.dtype())?;
    let upper = cx.choose(&above, &lowered, &zero)?;
    one(cx.choose(&below, &raised, &upper)?)
}

fn softmax(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    along(cx, call, call.input(0)?, softmax_of)
}

fn log_softmax(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    along(cx, call, call.input(0)?, |cx, x, axis| cx.op(Op::Softmax { axis, log: true }, &[x]))
}

/// In float16 powers, sum and quotient of ONNX's definition each round, which is visible in its test cases. The
/// differences from the maximum are in float32: the power of one that is rounded would be far off.
pub(super) fn softmax_of(cx: &mut ImportContext, x: &Tensor, axis: usize) -> Result<Tensor> {
    if x.dtype() != DType::F16 {
        return cx.op(Op::Softmax { axis, log: false }, &[x]);
    }
    let wide = cx.cast(x, DType::F32)?;
    let most = cx.reduce_keep_dims(ReduceKind::Max, &wide, &[axis])?;
    let shifted = cx.sub(&wide, &most)?;
    let power = cx.unary(Unary::Exp, &shifted)?;
    let power = cx.cast(&power, DType::F16)?;
    let sum = cx.reduce_keep_dims(ReduceKind::Sum, &power, &[axis])?;
    cx.div(&power, &sum)
}

fn hardmax(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    along(cx, call, x, |cx, x, axis| {
        let arg =
            Op::ArgReduce { kind: ArgReduceKind::Max, axis, keep_dims: true, select_last: false };
        let best = cx.op(arg, &[x])?;
        let count = x.shape()[axis].clone();
        let positions = cx.iota(&count)?;
        let mut shape = vec![Expr::i64(1); x.rank()];
        shape[axis] = count;
        let positions = cx.reshape(&positions, &shape)?;
        let hit = cx.binary(Binary::Equal, &positions, &best)?;
        cx.cast(&hit, x.dtype())
    })
}

/// Runs `f` along the axis of a softmax-like operator. Before opset 13 the axes from `axis` on are
/// flattened into one.
fn along(
    cx: &mut ImportContext,
    call: &Call,
    x: &Tensor,
    f: impl FnOnce(&mut ImportContext, &Tensor, usize) -> Result<Tensor>,
) -> Result<Vec<OnnxValue>> {
    if call.opset >= 13 {
        let axis = call.axis("axis", -1, x.rank())?;
        return one(f(cx, x, axis)?);
    }
    let given = call.int("axis", 1)?;
    let at = if given == x.rank() as i64 { x.rank() } else { axis(given, x.rank())? };
    if at + 1 == x.rank() {
        return one(f(cx, x, at)?);
    }
    let product = |dims: &[Expr]| reflex_graph::dims::product(dims);
    let flat = cx.reshape(x, &[product(&x.shape()[..at]), product(&x.shape()[at..])])?;
    let result = f(cx, &flat, 1)?;
    one(cx.reshape(&result, x.shape())?)
}
