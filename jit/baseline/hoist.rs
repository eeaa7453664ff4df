//! Loop-invariant code motion of divisions and roots.
//!
//! Indices are moved out of loops while they are emitted (`emit/index.rs`), and what else is pure by Cranelift, where it
//! optimises. Loads are not pure: the scale of a normalisation, `1 / sqrt(variance[()] + epsilon)`, would be computed
//! for every vector. What an expression loads from stack memory that the loop does not write is known before the
//! loop, whether or not it has an iteration.

use reflex_tir::{BinOp, Buffer, Expr, ExprKind, For, ForKind, Intrin, PrimFunc, Scope, Stmt, Var};
use rustc_hash::FxHashSet;

/// `func` with such expressions before the outermost loop that they are the same in.
pub fn hoist(mut func: PrimFunc) -> PrimFunc {
    if is_costly(&func.body) {
        let body = func.body.clone();
        func.body = stmt(&body, &mut func);
    }
    func
}

fn stmt(s: &Stmt, func: &mut PrimFunc) -> Stmt {
    let Stmt::For(l) = s else { return s.map_children(&mut |s| stmt(s, func)) };
    if !is_costly(&l.body) {
        return s.clone();
    }
    if matches!(l.kind, ForKind::Parallel | ForKind::ThreadBinding(_)) {
        return Stmt::For(Box::new(l.with_body(stmt(&l.body, func))));
    }
    let mut found = Invariants::of(l, func);
    found.stmt(&l.body);
    let values = found.values;
    if values.is_empty() {
        return Stmt::For(Box::new(l.with_body(stmt(&l.body, func))));
    }
    let mut body = l.body.clone();
    let mut named: Vec<(Var, Expr)> = vec![];
    for value in values {
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

    /// Notes the largest expressions that are costly and the same in every iteration.
    fn expr(&mut self, e: &Expr) {
        let found = self.costly_parts(e).unwrap_or_default();
        self.note(found);
    }

    fn note(&mut self, found: Vec<Expr>) {
        for value in found {
            if !self.values.contains(&value) {
                self.values.push(value);
            }
        }
    }

    /// The largest costly parts of an expression that is the same in every iteration. Those of one that changes are
    /// noted.
    fn costly_parts(&mut self, e: &Expr) -> Option<Vec<Expr>> {
        match e.kind() {
            // One side may not be evaluated.
            ExprKind::Call { op: Intrin::IfThenElse, .. } => None,
            ExprKind::Var { var, .. } => (!self.bound.contains(var)).then(Vec::new),
            ExprKind::Load { buffer, indices, .. } => {
                let is_local = self.func.buffers[*buffer].scope == Scope::Local;
                let is_same = |i: &Expr| match i.as_var() {
                    Some(var) => !self.bound.contains(&var),
                    None => i.as_int().is_some(),
                };
                let is_there = is_local && indices.iter().all(is_same);
                (is_there && !self.written.contains(buffer)).then(Vec::new)
            }
            kind => {
                let (mut parts, mut same) = (vec![], !divides_integers(kind));
                e.for_each_child(&mut |child| match self.costly_parts(child) {
                    Some(more) => parts.extend(more),
                    None => same = false,
                });
                if !same {
                    self.note(parts);
                    return None;
                }
                let is_costly = divides(e) || !parts.is_empty();
                Some(if is_costly && e.dtype().is_float() { vec![e.clone()] } else { parts })
            }
        }
    }
}

/// Whether an operation ends the process where it divides by zero.
fn divides_integers(kind: &ExprKind) -> bool {
    use BinOp::{Div, FloorDiv, FloorMod, Mod};
    let ExprKind::Binary { op: Div | Mod | FloorDiv | FloorMod, a, .. } = kind else {
        return false;
    };
    !a.dtype().is_float()
}

/// Whether a statement has a division or a root in it.
fn is_costly(s: &Stmt) -> bool {
    let mut costly = false;
    s.visit_exprs(&mut |e| costly |= divides(e));
    costly
}

/// Whether an operation is a division or a root.
fn divides(e: &Expr) -> bool {
    matches!(
        e.kind(),
        ExprKind::Binary { op: BinOp::Div, .. } | ExprKind::Call { op: Intrin::Sqrt, .. }
    )
}
