//! Shorter index arithmetic and no dead control flow, by what is known of loop ranges.
//!
//! Loops of no iteration and conditions that are decided disappear; a loop of one iteration
//! becomes its body. Floating-point expressions are not touched.

use crate::arith::Analyzer;
use crate::{Buffer, Expr, For, ForKind, PrimFunc, Stmt};

use super::lower_blocks::seq;

/// Simplifies every statement and expression of `func`.
pub fn simplify(func: &PrimFunc) -> PrimFunc {
    let mut simplified = func.without_body();
    let facts = parameter_facts(func);
    simplified.body = stmt(&func.body, &facts);
    let buffers: Vec<Buffer> = func.buffers.keys().collect();
    for buffer in buffers {
        for extent in &mut simplified.buffers[buffer].shape {
            *extent = facts.simplify(extent);
        }
    }
    simplified
}

/// Extents of parameters are not negative: the packed entry refuses others.
pub(super) fn parameter_facts(func: &PrimFunc) -> Analyzer {
    let mut facts = Analyzer::new();
    for buffer in func.buffer_params() {
        for var in func.buffers[buffer].shape.iter().filter_map(Expr::as_var) {
            facts.at_least(var, 0);
        }
    }
    facts
}

fn stmt(s: &Stmt, facts: &Analyzer) -> Stmt {
    match s {
        Stmt::For(l) => for_loop(l, facts),
        Stmt::Seq(list) => {
            let mut flat = vec![];
            for s in list {
                match stmt(s, facts) {
                    Stmt::Seq(inner) => flat.extend(inner),
                    other => flat.push(other),
                }
            }
            seq(flat)
        }
        Stmt::If { cond, then, otherwise } => {
            let cond = facts.simplify(cond);
            match (cond.as_int(), otherwise) {
                (Some(0), None) => Stmt::nop(),
                (Some(0), Some(otherwise)) => stmt(otherwise, facts),
                (Some(_), _) => stmt(then, facts),
                (None, _) => Stmt::If {
                    cond,
                    then: Box::new(stmt(then, facts)),
                    otherwise: otherwise.as_ref().map(|s| Box::new(stmt(s, facts))),
                },
            }
        }
        Stmt::Store { buffer, indices, value } => Stmt::Store {
            buffer: *buffer,
            indices: indices.iter().map(|i| facts.simplify(i)).collect(),
            value: facts.simplify(value),
        },
        Stmt::Let { var, value, body } => {
            Stmt::Let { var: *var, value: facts.simplify(value), body: Box::new(stmt(body, facts)) }
        }
        Stmt::While { cond, body } => {
            Stmt::While { cond: facts.simplify(cond), body: Box::new(stmt(body, facts)) }
        }
        Stmt::Allocate { buffer, body } => match stmt(body, facts) {
            Stmt::Seq(list) if list.is_empty() => Stmt::nop(),
            body => Stmt::Allocate { buffer: *buffer, body: Box::new(body) },
        },
        Stmt::Tile(tile) => Stmt::Tile(tile.map(&mut |b| b, &mut |e| facts.simplify(e))),
        Stmt::CallPacked(call) => {
            Stmt::CallPacked(call.map(&mut |b| b, &mut |e| facts.simplify(e)))
        }
        // Only scheduled form has blocks; their regions are about iterators.
        Stmt::Block(_) | Stmt::Barrier(_) => s.clone(),
    }
}

fn for_loop(l: &For, facts: &Analyzer) -> Stmt {
    let (min, extent) = (facts.simplify(&l.min), facts.simplify(&l.extent));
    if facts.bounds(&extent).max <= 0 {
        return Stmt::nop();
    }
    let gpu = matches!(l.kind, ForKind::ThreadBinding(_));
    if extent.as_int() == Some(1) && !gpu {
        let body = l.body.substitute(&|v| (v == l.var).then(|| min.clone()));
        return stmt(&body, facts);
    }
    let mut inner = facts.clone();
    inner.bind(l.var, min.clone(), extent.clone());
    match stmt(&l.body, &inner) {
        Stmt::Seq(list) if list.is_empty() => Stmt::nop(),
        body => Stmt::For(Box::new(For { min, extent, ..l.with_body(body) })),
    }
}
