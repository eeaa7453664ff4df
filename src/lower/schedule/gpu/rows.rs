//! Rows that several stages share (softmax, normalisation): a block for each row, whose threads run the
//! stages one after the other. What a row needs in between stays in shared memory.
//!
//! ```text
//! for row in blocks:
//!     for t in threads: partial[t] = max of x[row, t], x[row, t + T], ..    tree reduction
//!     for t in threads: e[t ..] = exp(x[row, t ..] - largest)
//!     for t in threads: partial[t] = sum of e[t], ..                        tree reduction
//!     for t in threads: y[row, t ..] = e[t ..] / sum
//! ```

use std::collections::HashSet;

use reflex_tir::{Buffer, Stmt};

use crate::schedule::core::access::contiguous;
use crate::schedule::core::contraction::Contraction;
use crate::schedule::core::decision::Decision;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Item, touched_outside};
use crate::schedule::gpu::row_blocks::{RowBlocks, row_blocks, threads_for};
use crate::schedule::rows::row_fusion::{RowGroup, row_group};

/// Bytes of shared memory for what stays of a row.
const MOST_SHARED: i64 = 40 << 10;
/// The shortest row that a block takes.
const LEAST: i64 = 32;

/// The launch of the items from `at` on that share rows, and their number.
pub fn rows(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    let is_product = |item: &Item| {
        item.stage().is_some_and(|s| Contraction::of(&nest.func, &s.squeezed()).is_ok())
    };
    let rest = &items[at..];
    let eligible = &rest[..rest.iter().position(is_product).unwrap_or(rest.len())];
    let (count, depth) = row_group(&nest.func, eligible)?;
    let outside = touched_outside(items, at..at + count, around);
    let (before, steps) = (nest.func.clone(), nest.steps.len());
    let group = RowGroup::of(nest, &eligible[..count], depth, &outside);
    let launch = threads_of(nest, &group).and_then(|threads| {
        let RowGroup { stages, private, depth, .. } = &group;
        row_blocks(nest, &RowBlocks { stages, private, depth: *depth, threads }).ok()
    });
    if launch.is_none() {
        // Results may have been placed elsewhere.
        nest.func = before;
        let why = nest.steps.drain(steps..).next_back();
        nest.steps.extend(why);
    }
    let names = group.stages.iter().map(|stage| stage.name.clone());
    let decide = |stage| Decision { stage, rule: "rows", refused: vec![] };
    launch.map(|stmt| {
        decisions.extend(names.map(decide));
        (stmt, count)
    })
}

/// Threads of a block; none where the rows are not for blocks.
fn threads_of(nest: &Nest<'_>, group: &RowGroup) -> Option<i64> {
    let (mut longest, mut shared) = (0, 0);
    for (stage, private) in group.stages.iter().zip(&group.private) {
        let own = &stage.spatial[group.depth..];
        let known = |n: i64, extent: Option<i64>| n.checked_mul(extent?);
        let count = own.iter().map(|a| a.extent.as_int()).try_fold(1, known);
        if *private {
            shared += count? * nest.func.buffers[stage.buffer].dtype.itemsize() as i64;
        }
        if stage.init.is_none() {
            longest = longest.max(count.unwrap_or(i64::MAX));
            continue;
        }
        let (spatial, reduced) = contiguous(&nest.func, stage);
        if !own.is_empty() || (reduced <= spatial && !stage.spatial.is_empty()) {
            return None;
        }
        let reduce = stage.reduce.iter().map(|a| a.extent.as_int()).try_fold(1, known);
        longest = longest.max(reduce.unwrap_or(i64::MAX));
    }
    let threads = threads_for((longest < i64::MAX).then_some(longest));
    (longest >= LEAST && shared <= MOST_SHARED).then_some(threads)
}
