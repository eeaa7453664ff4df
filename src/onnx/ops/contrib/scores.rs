//! Scaled dot-product attention over heads, with the biases that masks become.

use reflex_graph::{Binary, Unary, dims};
use reflex_tir::{DType, Expr};

use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::ops::activation::softmax_of;
use crate::ops::attention::{masked, masked_with, repeated};
use crate::value::Tensor;

/// One attention: queries `[batch, heads, sequence, width]`, keys and values with as many heads
/// or a divisor of them.
pub(super) struct Attention {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    /// Factor of the scores; `1 / sqrt(width)` where it is `None` or zero.
    pub scale: Option<f64>,
    /// Scores are bent to `softcap * tanh(score / softcap)` where it is positive.
    pub softcap: f64,
    /// Added to the scores; broadcast to `[batch, heads, sequence, keys]`.
    pub bias: Option<Tensor>,
    /// One score more a head `[heads]`, which takes weight and has no value.
    pub sink: Option<Tensor>,
}

/// The result `[batch, sequence, heads * value width]`.
pub(super) fn attend(cx: &mut ImportContext, attention: &Attention) -> Result<Tensor> {
    let Attention { q, .. } = attention;
    let k = repeated(cx, &attention.k, q)?;
    let v = repeated(cx, &attention.v, q)?;
    let keys = cx.transpose(&k, &[0, 1, 3, 2])?;
    let raw = cx.matmul(q, &keys)?;
    let mut scores = match attention.scale.filter(|scale| *scale != 0.0) {
        Some(scale) => cx.binary_num(Binary::Mul, &raw, scale)?,
        None => {
            let width = cx.dim_as(&q.shape()[3], DType::F32)?;
            let root = cx.unary(Unary::Sqrt, &width)?;
            let inverse = cx.unary(Unary::Reciprocal, &root)?;
            let inverse = cx.cast(&inverse, q.dtype())?;
            cx.mul(&raw, &inverse)?
        }
    };
    if attention.softcap > 0.0 {
        let small = cx.binary_num(Binary::Div, &scores, attention.softcap)?;
        let bent = cx.unary(Unary::Tanh, &small)?;
        scores = cx.binary_num(Binary::Mul, &bent, attention.softcap)?;
    }
    if let Some(bias) = &attention.bias {
        scores = cx.add(&scores, bias)?;
    }
    let weights = weights(cx, &scores, attention.sink.as_ref())?;
    let result = cx.matmul(&weights, &v)?;
    merge_heads(cx, &result)
}

/// Softmax of the scores; a sink takes part in it and is left out of the result.
fn weights(cx: &mut ImportContext, scores: &Tensor, sink: Option<&Tensor>) -> Result<Tensor> {
    let Some(sink) = sink else { return softmax_of(cx, scores, 3) };
    let column =
        cx.reshape(sink, &[Expr::i64(1), scores.shape()[1].clone(), 1.into(), 1.into()])?;
    let mut shape = scores.shape().to_vec();
    let keys = std::mem::replace(&mut shape[3], Expr::i64(1));
    let column = cx.broadcast(&column, &shape)?;
    let wide = cx.concat(&[scores.clone(), column], 3)?;
    let soft = softmax_of(cx, &wide, 3)?;
    cx.slice(&soft, 3, &Expr::i64(0), &keys)
}

/// `[batch, sequence, heads * width]` as `[batch, heads, sequence, width]`.
pub(super) fn split_heads(cx: &mut ImportContext, x: &Tensor, heads: i64) -> Result<Tensor> {
    let split = heads_apart(cx, x, heads)?;
    cx.transpose(&split, &[0, 2, 1, 3])
}

/// `[batch, sequence, heads * width]` as `[batch, sequence, heads, width]`.
pub(super) fn heads_apart(cx: &mut ImportContext, x: &Tensor, heads: i64) -> Result<Tensor> {
    let width = x.shape().get(2).cloned().filter(|_| x.rank() == 3 && heads > 0);
    let uneven = width.as_ref().and_then(Expr::as_int).is_some_and(|w| w % heads.max(1) != 0);
    let Some(width) = width.filter(|_| !uneven) else {
        return Err(invalid(format!("{heads} heads of type {}", x.ty)));
    };
    let [batch, length] = [0, 1].map(|i| x.shape()[i].clone());
    cx.reshape(x, &[batch, length, Expr::i64(heads), width.floordiv(heads)])
}

