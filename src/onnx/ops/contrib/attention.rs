//! Attention (merged projections) and MultiHeadAttention (separate ones).

use reflex_graph::dims;
use reflex_tir::{DType, Expr};

use super::scores::{self, attend, causal, joined, mask_bias, split_heads, total};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::ops::integer_products::{Quantised, int_matmul};
use crate::ops::table::{Table, all};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("Attention", attention),
    ("MultiHeadAttention", multi_head),
    ("QAttention", quantized_attention),
];

/// Value of masked scores unless the node says another.
const FILTER: f32 = -10_000.0;

/// The parts of an axis `[q | k | v]`, of these widths.
fn thirds(cx: &mut ImportContext, x: &Tensor, widths: [i64; 3]) -> Result<[Tensor; 3]> {
    let axis = x.rank() - 1;
    let mut from = 0;
    let mut part = |width: i64| {
        let part = cx.slice(x, axis, &Expr::i64(from), &Expr::i64(width));
        from += width;
        part
    };
    Ok([part(widths[0])?, part(widths[1])?, part(widths[2])?])
}

fn head_count(call: &Call) -> Result<i64> {
    let heads = call.int("num_heads", 0)?;
    if heads > 0 { Ok(heads) } else { Err(invalid(format!("num_heads {heads}"))) }
}

/// Attention over projections `[q | k | v]` of one input, with the inputs and attributes that
/// Attention and QAttention share.
struct SelfAttention<'a> {
    /// `[batch, sequence, q + k + v]`.
    projected: Tensor,
    widths: [i64; 3],
    mask: Option<&'a Tensor>,
    past: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
}

fn self_attention(
    cx: &mut ImportContext,
    call: &Call,
    operands: SelfAttention<'_>,
) -> Result<Vec<OnnxValue>> {
    let heads = head_count(call)?;
    let filter = call.float("mask_filter_value", FILTER)?;
    if call.flag("do_rotary")? || call.flag("past_present_share_buffer")? {
        return Err(unsupported("attributes `do_rotary` and `past_present_share_buffer`"));
    }
    let scale = call.float_opt("scale")?;
    let [q, k, v] = thirds(cx, &operands.projected, operands.widths)?;
    let [q, mut k, mut v] =
        [split_heads(cx, &q, heads)?, split_heads(cx, &k, heads)?, split_heads(cx, &v, heads)?];
    let mut before = Expr::i64(0);
    if let Some(past) = operands.past {
        if past.rank() != 5 {
            return Err(invalid(format!("past of type {}", past.ty)));
        }
        before = past.shape()[3].clone();
        let mut half = |index: i64| -> Result<Tensor> {
            let half = cx.slice(past, 0, &Expr::i64(index), &Expr::i64(1))?;
            cx.squeeze(&half, &[0])
        };
        let halves = [half(0)?, half(1)?];
        k = joined(cx, Some(&halves[0]), k)?;
        v = joined(cx, Some(&halves[1]), v)?;
    }
    let [batch, rows, keys] = [&q.shape()[0], &q.shape()[2], &k.shape()[2]].map(Expr::clone);
    let masked = match operands.mask {
        Some(mask) => {
            let extents = [&batch, &rows, &keys];
            Some(mask_bias(cx, mask, extents, &before, (q.dtype(), filter))?)
        }
        None => None,
    };
    let frontier = match call.flag("unidirectional")? {
        true => Some(causal(cx, [&rows, &keys], &before, q.dtype())?),
        false => None,
    };
    let bias = total(cx, [masked, frontier, operands.bias.cloned()])?;
    let present = call.wants(1).then(|| -> Result<Tensor> {
        let parts = [cx.unsqueeze(&k, &[0])?, cx.unsqueeze(&v, &[0])?];
        cx.concat(&parts, 0)
    });
    let present = present.transpose()?;
    let y = attend(cx, &scores::Attention { q, k, v, scale, softcap: 0.0, bias, sink: None })?;
    all([Some(y), present].into_iter().flatten().collect())
}

fn attention(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    call.ignore(&["rotary_embedding_dim"]);
    if call.opt(6)?.is_some() {
        return Err(unsupported("input `past_sequence_length`"));
    }
    let columns = w.shape().get(1).and_then(Expr::as_int);
    let columns = columns.ok_or_else(|| unsupported("weights of unknown width"))?;
    let widths = match call.ints("qkv_hidden_sizes")? {
        Some(&[q, k, v]) if q + k + v == columns && q.min(k).min(v) > 0 => [q, k, v],
        Some(given) => return Err(invalid(format!("qkv_hidden_sizes {given:?} of {columns}"))),
        None => [columns / 3; 3],
    };
    let mut projected = cx.matmul(x, w)?;
    if let Some(bias) = call.opt(2)? {
        projected = cx.add(&projected, bias)?;
    }
    let operands = SelfAttention {
        projected,
        widths,
        mask: call.opt(3)?,
        past: call.opt(4)?,
        bias: call.opt(5)?,
    };
    self_attention(cx, call, operands)
}

