//! The rules that take what no other does: a thread for each result, or for each iteration.

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::{ForKind, Scope, Stmt, Var};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::primitives::{
    StageLoops, collapse_loops, note_steps, scheduled, with_schedule,
};
use crate::schedule::gpu::Work;
use crate::schedule::gpu::grid::{accumulate, bind_grid};

/// The launch of a stage with a thread for each result. A reduction is the thread's own, in order,
/// in a register, and so is its epilogue.
pub fn fallback(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let Work { stage, epilogue } = work;
    if let Some(epilogue) = epilogue {
        return scheduled(nest, &[stage.clone(), epilogue.clone()], |_, s, parts| {
            with_epilogue(s, parts)
        });
    }
    scheduled(nest, std::slice::from_ref(stage), |_, s, parts| {
        let part = &parts[0];
        // Axes of symbolic extents may be one by their steps, and not be shown to be one loop.
        let before = s.clone();
        let (spatial, _) = part.loops.split_at(part.spatial);
        let merged = collapse_loops(s, spatial);
        if merged.len() < spatial.len() && thread_each(s, part, merged).is_ok() {
            return Ok(());
        }
        *s = before;
        thread_each(s, part, spatial.to_vec())
    })
}

/// A thread for each iteration of the loops over results.
fn thread_each(
    s: &mut Schedule,
    part: &StageLoops,
    mut loops: Vec<Var>,
) -> Result<(), ScheduleError> {
    if loops.is_empty() {
        loops.push(s.add_unit_loop(&part.block, 0)?);
    }
    if let Some(first) = part.loops.get(part.spatial) {
        accumulate(s, &part.block, *first)?;
    }
    bind_grid(s, &loops)
}

/// The results stay with their threads, which compute the epilogue.
fn with_epilogue(s: &mut Schedule, parts: &[StageLoops]) -> Result<(), ScheduleError> {
    let (of_results, of_epilogue) = (&parts[0], &parts[1]);
    let mut loops = of_results.loops[..of_results.spatial].to_vec();
    let mut others = of_epilogue.loops.clone();
    if loops.is_empty() {
        loops.push(s.add_unit_loop(&of_results.block, 0)?);
        others.push(s.add_unit_loop(&of_epilogue.block, 0)?);
    }
    for (first, second) in loops.iter().zip(&others) {
        s.fuse_adjacent(*first, *second)?;
    }
    s.store_at(&of_results.block, *loops.last().expect("a loop"), Scope::Local)?;
    if let Some(first) = of_results.loops.get(of_results.spatial) {
        s.decompose_reduction(&of_results.block, *first)?;
    }
    bind_grid(s, &loops)
}

/// The launch of a statement with a thread for each iteration of its outermost loops, as far as
/// iterations are independent.
pub fn independent_loops(nest: &mut Nest<'_>, stmt: &Stmt) -> Result<Stmt, Refusal> {
    let loops = outer_loops(stmt);
    let Some(outermost) = loops.first() else { return Err(Refusal::NoLoop) };
    let plain = |_: &mut _| (stmt.clone(), ());
    with_schedule(nest, "loops", plain, |nest, s, ()| {
        let independent = |at: &&Var| s.clone().parallel(**at).is_ok();
        let mut first: Vec<Var> = loops.iter().take_while(independent).copied().collect();
        while first.len() > 1 && bind_grid(&mut s.clone(), &first).is_err() {
            first.pop();
        }
        if first.is_empty() {
            first.push(*outermost);
        }
        bind_grid(s, &first)?;
        note_steps(nest, s, 0, "loops");
        Ok(())
    })
}

/// Serial loops from 0 around nothing but the next one.
fn outer_loops(stmt: &Stmt) -> Vec<Var> {
    let (mut loops, mut inner) = (vec![], stmt);
    while let Stmt::For(l) = inner
        && l.kind == ForKind::Serial
        && l.min.as_int() == Some(0)
    {
        loops.push(l.var);
        inner = &l.body;
    }
    loops
}
