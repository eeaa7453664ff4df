//! TfIdfVectorizer: how often n-grams of a pool occur in rows of integers or strings.
//!
//! Tokens become numbers, and an n-gram is found one token at a time: what is known of the tokens so far
//! is the number of a prefix, which is looked up with the next token.

use std::collections::HashMap;
use std::hash::Hash;

use reflex_graph::{Binary, Literal, Op, OutOfRange, PadMode, ScatterKind, ScatterReduce};
use reflex_tir::{DType, Expr};

use super::lookup;
use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("TfIdfVectorizer", tf_idf)];

/// Most passes over the rows: one for each length of an n-gram and each number of skipped tokens.
const MAX_PASSES: i64 = 1 << 10;

/// Most columns of the result.
const MAX_COLUMNS: i64 = 1 << 24;

/// The pool: n-grams by length, as numbers of distinct tokens, each with its column.
struct Pool {
    tokens: usize,
    by_length: Vec<Vec<(Vec<usize>, i64)>>,
    columns: i64,
}

impl Pool {
    /// Reads the n-grams of a pool; returns the distinct tokens too.
    fn of<T: Copy + Eq + Hash>(call: &Call, pool: &[T]) -> Result<(Pool, Vec<T>)> {
        let starts = call.ints("ngram_counts")?.unwrap_or_default();
        let indexes = call.ints("ngram_indexes")?.unwrap_or_default();
        let mut numbers: HashMap<T, usize> = HashMap::new();
        let mut tokens = vec![];
        let mut by_length = vec![];
        let mut next = indexes.iter();
        for (at, start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).copied().unwrap_or(pool.len() as i64);
            let range = usize::try_from(*start).ok().zip(usize::try_from(end).ok());
            let part = range.and_then(|(start, end)| pool.get(start..end));
            let part = part.filter(|part| part.len().is_multiple_of(at + 1));
            let part = part.ok_or_else(|| invalid("ngram_counts do not fit the pool"))?;
            let mut grams = vec![];
            for gram in part.chunks_exact(at + 1) {
                let number = |token: &T| {
                    *numbers.entry(*token).or_insert_with(|| {
                        tokens.push(*token);
                        tokens.len() - 1
                    })
                };
                let gram = gram.iter().map(number).collect();
                let column = next.next().filter(|c| (0..MAX_COLUMNS).contains(*c));
                grams.push((gram, *column.ok_or_else(|| invalid("too few ngram_indexes"))?));
            }
            by_length.push(grams);
        }
        if next.next().is_some() || tokens.is_empty() {
            return Err(invalid("ngram_indexes do not fit the pool"));
        }
        let columns = indexes.iter().max().map_or(0, |most| most + 1);
        Ok((Pool { tokens: tokens.len(), by_length, columns }, tokens))
    }

    /// The columns of the n-grams of one length that start at each position, `[rows, positions]`;
    /// the number of columns where there is none. `step` is the distance between the tokens.
    fn found(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        length: usize,
        step: i64,
    ) -> Result<Option<Tensor>> {
        let grams = self.by_length.get(length - 1).filter(|grams| !grams.is_empty());
        let Some(grams) = grams else { return Ok(None) };
        let positions = x.shape()[1].clone();
        // Behind the end are tokens of no n-gram.
        let tail = (length as i64 - 1) * step;
        let after = vec![Expr::i64(0), Expr::i64(tail)];
        let none = Tensor::dim(&Expr::i64(self.tokens as i64));
        let pad = Op::Pad { mode: PadMode::Constant, before: vec![Expr::i64(0); 2], after };
        let long = if tail == 0 { x.clone() } else { cx.op(pad, &[x, &none])? };
        let base = self.tokens as i64 + 1;
        let mut prefixes: Vec<&[usize]> = vec![&[]];
        let mut state = cx.filled(0.0, DType::I64, x.shape())?;
        for at in 0..length {
            let before: HashMap<&[usize], usize> =
                prefixes.iter().enumerate().map(|(n, prefix)| (*prefix, n)).collect();
            let mut longer: Vec<&[usize]> = grams.iter().map(|(gram, _)| &gram[..=at]).collect();
            longer.sort_unstable();
            longer.dedup();
            let key = |prefix: &&[usize]| {
                let known = before.get(&prefix[..at]).copied().unwrap_or(0);
                (known as i64).checked_mul(base).map(|k| k + prefix[at] as i64)
            };
            let keys = longer.iter().map(key).collect::<Option<Vec<i64>>>();
            let keys = keys.ok_or_else(|| unsupported("that many n-grams"))?;
            let token = cx.slice(&long, 1, &Expr::i64(at as i64 * step), &positions)?;
            let scaled = cx.mul(&state, &Tensor::dim(&Expr::i64(base)))?;
            let joined = cx.add(&scaled, &token)?;
            let found = lookup::ints(cx, &joined, &keys)?;
            // What is no prefix meets a token that none has: the state behind the last one.
            state = found.or_count(cx, keys.len())?;
            prefixes = longer;
        }
        let mut columns = vec![self.columns; prefixes.len() + 1];
        let places: HashMap<&[usize], usize> =
            prefixes.iter().enumerate().map(|(n, prefix)| (*prefix, n)).collect();
        for (gram, column) in grams {
            columns[places[gram.as_slice()]] = *column;
        }
        Ok(Some(cx.take(&cx.ints(&columns), &state, 0)?))
    }
}

