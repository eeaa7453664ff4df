//! Stages under schedule primitives: a rule takes the naive nests of one or more stages and
//! transforms them step by step; the primitives check and record every step.
//!
//! Decision: docs/decisions/0034-rules-from-primitives.md

use std::collections::BTreeMap;

use reflex_tir::schedule::{Schedule, ScheduleError, refresh_regions};
use reflex_tir::{Block, BlockIter, Expr, IterKind, PrimFunc, Scope, Stmt, Var};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::{Axis, Stage, without_blocks};

/// The nest of a stage.
pub struct StageLoops {
    /// Its block.
    pub block: String,
    /// Its loops, outermost first, those of a reduction last.
    pub loops: Vec<Var>,
    /// Number of loops that choose a result; the rest are reduced over.
    pub spatial: usize,
}

/// Applies `rule` to the naive nests of stages, one after the other. Steps that it does not note
/// itself are noted as the first stage's. Returns the nest without blocks.
pub fn scheduled(
    nest: &mut Nest<'_>,
    stages: &[Stage],
    rule: impl FnOnce(&mut Nest<'_>, &mut Schedule, &[StageLoops]) -> Result<(), ScheduleError>,
) -> Result<Stmt, Refusal> {
    let plain = |func: &mut PrimFunc| {
        let (mut parts, mut nests): (Vec<StageLoops>, _) = (vec![], vec![]);
        for stage in stages {
            let taken = parts.iter().any(|p| p.block == stage.name);
            let name =
                if taken { format!("{}_{}", stage.name, parts.len()) } else { stage.name.clone() };
            let (stmt, part) = naive_nest(func, stage, name);
            nests.push(stmt);
            parts.push(part);
        }
        (if nests.len() == 1 { nests.remove(0) } else { Stmt::Seq(nests) }, parts)
    };
    with_schedule(nest, &stages[0].name, plain, |nest, s, parts: Vec<StageLoops>| {
        let noted = nest.steps.len();
        rule(nest, s, &parts)?;
        if nest.steps.len() == noted {
            note_steps(nest, s, 0, &stages[0].name);
        }
        Ok(())
    })
}

/// Applies `rule` to a nest. The function belongs to the schedule meanwhile; where the rule
/// refuses, nothing changes. Returns the nest without blocks.
pub fn with_schedule<T>(
    nest: &mut Nest<'_>,
    name: &str,
    plain: impl FnOnce(&mut PrimFunc) -> (Stmt, T),
    rule: impl FnOnce(&mut Nest<'_>, &mut Schedule, T) -> Result<(), ScheduleError>,
) -> Result<Stmt, Refusal> {
    let mut func = std::mem::replace(&mut nest.func, PrimFunc::new(""));
    func.body = Stmt::nop();
    let before = func.clone();
    let (body, parts) = plain(&mut func);
    func.body = body;
    let mut s = Schedule::new(func);
    let noted = nest.steps.len();
    match rule(nest, &mut s, parts) {
        Ok(()) => {
            nest.func = s.into_func();
            let body = std::mem::replace(&mut nest.func.body, Stmt::nop());
            Ok(with_locals(&mut nest.func, without_blocks(&body)))
        }
        Err(refused) => {
            nest.steps.truncate(noted);
            nest.steps.push(format!("{name}: {refused}"));
            nest.func = before;
            Err(Refusal::Primitive(refused.primitive))
        }
    }
}

/// Notes the steps of `s` from the `from`th on as those of a stage.
pub fn note_steps(nest: &mut Nest<'_>, s: &Schedule, from: usize, stage: &str) {
    nest.steps.extend(s.steps()[from..].iter().map(|step| format!("{stage}: {step}")));
}

/// Intermediates that a rule gave to the stack are allocated around `body`.
fn with_locals(func: &mut PrimFunc, body: Stmt) -> Stmt {
    let local = |b: &_| func.buffers[*b].scope == Scope::Local;
    let (locals, rest) = func.allocs.iter().partition(|b| local(*b));
    func.allocs = rest;
    let locals: Vec<_> = locals;
    let around = |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) };
    locals.into_iter().fold(body, around)
}

