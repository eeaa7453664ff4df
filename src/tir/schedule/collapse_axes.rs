//! Collapsing two axes of a block that every access steps through as one.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::arith::Analyzer;
use crate::arith::poly::Poly;
use crate::{Block, BlockIter, Buffer, Expr, ExprKind, For, ForKind, PrimFunc, Stmt, Var};

impl Schedule {
    /// `for i in 0..m { for j in 0..n { B(v = i, w = j) { Y[v, w] = f(X[v, w]) } } }` becomes
    /// `for k in 0..m*n { B(u = k) { Y[u] = f(X[u]) } }`: one loop, one iterator, and elements by
    /// their row-major position, so that the loop is cut without dividing. Order is kept.
    ///
    /// Needs serial loops from 0 directly around each other and nothing in them but one block, and
    /// accesses whose position steps `n` times as far from one `v` to the next as from one `w` to
    /// the next. Returns the loop, called `name`; `i` and `j` are gone.
    pub fn collapse_axes(
        &mut self,
        outer: Var,
        inner: Var,
        name: &str,
    ) -> Result<Var, ScheduleError> {
        let (a, b) = (self.get_loop(outer)?.clone(), self.get_loop(inner)?.clone());
        let refuse = |s: &Schedule, why: &str| s.refuse_loop("collapse_axes", outer, why);
        let path = self.path_to_loop("collapse_axes", outer)?;
        let mut facts = self.facts(&path[..path.len() - 1]);
        let (block, v, w) = axes(&a, &b, &facts).map_err(|why| refuse(self, why))?;
        let block = block.clone();
        let shown = self.is_injective(&block) || self.show_injective(&block);
        let count = facts.simplify(&(a.extent.clone() * b.extent.clone()));
        let extent = b.extent.clone();
        let k = self.func.new_var(name);
        let u = self.func.new_var(format!("v_{name}"));
        for iter in &block.iters {
            facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
        }
        let (outer_iter, inner_iter) = (block.iters[v].var, block.iters[w].var);
        let merge = Merge { func: &self.func, facts: &facts, outer_iter, inner_iter, extent, u };
        let mut merged = merge.block(&block).map_err(|why| match why {
            Some(buffer) => {
                let name = &self.func.buffers[buffer].name;
                refuse(self, &format!("`{name}` is not stepped through as one"))
            }
            None => refuse(self, "an iterator is used as a number"),
        })?;
        let kind = block.iters[v].kind;
        let iter = BlockIter { var: u, extent: count.clone(), kind, value: k.into() };
        merged.iters.splice(v..=w, [iter]);
        self.refresh_regions(&mut merged);
        if shown {
            self.note_injective(&merged);
        }
        let merged = Stmt::Block(Box::new(merged));
        let inside = tree::replace_block(&b.body, &block.name, |_| merged.clone());
        self.note(format!("collapse_axes {} -> {name}", self.names(&[outer, inner])));
        self.func.body = tree::replace_loop(&self.func.body, outer, |_| {
            Stmt::serial(k, count.clone(), inside.clone())
        });
        Ok(k)
    }
}

/// The block in two loops, and its iterators that are the loops' variables.
fn axes<'b>(
    a: &For,
    b: &'b For,
    facts: &Analyzer,
) -> Result<(&'b Block, usize, usize), &'static str> {
    if !matches!(&a.body, Stmt::For(l) if l.var == b.var) {
        return Err("the second loop is not all of the first one's body");
    }
    let plain = |l: &For| l.kind == ForKind::Serial && l.min.as_int() == Some(0);
    if !plain(a) || !plain(b) || tree::mentions(&b.extent, a.var) {
        return Err("the loops are not serial ones from 0");
    }
    let (mut inner, mut bounds) = (&b.body, vec![]);
    let block = loop {
        match inner {
            Stmt::For(l) => {
                bounds.extend([&l.min, &l.extent]);
                inner = &l.body;
            }
            Stmt::Block(block) if block.predicate.as_int() == Some(1) => break block,
            _ => return Err("something other than one block without a guard is inside"),
        }
    };
    let bound = |l: &For| {
        let uses = |e: &Expr| tree::mentions(e, l.var);
        let once = block.iters.iter().filter(|i| uses(&i.value)).count() == 1;
        let at = block.iters.iter().position(|i| i.value.as_var() == Some(l.var))?;
        let n = block.iters[at].extent.clone() - l.extent.clone();
        let whole = facts.simplify(&n).as_int() == Some(0);
        (once && whole && !bounds.iter().any(|e| uses(e))).then_some(at)
    };
    match (bound(a), bound(b)) {
        (Some(v), Some(w)) if v + 1 == w && block.iters[v].kind == block.iters[w].kind => {
            Ok((block, v, w))
        }
        _ => Err("the loops are not two neighbouring iterators of one kind"),
    }
}

/// `outer_iter * extent + inner_iter` becomes `u`.
struct Merge<'a> {
    func: &'a PrimFunc,
    facts: &'a Analyzer,
    outer_iter: Var,
    inner_iter: Var,
    extent: Expr,
    u: Var,
}