fn quantized_attention(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let a = Quantised { x: call.input(0)?, zero_point: call.opt(6)? };
    let b = Quantised { x: call.input(1)?, zero_point: call.opt(7)? };
    let columns = b.x.shape().get(1).and_then(Expr::as_int);
    let columns = columns.ok_or_else(|| unsupported("weights of unknown width"))?;
    let sum = int_matmul(cx, a, b)?;
    let wide = cx.cast(&sum, DType::F32)?;
    let input_scale = cx.reshape(call.input(3)?, &[])?;
    let scale = cx.mul(&input_scale, call.input(4)?)?;
    let scaled = cx.mul(&wide, &scale)?;
    let projected = cx.add(&scaled, call.input(2)?)?;
    let (mask, past) = (call.opt(5)?, call.opt(8)?);
    let operands = SelfAttention { projected, widths: [columns / 3; 3], mask, past, bias: None };
    self_attention(cx, call, operands)
}

/// Queries, keys and values of MultiHeadAttention, split into heads.
fn operands(cx: &mut ImportContext, call: &Call, heads: i64) -> Result<[Tensor; 3]> {
    let query = call.input(0)?;
    let (key, value, bias) = (call.opt(1)?, call.opt(2)?, call.opt(3)?);
    let mut packed = |x: &Tensor, count: i64| -> Result<Vec<Tensor>> {
        if bias.is_some() {
            return Err(unsupported("a bias of packed projections"));
        }
        let part = |cx: &mut ImportContext, index: i64| {
            let part = cx.slice(x, 3, &Expr::i64(index), &Expr::i64(1))?;
            let part = cx.squeeze(&part, &[3])?;
            cx.transpose(&part, &[0, 2, 1, 3])
        };
        (0..count).map(|index| part(cx, index)).collect()
    };
    if query.rank() == 5 {
        let parts = packed(query, 3)?;
        return parts.try_into().map_err(|_| invalid("packed projections"));
    }
    let key = key.ok_or_else(|| invalid("input 1 (key) is missing"))?;
    if key.rank() == 5 {
        let mut parts = packed(key, 2)?;
        let v = parts.pop().ok_or_else(|| invalid("packed projections"))?;
        let k = parts.pop().ok_or_else(|| invalid("packed projections"))?;
        return Ok([split_heads(cx, query, heads)?, k, v]);
    }
    let value = value.ok_or_else(|| invalid("input 2 (value) is missing"))?;
    let mut from = Expr::i64(0);
    let mut head = |x: &Tensor| -> Result<Tensor> {
        if x.rank() == 4 {
            return Ok(x.clone());
        }
        let Some(bias) = bias else { return split_heads(cx, x, heads) };
        let width = x.shape().get(2).cloned().ok_or_else(|| invalid(format!("{}", x.ty)))?;
        let part = cx.slice(bias, 0, &from, &width)?;
        from = dims::simplify(&(from.clone() + width));
        let sum = cx.add(x, &part)?;
        split_heads(cx, &sum, heads)
    };
    Ok([head(query)?, head(key)?, head(value)?])
}

fn multi_head(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let heads = head_count(call)?;
    let filter = call.float("mask_filter_value", FILTER)?;
    for (index, name) in [(8, "past_sequence_length"), (9, "cache_indirection")] {
        if call.opt(index)?.is_some() {
            return Err(unsupported(format!("input `{name}`")));
        }
    }
    let [q, k, v] = operands(cx, call, heads)?;
    let past = call.opt(6)?;
    let before = past.map_or(Expr::i64(0), |past| past.shape()[2].clone());
    let k = joined(cx, past, k)?;
    let v = joined(cx, call.opt(7)?, v)?;
    let [batch, rows, keys] = [&q.shape()[0], &q.shape()[2], &k.shape()[2]].map(Expr::clone);
    let masked = match call.opt(4)? {
        Some(mask) => {
            let extents = [&batch, &rows, &keys];
            Some(mask_bias(cx, mask, extents, &before, (q.dtype(), filter))?)
        }
        None => None,
    };
    let frontier = match call.flag("unidirectional")? {
        true => Some(causal(cx, [&rows, &keys], &before, q.dtype())?),
        false => None,
    };
    let bias = total(cx, [masked, frontier, call.opt(5)?.cloned()])?;
    let scale = call.float_opt("scale")?;
    let present = [k.clone(), v.clone()];
    let y = attend(cx, &scores::Attention { q, k, v, scale, softcap: 0.0, bias, sink: None })?;
    let [k, v] = present;
    all(vec![y, k, v])
}
