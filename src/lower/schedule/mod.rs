//! Policy: which schedule a kernel gets. The machine's shape decides, rules first.
//!
//! [`schedule`] reads a naive kernel's blocks as stages, merges what should be computed
//! together, and gives each stage to the first rule that takes it. A rule that does not take a
//! stage says why; the last rule takes all. What comes out has no blocks. `map`, both kinds of
//! `reduce`, loops over rows and tiles of products in vector registers are made of the primitives of
//! `reflex_tir::schedule` (`steps.rs`), which check every step; the rules for products write the loops
//! around tiles themselves.
//!
//! | rule | stages | results |
//! |---|---|---|
//! | `tables` | products of tiles or rows with tables of constants | reassociated |
//! | `splits` | large sums of products of float32, where there are matrix registers | within the error of `gemm`'s |
//! | `gemm` | sums of products with a contiguous factor | exactly the naive ones; reassociated in matrix registers |
//! | `reduce along rows` | other reductions of contiguous elements | reassociated |
//! | `reduce across rows` | other reductions | exactly the naive ones |
//! | `map` | stages without reduction | exactly the naive ones |
//! | `naive` | the rest | as written |
//!
//! Which rules take what an operator becomes (`tests/filetests/lower/steps_*.py` shows each, with
//! the refusals on the way):
//!
//! | computation | stages | rules | file |
//! |---|---|---|---|
//! | matrix product | the product; copies of its columns in panels where they are strided | `gemm`, `map` | `steps_matmul`, `steps_panel_parts`, `steps_matmul_tiles` |
//! | convolution | windows split by phase, in rows or in blocks; the product; what follows in its store | `map`, `gemm` | `steps_conv`, `steps_conv_few_positions` |
//! | convolution in blocks of channels, where there are matrix registers | terms of both factors in pairs of blocks, windows side by side; their products | `splits`, `gemm`, `map` | `steps_conv_splits`, `steps_conv_words` |
//! | convolution by tiles | two transforms, one product per place, in one loop over strips of the image (`strips.rs`) where they fit the cache | `tables`, `gemm`, `map` | `steps_winograd` |
//! | convolution of stride 2 by tiles | the image by phases, then as above | `map`, `tables`, `gemm` | `steps_phases` |
//! | depthwise convolution | padding; products of vectors by vectors, plane by plane (`planes.rs`), or by broadcast weights | `map`, `gemm` | `steps_depthwise`, `steps_planes` |
//! | reduction | lanes along what is reduced, or across it | `reduce along rows`, `reduce across rows` | `steps_sum_of_rows`, `steps_sum_of_columns` |
//! | elementwise, broadcast | merged axes, vectors, tasks | `map` | `steps_elementwise`, `steps_broadcast` |
//! | transpose | vectors over what is stored side by side | `map` | `steps_transpose` |
//! | gather | rows copied in vectors | `map` | `steps_gather` |
//! | softmax, normalisation | one loop over rows, whose stages go by `reduce` and `map` | both | `steps_softmax`, `steps_layer_norm` |
//! | attention | two products around a softmax, in one loop over blocks of rows (`attention.rs`) | `gemm`, and the rows' | `steps_attention` |
//! | pooling | a reduction over windows | `reduce across rows` | `steps_pool` |
//! | recurrent cells | a product before the loop over time, stages in it | `gemm`, `reduce`, `map` | `steps_lstm` |

mod attention;
mod blocked_layout;
mod contractions;
mod core;
mod depthwise;
mod emit;
mod gemm;
mod inline;
mod rows;
mod split_bf16;
mod winograd;

use std::collections::HashSet;

use reflex_tir::codegen::Target;
use reflex_tir::{Buffer, PrimFunc, Stmt};

use crate::schedule::attention::attention;
use crate::schedule::blocked_layout::split_channel_blocks;

use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::{Item, items_of};
use crate::schedule::depthwise::padded_depthwise;
use crate::schedule::emit::emit_next;
use crate::schedule::gemm::pack_operands::{copies_first, stage_operands};
use crate::schedule::inline::{inline_stages, store_where_moved};
use crate::schedule::winograd::strips::winograd_strips;

pub use crate::schedule::core::decision::{Decision, Refusal};

/// A scheduled kernel and how it came about.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The kernel, without blocks.
    pub func: PrimFunc,
    /// One per stage, in order.
    pub decisions: Vec<Decision>,
    /// The steps taken, in order.
    pub steps: Vec<String>,
}

impl std::fmt::Display for Scheduled {
    /// The steps, then each stage with its rule and the rules that did not take it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.func.name)?;
        for step in &self.steps {
            writeln!(f, "  step  {step}")?;
        }
        for Decision { stage, rule, refused } in &self.decisions {
            write!(f, "  stage {stage}: {rule}")?;
            for (rule, why) in refused {
                write!(f, "; not {rule}: {why}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The schedule of `func` for `target`.
pub fn schedule(func: &PrimFunc, target: &Target) -> PrimFunc {
    schedule_explained(func, target).func
}

/// [`schedule`], with the reasons.
pub fn schedule_explained(func: &PrimFunc, target: &Target) -> Scheduled {
    let mut items = items_of(&func.body);
    let mut nest = Nest { func: func.clone(), target, enough: None, steps: vec![] };
    items = split_channel_blocks(&mut nest, items);
    inline_stages(&mut nest, &mut items, &HashSet::new());
    store_where_moved(&mut nest, &mut items);
    items = stage_operands(&mut nest, items);
    inline_stages(&mut nest, &mut items, &HashSet::new());
    copies_first(&nest.func, &mut items);
    let mut decisions = vec![];
    let body = emit_kernel(&mut nest, &items, &mut decisions);
    let mut func = nest.func;
    func.body = body;
    drop_unused(&mut func);
    Scheduled { func, decisions, steps: nest.steps }
}

/// The nests of a kernel's items. Groups of stages that share a parallel loop come first, then the
/// rules for single items.
fn emit_kernel(nest: &mut Nest<'_>, items: &[Item], decisions: &mut Vec<Decision>) -> Stmt {
    let (mut items, around) = (items.to_vec(), HashSet::new());
    let (mut parts, mut at) = (vec![], 0);
    while at < items.len() {
        let fused = fused_group(nest, &items, at, &around, decisions);
        let (stmt, count) = fused
            .unwrap_or_else(|| emit_next(nest, &mut items, at, &around, Parallel::Yes, decisions));
        parts.push(stmt);
        at += count;
    }
    Stmt::Seq(parts)
}

/// The nest of the stages from `at` on that share a parallel loop, and the number of items that
/// they are.
fn fused_group(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    attention(nest, items, at, around, decisions)
        .or_else(|| winograd_strips(nest, items, at, around, decisions))
        .or_else(|| padded_depthwise(nest, items, at, around, decisions))
}

/// Forgets intermediates that nothing stores to any more.
fn drop_unused(func: &mut PrimFunc) {
    let mut used: HashSet<Buffer> = HashSet::new();
    func.body.visit(&mut |s| used.extend(s.written()));
    func.allocs.retain(|b| used.contains(b));
}
