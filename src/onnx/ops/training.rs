//! Optimisers of `ai.onnx.preview.training`: one step of each for any number of tensors.

use reflex_graph::{Binary, Unary};
use reflex_tir::DType;

use super::table::{Table, all};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::value::{OnnxValue, Tensor};

/// Operators of `ai.onnx.preview.training`.
pub(super) const TABLE: Table = &[("Adagrad", adagrad), ("Adam", adam), ("Momentum", momentum)];

/// The inputs of an optimiser: scalars, and for each tensor as many states as it keeps.
struct Inputs {
    rate: Tensor,
    /// Steps done so far.
    count: Tensor,
    /// Tensor, gradient and states of each.
    tensors: Vec<Vec<Tensor>>,
}

fn inputs(cx: &mut ImportContext, call: &Call, states: usize) -> Result<Inputs> {
    let given = call.tensors()?;
    let kinds = states + 2;
    let (rate, count) = (call.input(0)?, call.input(1)?);
    let rest = &given[2..];
    if rest.is_empty() || !rest.len().is_multiple_of(kinds) {
        return Err(invalid(format!("{} inputs after the rate and the count", rest.len())));
    }
    let n = rest.len() / kinds;
    let tensors = (0..n).map(|i| (0..kinds).map(|k| rest[k * n + i].clone()).collect()).collect();
    Ok(Inputs { rate: cx.reshape(rate, &[])?, count: cx.reshape(count, &[])?, tensors })
}

/// The results of all tensors, each kind together.
fn grouped(results: Vec<Vec<Tensor>>) -> Result<Vec<OnnxValue>> {
    let kinds = results.first().map_or(0, Vec::len);
    all((0..kinds).flat_map(|k| results.iter().map(move |r| r[k].clone())).collect())
}

/// `norm * x + g`
fn regularised(cx: &mut ImportContext, x: &Tensor, g: &Tensor, norm: f64) -> Result<Tensor> {
    let pull = cx.binary_num(Binary::Mul, x, norm)?;
    cx.add(&pull, g)
}

/// `a * x + b * y`
fn mixed(cx: &mut ImportContext, a: f64, x: &Tensor, b: f64, y: &Tensor) -> Result<Tensor> {
    let x = cx.binary_num(Binary::Mul, x, a)?;
    let y = cx.binary_num(Binary::Mul, y, b)?;
    cx.add(&x, &y)
}

fn adagrad(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (decay, epsilon) = (call.float("decay_factor", 0.0)?, call.float("epsilon", 1e-6)?);
    let norm = call.float("norm_coefficient", 0.0)?;
    let Inputs { rate, count, tensors } = inputs(cx, call, 1)?;
    let count = cx.cast(&count, rate.dtype())?;
    let slower = cx.binary_num(Binary::Mul, &count, decay)?;
    let slower = cx.binary_num(Binary::Add, &slower, 1.0)?;
    let rate = cx.div(&rate, &slower)?;
    let mut results = vec![];
    for tensor in &tensors {
        let [x, g, h] = tensor.as_slice() else { return Err(invalid("three inputs each")) };
        let g = regularised(cx, x, g, norm)?;
        let square = cx.mul(&g, &g)?;
        let h = cx.add(h, &square)?;
        let root = cx.unary(Unary::Sqrt, &h)?;
        let root = cx.binary_num(Binary::Add, &root, epsilon)?;
        let rate = cx.cast(&rate, x.dtype())?;
        let step = cx.mul(&rate, &g)?;
        let step = cx.div(&step, &root)?;
        results.push(vec![cx.sub(x, &step)?, h]);
    }
    grouped(results)
}

fn adam(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (alpha, beta) = (call.float("alpha", 0.9)?, call.float("beta", 0.999)?);
    let epsilon = call.float("epsilon", 1e-6)?;
    let norm = call.float("norm_coefficient", 0.0)?;
    let norm_post = call.float("norm_coefficient_post", 0.0)?;
    let Inputs { rate, count, tensors } = inputs(cx, call, 2)?;
    let adjusted = bias_corrected(cx, &rate, &count, alpha, beta)?;
    let mut results = vec![];
    for tensor in &tensors {
        let [x, g, v, h] = tensor.as_slice() else { return Err(invalid("four inputs each")) };
        let g = regularised(cx, x, g, norm)?;
        let v = mixed(cx, alpha, v, 1.0 - alpha, &g)?;
        let square = cx.mul(&g, &g)?;
        let h = mixed(cx, beta, h, 1.0 - beta, &square)?;
        let root = cx.unary(Unary::Sqrt, &h)?;
        let root = cx.binary_num(Binary::Add, &root, epsilon)?;
        let rate = cx.cast(&adjusted, x.dtype())?;
        let step = cx.div(&v, &root)?;
        let step = cx.mul(&rate, &step)?;
        let moved = cx.sub(x, &step)?;
        results.push(vec![cx.binary_num(Binary::Mul, &moved, 1.0 - norm_post)?, v, h]);
    }
    grouped(results)
}

/// `rate * sqrt(1 - beta^t) / (1 - alpha^t)` after the first step.
fn bias_corrected(
    cx: &mut ImportContext,
    rate: &Tensor,
    count: &Tensor,
    alpha: f64,
    beta: f64,
) -> Result<Tensor> {
    let wide = DType::F64;
    let (rate64, count64) = (cx.cast(rate, wide)?, cx.cast(count, wide)?);
    let one = cx.num(1.0, wide)?;
    let mut rest = vec![];
    for base in [beta, alpha] {
        let base = cx.num(base, wide)?;
        let power = cx.binary(Binary::Pow, &base, &count64)?;
        rest.push(cx.sub(&one, &power)?);
    }
    let root = cx.unary(Unary::Sqrt, &rest[0])?;
    let scaled = cx.mul(&rate64, &root)?;
    let scaled = cx.div(&scaled, &rest[1])?;
    let zero = cx.num(0.0, wide)?;
    let started = cx.binary(Binary::Greater, &count64, &zero)?;
    let adjusted = cx.choose(&started, &scaled, &rate64)?;
    cx.cast(&adjusted, rate.dtype())
}

fn momentum(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (alpha, beta) = (call.float("alpha", 0.0)?, call.float("beta", 0.0)?);
    let norm = call.float("norm_coefficient", 0.0)?;
    let nesterov = match call.text("mode", "")? {
        "standard" => false,
        "nesterov" => true,
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let Inputs { rate, count, tensors } = inputs(cx, call, 1)?;
    let zero = cx.num(0.0, count.dtype())?;
    let started = cx.binary(Binary::Greater, &count, &zero)?;
    let mut results = vec![];
    for tensor in &tensors {
        let [x, g, v] = tensor.as_slice() else { return Err(invalid("three inputs each")) };
        let g = regularised(cx, x, g, norm)?;
        let (later, first) = (cx.num(beta, x.dtype())?, cx.num(1.0, x.dtype())?);
        let beta = cx.choose(&started, &later, &first)?;
        let pushed = cx.mul(&beta, &g)?;
        let kept = cx.binary_num(Binary::Mul, v, alpha)?;
        let v = cx.add(&kept, &pushed)?;
        let step = if nesterov {
            let ahead = cx.binary_num(Binary::Mul, &v, alpha)?;
            cx.add(&g, &ahead)?
        } else {
            v.clone()
        };
        let rate = cx.cast(&rate, x.dtype())?;
        let step = cx.mul(&rate, &step)?;
        results.push(vec![cx.sub(x, &step)?, v]);
    }
    grouped(results)
}
