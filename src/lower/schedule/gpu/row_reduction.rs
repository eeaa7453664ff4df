//! Reductions along contiguous elements: a block for each result. Its threads reduce elements that
//! are `THREADS` apart, so that neighbours load neighbours, and combine what they have by a tree
//! reduction in shared memory. The sum is reassociated.

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::thread::{ThreadAxis, WARP};
use reflex_tir::{Scope, Stmt, Var};

use crate::schedule::core::access::contiguous;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::primitives::scheduled;
use crate::schedule::gpu::Work;
use crate::schedule::gpu::grid::{THREADS, accumulate};
use crate::schedule::rows::reduction::merged_loops;

/// The shortest axis that threads share, in warps.
const LEAST_WARPS: i64 = 2;

/// The launch of a reduction along rows.
pub fn row_reduction(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let stage = work.alone()?;
    let Some(last) = stage.reduce.last() else { return Err(Refusal::NothingToReduce) };
    let (spatial, reduced) = contiguous(&nest.func, stage);
    if !stage.spatial.is_empty() && reduced <= spatial {
        return Err(Refusal::NotContiguous);
    }
    if last.extent.as_int().is_some_and(|n| n < LEAST_WARPS * WARP) {
        return Err(Refusal::TooShort);
    }
    scheduled(nest, std::slice::from_ref(stage), |_, s, parts| {
        let part = &parts[0];
        let (loops, mut spatial) = merged_loops(s, part);
        if spatial == 0 {
            s.add_unit_loop(&part.block, 0)?;
            spatial = 1;
        }
        let inner = *loops.last().expect("a reduction");
        let along = s.extent(inner)?.map_or(THREADS, threads_along);
        let (_, thread) = s.split(inner, along)?;
        let partial = s.rfactor(&part.block, thread)?;
        s.set_scope(&partial, Scope::Shared)?;
        each_thread(s, &partial, spatial, 0)?;
        combine(s, &part.block)?;
        let rows = s.get_loops(&part.block)?;
        let row = s.fuse_all(&rows[..spatial])?;
        s.bind(row, ThreadAxis::BlockX)
    })
}

/// Threads for rows of `n` elements: a power of two, so that a tree reduction combines them.
fn threads_along(n: i64) -> i64 {
    let below = 1 << (63 - n.max(1).leading_zeros());
    THREADS.min(below)
}

/// Schedules the part that one thread reduces: in order, in a register.
///
/// The loop over threads has `inner` loops inside.
pub fn each_thread(
    s: &mut Schedule,
    partial: &str,
    spatial: usize,
    inner: usize,
) -> Result<(), ScheduleError> {
    let mut loops: Vec<Var> = s.get_loops(partial)?.split_off(spatial);
    let thread = loops.remove(loops.len() - 1 - inner);
    let order: Vec<Var> = [&[thread][..], &loops].concat();
    s.reorder(&order)?;
    if let Some(first) = loops.first() {
        accumulate(s, partial, *first)?;
    }
    s.bind(thread, ThreadAxis::ThreadX)
}

/// The tree reduction of what threads have.
pub fn combine(s: &mut Schedule, block: &str) -> Result<(), ScheduleError> {
    let mut at = s.get_loops(block)?.last().copied();
    while let Some(all) = at.take() {
        if let Some((_, half)) = s.tree_reduce(block, all)? {
            s.bind(half, ThreadAxis::ThreadX)?;
            at = s.get_loops(block)?.last().copied();
        }
    }
    Ok(())
}
