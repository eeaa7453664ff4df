//! GroupQueryAttention: attention with a cache of keys and values that grows by each call, shared
//! by groups of query heads, with rotary positions.

use reflex_graph::{Binary, GatherKind, dims};
use reflex_tir::{DType, Expr};

use super::embedding::{pairs, rotated};
use super::norm::last_axis;
use super::scores::{Attention, attend, heads_apart, total};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::ops::attention::masked;
use crate::ops::norm::root_mean_square;
use crate::ops::table::{Table, all};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("GroupQueryAttention", group_query)];

fn group_query(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    refuse_what_is_missing(call)?;
    let [q, k, v] = projections(cx, call)?;
    let [q, k] = normalised(cx, call, [q, k])?;
    let cache = Cache::new(cx, call, &q)?;
    let [q, k] = match call.flag("do_rotary")? {
        true => turned(cx, call, &cache, [&q, &k])?,
        false => {
            call.ignore(&["rotary_interleaved"]);
            [q, k]
        }
    };
    let k = cache.present(cx, call.opt(3)?, &k)?;
    let v = cache.present(cx, call.opt(4)?, &v)?;
    let q = cx.transpose(&q, &[0, 2, 1, 3])?;
    let frontier = cache.frontier(cx, call, &q)?;
    let given = match call.opt(10)? {
        Some(bias) => Some(cache.columns(cx, bias)?),
        None => None,
    };
    let bias = total(cx, [frontier, given])?;
    let sink = match (call.opt(11)?, call.int("smooth_softmax", 0)?) {
        (Some(sink), _) => Some(sink.clone()),
        (None, 1) => Some(cx.filled(0.0, q.dtype(), &q.shape()[1..2])?),
        (None, _) => None,
    };
    let (scale, softcap) = (call.float_opt("scale")?, call.float("softcap", 0.0)?);
    let attention = Attention { q, k: k.clone(), v: v.clone(), scale, softcap, bias, sink };
    let y = attend(cx, &attention)?;
    all(vec![y, k, v])
}

fn refuse_what_is_missing(call: &Call) -> Result<()> {
    for name in ["k_quant_type", "v_quant_type"] {
        if call.text(name, "NONE")? != "NONE" {
            return Err(unsupported(format!("attribute `{name}`: a quantised cache")));
        }
    }
    call.ignore(&["kv_cache_bit_width"]);
    if call.flag("sliding_window_cache")? {
        return Err(unsupported("attribute `sliding_window_cache`"));
    }
    if call.int("qk_output", 0)? != 0 {
        return Err(unsupported("attribute `qk_output`"));
    }
    Ok(())
}

/// Queries, keys and values `[batch, sequence, heads, width]`.
fn projections(cx: &mut ImportContext, call: &Call) -> Result<[Tensor; 3]> {
    let (heads, kv_heads) = (call.int("num_heads", 0)?, call.int("kv_num_heads", 0)?);
    if heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0 {
        return Err(invalid(format!("{heads} query heads share {kv_heads} key heads")));
    }
    let query = call.input(0)?;
    if let (Some(key), Some(value)) = (call.opt(1)?, call.opt(2)?) {
        let q = heads_apart(cx, query, heads)?;
        return Ok([q, heads_apart(cx, key, kv_heads)?, heads_apart(cx, value, kv_heads)?]);
    }
    let packed = heads_apart(cx, query, heads + 2 * kv_heads)?;
    let mut from = 0;
    let mut part = |count: i64| {
        let part = cx.slice(&packed, 2, &Expr::i64(from), &Expr::i64(count));
        from += count;
        part
    };
    Ok([part(heads)?, part(kv_heads)?, part(kv_heads)?])
}

/// RMS normalisation of each head of queries and keys, where weights are given.
fn normalised(cx: &mut ImportContext, call: &Call, [q, k]: [Tensor; 2]) -> Result<[Tensor; 2]> {
    let epsilon = call.float("qk_norm_epsilon", 1e-6)?;
    match (call.opt(14)?, call.opt(15)?) {
        (Some(q_weight), Some(k_weight)) => Ok([
            root_mean_square(cx, &q, &[last_axis(&q)?], q_weight, epsilon)?,
            root_mean_square(cx, &k, &[last_axis(&k)?], k_weight, epsilon)?,
        ]),
        (None, None) => Ok([q, k]),
        _ => Err(invalid("q_norm_weight and k_norm_weight come together")),
    }
}

/// The cache of keys and values of a call.
struct Cache {
    /// Tokens before this call `[batch]`, int64.
    before: Tensor,
    /// Tokens after it `[batch]`, int64.
    after: Tensor,
    /// Tokens that the past inputs have place for.
    capacity: Expr,
    /// Tokens that the present outputs have place for.
    present: Expr,
    /// Tokens of this call.
    new: Expr,
}

