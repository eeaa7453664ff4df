//! Scaled dot-product attention and rotary position embedding.

use reflex_graph::{Binary, GatherKind, Op, PadMode, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::activation::softmax_of;
use super::table::{Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::tensor::{computes, dtype};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("Attention", attention), ("RotaryEmbedding", rotary)];

/// Operands as `[batch, heads, sequence, width]`.
struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// Queries and keys were given with heads folded into the last axis.
    folded: bool,
}

fn attention(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let Heads { q, k, v, folded } = heads(cx, call)?;
    let (past_key, past_value) = (call.opt(4)?, call.opt(5)?);
    let past = past_key.map_or(Expr::i64(0), |p| p.shape()[2].clone());
    let join = |cx: &mut ImportContext, past: Option<&Tensor>, new: &Tensor| match past {
        Some(past) => cx.concat(&[past.clone(), new.clone()], 2),
        None => Ok(new.clone()),
    };
    let present_key = join(cx, past_key, &k)?;
    let present_value = join(cx, past_value, &v)?;
    let scale = match call.float_opt("scale")? {
        Some(scale) => cx.num(scale.sqrt(), q.dtype())?,
        None => {
            let width = cx.dim_as(&q.shape()[3], DType::F32)?;
            let root = cx.unary(Unary::Sqrt, &width)?;
            let inverse = cx.unary(Unary::Reciprocal, &root)?;
            let scale = cx.unary(Unary::Sqrt, &inverse)?;
            cx.cast(&scale, q.dtype())?
        }
    };
    let k = repeated(cx, &present_key, &q)?;
    let v = repeated(cx, &present_value, &q)?;
    let scaled = cx.mul(&q, &scale)?;
    let keys = cx.transpose(&k, &[0, 1, 3, 2])?;
    let keys = cx.mul(&keys, &scale)?;
    let raw = cx.matmul(&scaled, &keys)?;
    let softcap = call.float("softcap", 0.0)?;
    let capped = if softcap > 0.0 {
        let small = cx.binary_num(Binary::Div, &raw, softcap)?;
        let bent = cx.unary(Unary::Tanh, &small)?;
        cx.binary_num(Binary::Mul, &bent, softcap)?
    } else {
        raw
    };
    let bias = bias(cx, call, &q, &k, &past)?;
    let biased = match &bias {
        Some(bias) => cx.add(&capped, bias)?,
        None => capped.clone(),
    };
    let weights = weights(cx, call, &biased, bias.as_ref())?;
    let mut y = cx.matmul(&weights, &v)?;
    if folded {
        y = cx.transpose(&y, &[0, 2, 1, 3])?;
        let width = dims::product(&y.shape()[2..]);
        let shape = [y.shape()[0].clone(), y.shape()[1].clone(), width];
        y = cx.reshape(&y, &shape)?;
    }
    let shown = match call.int("qk_matmul_output_mode", 0)? {
        0 | 1 => capped,
        2 => biased,
        3 => weights,
        mode => return Err(invalid(format!("qk_matmul_output_mode {mode}"))),
    };
    all(vec![y, present_key, present_value, shown])
}

fn heads(cx: &mut ImportContext, call: &Call) -> Result<Heads> {
    let (q_heads, kv_heads) = (call.int_opt("q_num_heads")?, call.int_opt("kv_num_heads")?);
    let mut split = |index: usize, heads: Option<i64>| -> Result<Tensor> {
        let x = call.input(index)?;
        if x.rank() == 4 {
            return Ok(x.clone());
        }
        let heads = heads.filter(|n| *n > 0 && x.rank() == 3);
        let heads = heads.ok_or_else(|| invalid(format!("input {index} of type {}", x.ty)))?;
        let [batch, length, width] = [0, 1, 2].map(|i| x.shape()[i].clone());
        let apart = cx.reshape(x, &[batch, length, Expr::i64(heads), width.floordiv(heads)])?;
        cx.transpose(&apart, &[0, 2, 1, 3])
    };
    let q = split(0, q_heads)?;
    let (k, v) = (split(1, kv_heads)?, split(2, kv_heads)?);
    Ok(Heads { q, k, v, folded: call.input(0)?.rank() == 3 })
}

