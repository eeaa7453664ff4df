//! Elementwise and injective stages: neighbouring axes collapsed, the innermost one in vectors, the
//! outermost one on threads when there is enough work.

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::{Expr, Stmt, Var};

use crate::schedule::core::access::widest;
use crate::schedule::core::cost::cost;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, PARALLEL_WORK, Parallel};
use crate::schedule::core::primitives::{collapse_loops, parallelize, scheduled, vectors};
use crate::schedule::core::stage::Stage;

/// Vectors per task of a parallel loop over one axis.
const TASK_VECTORS: i64 = 128;

/// The nest of a stage without reduction.
pub fn elementwise(nest: &mut Nest<'_>, stage: &Stage, threads: Parallel) -> Result<Stmt, Refusal> {
    let stage = stage.squeezed();
    if stage.spatial.is_empty() {
        return Ok(stage.naive());
    }
    let lanes = nest.lanes(widest(&nest.func, &stage));
    let work = 2 + cost(&stage.value) as i64;
    scheduled(nest, std::slice::from_ref(&stage), |nest, s, parts| {
        let loops = collapse_loops(s, &parts[0].loops);
        let (inner, outer) = loops.split_last().expect("a stage with axes");
        if threads == Parallel::No {
            return vectors(s, *inner, lanes);
        }
        if outer.is_empty() {
            return one_axis(s, *inner, lanes, work);
        }
        // While the inner loop still is one.
        parallelize(nest, s, &loops, outer, work)?;
        vectors(s, *inner, lanes)
    })
}

/// One axis in tasks of equal size; with a symbolic extent, the choice is made when the kernel
/// runs.
fn one_axis(s: &mut Schedule, at: Var, lanes: i64, work: i64) -> Result<(), ScheduleError> {
    let enough = (PARALLEL_WORK / work).max(1);
    let task = TASK_VECTORS * lanes;
    match s.extent(at)? {
        Some(n) if n < enough.max(task) => vectors(s, at, lanes),
        Some(n) if n % task == 0 => tasks(s, at, lanes, task),
        Some(n) => {
            let (main, rest) = s.partition(at, (n / task * task).into())?;
            tasks(s, main, lanes, task)?;
            vectors(s, rest, lanes)
        }
        None => {
            let extent: Expr = s.get_loop(at)?.extent.clone();
            let (many, few) = s.specialize(at, extent.ge(enough))?;
            tasks(s, many, lanes, task)?;
            vectors(s, few, lanes)
        }
    }
}

fn tasks(s: &mut Schedule, at: Var, lanes: i64, task: i64) -> Result<(), ScheduleError> {
    let (outer, inner) = s.split(at, task)?;
    vectors(s, inner, lanes)?;
    s.parallel(outer)
}
