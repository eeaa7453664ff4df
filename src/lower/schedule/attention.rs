//! Fused attention: two matmuls around a softmax, block by block of rows.
//!
//! ```text
//! for batch.., block of rows:       threads share these
//!   scores[r, n] = sum q * k        gemm, in a buffer of the block's rows
//!   softmax of each row             row fusion, in the same buffer
//!   out[.., m, d] = sum p * v       gemm
//! ```
//! The matrix of scores is never materialised (Rabe and Staats, "Self-attention does not need
//! O(n^2) memory", without their running maximum: a block's rows are whole). Each stage then goes
//! by its own rule, so results are those of the stages one after the other.
//!
//! Decision: docs/decisions/0035-fused-attention.md

use std::collections::HashSet;

use reflex_tir::{Buffer, Expr, Scope, Stmt, Var};

use crate::extent::assumed_extent;
use crate::schedule::core::affine::same;
use crate::schedule::core::contraction::Contraction;
use crate::schedule::core::cost::cost;
use crate::schedule::core::decision::Decision;
use crate::schedule::core::epilogue::epilogue_of;
use crate::schedule::core::nest::{Nest, Parallel, in_scratch};
use crate::schedule::core::stage::{Axis, Item, Stage, loads_of, touched_outside};
use crate::schedule::emit::emit;

/// Rows of a block where their number is not known or has no fitting divisor.
const BLOCK_ROWS: i64 = 24;

/// Most rows of a block.
const MAX_BLOCK_ROWS: i64 = 32;

/// Two contractions around row-wise stages.
pub struct AttentionChain {
    /// The stages in order; the last one may be the epilogue.
    pub stages: Vec<Stage>,
    /// Buffers that only the chain writes and reads.
    inner: HashSet<Buffer>,
    /// Leading axes that all stages share; the last one is the row.
    pub depth: usize,
}

/// The nest of the chain that begins with the contraction at `at`, and the number of its items.
pub fn attention(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    let chain = AttentionChain::of(nest, items, at, around)?;
    let rows = chain.stages[0].spatial[chain.depth - 1].extent.clone();
    let height = rows.as_int().map_or(BLOCK_ROWS, block_rows);
    let names: Vec<&str> = chain.stages.iter().map(|s| &s.name[..]).collect();
    nest.steps.push(format!("{}: in blocks of {height} rows", names.join(", ")));
    let shared: Vec<Axis> = chain.stages[0].spatial[..chain.depth].to_vec();
    let (_, batch) = shared.split_last().expect("there is a row");
    let block = Axis { var: nest.var("block"), extent: rows.clone().ceildiv(height) };

    let first = Expr::from(block.var) * height;
    let mut body =
        chain.block(nest, &RowBlock { first: &first, count: &height.into(), height }, decisions);
    if rows.as_int().is_none_or(|n| n % height != 0) {
        let steps = nest.steps.len();
        let left = rows.clone().floormod(height);
        let rest =
            chain.block(nest, &RowBlock { first: &first, count: &left, height }, &mut vec![]);
        nest.steps.truncate(steps);
        let cond = Expr::from(block.var).lt(rows.floordiv(height));
        body = Stmt::If { cond, then: Box::new(body), otherwise: Some(Box::new(rest)) };
    }
    let extent = |a: &Axis| assumed_extent(&a.extent);
    let work = |s: &Stage| {
        let axes = s.spatial[chain.depth..].iter().chain(&s.reduce);
        axes.map(extent).fold(1 + cost(&s.value) as i64, i64::saturating_mul)
    };
    let work = chain.stages.iter().map(work).fold(0, i64::saturating_add);
    let parallel = nest.parallel_for(&shared, work);
    if parallel == Parallel::Yes {
        nest.steps.push(format!("{}: threads share the blocks", names.join(", ")));
    }
    let axes: Vec<Axis> = batch.iter().cloned().chain([block]).collect();
    Some((nest.outer(&axes, parallel, body), chain.stages.len()))
}

/// Rows of a block of `n` rows in all.
fn block_rows(n: i64) -> i64 {
    let divisor = (BLOCK_ROWS / 2..=MAX_BLOCK_ROWS).rev().find(|d| n % d == 0);
    if n <= MAX_BLOCK_ROWS { n.max(1) } else { divisor.unwrap_or(BLOCK_ROWS) }
}

/// Rows that are computed at once: `count` from `first`, in buffers of `height`.
struct RowBlock<'a> {
    first: &'a Expr,
    count: &'a Expr,
    height: i64,
}

