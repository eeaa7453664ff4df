//! Symbolic least and greatest values, and simplification of whole statements.

use super::Analyzer;
use super::poly::Poly;
use crate::{BinOp, Block, BlockIter, Expr, ExprKind, For, Stmt, Var};

impl Analyzer {
    /// Bounds (both inclusive) of `expr` while the variables that `inner` names run over their
    /// ranges; the bounds mention only the other variables. They need not be reached.
    pub fn symbolic_bounds(
        &self,
        expr: &Expr,
        inner: &dyn Fn(Var) -> bool,
    ) -> Option<(Expr, Expr)> {
        let (low, high) = self.extreme_polys(expr, inner)?;
        let normal = |p: Poly| self.simplify(&p.to_expr());
        Some((normal(low), normal(high)))
    }

    fn extreme_polys(&self, expr: &Expr, inner: &dyn Fn(Var) -> bool) -> Option<(Poly, Poly)> {
        let poly = self.poly(expr)?;
        let (mut low, mut high) = (Poly::constant(poly.constant), Poly::constant(poly.constant));
        for (factors, c) in &poly.terms {
            let mut moving = factors.iter().filter(|f| varies(f, inner));
            let Some(atom) = moving.next() else {
                low.add_term(factors.clone(), *c)?;
                high.add_term(factors.clone(), *c)?;
                continue;
            };
            if moving.next().is_some() {
                return None;
            }
            let (mut a, mut b) = self.atom_extremes(atom, inner)?;
            for other in factors.iter().filter(|f| *f != atom) {
                if self.bounds(other).min < 0 {
                    return None;
                }
                let other = Poly::atom(other.clone());
                (a, b) = (a.mul(&other)?, b.mul(&other)?);
            }
            let (a, b) = if *c > 0 { (a, b) } else { (b, a) };
            (low, high) = (low.add_scaled(&a, *c)?, high.add_scaled(&b, *c)?);
        }
        Some((low, high))
    }

    fn atom_extremes(&self, atom: &Expr, inner: &dyn Fn(Var) -> bool) -> Option<(Poly, Poly)> {
        match atom.kind() {
            ExprKind::Var { var, .. } => {
                let range = self.range(*var)?;
                let low = self.extreme_polys(&range.min, inner)?.0;
                Some((low, self.extreme_polys(self.max_of(range)?, inner)?.1))
            }
            ExprKind::Binary { op: op @ (BinOp::FloorDiv | BinOp::FloorMod), a, b } => {
                // Monotone only in the dividend, and only for a fixed positive divisor.
                if varies(b, inner) || self.bounds(b).min < 1 {
                    return None;
                }
                if *op == BinOp::FloorMod {
                    return Some((Poly::constant(0), self.poly(&(b.clone() - 1))?));
                }
                let (low, high) = self.extreme_polys(a, inner)?;
                let divide = |p: Poly| self.poly(&p.to_expr().floordiv(b.clone()));
                Some((divide(low)?, divide(high)?))
            }
            ExprKind::Binary { op: op @ (BinOp::Min | BinOp::Max), a, b } => {
                let (a, b) = (self.extreme_polys(a, inner)?, self.extreme_polys(b, inner)?);
                let join =
                    |x: Poly, y: Poly| self.poly(&Expr::binary(*op, x.to_expr(), y.to_expr()));
                Some((join(a.0, b.0)?, join(a.1, b.1)?))
            }
            _ => None,
        }
    }

    /// Simplifies every expression of `stmt`, using the ranges of the loops and block iterators
    /// met on the way.
    pub fn simplify_stmt(&self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::For(l) => {
                let (min, extent) = (self.simplify(&l.min), self.simplify(&l.extent));
                let mut inside = self.clone();
                inside.bind(l.var, min.clone(), extent.clone());
                let body = inside.simplify_stmt(&l.body);
                let (kind, annotations) = (l.kind.clone(), l.annotations.clone());
                Stmt::For(Box::new(For { var: l.var, min, extent, kind, annotations, body }))
            }
            Stmt::Block(b) => Stmt::Block(Box::new(self.simplify_block(b))),
            Stmt::Store { buffer, indices, value } => Stmt::Store {
                buffer: *buffer,
                indices: indices.iter().map(|i| self.simplify(i)).collect(),
                value: self.simplify(value),
            },
            Stmt::If { cond, then, otherwise } => Stmt::If {
                cond: self.simplify(cond),
                then: Box::new(self.simplify_stmt(then)),
                otherwise: otherwise.as_ref().map(|s| Box::new(self.simplify_stmt(s))),
            },
            Stmt::Let { var, value, body } => Stmt::Let {
                var: *var,
                value: self.simplify(value),
                body: Box::new(self.simplify_stmt(body)),
            },
            Stmt::While { cond, body } => {
                Stmt::While { cond: self.simplify(cond), body: Box::new(self.simplify_stmt(body)) }
            }
            Stmt::Tile(tile) => Stmt::Tile(tile.map(&mut |b| b, &mut |e| self.simplify(e))),
            Stmt::CallPacked(call) => {
                Stmt::CallPacked(call.map(&mut |b| b, &mut |e| self.simplify(e)))
            }
            Stmt::Allocate { .. } | Stmt::Barrier(_) | Stmt::Seq(_) => {
                stmt.map_children(&mut |s| self.simplify_stmt(s))
            }
        }
    }

    fn simplify_block(&self, b: &Block) -> Block {
        let mut inside = self.clone();
        let mut iters = vec![];
        for i in &b.iters {
            let (extent, value) = (self.simplify(&i.extent), self.simplify(&i.value));
            inside.bind(i.var, Expr::i64(0), extent.clone());
            iters.push(BlockIter { extent, value, ..i.clone() });
        }
        let region = |r: &crate::Region| r.map_exprs(|e| inside.simplify(e));
        Block {
            name: b.name.clone(),
            iters,
            predicate: self.simplify(&b.predicate),
            reads: b.reads.iter().map(region).collect(),
            writes: b.writes.iter().map(region).collect(),
            init: b.init.as_ref().map(|s| inside.simplify_stmt(s)),
            allocs: b.allocs.clone(),
            annotations: b.annotations.clone(),
            body: inside.simplify_stmt(&b.body),
        }
    }
}

fn varies(e: &Expr, inner: &dyn Fn(Var) -> bool) -> bool {
    let mut found = false;
    e.visit(&mut |e| match e.kind() {
        ExprKind::Var { var, .. } => found |= inner(*var),
        ExprKind::Load { .. } => found = true,
        _ => {}
    });
    found
}
