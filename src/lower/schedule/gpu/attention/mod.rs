//! Attention in one launch, with online softmax (FlashAttention): scores stay in registers and shared memory.
//!
//! ```text
//! for bz, by, bx in blocks:                    batch and head, tile of rows, part of the keys
//!     for ty, tx in threads:
//!         out = 0, most = -inf, total = 0      of the thread's rows
//!         q_tile = queries; k_tile = keys of the first tile
//!         for t in tiles of keys:
//!             v_tile = values                  copied while scores are computed
//!             s = score(q_tile @ k_tile)
//!             new = max(most, s of the row's threads)
//!             p_tile = exp(s - new)
//!             total, out *= exp(most - new); most = new
//!             total += p
//!             k_tile = the next keys           copied while this tile's results are
//!             out += p_tile @ v_tile
//!         y = out / sum of the row's totals
//! ```
//!
//! Float32 is multiplied by fused multiply-adds, 16-bit floats on tensor cores. A few rows (decoding) have a block of two
//! warps for each part of the keys; a second launch combines the parts, weighted by their maxima (split-k).
//! A row that may attend to nothing so far has the maximum `-inf`; its exponents are then taken from 0, so that they
//! are 0 and not NaN.
//!
//! Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao, "FlashAttention-2" (2023).
//!
//! Decision: docs/decisions/0109-attention-on-gpus.md

mod block;
mod combine;
mod pattern;
mod products;
mod share;
mod tile;
mod tiling;

use std::collections::HashSet;
use std::ops::Range;

use reflex_tir::{Buffer, Stmt};

use crate::schedule::attention::AttentionChain;
use crate::schedule::core::affine::same;
use crate::schedule::core::decision::{Decision, Refusal};
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Item, Stage, loads_of, touched_outside};
use crate::schedule::gpu::attention::block::Kernel;
use crate::schedule::gpu::attention::combine::combine;
use crate::schedule::gpu::attention::pattern::Pattern;
use crate::schedule::gpu::attention::share::Unit;
use crate::schedule::gpu::attention::tiling::Tiling;
use crate::schedule::gpu::work::Work;

/// The launches of the attention that begins with the contraction at `at`, and the number of its items.
pub fn attention(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    let mut chain = AttentionChain::of(nest, items, at, around)?;
    let end = at + chain.stages.len();
    chain.stages.extend(moved_epilogue(nest, items, at..end, around));
    let names: Vec<&str> = chain.stages.iter().map(|s| &s.name[..]).collect();
    let names = names.join(", ");
    match launches(nest, &chain) {
        Ok((stmt, rule)) => {
            let decide = |s: &Stage| Decision { stage: s.name.clone(), rule, refused: vec![] };
            decisions.extend(chain.stages.iter().map(decide));
            Some((stmt, chain.stages.len()))
        }
        Err(why) => {
            nest.steps.push(format!("{names}: no attention in one launch: {why}"));
            None
        }
    }
}

/// The elementwise stage behind the chain's items that alone reads their result, in another order of axes: its axes as
/// the result has them.
fn moved_epilogue(
    nest: &Nest<'_>,
    items: &[Item],
    chain: Range<usize>,
    around: &HashSet<Buffer>,
) -> Option<Stage> {
    let result = items[chain.end - 1].stage().filter(|s| s.init.is_some() && s.is_identity())?;
    let next = items.get(chain.end)?.stage()?;
    let outside = touched_outside(items, chain.start..chain.end + 1, around);
    let loads = loads_of(&next.value, result.buffer);
    let (at, others) = loads.split_first()?;
    let moves = next.init.is_none()
        && next.is_identity()
        && !next.reads(next.buffer)
        && others.iter().all(|other| other == at)
        && at.len() == next.spatial.len()
        && at.len() == result.spatial.len();
    if !moves || outside.contains(&result.buffer) || !nest.func.allocs.contains(&result.buffer) {
        return None;
    }
    let mut left = next.spatial.clone();
    let own = at.iter().zip(&result.spatial).map(|(index, axis)| {
        let is_own = |own: &Axis| own.is_index(index) && same(&own.extent, &axis.extent);
        left.iter().position(is_own).map(|n| left.remove(n))
    });
    let spatial = own.collect::<Option<Vec<Axis>>>()?;
    Some(Stage { spatial, ..next.clone() })
}

/// The launches, and the name of the rule.
fn launches(nest: &mut Nest<'_>, chain: &AttentionChain) -> Result<(Stmt, &'static str), Refusal> {
    let pattern = Pattern::of(chain)?;
    let tiling = Tiling::of(nest, &pattern)?;
    let names = [&chain.stages[0].name, &chain.stages[5].name].map(String::as_str).join(" .. ");
    let (unit, rule) = match tiling.unit {
        Unit::Threads(_) => ("fused multiply-adds", "attention"),
        Unit::Warps(_) => ("tensor cores", "attention, tensor cores"),
    };
    let parts = match tiling.parts {
        1 => String::new(),
        parts => format!(", in {parts} parts of the keys"),
    };
    nest.steps.push(format!(
        "{names}: online softmax, {unit}, tiles of {} rows and {} keys{parts}",
        tiling.rows, tiling.keys
    ));
    let work = Work { stage: pattern.result.clone(), epilogue: chain.stages.get(6).cloned() };
    let kernel = Kernel::new(nest, &pattern, &tiling);
    if tiling.parts == 1 {
        return Ok((kernel.launch(nest, None, &work), rule));
    }
    let partial = combine::Parts::new(nest, &pattern, tiling.parts);
    let parts = kernel.launch(nest, Some(&partial), &work);
    let sums = combine(nest, &pattern, &partial, &work);
    Ok((Stmt::Seq(vec![parts, sums]), rule))
}