/// Keys or values with each head repeated for the query heads that share it.
pub(super) fn repeated(cx: &mut ImportContext, x: &Tensor, q: &Tensor) -> Result<Tensor> {
    let (Some(have), Some(want)) = (x.shape()[1].as_int(), q.shape()[1].as_int()) else {
        return match dims::equal(&x.shape()[1], &q.shape()[1]) {
            Some(true) => Ok(x.clone()),
            _ => Err(unsupported("symbolic numbers of heads")),
        };
    };
    if have == want {
        return Ok(x.clone());
    }
    if have == 0 || want % have != 0 {
        return Err(invalid(format!("{want} query heads share {have} key heads")));
    }
    let [batch, _, length, width] = [0, 1, 2, 3].map(|i| x.shape()[i].clone());
    let apart = cx.unsqueeze(x, &[2])?;
    let groups = Expr::i64(want / have);
    let wide = [batch.clone(), Expr::i64(have), groups, length.clone(), width.clone()];
    let wide = cx.broadcast(&apart, &wide)?;
    cx.reshape(&wide, &[batch, Expr::i64(want), length, width])
}

/// The bias of the scores: mask, causal frontier, sliding window and padding.
fn bias(
    cx: &mut ImportContext,
    call: &Call,
    q: &Tensor,
    k: &Tensor,
    past: &Expr,
) -> Result<Option<Tensor>> {
    let (rows, columns) = (q.shape()[2].clone(), k.shape()[2].clone());
    let lengths = call.opt(6)?;
    let mut bias = match call.opt(3)? {
        Some(mask) => Some(given_mask(cx, mask, &columns, q.dtype())?),
        None => None,
    };
    let key = cx.iota(&columns)?;
    let query = cx.iota(&rows)?;
    let query = cx.unsqueeze(&query, &[1])?;
    // Position of a query among the keys; per batch where the cache has its own length.
    let position = match lengths {
        Some(lengths) => {
            let lengths = cx.cast(lengths, DType::I64)?;
            let offset = cx.sub(&lengths, &Tensor::dim(&rows))?;
            let offset = cx.unsqueeze(&offset, &[1, 2, 3])?;
            cx.add(&query, &offset)?
        }
        None => cx.add(&query, &Tensor::dim(past))?,
    };
    let (left, right) = (call.int("left_window_size", -1)?, call.int("right_window_size", -1)?);
    let mut allowed = vec![];
    if call.flag("is_causal")? {
        allowed.push(cx.binary(Binary::LessEqual, &key, &position)?);
    }
    if left >= 0 {
        let first = cx.sub(&position, &Tensor::dim(&Expr::i64(left)))?;
        allowed.push(cx.binary(Binary::GreaterEqual, &key, &first)?);
    }
    if right >= 0 {
        let last = cx.add(&position, &Tensor::dim(&Expr::i64(right)))?;
        allowed.push(cx.binary(Binary::LessEqual, &key, &last)?);
    }
    if let Some(lengths) = lengths {
        let lengths = cx.cast(lengths, DType::I64)?;
        let lengths = cx.unsqueeze(&lengths, &[1, 2, 3])?;
        allowed.push(cx.binary(Binary::Less, &key, &lengths)?);
    }
    for allowed in allowed {
        let extra = masked(cx, &allowed, q.dtype())?;
        bias = Some(match bias {
            Some(bias) => cx.add(&bias, &extra)?,
            None => extra,
        });
    }
    Ok(bias)
}

/// 0 where allowed, else negative infinity.
pub(super) fn masked(cx: &mut ImportContext, allowed: &Tensor, to: DType) -> Result<Tensor> {
    masked_with(cx, allowed, to, f64::NEG_INFINITY)
}

/// 0 where allowed, else `filter`.
pub(super) fn masked_with(
    cx: &mut ImportContext,
    allowed: &Tensor,
    to: DType,
    filter: f64,
) -> Result<Tensor> {
    let (zero, filter) = (cx.num(0.0, to)?, cx.num(filter, to)?);
    cx.choose(allowed, &zero, &filter)
}

/// A mask as a bias; one that is shorter than the keys masks the rest.
fn given_mask(cx: &mut ImportContext, mask: &Tensor, columns: &Expr, to: DType) -> Result<Tensor> {
    let bias = if mask.dtype() == DType::BOOL { masked(cx, mask, to)? } else { mask.clone() };
    let have = bias.shape().last().cloned().ok_or_else(|| invalid("a mask without axes"))?;
    let missing = dims::simplify(&(columns.clone() - have));
    if missing.as_int() == Some(0) {
        return Ok(bias);
    }
    let before = vec![Expr::i64(0); bias.rank()];
    let mut after = before.clone();
    after[bias.rank() - 1] = missing;
    let never = cx.num(f64::NEG_INFINITY, to)?;
    cx.op(Op::Pad { mode: PadMode::Constant, before, after }, &[&bias, &never])
}

