//! Looking up elements among constant keys: a binary search, in as many steps as the number of keys
//! has bits. Strings are searched by a hash without collisions among the keys, then compared.

use reflex_graph::{Binary, Literal, Op, PadMode, ReduceKind, Unary};
use reflex_tir::{DType, Expr};

use super::tree_ensemble::constant;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::strings;
use crate::value::Tensor;

/// Wider keys are refused: their hash would not fit 64 bits.
const MAX_WIDTH: usize = 1 << 15;
/// Bits of a factor of the hash: with bytes and the widest key below 63.
const FACTOR_BITS: u32 = 63 - 8 - 15;

/// Where elements were found.
pub(super) struct Found {
    /// Indices into the keys as given; that of the first of equal keys. Anything in range where `hit`
    /// is false.
    pub index: Tensor,
    /// Bool: the key is there.
    pub hit: Tensor,
}

impl Found {
    /// The values of the keys, `[count]`, and elsewhere a default.
    pub fn values(
        &self,
        cx: &mut ImportContext,
        values: &Tensor,
        default: &Tensor,
    ) -> Result<Tensor> {
        let found = cx.take(values, &self.index, 0)?;
        cx.choose(&self.hit, &found, default)
    }

    /// Indices into the keys, and elsewhere their number.
    pub fn or_count(&self, cx: &mut ImportContext, count: usize) -> Result<Tensor> {
        let missing = Tensor::dim(&Expr::i64(count as i64));
        cx.choose(&self.hit, &self.index, &missing)
    }
}

/// Looks up integers.
pub(super) fn ints(cx: &mut ImportContext, x: &Tensor, keys: &[i64]) -> Result<Found> {
    let x = cx.cast(x, DType::I64)?;
    let order = ordered(keys, |a, b| a.cmp(b))?;
    let sorted: Vec<i64> = order.iter().map(|at| keys[*at]).collect();
    let table = cx.ints(&padded(&sorted));
    search(cx, &x, &table, &order)
}

/// Looks up numbers; NaN is found where it is a key.
pub(super) fn floats(cx: &mut ImportContext, x: &Tensor, keys: &[f64]) -> Result<Found> {
    // Zeros are one key, whatever their sign.
    let keys: Vec<f64> = keys.iter().map(|k| k + 0.0).collect();
    let nan = keys.iter().position(|k| k.is_nan());
    let numbers: Vec<usize> = (0..keys.len()).filter(|at| !keys[*at].is_nan()).collect();
    let mut order = numbers;
    order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]).then(a.cmp(b)));
    order.dedup_by(|b, a| keys[*a] == keys[*b]);
    let mut found = match order.is_empty() {
        true => None,
        false => {
            let sorted: Vec<f64> = order.iter().map(|at| keys[*at]).collect();
            let sorted = padded(&sorted);
            let table = constant(x.dtype(), vec![sorted.len() as i64], &sorted)?;
            Some(search(cx, x, &table, &order)?)
        }
    };
    if let Some(nan) = nan {
        let is_nan = cx.unary(Unary::IsNan, x)?;
        let place = Tensor::dim(&Expr::i64(nan as i64));
        found = Some(match found {
            None => Found { index: cx.broadcast(&place, x.shape())?, hit: is_nan },
            Some(found) => Found {
                index: cx.choose(&is_nan, &place, &found.index)?,
                hit: cx.binary(Binary::Or, &found.hit, &is_nan)?,
            },
        });
    }
    found.ok_or_else(|| invalid("no keys"))
}

