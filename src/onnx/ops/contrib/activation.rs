//! Activations, alone or after a bias, and those that other operators apply to their results.

use reflex_graph::{Binary, Unary};

use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::ops::activation::{clamped_line, gelu_erf, gelu_tanh, leaky};
use crate::ops::table::{Table, one};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("BiasAdd", bias_add),
    ("BiasGelu", |cx, call| {
        let sum = biased(cx, call)?;
        one(gelu_erf(cx, &sum)?)
    }),
    ("FastGelu", |cx, call| {
        let sum = biased(cx, call)?;
        one(gelu_tanh(cx, &sum)?)
    }),
    ("Gelu", |cx, call| one(gelu_erf(cx, call.input(0)?)?)),
    ("QuickGelu", quick_gelu),
];

/// Input 0, plus the bias of input 1 where there is one.
fn biased(cx: &mut ImportContext, call: &Call) -> Result<Tensor> {
    let x = call.input(0)?;
    match call.opt(1)? {
        Some(bias) => cx.add(x, bias),
        None => Ok(x.clone()),
    }
}

fn bias_add(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let sum = cx.add(call.input(0)?, call.input(1)?)?;
    one(cx.add(&sum, call.input(2)?)?)
}

/// `x * sigmoid(alpha * x)`
fn quick_gelu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let scaled = cx.binary_num(Binary::Mul, x, call.float("alpha", 1.702)?)?;
    let gate = cx.unary(Unary::Sigmoid, &scaled)?;
    one(cx.mul(x, &gate)?)
}

/// Parameters of an activation, in the order of ONNX's attributes; a missing one is `None`.
pub(super) type Parameters = [Option<f64>; 2];

/// The activation `name` of `x`; an empty name is none.
pub(super) fn activated(
    cx: &mut ImportContext,
    x: Tensor,
    name: &str,
    [first, second]: Parameters,
) -> Result<Tensor> {
    match name {
        "" => Ok(x),
        "Relu" => cx.binary_num(Binary::Max, &x, 0.0),
        "Tanh" => cx.unary(Unary::Tanh, &x),
        "Sigmoid" => cx.unary(Unary::Sigmoid, &x),
        "LeakyRelu" => leaky(cx, &x, first.unwrap_or(f64::from(0.01_f32))),
        "Clip" => {
            let (Some(low), Some(high)) = (first, second) else {
                return Err(invalid("activation Clip needs two parameters"));
            };
            let raised = cx.binary_num(Binary::Max, &x, low)?;
            cx.binary_num(Binary::Min, &raised, high)
        }
        "HardSigmoid" => {
            let (alpha, beta) = (first.unwrap_or(f64::from(0.2_f32)), second.unwrap_or(0.5));
            clamped_line(cx, &x, alpha, beta)
        }
        other => Err(unsupported(format!("activation `{other}`"))),
    }
}