impl AttentionChain {
    /// The chain that begins with the contraction at `at`, if there is one.
    pub fn of(
        nest: &Nest<'_>,
        items: &[Item],
        at: usize,
        around: &HashSet<Buffer>,
    ) -> Option<AttentionChain> {
        let is_product = |s: &Stage| Contraction::of(&nest.func, &s.squeezed()).is_ok();
        let scores = items[at].stage()?;
        let depth = scores.spatial.len().checked_sub(1).filter(|d| *d > 0)?;
        if !is_product(scores) {
            return None;
        }
        let mut stages = vec![scores.clone()];
        let mut end = at + 1;
        loop {
            let stage = items.get(end)?.stage()?;
            stages.push(stage.clone());
            end += 1;
            if is_product(stage) {
                break;
            }
        }
        if let Some(reader) = epilogue_of(&nest.func, items, end - 1, around)
            && reader == end
            && let Some(epilogue) = items[reader].stage()
        {
            stages.push(epilogue.clone());
            end += 1;
        }
        let outside = touched_outside(items, at..end, around);
        let written = stages[..stages.len() - 1].iter().map(|s| s.buffer);
        let inner: HashSet<Buffer> = written.collect();
        let private = |b: &Buffer| nest.func.allocs.contains(b) && !outside.contains(b);
        let chain = AttentionChain { stages, inner, depth };
        // Two contractions with nothing between them are no attention.
        (chain.stages.len() > 2 && chain.inner.iter().all(private) && chain.is_by_rows())
            .then_some(chain)
    }

    /// Whether every stage has the shared axes, and reads earlier results at their index alone.
    fn is_by_rows(&self) -> bool {
        let shared = &self.stages[0].spatial[..self.depth];
        let leads = |stage: &Stage, indices: &[Expr]| {
            let mut own = indices.iter().zip(&stage.spatial).take(self.depth);
            indices.len() >= self.depth && own.all(|(i, a)| a.is_index(i))
        };
        self.stages.iter().enumerate().all(|(n, stage)| {
            let axes = stage.spatial.len() >= self.depth
                && stage.spatial.iter().zip(shared).all(|(a, b)| same(&a.extent, &b.extent));
            let reads = |b: &Buffer| loads_of(&stage.value, *b).iter().all(|at| leads(stage, at));
            let stored = !self.inner.contains(&stage.buffer) || leads(stage, &stage.indices);
            let depends = n == 0 || self.inner.iter().any(|b| stage.reads(*b));
            axes && stored && depends && self.inner.iter().all(reads)
        })
    }

    /// The stages for a block of rows.
    fn block(
        &self,
        nest: &mut Nest<'_>,
        rows: &RowBlock<'_>,
        decisions: &mut Vec<Decision>,
    ) -> Stmt {
        let mut scratch: Vec<(Buffer, Buffer)> = vec![];
        for stage in &self.stages {
            let known = scratch.iter().any(|(old, _)| *old == stage.buffer);
            if self.inner.contains(&stage.buffer) && !known {
                let data = nest.func.buffers[stage.buffer].clone();
                let mut shape = vec![Expr::i64(rows.height)];
                shape.extend_from_slice(&data.shape[self.depth..]);
                let new = nest.func.new_buffer(data.name, data.dtype, shape, Scope::Global);
                scratch.push((stage.buffer, new));
            }
        }
        let items: Vec<Item> = self
            .stages
            .iter()
            .map(|stage| Item::Stage(self.slice(nest, stage, rows, &scratch)))
            .collect();
        let fresh = scratch.iter().map(|(_, new)| *new).collect();
        in_scratch(nest, fresh, |nest| emit(nest, &items, &HashSet::new(), Parallel::No, decisions))
    }

    /// A stage over some rows: `row` from 0 replaces the shared axes.
    fn slice(
        &self,
        nest: &mut Nest<'_>,
        stage: &Stage,
        rows: &RowBlock<'_>,
        scratch: &[(Buffer, Buffer)],
    ) -> Stage {
        let row = nest.var("row");
        let own: Vec<Var> = stage.spatial[..self.depth].iter().map(|a| a.var).collect();
        let shared = &self.stages[0].spatial;
        let position = |v: Var| match own.iter().position(|o| *o == v)? {
            n if n + 1 == self.depth => Some(rows.first.clone() + row),
            n => Some(Expr::from(shared[n].var)),
        };
        // Indices in scratch buffers: the row, and the axes behind the shared ones.
        let to_row = |_: usize, at: &[Expr]| [&[Expr::from(row)], &at[self.depth..]].concat();
        let row = Axis { var: row, extent: rows.count.clone() };
        let spatial = [row].into_iter().chain(stage.spatial[self.depth..].iter().cloned());
        stage.slice(spatial.collect(), &position, scratch, &to_row)
    }
}
