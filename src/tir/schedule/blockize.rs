//! Making a loop's nest one block.

use std::collections::BTreeMap;

use super::compute_at::conjuncts;
use super::{Schedule, ScheduleError, tree};
use crate::arith::Analyzer;
use crate::arith::poly::{Poly, gcd};
use crate::{Block, BlockIter, Expr, Stmt, Var};

/// How an iterator's value comes about from the loops outside and those inside.
struct Parts {
    /// Multiples of `step`, over the loops outside.
    outer: Option<(Expr, i64)>,
    /// Over the loops inside.
    inner: Expr,
}

impl Schedule {
    /// `for i { for j { B(v = i * 4 + j) } }`, at `j`, becomes
    /// `for i { B_o(w = i) { for j { B(v = w * 4 + j) } } }`: the nest below and with the loop is
    /// one block, which is moved and replaced as a whole.
    ///
    /// Needs loops around one block only, whose iterators each are a multiple of something the
    /// loops outside decide and less than that of what those inside do. Returns the new block.
    pub fn blockize(&mut self, at: Var) -> Result<String, ScheduleError> {
        let path = self.path_to_loop("blockize", at)?;
        let refuse = |s: &Schedule, why: String| s.refuse_loop("blockize", at, why);
        let nest = *path.last().expect("the loop");
        let mut loops = vec![];
        let mut inner = nest;
        while let Stmt::For(l) = inner {
            loops.push(l.var);
            inner = &l.body;
        }
        let Stmt::Block(block) = inner else {
            return Err(refuse(self, "something other than one block lies below".into()));
        };
        let block = block.as_ref().clone();
        let above = self.facts(&path[..path.len() - 1]);
        let mut facts = above.clone();
        nest.visit(&mut |s| {
            if let Stmt::For(l) = s
                && loops.contains(&l.var)
            {
                facts.bind_loop(l);
            }
        });
        let nest = nest.clone();
        let mut parts = vec![];
        for iter in &block.iters {
            let found = parts_of(&facts, &iter.value, &loops);
            parts.push(found.ok_or_else(|| {
                let name = &self.func.vars[iter.var].name;
                refuse(self, format!("iterator `{name}` does not come apart at the loop"))
            })?);
        }
        let inside = |c: &Expr| loops.iter().any(|v| tree::mentions(c, *v));
        let (within, mut outside): (Vec<Expr>, Vec<Expr>) =
            conjuncts(&block.predicate).into_iter().partition(inside);
        let of_domain = |c: &Expr| {
            let found = |i: &BlockIter| *c == i.value.clone().lt(i.extent.clone());
            block.iters.iter().position(found)
        };
        let guarded: Option<Vec<usize>> = within.iter().map(of_domain).collect();
        let Some(guarded) = guarded else {
            return Err(refuse(self, "a guard is about more than an iterator's domain".into()));
        };

        let (mut iters, mut inner_block) = (vec![], block.clone());
        for (iter, Parts { outer, inner }) in inner_block.iters.iter_mut().zip(parts) {
            let Some((value, step)) = outer else {
                iter.value = inner;
                continue;
            };
            let name = format!("{}_o", self.func.vars[iter.var].name);
            let var = self.func.new_var(name);
            let extent = facts.simplify(&iter.extent.clone().ceildiv(step));
            let value = facts.simplify(&value.floordiv(step));
            let in_domain = value.clone().lt(extent.clone());
            if !above.prove(&in_domain) {
                outside.push(in_domain);
            }
            iters.push(BlockIter { var, extent, kind: iter.kind, value });
            iter.value = Expr::var(var) * step + inner;
        }
        let domain = |n: &usize| {
            let iter = &inner_block.iters[*n];
            iter.value.clone().lt(iter.extent.clone())
        };
        inner_block.predicate = guarded.iter().map(domain).fold(Expr::bool(true), Expr::and);
        let inner = Stmt::Block(Box::new(inner_block));
        let mut new = Block {
            name: self.unique_block(&format!("{}_o", block.name)),
            iters,
            predicate: outside.into_iter().fold(Expr::bool(true), Expr::and),
            reads: vec![],
            writes: vec![],
            init: None,
            allocs: vec![],
            annotations: BTreeMap::new(),
            body: tree::replace_block(&nest, &block.name, |_| inner.clone()),
        };
        self.refresh_regions(&mut new);
        let name = new.name.clone();
        let new = Stmt::Block(Box::new(new));
        self.func.body = tree::replace_loop(&self.func.body, at, |_| new.clone());
        self.note(format!("blockize {} -> {name}", self.name(at)));
        Ok(name)
    }
}

/// `value` as `outer + inner`, `inner` within `0..step` for the step that divides `outer`.
fn parts_of(facts: &Analyzer, value: &Expr, loops: &[Var]) -> Option<Parts> {
    let poly = facts.poly(value)?;
    let (mut outer, mut inner) = (Poly::constant(0), Poly::constant(0));
    let mentions = |e: &Expr| loops.iter().any(|v| tree::mentions(e, *v));
    for (factors, c) in &poly.terms {
        match factors.iter().filter(|f| mentions(f)).count() {
            0 => outer.add_term(factors.clone(), *c)?,
            n if n == factors.len() => inner.add_term(factors.clone(), *c)?,
            _ => return None,
        }
    }
    if outer.terms.is_empty() {
        inner.constant = poly.constant;
        return Some(Parts { outer: None, inner: facts.simplify(&inner.to_expr()) });
    }
    let step = match inner.terms.is_empty() {
        // All of it is decided outside.
        true => 1,
        false => outer.terms.iter().fold(0, |g, (_, c)| gcd(g, *c)),
    };
    inner.constant = poly.constant.rem_euclid(step);
    outer.constant = poly.constant.checked_sub(inner.constant)?;
    let fits = facts.poly_interval(&inner).within(step);
    fits.then(|| Parts {
        outer: Some((facts.simplify(&outer.to_expr()), step)),
        inner: facts.simplify(&inner.to_expr()),
    })
}
