//! Scaled dot-product attention: two products of matrices around a softmax, which compile to one kernel.

use reflex_graph::{Binary, Op, Unary, Value, dims};
use reflex_tir::{DType, Expr};

use super::table::{Results, Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("_scaled_dot_product_efficient_attention", attention),
    ("_scaled_dot_product_flash_attention", attention),
    ("_scaled_dot_product_flash_attention_for_cpu", attention),
    ("scaled_dot_product_attention", attention),
];

fn attention(cx: &mut ImportContext, call: &Call) -> Results {
    let [q, k, v] = [call.tensor("query")?, call.tensor("key")?, call.tensor("value")?];
    if call.float("dropout_p", 0.0)? != 0.0 {
        return Err(unsupported("dropout in training: call eval() on the module first"));
    }
    call.ignore(&["compute_log_sumexp", "return_debug_mask"]);
    let rank = cx.rank(q);
    if rank < 2 || cx.rank(k) != rank || cx.rank(v) != rank {
        return Err(invalid(format!("operands of ranks {rank}, {}, {}", cx.rank(k), cx.rank(v))));
    }
    let own = cx.dtype(q);
    let [q, mut k, mut v] = [cx.wide(q)?, cx.wide(k)?, cx.wide(v)?];
    if call.flag("enable_gqa", false)? {
        (k, v) = (repeated(cx, k, q)?, repeated(cx, v, q)?);
    }
    let dtype = cx.dtype(q);
    let scale = match call.opt_float("scale")? {
        Some(scale) => cx.num(scale, dtype)?,
        None => {
            let width = cx.dim_as(&cx.dim(q, rank - 1)?, dtype)?;
            let root = cx.unary(Unary::Sqrt, width)?;
            cx.unary(Unary::Reciprocal, root)?
        }
    };
    let keys = cx.swap(k, rank - 2, rank - 1)?;
    let scores = cx.matmul(q, keys)?;
    let mut scores = cx.mul(scores, scale)?;
    if let Some(mask) = mask(cx, call, scores, dtype)? {
        scores = cx.add(scores, mask)?;
    }
    let weights = cx.op(Op::Softmax { axis: rank - 1, log: false }, &[scores])?;
    let y = cx.matmul(weights, v)?;
    one(cx.cast(y, own)?)
}

/// The tensor that is added to the scores.
fn mask(cx: &mut ImportContext, call: &Call, scores: Value, dtype: DType) -> Result<Option<Value>> {
    let given = call.opt("attn_mask")?.or(call.opt("attn_bias")?);
    let causal = call.flag("is_causal", false)?;
    match (given, causal) {
        (None, false) => Ok(None),
        (Some(_), true) => Err(invalid("a mask and is_causal")),
        (Some(mask), false) if cx.dtype(mask) == DType::BOOL => closed(cx, mask, dtype).map(Some),
        (Some(mask), false) => cx.cast(mask, dtype).map(Some),
        (None, true) => {
            let rank = cx.rank(scores);
            let rows = cx.iota(&cx.dim(scores, rank - 2)?)?;
            let rows = cx.unsqueeze(rows, &[1])?;
            let columns = cx.iota(&cx.dim(scores, rank - 1)?)?;
            let open = cx.binary(Binary::LessEqual, columns, rows)?;
            closed(cx, open, dtype).map(Some)
        }
    }
}

/// 0 where a mask is open, else negative infinity.
fn closed(cx: &mut ImportContext, open: Value, dtype: DType) -> Result<Value> {
    let (zero, none) = (cx.num(0.0, dtype)?, cx.num(f64::NEG_INFINITY, dtype)?);
    cx.choose(open, zero, none)
}

/// Keys or values with each head repeated for the query heads that share it.
fn repeated(cx: &mut ImportContext, x: Value, q: Value) -> Result<Value> {
    let at = cx.rank(x).checked_sub(3).ok_or_else(|| invalid("heads without an axis"))?;
    let (have, want) = (cx.dim(x, at)?.as_int(), cx.dim(q, at)?.as_int());
    let (Some(have), Some(want)) = (have, want) else {
        return Err(unsupported("symbolic numbers of heads"));
    };
    if have == 0 || want % have != 0 {
        return Err(invalid(format!("{want} query heads share {have} key heads")));
    }
    let mut shape = cx.shape(x);
    shape[at] = Expr::i64(want);
    let apart = cx.unsqueeze(x, &[at + 1])?;
    let mut wide = cx.shape(apart);
    wide[at + 1] = Expr::i64(want / have);
    let wide = cx.broadcast(apart, &wide)?;
    let shape: Vec<Expr> = shape.iter().map(dims::simplify).collect();
    cx.reshape(wide, &shape)
}
