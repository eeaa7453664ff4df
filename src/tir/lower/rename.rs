//! Copies of statements that bind variables of their own.

use rustc_hash::FxHashMap;

use crate::{Expr, For, PrimFunc, Stmt, Var};

/// `s` with a fresh variable for everything it binds, so that both can be in one function.
pub fn copy(func: &mut PrimFunc, s: &Stmt) -> Stmt {
    let mut fresh: FxHashMap<Var, Var> = FxHashMap::default();
    s.visit(&mut |s| {
        let bound = match s {
            Stmt::For(l) => vec![l.var],
            Stmt::Let { var, .. } => vec![*var],
            Stmt::Block(b) => b.iters.iter().map(|i| i.var).collect(),
            _ => vec![],
        };
        for var in bound {
            let data = func.vars[var].clone();
            fresh.insert(var, func.vars.push(data));
        }
    });
    let renamed = s.substitute(&|v| fresh.get(&v).map(|v| Expr::new(var_kind(func, *v))));
    rebind(&renamed, &fresh)
}

fn var_kind(func: &PrimFunc, var: Var) -> crate::ExprKind {
    crate::ExprKind::Var { var, dtype: func.vars[var].dtype }
}

fn rebind(s: &Stmt, fresh: &FxHashMap<Var, Var>) -> Stmt {
    let new = |v: Var| fresh.get(&v).copied().unwrap_or(v);
    match s.map_children(&mut |s| rebind(s, fresh)) {
        Stmt::For(l) => Stmt::For(Box::new(For { var: new(l.var), ..*l })),
        Stmt::Let { var, value, body } => Stmt::Let { var: new(var), value, body },
        Stmt::Block(mut b) => {
            for iter in &mut b.iters {
                iter.var = new(iter.var);
            }
            Stmt::Block(b)
        }
        other => other,
    }
}
