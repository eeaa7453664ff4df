//! Stages under schedule primitives: a rule takes a stage's plainest nest and says step by step
//! what becomes of it; the primitives do it, checked, and say what they did.

use std::collections::BTreeMap;

use reflex_tir::schedule::{Refused, Schedule};
use reflex_tir::{Block, BlockIter, Expr, IterKind, PrimFunc, Stmt, Var};

use super::Refusal;
use super::nest::{Nest, Parallel};
use super::stage::{Axis, Stage, without_blocks};

/// What `rule` makes of a stage's plainest nest, without blocks. It gets the loops, outermost
/// first, those of a reduction last; the block is called like the stage. The function is the
/// schedule's meanwhile.
pub fn scheduled(
    nest: &mut Nest<'_>,
    stage: &Stage,
    rule: impl FnOnce(&mut Nest<'_>, &mut Schedule, &[Var]) -> Result<(), Refused>,
) -> Result<Stmt, Refusal> {
    let mut func = std::mem::replace(&mut nest.func, PrimFunc::new(""));
    let (body, loops) = plainest(&mut func, stage);
    func.body = body;
    let mut s = Schedule::new(func);
    let done = rule(nest, &mut s, &loops);
    let steps = s.steps().iter().map(|step| format!("{}: {step}", stage.name));
    match &done {
        Ok(()) => nest.steps.extend(steps),
        Err(refused) => nest.steps.push(format!("{}: {refused}", stage.name)),
    }
    nest.func = s.into_func();
    let body = std::mem::replace(&mut nest.func.body, Stmt::nop());
    done.map_err(|refused| Refusal::Primitive(refused.primitive))?;
    Ok(without_blocks(&body))
}

/// Serial loops around one block.
fn plainest(func: &mut PrimFunc, stage: &Stage) -> (Stmt, Vec<Var>) {
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
    let block = Stmt::Block(Box::new(Block {
        name: stage.name.clone(),
        iters,
        predicate: Expr::bool(true),
        reads: vec![],
        writes: vec![],
        init: stage.init.as_ref().map(store),
        allocs: vec![],
        annotations: BTreeMap::new(),
        body: store(&stage.value),
    }));
    let vars = loops.iter().map(|(var, _)| *var).collect();
    let nest = loops.into_iter().rev().fold(block, |body, (var, n)| Stmt::serial(var, n, body));
    (nest, vars)
}

/// Neighbouring loops merged wherever every access allows it, innermost first.
pub fn merge_neighbours(s: &mut Schedule, loops: &[Var]) -> Vec<Var> {
    let mut merged: Vec<Var> = vec![];
    for &outer in loops.iter().rev() {
        let fits = merged.last().and_then(|inner| s.merge_axes(outer, *inner, "m").ok());
        match (fits, merged.last_mut()) {
            (Some(m), Some(last)) => *last = m,
            _ => merged.push(outer),
        }
    }
    merged.reverse();
    merged
}

/// A loop in vectors of `lanes`. What is left over is a narrower vector where the extent is known,
/// and lanes under a guard where it is not, which lowering keeps out of the main part.
pub fn vectors(s: &mut Schedule, at: Var, lanes: i64) -> Result<(), Refused> {
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

/// Where `cost` for each element of `loops` is enough for threads, gives them the first of the
/// `outer` ones that is known to be long, or else the first one that may be: always, or where
/// there turns out to be enough to do.
pub fn share(
    nest: &mut Nest<'_>,
    s: &mut Schedule,
    (loops, outer): (&[Var], &[Var]),
    cost: i64,
) -> Result<(), Refused> {
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
        Some(cond) => s.parallel_where(outer[at], &cond).map(|_| ()),
        None => s.parallel(outer[at]),
    }
}
