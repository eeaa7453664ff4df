//! Schedule rules: the schedule of a kernel, chosen by its stages and the CPU.
//!
//! [`schedule`] reads a naive kernel's blocks as stages, inlines elementwise producers into their
//! readers, and gives each stage to the first rule that takes it. A rule that does not take a stage
//! says why; the last rule takes all. The result has no blocks. Elementwise stages, reductions, row
//! fusion and the micro-kernel are made of the primitives of `reflex_tir::schedule`
//! (`core/primitives.rs`), which check every step; the rules for contractions write the loops around
//! tiles themselves.
//!
//! | rule | stages | results | module |
//! |---|---|---|---|
//! | `winograd transform` | contractions of tiles or rows with constant matrices | reassociated | `winograd` |
//! | `split-bf16` | large contractions of float32 in `f32-fast`, where there are AMX tiles | within 2^-15 of each product | `split_bf16` |
//! | `gemm` | contractions with a contiguous operand | exactly the naive ones; reassociated on AMX tiles | `gemm` |
//! | `row reduction` | other reductions of contiguous elements | reassociated | `rows` |
//! | `column reduction` | other reductions | exactly the naive ones | `rows` |
//! | `elementwise` | stages without reduction | exactly the naive ones | `rows` |
//! | `stored extremum` | extrema over all of a tensor that the kernel writes | exactly the naive ones, in any order | `extrema` |
//! | `naive` | the rest | as written | |
//!
//! The rules that take what an operator becomes (`tests/filetests/lower/steps_*.py` shows each, with
//! the refusals on the way):
//!
//! | computation | stages | rules | file |
//! |---|---|---|---|
//! | matmul | the contraction; its columns packed into panels where they are strided | `gemm`, `elementwise` | `steps_matmul`, `steps_panel_parts`, `steps_matmul_amx` |
//! | convolution | feature map split by phase, im2col of short rows, or a blocked layout; the contraction; an epilogue in its store | `elementwise`, `gemm` | `steps_conv`, `steps_conv_few_positions` |
//! | convolution in a blocked layout on AMX tiles | split-bf16 terms of both operands, VNNI-packed from pairs of blocks; their contraction | `split-bf16`, `gemm`, `elementwise` | `steps_conv_split_bf16`, `steps_conv_vnni` |
//! | Winograd convolution | two transforms and one matmul per position of a tile, in one loop over strips of the feature map (`winograd/strips.rs`) where they fit the cache | `winograd transform`, `gemm`, `elementwise` | `steps_winograd` |
//! | Winograd convolution of stride 2 | the feature map by phases, then as above | `elementwise`, `winograd transform`, `gemm` | `steps_winograd_phases` |
//! | depthwise convolution | padding; vectors times vectors, plane by plane (`depthwise.rs`), or times broadcast weights | `elementwise`, `gemm` | `steps_depthwise`, `steps_depthwise_planes` |
//! | reduction | lanes along the reduced axis, or across it | `row reduction`, `column reduction` | `steps_sum_of_rows`, `steps_sum_of_columns` |
//! | elementwise, broadcast | collapsed axes, vectors, tasks | `elementwise` | `steps_elementwise`, `steps_broadcast` |
//! | transpose | vectors over contiguous results | `elementwise` | `steps_transpose` |
//! | gather | rows copied in vectors | `elementwise` | `steps_gather` |
//! | softmax, normalisation | one loop over rows (`rows/row_fusion.rs`), whose stages are reductions and elementwise | both | `steps_softmax`, `steps_layer_norm` |
//! | attention | two contractions around a softmax, in one loop over blocks of rows (`attention.rs`) | `gemm`, and the rows' | `steps_attention` |
//! | pooling | a reduction over sliding windows | `column reduction` | `steps_pool` |
//! | recurrent cells | a contraction before the loop over time, stages in it; the loops of both directions at the same time (`parallel_sections.rs`) | `gemm`, reductions, `elementwise` | `steps_lstm`, `steps_lstm_both` |
//!
//! Decision: docs/decisions/0034-rules-from-primitives.md

