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

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::thread::ThreadAxis;
use reflex_tir::{Buffer, Scope, Stmt};

use crate::schedule::core::access::contiguous;
use crate::schedule::core::contraction::Contraction;
use crate::schedule::core::decision::Decision;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::primitives::{StageLoops, collapse_loops, note_steps, scheduled};
use crate::schedule::core::stage::{Item, Stage, touched_outside};
use crate::schedule::gpu::row_reduction::{combine, each_thread};
use crate::schedule::rows::row_fusion::{RowGroup, row_group};

/// Bytes of shared memory for what stays of a row.
const MOST_SHARED: i64 = 40 << 10;
/// The shortest row that a block takes: one warp, whose barriers cost little.
const LEAST: i64 = 32;
/// The most threads of a block, and elements that each has at least.
const MOST_THREADS: i64 = 1024;
const EACH: i64 = 32;
/// Threads for rows of a length that is not known.
const USUAL_THREADS: i64 = 256;
/// Elements that a thread loads at once.
const VECTOR: i64 = 4;

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
    let launch = threads_of(nest, &group).and_then(|threads| one_launch(nest, &group, threads));
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
    let threads = match longest {
        i64::MAX => USUAL_THREADS,
        known => 1 << (63 - (known / EACH).clamp(LEAST, MOST_THREADS).leading_zeros()),
    };
    (longest >= LEAST && shared <= MOST_SHARED).then_some(threads)
}

fn one_launch(nest: &mut Nest<'_>, group: &RowGroup, threads: i64) -> Option<Stmt> {
    let names = group.stages.iter().map(|s| &s.name[..]).collect::<Vec<_>>().join(", ");
    let launch = scheduled(nest, &group.stages, |nest, s, parts| {
        let mut shared = parts[0].loops[..group.depth].to_vec();
        if shared.is_empty() {
            for part in parts {
                let unit = s.add_unit_loop(&part.block, 0)?;
                match shared.first() {
                    Some(first) => s.fuse_adjacent(*first, unit)?,
                    None => shared.push(unit),
                }
            }
        }
        for (level, first) in parts[0].loops[..group.depth].iter().enumerate() {
            for part in &parts[1..] {
                s.fuse_adjacent(*first, part.loops[level])?;
            }
        }
        let row = *shared.last().expect("a loop");
        for (part, private) in parts.iter().zip(&group.private) {
            if *private {
                s.store_at(&part.block, row, Scope::Shared)?;
            }
        }
        for (stage, part) in group.stages.iter().zip(parts) {
            in_block(s, stage, part, group.depth, shared.len(), threads)?;
        }
        let row = s.fuse_all(&shared)?;
        s.bind(row, ThreadAxis::BlockX)?;
        note_steps(nest, s, 0, &names);
        Ok(())
    });
    launch.ok()
}

/// Shares a stage of a row among the threads of its block.
fn in_block(
    s: &mut Schedule,
    stage: &Stage,
    part: &StageLoops,
    depth: usize,
    around: usize,
    threads: i64,
) -> Result<(), ScheduleError> {
    let own = &part.loops[depth..];
    if stage.init.is_none() {
        let loops = collapse_loops(s, own);
        if loops.is_empty() {
            return Ok(());
        }
        let mut all = s.fuse_all(&loops)?;
        if s.extent(all)?.is_some_and(|n| n % (VECTOR * threads) == 0) {
            let (vectors, lane) = s.split(all, VECTOR)?;
            s.vectorize(lane)?;
            all = vectors;
        }
        let (_, thread) = s.split(all, threads)?;
        return s.bind(thread, ThreadAxis::ThreadX);
    }
    let inner = *collapse_loops(s, own).last().expect("a reduction");
    let extent = s.extent(inner)?;
    let along = extent.map_or(threads, |n| threads.min(1 << (63 - n.max(1).leading_zeros())));
    // Neighbours that one load brings; they are added in order.
    let in_vectors = extent.is_some_and(|n| n % (VECTOR * along) == 0);
    let vectors = if in_vectors { s.split(inner, VECTOR)?.0 } else { inner };
    let (_, thread) = s.split(vectors, along)?;
    let partial = s.rfactor(&part.block, thread)?;
    s.set_scope(&partial, Scope::Shared)?;
    each_thread(s, &partial, around, usize::from(in_vectors))?;
    combine(s, &part.block)
}