/// Softmax of the scores; a query that may attend to nothing has no weight anywhere.
fn weights(
    cx: &mut ImportContext,
    call: &Call,
    scores: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let precision = match call.int_opt("softmax_precision")? {
        Some(code) => dtype(i32::try_from(code).unwrap_or(0))?,
        None => scores.dtype(),
    };
    if !computes(precision) {
        return Err(unsupported(format!("softmax_precision {precision}")));
    }
    let wide = cx.cast(scores, precision)?;
    let soft = softmax_of(cx, &wide, 3)?;
    let soft = cx.cast(&soft, scores.dtype())?;
    let Some(bias) = bias else { return Ok(soft) };
    let last = bias.rank() - 1;
    let most = cx.reduce_keep_dims(ReduceKind::Max, bias, &[last])?;
    let never = cx.num(f64::NEG_INFINITY, bias.dtype())?;
    let empty = cx.binary(Binary::Equal, &most, &never)?;
    let zero = cx.num(0.0, soft.dtype())?;
    cx.choose(&empty, &zero, &soft)
}

fn rotary(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let given = call.input(0)?;
    let count = call.int("num_heads", 0)?;
    let folded = given.rank() == 3;
    let x = match given.rank() {
        4 => cx.transpose(given, &[0, 2, 1, 3])?,
        3 if count > 0 => {
            let [batch, length, width] = [0, 1, 2].map(|i| given.shape()[i].clone());
            cx.reshape(given, &[batch, length, Expr::i64(count), width.floordiv(count)])?
        }
        _ => return Err(invalid(format!("input of type {} with {count} heads", given.ty))),
    };
    let width = x.shape()[3].as_int().ok_or_else(|| unsupported("a symbolic head size"))?;
    let turned = match call.int("rotary_embedding_dim", 0)? {
        0 => width,
        turned if turned > 0 && turned <= width => turned,
        turned => return Err(invalid(format!("rotary_embedding_dim {turned}"))),
    };
    let mut tables = vec![];
    for index in [1, 2] {
        let table = match call.opt(3)? {
            Some(positions) => cx.gather(GatherKind::Axis(0), call.input(index)?, positions)?,
            None => call.input(index)?.clone(),
        };
        tables.push(cx.unsqueeze(&table, &[2])?);
    }
    let pairs =
        if call.flag("interleaved")? { RotaryPairs::Neighbours } else { RotaryPairs::Halves };
    let rotated = rotate(cx, pairs, &x, [&tables[0], &tables[1]], turned)?;
    let rest = cx.slice(&x, 3, &Expr::i64(turned), &Expr::i64(width - turned))?;
    let parts = if turned == width { vec![rotated] } else { vec![rotated, rest] };
    let result = cx.concat(&parts, 3)?;
    match folded {
        true => one(cx.reshape(&result, given.shape())?),
        false => one(cx.transpose(&result, &[0, 2, 1, 3])?),
    }
}

/// The elements that a rotary embedding rotates together.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum RotaryPairs {
    /// Element `2 i` with `2 i + 1`.
    Neighbours,
    /// Element `i` of the first half with element `i` of the second.
    Halves,
}

/// Rotates the first `turned` elements of the last axis of `x` `[batch, sequence, heads, width]`
/// by the angles whose cosines and sines are `tables`, each `[.., turned / 2]` (Su et al. 2021,
/// RoFormer).
pub(super) fn rotate(
    cx: &mut ImportContext,
    pairs: RotaryPairs,
    x: &Tensor,
    [cos, sin]: [&Tensor; 2],
    turned: i64,
) -> Result<Tensor> {
    let interleaved = pairs == RotaryPairs::Neighbours;
    let mut pair = vec![];
    for i in 0..2 {
        let mut begin = vec![Expr::i64(0); 4];
        let mut extent = x.shape().to_vec();
        let mut stride = vec![1; 4];
        extent[3] = Expr::i64(turned / 2);
        begin[3] = Expr::i64(if interleaved { i } else { i * (turned / 2) });
        stride[3] = if interleaved { 2 } else { 1 };
        pair.push(cx.strided(x, begin, extent, stride)?);
    }
    let products = [(0, cos), (1, sin), (0, sin), (1, cos)];
    let mut terms = vec![];
    for (i, table) in products {
        terms.push(cx.mul(&pair[i], table)?);
    }
    let real = cx.sub(&terms[0], &terms[1])?;
    let imaginary = cx.add(&terms[2], &terms[3])?;
    if !interleaved {
        return cx.concat(&[real, imaginary], 3);
    }
    let parts = [cx.unsqueeze(&real, &[4])?, cx.unsqueeze(&imaginary, &[4])?];
    let joined = cx.concat(&parts, 4)?;
    let mut shape = x.shape().to_vec();
    shape[3] = Expr::i64(turned);
    cx.reshape(&joined, &shape)
}