impl Merge<'_> {
    /// The block with its accesses by `u`; the error is the buffer that stands in the way, if it
    /// is one.
    fn block(&self, block: &Block) -> Result<Block, Option<Buffer>> {
        let mut merged = block.clone();
        merged.init = block.init.as_ref().map(|s| self.store(s)).transpose()?;
        merged.body = self.store(&block.body)?;
        Ok(merged)
    }

    fn store(&self, stmt: &Stmt) -> Result<Stmt, Option<Buffer>> {
        let Stmt::Store { buffer, indices, value } = stmt else { return Err(None) };
        Ok(Stmt::store(*buffer, self.position(*buffer, indices)?, self.expr(value)?))
    }

    fn uses(&self, e: &Expr) -> bool {
        tree::mentions(e, self.outer_iter) || tree::mentions(e, self.inner_iter)
    }

    /// `e` with its loads by `u`.
    fn expr(&self, e: &Expr) -> Result<Expr, Option<Buffer>> {
        if !self.uses(e) {
            return Ok(e.clone());
        }
        match e.kind() {
            ExprKind::Load { buffer, indices, dtype } => {
                let at = self.position(*buffer, indices)?;
                Ok(Expr::load(*buffer, at, *dtype))
            }
            ExprKind::Var { .. } => Err(None),
            _ => {
                let mut failed = None;
                let mapped = e.map_children(&mut |c| match self.expr(c) {
                    Ok(c) => c,
                    Err(why) => {
                        failed = Some(why);
                        c.clone()
                    }
                });
                failed.map_or(Ok(mapped), Err)
            }
        }
    }

    /// The position of an access by `u`.
    fn position(&self, buffer: Buffer, indices: &[Expr]) -> Result<Vec<Expr>, Option<Buffer>> {
        if !indices.iter().any(|i| self.uses(i)) {
            return Ok(indices.to_vec());
        }
        let shape = &self.func.buffers[buffer].shape;
        let flat = match indices {
            [at] if shape.len() != 1 => at.clone(),
            _ => indices
                .iter()
                .zip(shape)
                .fold(Expr::i64(0), |flat, (i, n)| flat * n.clone() + i.clone()),
        };
        self.merged(&flat).map(|at| vec![at]).ok_or(Some(buffer))
    }

    fn merged(&self, flat: &Expr) -> Option<Expr> {
        let poly = self.facts.poly(flat)?;
        let mut rest = Poly::constant(poly.constant);
        let (mut by_outer, mut by_inner) = (Poly::constant(0), Poly::constant(0));
        for (factors, c) in &poly.terms {
            let own = |v: Var| factors.iter().position(|f| f.as_var() == Some(v));
            let (side, at) = match (own(self.outer_iter), own(self.inner_iter)) {
                (Some(at), None) => (&mut by_outer, at),
                (None, Some(at)) => (&mut by_inner, at),
                (None, None) if !factors.iter().any(|f| self.uses(f)) => {
                    rest.add_term(factors.clone(), *c)?;
                    continue;
                }
                _ => return None,
            };
            let mut others = factors.clone();
            others.remove(at);
            if others.iter().any(|f| self.uses(f)) {
                return None;
            }
            match others.is_empty() {
                true => side.constant = side.constant.checked_add(*c)?,
                false => side.add_term(others, *c)?,
            }
        }
        let steps = by_inner.mul(&self.facts.poly(&self.extent)?)?;
        if by_outer.add_scaled(&steps, -1)?.as_constant() != Some(0) {
            return None;
        }
        let index = Expr::var(self.u) * by_inner.to_expr();
        Some(index + rest.to_expr())
    }
}
