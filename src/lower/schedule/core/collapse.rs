//! Neighbouring axes of a stage collapsed into one wherever every access allows it.

use reflex_tir::{Expr, ExprKind, PrimFunc, Var};

use crate::schedule::core::access::{has_load, note_accesses};
use crate::schedule::core::affine::{Linear, linear, same};
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};

/// A stage whose neighbouring axes are collapsed wherever every access allows it.
pub fn collapsed(nest: &mut Nest<'_>, stage: &Stage) -> Stage {
    collapsed_with(nest, stage, None).0
}

/// [`collapsed`], together with a stage over the same spatial axes (the same variables).
pub fn collapsed_with(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
) -> (Stage, Option<Stage>) {
    let vars: Vec<Var> = stage.spatial.iter().chain(&stage.reduce).map(|a| a.var).collect();
    let mut accesses = vec![];
    let mut pinned = vec![false; vars.len()];
    for s in [Some(stage), epilogue].into_iter().flatten() {
        note_accesses(&nest.func, &s.value, &vars, &mut accesses, &mut pinned);
        match linear(&nest.func, s.buffer, &s.indices, &vars) {
            Some(store) => accesses.push(store),
            None => pinned.fill(true),
        }
    }
    let spatial = merged_axes(nest, &stage.spatial, 0, &accesses, &pinned);
    let reduce = merged_axes(nest, &stage.reduce, stage.spatial.len(), &accesses, &pinned);
    if spatial.iter().chain(&reduce).all(|g| g.len == 1) {
        return (stage.clone(), epilogue.cloned());
    }
    let groups: Vec<&AxisRun> = spatial.iter().chain(&reduce).collect();
    let rebuilt = |s: &Stage| {
        let at = linear(&nest.func, s.buffer, &s.indices, &vars);
        let flat_store = |at: Linear| match nest.func.buffers[s.buffer].shape.is_empty() {
            true => vec![],
            false => vec![flat(&at, &groups)],
        };
        let axes = |list: &[AxisRun]| list.iter().map(|g| g.axis.clone()).collect::<Vec<_>>();
        Stage {
            name: s.name.clone(),
            spatial: axes(&spatial),
            reduce: if s.reduce.is_empty() { vec![] } else { axes(&reduce) },
            buffer: s.buffer,
            indices: at.map_or_else(|| s.indices.clone(), flat_store),
            init: s.init.clone(),
            value: flat_loads(&nest.func, &s.value, &vars, &groups),
            kept: s.kept,
        }
    };
    (rebuilt(stage), epilogue.map(rebuilt))
}

/// Neighbouring axes as one: `axis` stands for `len` axes from `first`.
struct AxisRun {
    axis: Axis,
    first: usize,
    len: usize,
}

fn merged_axes(
    nest: &mut Nest<'_>,
    axes: &[Axis],
    offset: usize,
    accesses: &[Linear],
    pinned: &[bool],
) -> Vec<AxisRun> {
    let mut groups: Vec<AxisRun> = vec![];
    for (n, axis) in axes.iter().enumerate().rev() {
        let at = offset + n;
        if let Some(inner) = groups.last_mut()
            && !pinned[at]
            && (inner.first..inner.first + inner.len).all(|i| !pinned[i])
        {
            let last = inner.first + inner.len - 1;
            let fits = accesses.iter().all(|a| {
                let step = a.coefficients[last].clone() * inner.axis.extent.clone();
                same(&a.coefficients[at], &step)
            });
            if fits {
                let extent = axis.extent.clone() * inner.axis.extent.clone();
                let var = if inner.len == 1 { nest.var("m") } else { inner.axis.var };
                *inner = AxisRun { axis: Axis { var, extent }, first: at, len: inner.len + 1 };
                continue;
            }
        }
        groups.push(AxisRun { axis: axis.clone(), first: at, len: 1 });
    }
    groups.reverse();
    groups
}

/// Position with each run of axes collapsed.
fn flat(at: &Linear, groups: &[&AxisRun]) -> Expr {
    let picked = Linear {
        coefficients: groups.iter().map(|g| at.coefficients[g.first + g.len - 1].clone()).collect(),
        rest: at.rest.clone(),
    };
    let values: Vec<Expr> = groups.iter().map(|g| g.axis.var.into()).collect();
    picked.at(&values)
}

fn flat_loads(func: &PrimFunc, e: &Expr, vars: &[Var], groups: &[&AxisRun]) -> Expr {
    if let ExprKind::Load { buffer, indices, dtype } = e.kind()
        && let Some(at) = linear(func, *buffer, indices, vars)
        && !has_load(indices)
    {
        let index = match func.buffers[*buffer].shape.is_empty() {
            true => vec![],
            false => vec![flat(&at, groups)],
        };
        return Expr::load(*buffer, index, *dtype);
    }
    e.map_children(&mut |c| flat_loads(func, c, vars, groups))
}
