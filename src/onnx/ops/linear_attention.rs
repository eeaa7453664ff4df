//! State-space layers: LinearAttention, CausalConvWithState and TensorScatter.

use reflex_graph::{
    Binary, ConvAttrs, Op, OutOfRange, ScatterKind, ScatterReduce, TensorType, Unary, dims,
};
use reflex_tir::{DType, Expr};

use super::iterate::{Iterated, iterate};
use super::sample::work_type;
use super::table::{Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("CausalConvWithState", causal_conv),
    ("LinearAttention", linear_attention),
    ("TensorScatter", tensor_scatter),
];

/// A depthwise convolution along time of the last `k - 1` steps before and the new ones.
pub(super) fn causal_conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let (channels, kernel) = match (x.rank(), w.shape()) {
        (3, [channels, one, kernel]) if one.as_int() == Some(1) => (channels, kernel),
        _ => return Err(invalid(format!("weights {} for {}", w.ty, x.ty))),
    };
    let (Some(groups), Some(kernel)) = (channels.as_int(), kernel.as_int()) else {
        return Err(unsupported("weights of symbolic extents"));
    };
    let before = Expr::i64(kernel - 1);
    let state = match call.opt(3)? {
        Some(state) => state.clone(),
        None => {
            let shape = [x.shape()[0].clone(), channels.clone(), before.clone()];
            cx.filled(0.0, x.dtype(), &shape)?
        }
    };
    let padded = if kernel == 1 { x.clone() } else { cx.concat(&[state, x.clone()], 2)? };
    let attrs = ConvAttrs {
        strides: vec![1],
        pads_begin: vec![0],
        pads_end: vec![0],
        dilations: vec![1],
        groups,
    };
    let args: Vec<&Tensor> = [Some(&padded), Some(w), call.opt(2)?].into_iter().flatten().collect();
    let mut y = cx.op(Op::Conv(attrs), &args)?;
    match call.text("activation", "none")? {
        "none" => {}
        "silu" | "swish" => {
            let wide = cx.cast(&y, work_type(y.dtype()))?;
            let gate = cx.unary(Unary::Sigmoid, &wide)?;
            let gated = cx.mul(&wide, &gate)?;
            y = cx.cast(&gated, x.dtype())?;
        }
        other => return Err(invalid(format!("activation `{other}`"))),
    }
    let first = dims::simplify(&(padded.shape()[2].clone() - before.clone()));
    let present = cx.slice(&padded, 2, &first, &before)?;
    all(vec![y, present])
}

/// Writes `update` into a cache along an axis, from an index of each batch on.
fn tensor_scatter(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (cache, update) = (call.input(0)?, call.input(1)?);
    let along = call.axis("axis", -2, cache.rank())?;
    if along == 0 || update.rank() != cache.rank() {
        return Err(invalid(format!("an update {} of {}", update.ty, cache.ty)));
    }
    let steps = cx.iota(&update.shape()[along])?;
    let first = match call.opt(2)? {
        Some(first) => cx.cast(first, DType::I64)?,
        None => cx.filled(0.0, DType::I64, &cache.shape()[..1])?,
    };
    let first = cx.unsqueeze(&first, &[1])?;
    let mut at = cx.add(&first, &steps)?;
    match call.text("mode", "linear")? {
        "linear" => {}
        "circular" => {
            let extent = dims::simplify(&cache.shape()[along].clone().max(1));
            at = cx.binary(Binary::FloorMod, &at, &Tensor::dim(&extent))?;
        }
        other => return Err(invalid(format!("mode `{other}`"))),
    }
    let mut shape = vec![Expr::i64(1); cache.rank()];
    shape[0] = at.shape()[0].clone();
    shape[along] = at.shape()[1].clone();
    let at = cx.reshape(&at, &shape)?;
    let at = cx.broadcast(&at, update.shape())?;
    let scatter = Op::Scatter {
        kind: ScatterKind::Elements(along),
        reduce: ScatterReduce::Replace,
        out_of_range: OutOfRange::Raise,
    };
    one(cx.op(scatter, &[cache, &at, update])?)
}

/// The operands of a linear attention in its own type, time first.
struct Operands {
    /// `[t, b, q heads, d_k]`
    query: Tensor,
    /// `[t, b, heads, d_k, 1]`
    key: Tensor,
    /// `[t, b, heads, 1, d_v]`
    value: Tensor,
    /// Factor of the state, `[t, b, heads, 1 or d_k, 1]`.
    decay: Option<Tensor>,
    /// `[t, b, heads or 1, 1, 1]`
    beta: Option<Tensor>,
}

