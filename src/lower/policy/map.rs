//! Elementwise and injective stages: neighbouring axes merged, the innermost one in vectors,
//! the outermost one on threads when there is enough work.

use reflex_tir::{Expr, ForKind, Stmt};

use super::fuse::cost;
use super::nest::{Nest, PARALLEL_WORK, Parallel, merged, widest};
use super::stage::{Axis, Stage};

/// Vectors per task of a parallel loop over one axis.
const TASK_VECTORS: i64 = 128;

/// The nest of a stage without reduction.
pub fn map(nest: &mut Nest<'_>, stage: &Stage, threads: Parallel) -> Stmt {
    let stage = merged(nest, &stage.squeezed());
    let Some((inner, outer)) = stage.spatial.split_last() else { return stage.naive() };
    let lanes = nest.lanes(widest(&nest.func, &stage));
    let work = 2 + cost(&stage.value) as i64;
    if outer.is_empty() && threads == Parallel::Yes {
        return one_axis(nest, &stage, inner, lanes, work);
    }
    let row = vector_row(nest, &stage, inner, &Expr::i64(0), &inner.extent, lanes);
    let parallel = match threads {
        Parallel::Yes => nest.parallel_for(&stage.spatial, work),
        Parallel::No => Parallel::No,
    };
    nest.outer(outer, parallel, row)
}

/// Vectors over `extent` elements of the inner axis from `base`.
fn vector_row(
    nest: &mut Nest<'_>,
    stage: &Stage,
    inner: &Axis,
    base: &Expr,
    extent: &Expr,
    lanes: i64,
) -> Stmt {
    nest.vectors(extent, lanes, &mut |nest, first, count, bound| {
        nest.lanes_of(count, |_, lane| {
            let at = first.clone() + lane;
            let index = base.clone() + at.clone();
            let at_index = stage.substitute(&|v| (v == inner.var).then(|| index.clone()));
            let store = Stmt::store(at_index.buffer, at_index.indices, at_index.value);
            match bound {
                Some(bound) => {
                    Stmt::If { cond: at.lt(bound), then: Box::new(store), otherwise: None }
                }
                None => store,
            }
        })
    })
}

/// One axis in tasks of equal size; with an unknown extent, the choice is made when it runs.
fn one_axis(nest: &mut Nest<'_>, stage: &Stage, inner: &Axis, lanes: i64, work: i64) -> Stmt {
    nest.enough = None;
    let enough = (PARALLEL_WORK / work).max(1);
    let known = inner.extent.as_int();
    let zero = Expr::i64(0);
    let serial = match known {
        Some(n) if n >= enough => Stmt::nop(),
        _ => vector_row(nest, stage, inner, &zero, &inner.extent, lanes),
    };
    if known.is_some_and(|n| n < enough) {
        return serial;
    }
    let task = TASK_VECTORS * lanes;
    let tasks = inner.extent.clone().floordiv(task);
    let main = nest.repeat(ForKind::Parallel, "task", tasks.clone(), |nest, t| {
        vector_row(nest, stage, inner, &(t * task), &Expr::i64(task), lanes)
    });
    let done = tasks * task;
    let rest = vector_row(nest, stage, inner, &done, &(inner.extent.clone() - done.clone()), lanes);
    let parallel = Stmt::Seq(vec![main, rest]);
    match known {
        Some(_) => parallel,
        None => Stmt::If {
            cond: inner.extent.clone().ge(enough),
            then: Box::new(parallel),
            otherwise: Some(Box::new(serial)),
        },
    }
}
