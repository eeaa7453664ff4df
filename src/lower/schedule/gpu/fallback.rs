//! The rules that take what no other does: a thread for each result, or for each iteration.

use reflex_tir::{ForKind, Stmt, Var};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::primitives::{collapse_loops, note_steps, scheduled, with_schedule};
use crate::schedule::core::stage::Stage;
use crate::schedule::gpu::grid::{accumulate, bind_grid};

/// The launch of a stage with a thread for each result. A reduction is the thread's own, in order,
/// in a register.
pub fn fallback(nest: &mut Nest<'_>, stage: &Stage) -> Result<Stmt, Refusal> {
    scheduled(nest, &[stage.squeezed()], |_, s, parts| {
        let part = &parts[0];
        let (spatial, reduce) = part.loops.split_at(part.spatial);
        let mut loops = collapse_loops(s, spatial);
        if loops.is_empty() {
            loops.push(s.add_unit_loop(&part.block, 0)?);
        }
        if let Some(first) = reduce.first() {
            accumulate(s, &part.block, *first)?;
        }
        bind_grid(s, &loops)
    })
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
