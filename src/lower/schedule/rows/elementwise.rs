//! Elementwise and injective stages: neighbouring axes collapsed, the innermost one in vectors, the
//! outermost one on threads when there is enough work. What reads along another axis than it writes
//! (a transpose) goes tile by tile.

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::{Expr, PrimFunc, Stmt, Var};

use crate::extent::assumed_extent;
use crate::schedule::core::access::{note_accesses, widest};
use crate::schedule::core::affine::Linear;
use crate::schedule::core::cost::cost;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, PARALLEL_WORK, Parallel};
use crate::schedule::core::primitives::{collapse_loops, parallelize, scheduled, vectors};
use crate::schedule::core::stage::Stage;

/// Bytes of a cache line.
const LINE_BYTES: i64 = 64;
/// Vectors along an axis whose last one may have lanes to spare.
const LONG: i64 = 8;
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
    if let Some(across) = read_across(&nest.func, &stage)
        && let Ok(stmt) = tiled(nest, &stage, threads, across, (lanes, work))
    {
        return Ok(stmt);
    }
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

/// The axis along which an operand is contiguous that is not so along the last one: its position.
fn read_across(func: &PrimFunc, stage: &Stage) -> Option<usize> {
    let vars: Vec<Var> = stage.spatial.iter().map(|a| a.var).collect();
    let (mut accesses, mut pinned) = (vec![], vec![false; vars.len()]);
    note_accesses(func, &stage.value, &vars, &mut accesses, &mut pinned);
    let last = vars.len() - 1;
    let is_long = |at: usize| assumed_extent(&stage.spatial[at].extent) >= LINE_BYTES / 4;
    let of = |access: &Linear| {
        let step = |at: usize| access.coefficients[at].as_int();
        let strided = step(last).is_none_or(|n| n > 1);
        strided.then(|| (0..last).find(|at| step(*at) == Some(1)))?
    };
    let across = accesses.iter().find_map(of)?;
    (is_long(across) && is_long(last)).then_some(across)
}

/// Tiles that are as long along the axis `across` as a cache line, so that the lines that the vectors of one
/// row gather from serve the rows after it too.
fn tiled(
    nest: &mut Nest<'_>,
    stage: &Stage,
    threads: Parallel,
    across: usize,
    (lanes, work): (i64, i64),
) -> Result<Stmt, Refusal> {
    let rows = LINE_BYTES / widest(&nest.func, stage).max(1) as i64;
    scheduled(nest, std::slice::from_ref(stage), |nest, s, parts| {
        let loops = &parts[0].loops;
        let mut outer = collapse_loops(s, &loops[..across]);
        let mut after = collapse_loops(s, &loops[across + 1..]);
        let last = after.pop().expect("an axis that is written along");
        if s.extent(last)?.is_some_and(|n| n % lanes != 0 && n < LONG * lanes) {
            let why = "its last vector would be a large part of it".to_owned();
            return Err(ScheduleError { primitive: "split", at: stage.name.clone(), why });
        }
        let (tile, row) = s.split(loops[across], rows)?;
        let (columns, lane) = s.split(last, lanes)?;
        outer.push(tile);
        outer.extend(after);
        outer.push(columns);
        let all = [&outer[..], &[row, lane]].concat();
        s.reorder(&all)?;
        if threads == Parallel::Yes {
            parallelize(nest, s, &all, &outer, work)?;
        }
        s.vectorize(lane)
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
