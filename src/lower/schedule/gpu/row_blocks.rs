//! A block for each row: its threads run the stages of a row one after the other. Those of a reduction
//! reduce elements that are a block apart, so that neighbours load neighbours, and combine what they have
//! by a tree reduction in shared memory, where what a row needs in between stays too.

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::thread::ThreadAxis;
use reflex_tir::{Scope, Stmt, Var};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::primitives::{StageLoops, collapse_loops, note_steps, scheduled};
use crate::schedule::core::stage::Stage;
use crate::schedule::gpu::grid::accumulate;

/// The most threads of a block, and elements that each has at least.
const MOST_THREADS: i64 = 1024;
const EACH: i64 = 32;
/// The fewest threads: one warp, whose barriers cost little.
const LEAST_THREADS: i64 = 32;
/// Threads for rows of a length that is not known.
const USUAL_THREADS: i64 = 256;
/// Elements that a thread loads at once.
const VECTOR: i64 = 4;

/// Stages that share their `depth` outer axes, the rows.
pub struct RowBlocks<'s> {
    /// The stages, in order.
    pub stages: &'s [Stage],
    /// Whether a stage's results are for its row alone.
    pub private: &'s [bool],
    /// Axes that choose a row.
    pub depth: usize,
    /// Threads of a block.
    pub threads: i64,
}

/// Returns the threads for rows of a length: a power of two, so that a tree reduction combines them.
pub fn threads_for(length: Option<i64>) -> i64 {
    length.map_or(USUAL_THREADS, |known| {
        1 << (63 - (known / EACH).clamp(LEAST_THREADS, MOST_THREADS).leading_zeros())
    })
}

/// The launch of the stages.
pub fn row_blocks(nest: &mut Nest<'_>, rows: &RowBlocks<'_>) -> Result<Stmt, Refusal> {
    let &RowBlocks { stages, private, depth, threads } = rows;
    let names = stages.iter().map(|s| &s.name[..]).collect::<Vec<_>>().join(", ");
    scheduled(nest, stages, |nest, s, parts| {
        let mut shared = parts[0].loops[..depth].to_vec();
        if shared.is_empty() {
            for part in parts {
                let unit = s.add_unit_loop(&part.block, 0)?;
                match shared.first() {
                    Some(first) => s.fuse_adjacent(*first, unit)?,
                    None => shared.push(unit),
                }
            }
        }
        for (level, first) in parts[0].loops[..depth].iter().enumerate() {
            for part in &parts[1..] {
                s.fuse_adjacent(*first, part.loops[level])?;
            }
        }
        let row = *shared.last().expect("a loop");
        for (part, private) in parts.iter().zip(private) {
            if *private {
                s.store_at(&part.block, row, Scope::Shared)?;
            }
        }
        for (stage, part) in stages.iter().zip(parts) {
            in_block(s, stage, part, depth, shared.len(), threads)?;
        }
        let row = s.fuse_all(&shared)?;
        s.bind(row, ThreadAxis::BlockX)?;
        note_steps(nest, s, 0, &names);
        Ok(())
    })
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

/// Schedules the part that one thread reduces: in order, in a register.
///
/// The loop over threads has `inner` loops inside.
fn each_thread(
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
fn combine(s: &mut Schedule, block: &str) -> Result<(), ScheduleError> {
    let mut at = s.get_loops(block)?.last().copied();
    while let Some(all) = at.take() {
        if let Some((_, half)) = s.tree_reduce(block, all)? {
            s.bind(half, ThreadAxis::ThreadX)?;
            at = s.get_loops(block)?.last().copied();
        }
    }
    Ok(())
}
