//! Legality of vectorization, by a divergence analysis of the loop's body.
//!
//! A vectorized loop whose body needs control flow or memory of its own per lane is legal but
//! has no vector form here; it runs in order instead, which means the same.

use std::collections::HashSet;

use reflex_tir::{Expr, ExprKind, For, Stmt, Var};

/// Whether every statement of the loop's body has a vector form.
pub fn is_vectorizable(l: &For) -> bool {
    let mut varying = HashSet::from([l.var]);
    stmt(&l.body, &mut varying)
}

fn stmt(s: &Stmt, varying: &mut HashSet<Var>) -> bool {
    match s {
        Stmt::For(l) => {
            !varies(&l.min, varying) && !varies(&l.extent, varying) && stmt(&l.body, varying)
        }
        Stmt::Store { indices, value, .. } => {
            indices.iter().any(|i| varies(i, varying)) || !varies(value, varying)
        }
        Stmt::If { then, otherwise, .. } => {
            stmt(then, varying) && otherwise.as_ref().is_none_or(|s| stmt(s, varying))
        }
        Stmt::Let { var, value, body } => {
            if varies(value, varying) {
                varying.insert(*var);
            }
            stmt(body, varying)
        }
        Stmt::Seq(all) => all.iter().all(|s| stmt(s, varying)),
        Stmt::Block(_)
        | Stmt::Allocate { .. }
        | Stmt::While { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_) => false,
    }
}

/// Whether the value may differ between lanes.
fn varies(expr: &Expr, varying: &HashSet<Var>) -> bool {
    let mut found = false;
    expr.visit(&mut |e| {
        if let ExprKind::Var { var, .. } = e.kind() {
            found |= varying.contains(var);
        }
    });
    found
}