fn tf_idf(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let ints = call.ints("pool_int64s")?.filter(|pool| !pool.is_empty());
    let texts = call.texts("pool_strings")?.filter(|pool| !pool.is_empty());
    let (pool, x) = match (ints, texts, call.inputs.first()) {
        (Some(ints), None, _) if call.input(0)?.dtype().is_int() => {
            let (pool, tokens) = Pool::of(call, ints)?;
            let found = lookup::ints(cx, call.input(0)?, &tokens)?;
            (pool, found.or_count(cx, tokens.len())?)
        }
        (None, Some(texts), Some(Some(OnnxValue::Strings(x)))) => {
            let (pool, tokens) = Pool::of(call, &texts)?;
            let found = lookup::texts(cx, x, &tokens)?;
            (pool, found.or_count(cx, tokens.len())?)
        }
        _ => return Err(invalid("a pool of the type of input 0 is needed")),
    };
    let rows = match x.rank() {
        1 => cx.unsqueeze(&x, &[0])?,
        2 => x.clone(),
        _ => return Err(invalid("rows of tokens are needed")),
    };
    let counts = counts(cx, call, &pool, &rows)?;
    let mode = call.text("mode", "TF")?;
    let weights = call.floats("weights")?.filter(|w| !w.is_empty());
    if weights.is_some_and(|w| w.len() as i64 != pool.columns) {
        return Err(unsupported("weights of another number than columns"));
    }
    let counts = match mode {
        "TF" | "TFIDF" => counts,
        "IDF" => {
            let there = cx.binary_num(Binary::Greater, &counts, 0.0)?;
            cx.cast(&there, DType::F32)?
        }
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let y = match weights {
        Some(weights) if mode != "TF" => {
            let weights = Tensor::literal(Literal::from_f32(vec![pool.columns], weights));
            cx.mul(&counts, &weights)?
        }
        _ => counts,
    };
    one(if x.rank() == 1 { cx.squeeze(&y, &[0])? } else { y })
}

/// The number of times that the n-grams of each column occur, `[rows, columns]`.
fn counts(cx: &mut ImportContext, call: &Call, pool: &Pool, x: &Tensor) -> Result<Tensor> {
    let required = |name: &'static str| -> Result<i64> {
        call.int_opt(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")))
    };
    let (low, high) = (required("min_gram_length")?, required("max_gram_length")?);
    let skips = required("max_skip_count")?;
    if low < 1 || high < low || skips < 0 {
        return Err(invalid(format!("n-grams of {low} to {high} tokens, {skips} skipped")));
    }
    let high = high.min(pool.by_length.len() as i64);
    if (high - low + 1).max(0).saturating_mul(skips.saturating_add(1)) > MAX_PASSES {
        return Err(unsupported("that many lengths and skips of n-grams"));
    }
    // One column more is for what is in no n-gram.
    let shape = [x.shape()[0].clone(), Expr::i64(pool.columns + 1)];
    let mut counts = cx.filled(0.0, DType::F32, &shape)?;
    for length in low..=high {
        for skip in 0..=if length == 1 { 0 } else { skips } {
            let Some(columns) = pool.found(cx, x, length as usize, skip + 1)? else { continue };
            let ones = cx.filled(1.0, DType::F32, columns.shape())?;
            let (kind, reduce) = (ScatterKind::Elements(1), ScatterReduce::Add);
            let scatter = Op::Scatter { kind, reduce, out_of_range: OutOfRange::Clamp };
            counts = cx.op(scatter, &[&counts, &columns, &ones])?;
        }
    }
    cx.slice(&counts, 1, &Expr::i64(0), &Expr::i64(pool.columns))
}
