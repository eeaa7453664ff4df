//! Loop-invariant code motion of divisions and roots.
//!
//! Cranelift moves what is pure out of loops, and loads are not: the scale of a normalisation,
//! `1 / sqrt(variance[()] + epsilon)`, would be computed for every vector. What an expression loads from stack
//! memory that the loop does not write is known before the loop, whether or not it has an iteration.

use reflex_tir::{BinOp, Buffer, Expr, ExprKind, For, ForKind, Intrin, PrimFunc, Scope, Stmt, Var};
use rustc_hash::FxHashSet;

/// `func` with such expressions before the outermost loop that they are the same in.
pub fn hoist(mut func: PrimFunc) -> PrimFunc {
    let mut costly = false;
    func.body.visit_exprs(&mut |e| costly |= divides(e));
    if costly {
        let body = func.body.clone();
        func.body = stmt(&body, &mut func);
    }
    func
}

fn stmt(s: &Stmt, func: &mut PrimFunc) -> Stmt {
    let Stmt::For(l) = s else { return s.map_children(&mut |s| stmt(s, func)) };
    if matches!(l.kind, ForKind::Parallel | ForKind::ThreadBinding(_)) {
        return Stmt::For(Box::new(l.with_body(stmt(&l.body, func))));
    }
    let mut found = Invariants::of(l, func);
    found.stmt(&l.body);
    let mut body = l.body.clone();
    let mut named: Vec<(Var, Expr)> = vec![];
    for value in found.values {
        let var = func.new_var("invariant");
        func.vars[var].dtype = value.dtype();
        let name = Expr::new(ExprKind::Var { var, dtype: value.dtype() });
        body = body.map_exprs(&mut |e| replaced(e, &value, &name));
        named.push((var, value));
    }
    let inner = Stmt::For(Box::new(l.with_body(stmt(&body, func))));
    let bind = |body, (var, value)| Stmt::Let { var, value, body: Box::new(body) };
    named.into_iter().rev().fold(inner, bind)
}

fn replaced(e: &Expr, value: &Expr, name: &Expr) -> Expr {
    if e == value { name.clone() } else { e.map_children(&mut |e| replaced(e, value, name)) }
}

/// Expressions of a loop that are the same in every iteration.
struct Invariants<'f> {
    func: &'f PrimFunc,
    /// Variables that the loop binds, its own among them.
    bound: FxHashSet<Var>,
    /// Buffers that it writes or allocates.
    written: FxHashSet<Buffer>,
    values: Vec<Expr>,
}

impl<'f> Invariants<'f> {
    fn of(l: &For, func: &'f PrimFunc) -> Invariants<'f> {
        let (mut bound, mut written) = (FxHashSet::from_iter([l.var]), FxHashSet::default());
        l.body.visit(&mut |s| match s {
            Stmt::For(inner) => drop(bound.insert(inner.var)),
            Stmt::Let { var, .. } => drop(bound.insert(*var)),
            Stmt::Store { buffer, .. } | Stmt::Allocate { buffer, .. } => {
                written.insert(*buffer);
            }
            Stmt::CallPacked(call) => written.extend(call.tensors()),
            _ => {}
        });
        Invariants { func, bound, written, values: vec![] }
    }

    /// Looks at what is evaluated in every iteration; both sides of conditions are left alone.
    fn stmt(&mut self, s: &Stmt) {
        match s {
            Stmt::For(l) => self.stmt(&l.body),
            Stmt::Seq(all) => all.iter().for_each(|s| self.stmt(s)),
            Stmt::Allocate { body, .. } => self.stmt(body),
            Stmt::Let { value, body, .. } => {
                self.expr(value);
                self.stmt(body);
            }
            Stmt::Store { value, .. } => self.expr(value),
            Stmt::If { .. }
            | Stmt::While { .. }
            | Stmt::Block(_)
            | Stmt::Tile(_)
            | Stmt::CallPacked(_)
            | Stmt::Barrier(_) => {}
        }
    }

    fn expr(&mut self, e: &Expr) {
        if is_costly(e) && self.is_invariant(e) {
            if !self.values.contains(e) {
                self.values.push(e.clone());
            }
            return;
        }
        match e.kind() {
            ExprKind::Call { op: Intrin::IfThenElse, .. } | ExprKind::Load { .. } => {}
            _ => e.for_each_child(&mut |e| self.expr(e)),
        }
    }

    fn is_invariant(&self, e: &Expr) -> bool {
        let mut invariant = e.dtype().is_float();
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => invariant &= !self.bound.contains(var),
            ExprKind::Load { buffer, indices, .. } => {
                let is_local = self.func.buffers[*buffer].scope == Scope::Local;
                let is_there = indices.iter().all(|i| i.as_int().is_some() || i.as_var().is_some());
                invariant &= is_local && is_there && !self.written.contains(buffer);
            }
            ExprKind::Binary {
                op: BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod,
                a,
                ..
            } => {
                // A division by zero of integers ends the process.
                invariant &= a.dtype().is_float();
            }
            _ => {}
        });
        invariant
    }
}

/// Whether an expression has a division or a root in it.
fn is_costly(e: &Expr) -> bool {
    let mut costly = false;
    e.visit(&mut |e| costly |= divides(e));
    costly
}

fn divides(e: &Expr) -> bool {
    matches!(
        e.kind(),
        ExprKind::Binary { op: BinOp::Div, .. } | ExprKind::Call { op: Intrin::Sqrt, .. }
    )
}
