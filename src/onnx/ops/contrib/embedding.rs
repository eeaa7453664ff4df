//! Embeddings: the sum of word, position and segment rows, normalised; rotary positions.

use reflex_graph::{GatherKind, Op, ReduceKind};
use reflex_tir::{DType, Expr};

use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::ops::attention::{RotaryPairs, rotate};
use crate::ops::table::{Table, all, one};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table =
    &[("EmbedLayerNormalization", embed_layer_norm), ("RotaryEmbedding", rotary)];

fn embed_layer_norm(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let ids = call.input(0)?;
    if ids.rank() != 2 {
        return Err(invalid(format!("input_ids of type {}", ids.ty)));
    }
    let epsilon = call.float("epsilon", 1e-12)?;
    call.ignore(&["mask_index_type"]);
    let words = cx.gather(GatherKind::Axis(0), call.input(2)?, ids)?;
    let table = call.input(3)?;
    let positions = match call.opt(8)? {
        Some(ids) => cx.gather(GatherKind::Axis(0), table, ids)?,
        None => cx.slice(table, 0, &Expr::i64(0), &ids.shape()[1])?,
    };
    let mut sum = cx.add(&words, &positions)?;
    match (call.opt(1)?, call.opt(4)?) {
        (Some(segments), Some(table)) => {
            let rows = cx.gather(GatherKind::Axis(0), table, segments)?;
            sum = cx.add(&sum, &rows)?;
        }
        (None, None) => {}
        _ => return Err(invalid("segment_ids and segment_embedding come together")),
    }
    let (gamma, beta) = (call.input(5)?, call.input(6)?);
    let normal = cx.op(Op::LayerNorm { axis: 2, epsilon }, &[&sum, gamma, beta])?;
    // The number of tokens before padding; zero without a mask.
    let lengths = match call.opt(7)? {
        Some(mask) => {
            let ones = cx.cast(mask, DType::I32)?;
            cx.reduce(ReduceKind::Sum, &ones, &[1])?
        }
        None => cx.filled(0.0, DType::I32, &ids.shape()[..1])?,
    };
    all(vec![normal, lengths, sum])
}

fn rotary(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (given, positions) = (call.input(0)?, call.input(1)?);
    let heads = call.int("num_heads", 0)?;
    if call.flag("is_packed_batching")? || call.float("scale", 1.0)? != 1.0 {
        return Err(unsupported("attributes `is_packed_batching` and `scale`"));
    }
    let half = call.input(2)?.shape().get(1).and_then(Expr::as_int);
    let half = half.ok_or_else(|| unsupported("cos_cache of unknown width"))?;
    let x = match given.rank() {
        4 => cx.transpose(given, &[0, 2, 1, 3])?,
        3 => {
            let [batch, length, width] = [0, 1, 2].map(|i| given.shape()[i].clone());
            let width = width.as_int().ok_or_else(|| unsupported("a symbolic hidden size"))?;
            let head = if heads > 0 { width / heads } else { 2 * half };
            if head == 0 || width % head != 0 {
                return Err(invalid(format!("{width} elements in heads of {head}")));
            }
            cx.reshape(given, &[batch, length, Expr::i64(width / head), Expr::i64(head)])?
        }
        _ => return Err(invalid(format!("input of type {}", given.ty))),
    };
    let turned = match call.int("rotary_embedding_dim", 0)? {
        0 => 2 * half,
        turned => turned,
    };
    let positions = positions_of(cx, positions, &x)?;
    let pairs = pairs(call, "interleaved")?;
    let result = rotated(cx, pairs, &x, [call.input(2)?, call.input(3)?], &positions, turned)?;
    match given.rank() {
        3 => one(cx.reshape(&result, given.shape())?),
        _ => one(cx.transpose(&result, &[0, 2, 1, 3])?),
    }
}

/// Positions `[batch, sequence]`: as given, or counted from the one number given.
fn positions_of(cx: &mut ImportContext, given: &Tensor, x: &Tensor) -> Result<Tensor> {
    match given.rank() {
        2 => Ok(given.clone()),
        1 => {
            let steps = cx.iota(&x.shape()[1])?;
            let first = cx.cast(given, DType::I64)?;
            let positions = cx.add(&steps, &first)?;
            cx.unsqueeze(&positions, &[0])
        }
        _ => Err(invalid(format!("position_ids of type {}", given.ty))),
    }
}

/// The pairing that a flag attribute names.
pub(super) fn pairs(call: &Call, attribute: &'static str) -> Result<RotaryPairs> {
    Ok(if call.flag(attribute)? { RotaryPairs::Neighbours } else { RotaryPairs::Halves })
}

/// `x` `[batch, sequence, heads, width]` with its first `turned` elements rotated by the rows of
/// cosine and sine tables at `positions` `[batch or 1, sequence]`.
pub(super) fn rotated(
    cx: &mut ImportContext,
    pairs: RotaryPairs,
    x: &Tensor,
    tables: [&Tensor; 2],
    positions: &Tensor,
    turned: i64,
) -> Result<Tensor> {
    let width = x.shape()[3].as_int().ok_or_else(|| unsupported("a symbolic head size"))?;
    if !(0..=width).contains(&turned) || turned % 2 != 0 {
        return Err(invalid(format!("rotary_embedding_dim {turned} of heads of {width}")));
    }
    let mut rows = vec![];
    for table in tables {
        if table.rank() != 2 {
            return Err(invalid(format!("a cosine or sine cache of type {}", table.ty)));
        }
        let picked = cx.gather(GatherKind::Axis(0), table, positions)?;
        rows.push(cx.unsqueeze(&picked, &[2])?);
    }
    let rotated = rotate(cx, pairs, x, [&rows[0], &rows[1]], turned)?;
    if turned == width {
        return Ok(rotated);
    }
    let rest = cx.slice(x, 3, &Expr::i64(turned), &Expr::i64(width - turned))?;
    cx.concat(&[rotated, rest], 3)
}
