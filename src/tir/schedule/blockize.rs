//! Making a loop's nest one block.

use std::collections::BTreeMap;

use super::state::{Schedule, ScheduleError};
use super::tree::{self, conjuncts};
use crate::arith::Analyzer;
use crate::arith::poly::{Poly, gcd};
use crate::{Block, BlockIter, Expr, Stmt, Var};

/// A block iterator's value as the sum of what the loops outside decide and what those inside do.
struct SplitValue {
    /// Multiples of `step`, over the loops outside.
    outer: Option<(Expr, i64)>,
    /// Over the loops inside.
    inner: Expr,
}

/// A loop and the loops below it, around one block.
struct BlockNest {
    stmt: Stmt,
    loops: Vec<Var>,
    block: Block,
    /// The ranges of the loops outside.
    above: Analyzer,
    /// Those of all loops.
    facts: Analyzer,
}

impl Schedule {
    /// `for i { for j { B(v = i * 4 + j) } }`, at `j`, becomes
    /// `for i { B_o(w = i) { for j { B(v = w * 4 + j) } } }`: the nest below and with the loop is
    /// one block, which is moved and replaced as a whole.
    ///
    /// Needs loops around one block only, whose iterators each are a multiple of something the
    /// loops outside decide and less than that of what those inside do. Returns the new block.
    pub fn blockize(&mut self, at: Var) -> Result<String, ScheduleError> {
        let refuse = |s: &Schedule, why: String| s.refuse_loop("blockize", at, why);
        let nest = self.block_nest(at)?;
        let mut values = vec![];
        for iter in &nest.block.iters {
            let found = split_value(&nest.facts, &iter.value, &nest.loops);
            values.push(found.ok_or_else(|| {
                let name = &self.func.vars[iter.var].name;
                refuse(self, format!("iterator `{name}` does not come apart at the loop"))
            })?);
        }
        let Some((guarded, mut outside)) = guards(&nest) else {
            return Err(refuse(self, "a guard is about more than an iterator's domain".into()));
        };
        let (mut iters, mut inner) = (vec![], nest.block.clone());
        for (iter, value) in inner.iters.iter_mut().zip(values) {
            let Some(own) = self.outer_iter(&nest, iter, value) else { continue };
            let in_domain = own.value.clone().lt(own.extent.clone());
            if !nest.above.prove(&in_domain) {
                outside.push(in_domain);
            }
            iters.push(own);
        }
        let domain = |n: &usize| inner.iters[*n].value.clone().lt(inner.iters[*n].extent.clone());
        inner.predicate = guarded.iter().map(domain).fold(Expr::bool(true), Expr::and);
        let inner = Stmt::Block(Box::new(inner));
        let mut new = Block {
            name: self.unique_block(&format!("{}_o", nest.block.name)),
            iters,
            predicate: outside.into_iter().fold(Expr::bool(true), Expr::and),
            reads: vec![],
            writes: vec![],
            init: None,
            allocs: vec![],
            annotations: BTreeMap::new(),
            body: tree::replace_block(&nest.stmt, &nest.block.name, |_| inner.clone()),
        };
        self.refresh_regions(&mut new);
        let name = new.name.clone();
        let new = Stmt::Block(Box::new(new));
        self.func.body = tree::replace_loop(&self.func.body, at, |_| new.clone());
        self.note(format!("blockize {} -> {name}", self.name(at)));
        Ok(name)
    }

    /// The loop `at`, if nothing but loops lies between it and one block.
    fn block_nest(&self, at: Var) -> Result<BlockNest, ScheduleError> {
        let path = self.path_to_loop("blockize", at)?;
        let stmt = *path.last().expect("the loop");
        let above = self.facts(&path[..path.len() - 1]);
        let (mut loops, mut facts, mut inner) = (vec![], above.clone(), stmt);
        while let Stmt::For(l) = inner {
            facts.bind_loop(l);
            loops.push(l.var);
            inner = &l.body;
        }
        let Stmt::Block(block) = inner else {
            let why = "something other than one block lies below";
            return Err(self.refuse_loop("blockize", at, why));
        };
        let block = block.as_ref().clone();
        Ok(BlockNest { stmt: stmt.clone(), loops, block, above, facts })
    }

    /// Gives the inner block's `iter` its new value; returns the outer block's iterator for it, if
    /// the loops outside have a part in it.
    fn outer_iter(
        &mut self,
        nest: &BlockNest,
        iter: &mut BlockIter,
        value: SplitValue,
    ) -> Option<BlockIter> {
        let Some((outer, step)) = value.outer else {
            iter.value = value.inner;
            return None;
        };
        let name = format!("{}_o", self.func.vars[iter.var].name);
        let var = self.func.new_var(name);
        let extent = nest.facts.simplify(&iter.extent.clone().ceildiv(step));
        let outer = nest.facts.simplify(&outer.floordiv(step));
        iter.value = Expr::var(var) * step + value.inner;
        Some(BlockIter { var, extent, kind: iter.kind, value: outer })
    }
}

/// The iterators whose domains the guards over loops of the nest keep, and the guards over loops
/// outside; `None` where a guard of the nest is another one.
fn guards(nest: &BlockNest) -> Option<(Vec<usize>, Vec<Expr>)> {
    let inside = |c: &Expr| nest.loops.iter().any(|v| tree::mentions(c, *v));
    let (within, outside): (Vec<Expr>, Vec<Expr>) =
        conjuncts(&nest.block.predicate).into_iter().partition(inside);
    let of_domain = |c: &Expr| {
        let found = |i: &BlockIter| *c == i.value.clone().lt(i.extent.clone());
        nest.block.iters.iter().position(found)
    };
    let guarded: Option<Vec<usize>> = within.iter().map(of_domain).collect();
    Some((guarded?, outside))
}

/// `value` as `outer + inner`, `inner` within `0..step` for the step that divides `outer`.
fn split_value(facts: &Analyzer, value: &Expr, loops: &[Var]) -> Option<SplitValue> {
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
        return Some(SplitValue { outer: None, inner: facts.simplify(&inner.to_expr()) });
    }
    let step = match inner.terms.is_empty() {
        // All of it is decided outside.
        true => 1,
        false => outer.terms.iter().fold(0, |g, (_, c)| gcd(g, *c)),
    };
    inner.constant = poly.constant.rem_euclid(step);
    outer.constant = poly.constant.checked_sub(inner.constant)?;
    let fits = facts.poly_interval(&inner).within(step);
    fits.then(|| SplitValue {
        outer: Some((facts.simplify(&outer.to_expr()), step)),
        inner: facts.simplify(&inner.to_expr()),
    })
}