mod attention;
mod blocked_layout;
mod contractions;
mod core;
mod depthwise;
mod emit;
mod extrema;
mod gemm;
mod gpu;
mod inline;
mod parallel_sections;
mod quantization;
mod rows;
mod split_bf16;
mod winograd;

use std::collections::HashSet;

use reflex_tir::codegen::{CpuTarget, Target};
use reflex_tir::{Buffer, PrimFunc, Stmt};

use crate::schedule::attention::attention;
use crate::schedule::blocked_layout::split_channel_blocks;

use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::{Item, items_of};
use crate::schedule::depthwise::padded_depthwise;
use crate::schedule::emit::emit_next;
use crate::schedule::extrema::Extrema;
use crate::schedule::gemm::pack_operands::{hoist_copies, stage_operands};
use crate::schedule::gpu::gpu_kernel;
use crate::schedule::inline::{inline_stages, store_transposed};
use crate::schedule::parallel_sections::parallel_sections;
use crate::schedule::quantization::multiply_by_reciprocals;
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
    schedule_for(func, target).func
}

/// [`schedule`], with the reasons.
pub fn schedule_for(func: &PrimFunc, target: &Target) -> Scheduled {
    if func.calls_packed() {
        // Nothing is known of what the functions touch.
        return Scheduled { func: func.clone(), decisions: vec![], steps: vec![] };
    }
    let mut items = items_of(&func.body);
    let mut nest = Nest::new(func.clone(), target);
    let mut decisions = vec![];
    let body = match target {
        Target::Cpu(cpu) => cpu_kernel(&mut nest, cpu, &mut items, &mut decisions),
        Target::Gpu(_) => gpu_kernel(&mut nest, &mut items, &mut decisions),
    };
    let mut func = nest.func;
    func.body = body;
    drop_unused(&mut func);
    Scheduled { func, decisions, steps: nest.steps }
}

/// [`schedule_for`] a CPU.
pub fn schedule_explained(func: &PrimFunc, cpu: &CpuTarget) -> Scheduled {
    schedule_for(func, &Target::Cpu(cpu.clone()))
}

fn cpu_kernel(
    nest: &mut Nest<'_>,
    cpu: &CpuTarget,
    items: &mut Vec<Item>,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    *items = split_channel_blocks(nest, std::mem::take(items));
    inline_stages(nest, items, &HashSet::new());
    store_transposed(nest, items);
    *items = stage_operands(nest, std::mem::take(items));
    inline_stages(nest, items, &HashSet::new());
    multiply_by_reciprocals(nest, cpu, items);
    hoist_copies(&nest.func, items);
    emit_kernel(nest, items, decisions)
}

/// The nests of a kernel's items. Groups of stages that share a parallel loop come first, then the
/// rules for single items.
fn emit_kernel(nest: &mut Nest<'_>, items: &[Item], decisions: &mut Vec<Decision>) -> Stmt {
    let (mut items, around) = (items.to_vec(), HashSet::new());
    let mut extrema = Extrema::take_from(nest, &mut items);
    let (mut parts, mut at) = (vec![], 0);
    while at < items.len() {
        let fused = fused_group(nest, &items, at, &around, decisions);
        let (mut stmt, count) = fused
            .unwrap_or_else(|| emit_next(nest, &mut items, at, &around, Parallel::Yes, decisions));
        at += count;
        while let Some(found) = extrema.iter().position(|e| e.is_written(&stmt)) {
            let of = extrema.remove(found);
            match of.stored(nest, &stmt, decisions) {
                Some(with) => stmt = with,
                None => drop(items.splice(at..at, of.items())),
            }
        }
        parts.push(stmt);
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
        .or_else(|| parallel_sections(nest, items, at, around, decisions))
}

/// Forgets intermediates that nothing stores to any more.
fn drop_unused(func: &mut PrimFunc) {
    let mut used: HashSet<Buffer> = HashSet::new();
    func.body.visit(&mut |s| used.extend(s.written()));
    func.allocs.retain(|b| used.contains(b));
}
