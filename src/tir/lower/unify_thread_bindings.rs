//! One nest of loops over threads for each launch (TVM's `UnifyThreadBinding`).
//!
//! ```text
//! for b in blockIdx.x:                       for b in blockIdx.x:
//!     for i in threadIdx.x(64) { A(i) }          s = shared memory
//!     s = shared memory                          for t in threadIdx.x(64):
//!     for j in threadIdx.x(32) { B(j) }              A(t)
//!     y[b] = s[0]                                    if t < 32 { B(t) }
//!                                                    if t == 0 { y[b] = s[0] }
//! ```
//!
//! A loop that binds an axis again inside of one that does stands for the same threads. A store
//! outside of an axis's loops is the first thread's along it; what a thread keeps for itself, each
//! one stores. Memory of a block is allocated around its threads.

use std::collections::{BTreeMap, BTreeSet};

use super::lower_blocks::seq;
use crate::launch::{axis, is_private};
use crate::thread::{ThreadAxis, ThreadLevel};
use crate::{Buffer, Expr, For, ForKind, PrimFunc, Scope, Stmt, Var};

/// Unifies the loops over threads of every launch.
pub fn unify_thread_bindings(func: &PrimFunc) -> PrimFunc {
    let mut func = func.clone();
    let body = func.body.clone();
    func.body = body.replace(&mut |s| {
        let level = axis(s).map(ThreadAxis::level)?;
        (level != ThreadLevel::Virtual).then(|| launch(&mut func, s))
    });
    func
}

fn launch(func: &mut PrimFunc, s: &Stmt) -> Stmt {
    match (s, axis(s).map(ThreadAxis::level)) {
        (Stmt::For(l), Some(ThreadLevel::Block)) => {
            Stmt::For(Box::new(l.with_body(launch(func, &l.body))))
        }
        _ => block(func, s),
    }
}

/// The statement of one block.
fn block(func: &mut PrimFunc, s: &Stmt) -> Stmt {
    let mut extents: BTreeMap<ThreadAxis, Expr> = BTreeMap::new();
    let mut shared = vec![];
    s.visit(&mut |s| match s {
        Stmt::For(l) => {
            let Some(axis) = axis(s).filter(|a| a.level() == ThreadLevel::Thread) else { return };
            let widest = extents.entry(axis).or_insert_with(|| l.extent.clone());
            *widest = widest.clone().max(l.extent.clone());
        }
        Stmt::Allocate { buffer, .. } if func.buffers[*buffer].scope == Scope::Shared => {
            shared.push(*buffer);
        }
        _ => {}
    });
    let name = |axis: ThreadAxis| axis.name().replace("threadIdx.", "t");
    let axes: BTreeMap<ThreadAxis, (Var, Expr)> = extents
        .into_iter()
        .map(|(axis, extent)| (axis, (func.new_var(name(axis)), extent)))
        .collect();
    let pass = Unify { func, axes: &axes, shared: &shared };
    let body = pass.stmt(s, &BTreeSet::new());
    let body = axes.iter().fold(body, |body, (axis, (var, extent))| {
        Stmt::loop_of(ForKind::ThreadBinding(*axis), *var, extent.clone(), body)
    });
    shared
        .iter()
        .rev()
        .fold(body, |body, buffer| Stmt::Allocate { buffer: *buffer, body: Box::new(body) })
}

struct Unify<'a> {
    func: &'a PrimFunc,
    axes: &'a BTreeMap<ThreadAxis, (Var, Expr)>,
    shared: &'a [Buffer],
}

impl Unify<'_> {
    /// `bound` are the axes of the loops around.
    fn stmt(&self, s: &Stmt, bound: &BTreeSet<ThreadAxis>) -> Stmt {
        match (s, axis(s)) {
            (Stmt::For(l), Some(axis)) if axis.level() == ThreadLevel::Thread => {
                self.threads(l, axis, bound)
            }
            (Stmt::Allocate { buffer, body }, _) if self.shared.contains(buffer) => {
                self.stmt(body, bound)
            }
            (Stmt::Store { buffer, .. }, _) if !is_private(self.func, *buffer) => {
                let rest = self.axes.iter().filter(|(axis, _)| !bound.contains(axis));
                let first =
                    rest.fold(Expr::bool(true), |all, (_, (var, extent))| match extent.as_int() {
                        Some(1) => all,
                        _ => all.and(Expr::from(*var).equal(0)),
                    });
                guarded(first, s.clone())
            }
            (Stmt::Seq(list), _) => seq(list.iter().map(|s| self.stmt(s, bound)).collect()),
            _ => s.map_children(&mut |s| self.stmt(s, bound)),
        }
    }

    fn threads(&self, l: &For, axis: ThreadAxis, bound: &BTreeSet<ThreadAxis>) -> Stmt {
        let (var, widest) = &self.axes[&axis];
        let body = l.body.substitute(&|v| (v == l.var).then(|| Expr::from(*var)));
        let inside = bound.iter().copied().chain([axis]).collect();
        let body = self.stmt(&body, &inside);
        match l.extent == *widest {
            true => body,
            false => guarded(Expr::from(*var).lt(l.extent.clone()), body),
        }
    }
}

fn guarded(cond: Expr, body: Stmt) -> Stmt {
    match cond.as_int() {
        Some(0) => Stmt::nop(),
        Some(_) => body,
        None => Stmt::If { cond, then: Box::new(body), otherwise: None },
    }
}