impl Cache {
    fn new(cx: &mut ImportContext, call: &Call, q: &Tensor) -> Result<Cache> {
        let new = q.shape()[1].clone();
        let last = cx.cast(call.input(5)?, DType::I64)?;
        let last = cx.reshape(&last, &q.shape()[..1])?;
        let after = cx.binary_num(Binary::Add, &last, 1.0)?;
        // A prompt that is padded to the longest of its batch starts at 0 all the same.
        let before = cx.sub(&after, &Tensor::dim(&new))?;
        let before = cx.binary_num(Binary::Max, &before, 0.0)?;
        let capacity = call.opt(3)?.map_or(Expr::i64(0), |past| past.shape()[2].clone());
        let total = cx.reshape(call.input(6)?, &[])?;
        let total = cx.dims_of(&total, "total_sequence_length")?.remove(0);
        let present = dims::simplify(&total.max(capacity.clone()));
        Ok(Cache { before, after, capacity, present, new })
    }

    /// `new` `[batch, sequence, heads, width]` after the tokens of `past` `[batch, heads, capacity,
    /// width]` that are in use; `[batch, heads, present, width]`.
    fn present(
        &self,
        cx: &mut ImportContext,
        past: Option<&Tensor>,
        new: &Tensor,
    ) -> Result<Tensor> {
        let new = cx.transpose(new, &[0, 2, 1, 3])?;
        let joined = match past {
            Some(past) => cx.concat(&[past.clone(), new], 2)?,
            None => new,
        };
        let full = self.capacity.clone() + self.new.clone();
        if dims::equal(&full, &self.present) == Some(true) {
            return Ok(joined);
        }
        // Row t of the result is row t of the past, or one of those that follow the capacity.
        let before = cx.unsqueeze(&self.before, &[1])?;
        let row = cx.iota(&self.present)?;
        let unused = cx.sub(&Tensor::dim(&self.capacity), &before)?;
        let shifted = cx.add(&row, &unused)?;
        let last = dims::simplify(&(full - 1));
        let shifted = cx.binary(Binary::Min, &shifted, &Tensor::dim(&last))?;
        let old = cx.binary(Binary::Less, &row, &before)?;
        let rows = cx.choose(&old, &row, &shifted)?;
        let rows = cx.unsqueeze(&rows, &[2])?;
        let tokens_first = cx.transpose(&joined, &[0, 2, 1, 3])?;
        let picked = cx.gather(GatherKind::Nd { batch_dims: 1 }, &tokens_first, &rows)?;
        cx.transpose(&picked, &[0, 2, 1, 3])
    }

    /// The bias `[batch, 1, sequence, present]` of the causal frontier, the window, and the end of
    /// what is in use.
    fn frontier(&self, cx: &mut ImportContext, call: &Call, q: &Tensor) -> Result<Option<Tensor>> {
        let causal = call.flag_or_true("causal")?;
        let window = call.int("local_window_size", -1)?;
        let key = cx.iota(&self.present)?;
        let column = |cx: &mut ImportContext, x: &Tensor| cx.unsqueeze(x, &[1, 2, 3]);
        let end = column(cx, &self.after)?;
        let mut allowed = cx.binary(Binary::Less, &key, &end)?;
        let step = cx.iota(&self.new)?;
        let step = cx.unsqueeze(&step, &[1])?;
        let before = column(cx, &self.before)?;
        let position = cx.add(&step, &before)?;
        if causal {
            allowed = cx.binary(Binary::LessEqual, &key, &position)?;
        }
        // The window includes the query's own token.
        if window > 0 {
            let first = cx.binary_num(Binary::Sub, &position, window as f64 - 1.0)?;
            let near = cx.binary(Binary::GreaterEqual, &key, &first)?;
            allowed = cx.binary(Binary::And, &allowed, &near)?;
        }
        masked(cx, &allowed, q.dtype()).map(Some)
    }

    /// A bias over the tokens in use, with nothing added for the rest of the cache.
    fn columns(&self, cx: &mut ImportContext, bias: &Tensor) -> Result<Tensor> {
        let have = bias.shape().last().cloned().ok_or_else(|| invalid("a bias without axes"))?;
        if dims::equal(&have, &self.present) == Some(true) {
            return Ok(bias.clone());
        }
        let mut shape = bias.shape().to_vec();
        let axis = bias.rank() - 1;
        shape[axis] = dims::simplify(&(self.present.clone() - have));
        let rest = cx.filled(0.0, bias.dtype(), &shape)?;
        cx.concat(&[bias.clone(), rest], axis)
    }
}

/// Queries and keys turned by their positions.
fn turned(
    cx: &mut ImportContext,
    call: &Call,
    cache: &Cache,
    heads: [&Tensor; 2],
) -> Result<[Tensor; 2]> {
    let pairs = pairs(call, "rotary_interleaved")?;
    let tables = [call.input(7)?, call.input(8)?];
    let half = tables[0].shape().get(1).and_then(Expr::as_int);
    let half = half.ok_or_else(|| unsupported("cos_cache of unknown width"))?;
    let positions = match call.opt(9)? {
        Some(given) => given.clone(),
        None => {
            let step = cx.iota(&cache.new)?;
            let before = cx.unsqueeze(&cache.before, &[1])?;
            cx.add(&step, &before)?
        }
    };
    let [q, k] = heads.map(|x| rotated(cx, pairs, x, tables, &positions, 2 * half));
    Ok([q?, k?])
}
