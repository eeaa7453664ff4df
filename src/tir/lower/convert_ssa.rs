//! Conversion to single assignment (TVM's `ConvertSSA`): every variable is bound once.
//!
//! Schedule rules that make several nests of one stage reuse its variables; the verifier and the
//! passes after this one tell values apart by variable.

use rustc_hash::FxHashSet;

use super::rename;
use crate::{PrimFunc, Stmt, Var};

/// Gives every loop and `Let` that reuses a variable one of its own.
pub fn convert_ssa(func: &PrimFunc) -> PrimFunc {
    let mut converted = func.without_body();
    converted.body = stmt(&mut converted, &func.body, &mut FxHashSet::default());
    converted
}

fn stmt(func: &mut PrimFunc, s: &Stmt, bound: &mut FxHashSet<Var>) -> Stmt {
    let var = match s {
        Stmt::For(l) => Some(l.var),
        Stmt::Let { var, .. } => Some(*var),
        _ => None,
    };
    match var {
        // All of the copy is fresh, below it too.
        Some(var) if !bound.insert(var) => rename::copy(func, s),
        _ => s.map_children(&mut |s| stmt(func, s, bound)),
    }
}
