//! Memory accesses of a stage: linear loads, element sizes, contiguous axes.

use std::collections::HashSet;

use reflex_tir::{Buffer, Expr, ExprKind, PrimFunc, Var};

use crate::schedule::core::affine::{Linear, linear};
use crate::schedule::core::stage::Stage;

/// Whether an index is itself loaded (a gather).
pub fn has_load(indices: &[Expr]) -> bool {
    let mut found = false;
    for index in indices {
        index.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Load { .. }));
    }
    found
}

/// Collects the linear loads of `e` and marks the variables that are used otherwise.
pub fn note_accesses(
    func: &PrimFunc,
    e: &Expr,
    vars: &[Var],
    accesses: &mut Vec<Linear>,
    pinned: &mut [bool],
) {
    if let ExprKind::Load { buffer, indices, .. } = e.kind()
        && !has_load(indices)
        && let Some(access) = linear(func, *buffer, indices, vars)
    {
        accesses.push(access);
        return;
    }
    if let Some(at) = e.as_var().and_then(|v| vars.iter().position(|x| *x == v)) {
        pinned[at] = true;
    }
    for child in e.children() {
        note_accesses(func, child, vars, accesses, pinned);
    }
}

/// The largest element size among what a stage touches.
pub fn widest(func: &PrimFunc, stage: &Stage) -> usize {
    let mut bytes = func.buffers[stage.buffer].dtype.itemsize();
    stage.value.visit(&mut |e| {
        if let ExprKind::Load { dtype, .. } = e.kind() {
            bytes = bytes.max(dtype.itemsize());
        }
    });
    bytes
}

/// Numbers of a stage's operands that are contiguous along its last spatial axis, and along its
/// last reduction axis. Operands of a reduction that stay the same for a result do not count.
pub fn contiguous(func: &PrimFunc, stage: &Stage) -> (usize, usize) {
    let vars: Vec<_> = stage.spatial.iter().chain(&stage.reduce).map(|a| a.var).collect();
    let (mut accesses, mut pinned) = (vec![], vec![false; vars.len()]);
    let element = stage.value.replace_loads(stage.buffer, &mut |_, _| {
        Expr::constant(0.0, func.buffers[stage.buffer].dtype)
    });
    note_accesses(func, &element, &vars, &mut accesses, &mut pinned);
    let reduced = stage.spatial.len()..vars.len();
    let varies = |a: &Linear| a.coefficients[reduced.clone()].iter().any(|c| c.as_int() != Some(0));
    accesses.retain(|a| reduced.is_empty() || varies(a));
    let count = |at: Option<usize>| {
        let step = |a: &&Linear| at.is_some_and(|at| a.coefficients[at].as_int() == Some(1));
        accesses.iter().filter(step).count()
    };
    (count(stage.spatial.len().checked_sub(1)), count(vars.len().checked_sub(1)))
}

/// Every buffer read.
pub fn buffers_of(e: &Expr) -> HashSet<Buffer> {
    let mut found = HashSet::new();
    e.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind() {
            found.insert(*buffer);
        }
    });
    found
}