/// Looks up strings, whose bytes are the last axis of `x`.
pub(super) fn texts(cx: &mut ImportContext, x: &Tensor, keys: &[&str]) -> Result<Found> {
    let order = ordered(keys, |a, b| a.cmp(b))?;
    let distinct: Vec<&str> = order.iter().map(|at| keys[*at]).collect();
    let table = strings::bytes(&[distinct.len() as i64], &distinct)?;
    let width = table.shape()[1] as usize;
    if width > MAX_WIDTH {
        return Err(unsupported(format!("keys of more than {MAX_WIDTH} bytes")));
    }
    let (factors, hashes) = perfect_hash(&table, width)?;
    let by_hash = ordered(&hashes, |a, b| a.cmp(b))?;
    let (head, longer) = head(cx, x, width)?;
    let wide = cx.cast(&head, DType::I64)?;
    let products = cx.mul(&wide, &cx.ints(&factors))?;
    let last = x.rank() - 1;
    let hash = cx.reduce(ReduceKind::Sum, &products, &[last])?;
    let sorted: Vec<i64> = by_hash.iter().map(|at| hashes[*at]).collect();
    let sorted_table = cx.ints(&padded(&sorted));
    let found = search(cx, &hash, &sorted_table, &by_hash)?;
    let key = cx.take(&Tensor::literal(table), &found.index, 0)?;
    let same = cx.binary(Binary::Equal, &key, &head)?;
    let same = cx.cast(&same, DType::U8)?;
    let same = cx.reduce(ReduceKind::Min, &same, &[last])?;
    let same = cx.cast(&same, DType::BOOL)?;
    let mut hit = cx.binary(Binary::And, &found.hit, &same)?;
    if let Some(longer) = longer {
        let fits = cx.unary(Unary::Not, &longer)?;
        hit = cx.binary(Binary::And, &hit, &fits)?;
    }
    let places: Vec<i64> = order.iter().map(|at| *at as i64).collect();
    let index = cx.take(&cx.ints(&places), &found.index, 0)?;
    Ok(Found { index, hit })
}

/// The first `width` bytes of strings, and whether any are behind them.
pub(super) fn head(
    cx: &mut ImportContext,
    x: &Tensor,
    width: usize,
) -> Result<(Tensor, Option<Tensor>)> {
    let last = x.rank() - 1;
    let width = Expr::i64(width as i64);
    if x.shape()[last] == width {
        return Ok((x.clone(), None));
    }
    let own = x.shape()[last].clone();
    let zeros = vec![Expr::i64(0); x.rank()];
    let mut after = zeros.clone();
    after[last] = width.clone();
    let zero = cx.num(0.0, DType::U8)?;
    let long = cx.op(Op::Pad { mode: PadMode::Constant, before: zeros, after }, &[x, &zero])?;
    let head = cx.slice(&long, last, &Expr::i64(0), &width)?;
    let tail = cx.slice(&long, last, &width, &own)?;
    let highest = cx.reduce(ReduceKind::Max, &tail, &[last])?;
    Ok((head, Some(cx.cast(&highest, DType::BOOL)?)))
}

/// The positions of keys in order, of equal ones the first alone.
fn ordered<T: PartialEq>(
    keys: &[T],
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Result<Vec<usize>> {
    if keys.is_empty() {
        return Err(invalid("no keys"));
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| compare(&keys[*a], &keys[*b]).then(a.cmp(b)));
    order.dedup_by(|b, a| keys[*a] == keys[*b]);
    Ok(order)
}

/// A power of two of elements: the last one is repeated.
fn padded<T: Copy>(sorted: &[T]) -> Vec<T> {
    let mut all = sorted.to_vec();
    all.resize(sorted.len().next_power_of_two(), sorted[sorted.len() - 1]);
    all
}

/// Searches a sorted table, a power of two of elements; `order` says what its elements stand for.
fn search(cx: &mut ImportContext, x: &Tensor, table: &Tensor, order: &[usize]) -> Result<Found> {
    let count = table.count().unwrap_or(1);
    let start = Tensor::dim(&Expr::i64(0));
    let mut at = cx.broadcast(&start, x.shape())?;
    let mut step = count / 2;
    while step > 0 {
        let next = cx.binary_num(Binary::Add, &at, step as f64)?;
        let key = cx.take(table, &next, 0)?;
        let low = cx.binary(Binary::LessEqual, &key, x)?;
        at = cx.choose(&low, &next, &at)?;
        step /= 2;
    }
    let key = cx.take(table, &at, 0)?;
    let hit = cx.binary(Binary::Equal, &key, x)?;
    let places: Vec<i64> = order.iter().map(|at| *at as i64).collect();
    let index = cx.take(&cx.ints(&padded(&places)), &at, 0)?;
    Ok(Found { index, hit })
}

/// Factors of the bytes, and the sums of products with them, which differ between the keys.
fn perfect_hash(table: &Literal, width: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..16 {
        let factors: Vec<i64> = (0..width)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> (64 - FACTOR_BITS)) as i64
            })
            .collect();
        let hash = |row: &[u8]| row.iter().zip(&factors).map(|(b, f)| i64::from(*b) * f).sum();
        let hashes: Vec<i64> = table.bytes().chunks_exact(width).map(hash).collect();
        let distinct: std::collections::HashSet<&i64> = hashes.iter().collect();
        if distinct.len() == hashes.len() {
            return Ok((factors, hashes));
        }
    }
    Err(unsupported("keys whose hashes collide"))
}
