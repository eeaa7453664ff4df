//! Separation of full tiles from partial ones, so that the full ones run without a guard.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::arith::poly::Poly;
use crate::{Block, CmpOp, Expr, ExprKind, For, ForKind, Intrin, Stmt, Var};

impl Schedule {
    /// `for l in 0..w { X[l] = if a + l < n then f(l) else X[l] }` becomes, where `n - a` is known,
    /// `for l in 0..min(w, n - a) { X[l] = f(l) }`, and where it is not,
    /// `if w <= n - a { for l in 0..w { X[l] = f(l) } } else if 0 < n - a { S }`, where `S` is a copy
    /// of the loop whose block is called `<name>_part`.
    ///
    /// Needs a serial loop from 0 of constant extent around nothing but the block, whose guard steps
    /// with the loop. Returns the loops: the one given, and the guarded one if there is one.
    pub fn separate_full_tiles(
        &mut self,
        name: &str,
        at: Var,
    ) -> Result<(Var, Option<Var>), ScheduleError> {
        let refuse = |s: &Schedule, why: &str| s.refuse("separate_full_tiles", name, why);
        let l = self.get_loop(at)?.clone();
        let Stmt::Block(block) = &l.body else {
            return Err(refuse(self, "the loop is not around it alone"));
        };
        let width = l.extent.as_int().filter(|_| l.min.as_int() == Some(0));
        let Some(width) = width.filter(|_| l.kind == ForKind::Serial && block.name == name) else {
            return Err(refuse(self, "the loop is not a serial one of constant extent around it"));
        };
        let Some((guard, kept)) = guarded(block) else {
            return Err(refuse(self, "it does not choose between a value and what was there"));
        };
        let path = self.path_to_loop("separate_full_tiles", at)?;
        let facts = self.facts(&path);
        let ExprKind::Compare { op: CmpOp::Lt, a, b } = guard.kind() else {
            return Err(refuse(self, "the guard is not that something is less"));
        };
        // The number of iterations that store: the guard's, limited by the loop's.
        let steps = facts.poly(&(b.clone() - a.clone() + at));
        let Some(left) = steps.map(|p: Poly| p.to_expr()).filter(|e| !tree::mentions(e, at)) else {
            return Err(refuse(self, "the guard does not step with the loop"));
        };
        let bounds = facts.bounds(&left);
        let free = Stmt::Block(Box::new(kept));
        let free_loop = |n: i64| {
            let (extent, body) = (Expr::i64(n), free.clone());
            Stmt::For(Box::new(For { extent, ..l.with_body(body) }))
        };
        let text = self.text(&left);
        if bounds.max <= 0 {
            return Err(refuse(self, "no iteration does anything"));
        }
        if bounds.min >= width || bounds.min == bounds.max {
            let n = bounds.min.min(width);
            self.func.body = tree::replace_loop(&self.func.body, at, |_| free_loop(n));
            self.note(format!("separate_full_tiles {name} {}: {n}", self.name(at)));
            return Ok((at, None));
        }
        let copy = self.fresh_copy(&Stmt::For(Box::new(l.clone())), "_part");
        let Stmt::For(rest) = &copy else { unreachable!("a loop was copied") };
        let rest = rest.var;
        let some = Stmt::If { cond: left.clone().gt(0), then: Box::new(copy), otherwise: None };
        let both = Stmt::If {
            cond: left.ge(width),
            then: Box::new(free_loop(width)),
            otherwise: Some(Box::new(some)),
        };
        self.func.body = tree::replace_loop(&self.func.body, at, |_| both.clone());
        self.note(format!("separate_full_tiles {name} {}: {text}", self.name(at)));
        Ok((at, Some(rest)))
    }
}

/// The guard of a block over the loops, and the block without it.
fn guarded(block: &Block) -> Option<(Expr, Block)> {
    let Stmt::Store { buffer, indices, value } = &block.body else { return None };
    let ExprKind::Call { op: Intrin::IfThenElse, args, .. } = value.kind() else { return None };
    let same = matches!(args[2].kind(), ExprKind::Load { buffer: b, indices: at, .. }
        if b == buffer && at == indices);
    if !same || block.init.is_some() {
        return None;
    }
    let bound = |v: Var| block.iters.iter().find(|i| i.var == v).map(|i| i.value.clone());
    let guard = args[0].substitute(&bound);
    let body = Stmt::store(*buffer, indices.clone(), args[1].clone());
    Some((guard, Block { body, ..block.clone() }))
}