fn merge_heads(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let x = cx.transpose(x, &[0, 2, 1, 3])?;
    let [batch, length] = [0, 1].map(|i| x.shape()[i].clone());
    let width = dims::product(&x.shape()[2..]);
    cx.reshape(&x, &[batch, length, width])
}

/// `past` `[batch, heads, before, width]` followed by `new` along the sequence.
pub(super) fn joined(cx: &mut ImportContext, past: Option<&Tensor>, new: Tensor) -> Result<Tensor> {
    match past {
        Some(past) => cx.concat(&[past.clone(), new], 2),
        None => Ok(new),
    }
}

/// The sum of what is there; `None` without any.
pub(super) fn total(
    cx: &mut ImportContext,
    biases: impl IntoIterator<Item = Option<Tensor>>,
) -> Result<Option<Tensor>> {
    let mut sum: Option<Tensor> = None;
    for bias in biases.into_iter().flatten() {
        sum = Some(match sum {
            Some(sum) => cx.add(&sum, &bias)?,
            None => bias,
        });
    }
    Ok(sum)
}

/// The bias `[rows, keys]` that lets query `i` attend to keys up to `before + i`.
pub(super) fn causal(
    cx: &mut ImportContext,
    [rows, keys]: [&Expr; 2],
    before: &Expr,
    to: DType,
) -> Result<Tensor> {
    let key = cx.iota(keys)?;
    let query = cx.iota(rows)?;
    let query = cx.unsqueeze(&query, &[1])?;
    let last = cx.add(&query, &Tensor::dim(&dims::simplify(before)))?;
    let allowed = cx.binary(Binary::LessEqual, &key, &last)?;
    masked(cx, &allowed, to)
}

/// The bias `[batch, 1, rows or 1, keys]` of a mask of integers: `filter` where it is zero.
///
/// The mask is a mask of keys `[batch, keys]`, of queries and keys `[batch, rows, keys]`, or of the
/// whole cache `[batch, 1, capacity, capacity]`; or it is the number of keys `[batch]`, or the
/// ends and then the begins `[2 * batch]` of their range.
pub(super) fn mask_bias(
    cx: &mut ImportContext,
    mask: &Tensor,
    [batch, rows, keys]: [&Expr; 3],
    before: &Expr,
    (to, filter): (DType, f64),
) -> Result<Tensor> {
    let allowed = match mask.rank() {
        1 => return range_bias(cx, mask, [batch, keys], (to, filter)),
        2 => cx.unsqueeze(mask, &[1, 2])?,
        3 => cx.unsqueeze(mask, &[1])?,
        4 => {
            let queries = cx.slice(mask, 2, before, rows)?;
            cx.slice(&queries, 3, &Expr::i64(0), keys)?
        }
        _ => return Err(invalid(format!("a mask of type {}", mask.ty))),
    };
    let zero = cx.num(0.0, allowed.dtype())?;
    let allowed = cx.binary(Binary::Greater, &allowed, &zero)?;
    masked_with(cx, &allowed, to, filter)
}

fn range_bias(
    cx: &mut ImportContext,
    bounds: &Tensor,
    [batch, keys]: [&Expr; 2],
    (to, filter): (DType, f64),
) -> Result<Tensor> {
    let key = cx.iota(keys)?;
    let bounds = cx.cast(bounds, DType::I64)?;
    let has_begins = match dims::equal(&bounds.shape()[0], batch) {
        Some(true) => false,
        _ if dims::equal(&bounds.shape()[0], &(batch.clone() * 2)) == Some(true) => true,
        _ => {
            return Err(invalid(format!(
                "mask of type {}, not of the batch or twice as many",
                bounds.ty
            )));
        }
    };
    let column = |cx: &mut ImportContext, from: Expr| {
        let part = cx.slice(&bounds, 0, &from, batch)?;
        cx.unsqueeze(&part, &[1, 2, 3])
    };
    let end = column(cx, Expr::i64(0))?;
    let mut allowed = cx.binary(Binary::Less, &key, &end)?;
    if has_begins {
        let begin = column(cx, batch.clone())?;
        let after = cx.binary(Binary::GreaterEqual, &key, &begin)?;
        allowed = cx.binary(Binary::And, &allowed, &after)?;
    }
    masked_with(cx, &allowed, to, filter)
}