/// Serial loops around one block.
fn naive_nest(func: &mut PrimFunc, stage: &Stage, name: String) -> (Stmt, StageLoops) {
    let (mut loops, mut iters) = (vec![], vec![]);
    let mut add = |func: &mut PrimFunc, axis: &Axis, kind| {
        let name = func.vars[axis.var].name.trim_start_matches("v_").to_owned();
        let var = func.new_var(name);
        let extent = axis.extent.clone();
        loops.push((var, extent.clone()));
        iters.push(BlockIter { var: axis.var, extent, kind, value: var.into() });
    };
    stage.spatial.iter().for_each(|axis| add(func, axis, IterKind::Spatial));
    stage.reduce.iter().for_each(|axis| add(func, axis, IterKind::Reduce));
    let store = |e: &Expr| Stmt::store(stage.buffer, stage.indices.clone(), e.clone());
    let init = stage.init.as_ref().map(store);
    let block = Stmt::Block(Box::new(block(func, &name, iters, init, store(&stage.value))));
    let vars = loops.iter().map(|(var, _)| *var).collect();
    let nest = loops.into_iter().rev().fold(block, |body, (var, n)| Stmt::serial(var, n, body));
    (nest, StageLoops { block: name, loops: vars, spatial: stage.spatial.len() })
}

/// A block without a guard.
pub fn block(
    func: &PrimFunc,
    name: &str,
    iters: Vec<BlockIter>,
    init: Option<Stmt>,
    body: Stmt,
) -> Block {
    let mut block = Block {
        name: name.to_owned(),
        iters,
        predicate: Expr::bool(true),
        reads: vec![],
        writes: vec![],
        init,
        allocs: vec![],
        annotations: BTreeMap::new(),
        body,
    };
    refresh_regions(func, &mut block);
    block
}

/// Collapses neighbouring loops wherever every access allows it, innermost first.
pub fn collapse_loops(s: &mut Schedule, loops: &[Var]) -> Vec<Var> {
    let mut merged: Vec<Var> = vec![];
    for &outer in loops.iter().rev() {
        let fits = merged.last().and_then(|inner| s.collapse_axes(outer, *inner, "m").ok());
        match (fits, merged.last_mut()) {
            (Some(m), Some(last)) => *last = m,
            _ => merged.push(outer),
        }
    }
    merged.reverse();
    merged
}

/// A loop in vectors of `lanes`. The remainder is a narrower vector where the extent is static, and
/// lanes under a guard where it is not, which lowering keeps out of the main loop.
pub fn vectors(s: &mut Schedule, at: Var, lanes: i64) -> Result<(), ScheduleError> {
    let main = match s.extent(at)? {
        Some(n) if n <= lanes => return if n > 1 { s.vectorize(at) } else { Ok(()) },
        Some(n) if n % lanes != 0 => {
            let (main, tail) = s.partition(at, (n / lanes * lanes).into())?;
            if n % lanes > 1 {
                s.vectorize(tail)?;
            }
            if n / lanes == 1 {
                return s.vectorize(main);
            }
            main
        }
        _ => at,
    };
    let (_, lane) = s.split(main, lanes)?;
    s.vectorize(lane)
}

/// A loop of a static extent in vectors of `lanes`, all unrolled, with a narrower one for the
/// remainder.
pub fn unrolled_vectors(s: &mut Schedule, at: Var, lanes: i64) -> Result<(), ScheduleError> {
    let n = s.extent(at)?.unwrap_or(1);
    let mut main = at;
    if n > lanes && n % lanes != 0 {
        let (whole, tail) = s.partition(at, (n / lanes * lanes).into())?;
        if n % lanes > 1 {
            s.vectorize(tail)?;
        }
        main = whole;
    }
    match n / lanes {
        0 | 1 if n > 1 => s.vectorize(main),
        0 | 1 => Ok(()),
        _ => {
            let (copies, lane) = s.split(main, lanes)?;
            s.vectorize(lane)?;
            s.unroll(copies)
        }
    }
}

/// Where `cost` for each element of `loops` is enough for threads, gives them the first of the
/// `outer` ones that is known to be long, or else the first one that may be: always, or where
/// there turns out to be enough to do.
pub fn parallelize(
    nest: &mut Nest<'_>,
    s: &mut Schedule,
    loops: &[Var],
    outer: &[Var],
    cost: i64,
) -> Result<(), ScheduleError> {
    let axis = |var: &Var| Ok(Axis { var: *var, extent: s.get_loop(*var)?.extent.clone() });
    let axes = loops.iter().map(axis).collect::<Result<Vec<_>, _>>()?;
    let parallel = nest.parallel_for(&axes, cost);
    let enough = nest.enough.take();
    if parallel == Parallel::No {
        return Ok(());
    }
    let extents = outer.iter().map(|l| s.extent(*l)).collect::<Result<Vec<_>, _>>()?;
    let long = extents.iter().position(|n| n.is_some_and(|n| n > 3));
    let Some(at) = long.or_else(|| extents.iter().position(|n| *n != Some(1))) else {
        return Ok(());
    };
    match enough {
        Some(cond) => s.parallel_if(outer[at], &cond).map(|_| ()),
        None => s.parallel(outer[at]),
    }
}