/// `state = decay * state + k (beta * (v - k state))`, `y = scale * q state`, step by step.
pub(super) fn linear_attention(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (query, value) = (call.input(0)?, call.input(2)?);
    // A hint that changes no result.
    call.ignore(&["chunk_size"]);
    let count = |name| match call.int(name, 0)? {
        heads if (1..1 << 16).contains(&heads) => Ok(heads),
        heads => Err(invalid(format!("`{name}` is {heads}"))),
    };
    let (q_heads, heads) = (count("q_num_heads")?, count("kv_num_heads")?);
    let (Some(q_width), Some(v_width)) = (last(query), last(value)) else {
        return Err(unsupported("symbolic head sizes"));
    };
    if q_heads % heads != 0 || q_width % q_heads != 0 || v_width % heads != 0 {
        return Err(invalid(format!("{} and {} in {q_heads} heads", query.ty, value.ty)));
    }
    let (d_k, d_v) = (q_width / q_heads, v_width / heads);
    let operands = operands(cx, call, [q_heads, heads, d_k, d_v])?;
    let work = operands.query.dtype();
    let batch = query.shape()[0].clone();
    let shape = [batch.clone(), Expr::i64(heads), Expr::i64(d_k), Expr::i64(d_v)];
    let (state, state_type) = match call.opt(3)? {
        Some(past) => (cx.cast(past, work)?, past.dtype()),
        None => (cx.filled(0.0, work, &shape)?, query.dtype()),
    };
    let state = cx.value(&state)?;
    let state = cx.b.match_cast(state, TensorType::new(work, shape.to_vec()));
    let state = cx.tensor_of(state);
    let steps = query.shape()[1].clone();
    let scale = match call.float("scale", 0.0)? {
        0.0 => 1.0 / (d_k as f64).sqrt(),
        scale => scale,
    };
    let done = iterate(cx, &steps, &[state], |cx, at, carried| {
        let (state, y) = step(cx, &operands, at, &carried[0], q_heads / heads)?;
        Ok(Iterated { carried: vec![state], stacked: vec![y] })
    })?;
    let (state, y) = (&done.carried[0], &done.stacked[0]);
    let y = cx.binary_num(Binary::Mul, y, scale)?;
    let y = cx.transpose(&y, &[1, 0, 2, 3])?;
    let y = cx.reshape(&y, &[batch, steps, Expr::i64(q_heads * d_v)])?;
    all(vec![cx.cast(&y, query.dtype())?, cx.cast(state, state_type)?])
}

fn last(x: &Tensor) -> Option<i64> {
    if x.rank() == 3 { x.shape()[2].as_int() } else { None }
}

fn operands(
    cx: &mut ImportContext,
    call: &Call,
    [q_heads, heads, d_k, d_v]: [i64; 4],
) -> Result<Operands> {
    let rule = call.text("update_rule", "gated_delta")?;
    let (gated, delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(invalid(format!("update_rule `{other}`"))),
    };
    let given = |index: usize, wanted: bool| match (call.opt(index)?, wanted) {
        (Some(x), true) => Ok(Some(x)),
        (None, false) => Ok(None),
        (found, _) => {
            let have = if found.is_some() { "given" } else { "missing" };
            Err(invalid(format!("input {index} is {have} in update_rule `{rule}`")))
        }
    };
    let (decay, beta) = (given(4, gated)?, given(5, delta)?);
    let work = work_type(call.input(0)?.dtype());
    let mut apart = |x: &Tensor, tail: &[i64]| -> Result<Tensor> {
        let width: i64 = tail.iter().product();
        if last(x) != Some(width) {
            return Err(invalid(format!("{} where the last extent is {width}", x.ty)));
        }
        let x = cx.cast(x, work)?;
        let x = cx.transpose(&x, &[1, 0, 2])?;
        let tail: Vec<Expr> = tail.iter().map(|n| Expr::i64(*n)).collect();
        let shape = [&x.shape()[..2], &tail].concat();
        cx.reshape(&x, &shape)
    };
    let query = apart(call.input(0)?, &[q_heads, d_k])?;
    let key = apart(call.input(1)?, &[heads, d_k, 1])?;
    let value = apart(call.input(2)?, &[heads, 1, d_v])?;
    let decay = match decay {
        Some(decay) if last(decay) == Some(heads) => Some(apart(decay, &[heads, 1, 1])?),
        Some(decay) => Some(apart(decay, &[heads, d_k, 1])?),
        None => None,
    };
    let beta = match beta {
        Some(beta) if last(beta) == Some(1) => Some(apart(beta, &[1, 1, 1])?),
        Some(beta) => Some(apart(beta, &[heads, 1, 1])?),
        None => None,
    };
    let decay = decay.map(|decay| cx.unary(Unary::Exp, &decay)).transpose()?;
    Ok(Operands { query, key, value, decay, beta })
}

/// One step: the next state and the result `[b, q heads, d_v]`.
fn step(
    cx: &mut ImportContext,
    operands: &Operands,
    at: &Tensor,
    state: &Tensor,
    group: i64,
) -> Result<(Tensor, Tensor)> {
    let query = cx.take(&operands.query, at, 0)?;
    let key = cx.take(&operands.key, at, 0)?;
    let mut value = cx.take(&operands.value, at, 0)?;
    let mut state = state.clone();
    if let Some(decay) = &operands.decay {
        let decay = cx.take(decay, at, 0)?;
        state = cx.mul(&state, &decay)?;
    }
    if let Some(beta) = &operands.beta {
        let row = cx.transpose(&key, &[0, 1, 3, 2])?;
        let known = cx.matmul(&row, &state)?;
        let new = cx.sub(&value, &known)?;
        let beta = cx.take(beta, at, 0)?;
        value = cx.mul(&beta, &new)?;
    }
    let written = cx.mul(&key, &value)?;
    let state = cx.add(&state, &written)?;
    // Query heads of a group read the same state.
    let [batch, heads, d_k, d_v] = [0, 1, 2, 3].map(|i| state.shape()[i].clone());
    let groups = [batch.clone(), heads.clone(), Expr::i64(group), d_k];
    let query = cx.reshape(&query, &groups)?;
    let y = cx.matmul(&query, &state)?;
    let y = cx.reshape(&y, &[batch, dims::simplify(&(heads * group)), d_v])?;
    Ok((state, y))
}
