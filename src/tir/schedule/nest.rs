//! Helpers of the primitives that move blocks: rebuilding a block's loops over a box, fresh copies,
//! and the conditions under which an order of accumulation is kept.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::access::{self, AccessKind};
use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::arith::Analyzer;
use crate::arith::poly::Poly;
use crate::{Block, BlockIter, Buffer, Expr, For, ForKind, IterKind, PrimFunc, Stmt, Var};

/// First value and extent per dimension or iterator.
pub(super) type Ranges = Vec<(Expr, Expr)>;

impl Schedule {
    /// The box of `buffer` that the accesses of `kind` under `body` touch, in terms of the
    /// loops outside `body`.
    pub(super) fn touched(
        &self,
        facts: &Analyzer,
        body: &Stmt,
        buffer: Buffer,
        kind: AccessKind,
    ) -> Option<Ranges> {
        let mut facts = facts.clone();
        let accesses = access::collect(body, &mut facts);
        let inner = |v: Var| accesses.bound.contains(&v);
        let mut hull: Option<Vec<(Expr, Expr)>> = None;
        for a in accesses.list.iter().filter(|a| a.buffer == buffer && a.kind == kind) {
            let shape = &self.func.buffers[buffer].shape;
            let flat = a.indices.len() != shape.len();
            let ends = shape.iter().enumerate().map(|(d, n)| {
                let box_of = |i: &Expr| facts.symbolic_bounds(i, &inner);
                let index = a.indices.get(d).filter(|_| !flat);
                index.and_then(box_of).unwrap_or_else(|| (Expr::i64(0), n.clone() - 1))
            });
            let ends: Vec<_> = ends.collect();
            hull = Some(match hull {
                None => ends,
                Some(hull) => hull
                    .into_iter()
                    .zip(ends)
                    .map(|(a, b)| (facts.simplify(&a.0.min(b.0)), facts.simplify(&a.1.max(b.1))))
                    .collect(),
            });
        }
        let extent = |min: &Expr, max: Expr| facts.simplify(&(max - min.clone() + 1));
        hull.map(|hull| hull.into_iter().map(|(a, b)| (a.clone(), extent(&a, b))).collect())
    }

    /// New serial loops around `block`, one per iterator, that run it over `ranges`; instances
    /// outside an iterator's domain are guarded. Iterators over a single value get no loop.
    pub(super) fn nest_over(&mut self, facts: &Analyzer, block: &Block, ranges: &Ranges) -> Stmt {
        let mut facts = facts.clone();
        let mut block = block.clone();
        block.predicate = Expr::bool(true);
        let mut loops = vec![];
        let mut guards = vec![];
        for (at, (iter, (min, extent))) in block.iters.iter_mut().zip(ranges).enumerate() {
            iter.value = min.clone();
            if extent.as_int() != Some(1) {
                let var = self.func.new_var(format!("ax{at}"));
                facts.bind(var, 0.into(), extent.clone());
                loops.push((var, extent.clone()));
                iter.value = facts.simplify(&(min.clone() + Expr::var(var)));
            }
            guards.push(iter.value.clone().ge(0));
            guards.push(iter.value.clone().lt(iter.extent.clone()));
        }
        for guard in guards {
            if !facts.prove(&guard) {
                block.predicate = block.predicate.and(guard);
            }
        }
        let inner = Stmt::Block(Box::new(block));
        loops.into_iter().rev().fold(inner, |body, (var, n)| Stmt::serial(var, n, body))
    }

    /// Serial loops over `extents` around a new block with one spatial iterator each, whose body
    /// `store` makes of the iterators.
    pub(super) fn block_over(
        &mut self,
        name: &str,
        extents: &[Expr],
        store: impl FnOnce(&PrimFunc, &[Expr]) -> Stmt,
    ) -> Stmt {
        let (mut loops, mut iters): (Vec<(Var, Expr)>, Vec<BlockIter>) = (vec![], vec![]);
        for (at, extent) in extents.iter().enumerate() {
            let outer = self.func.new_var(format!("ax{at}"));
            let var = self.func.new_var(format!("v{at}"));
            loops.push((outer, extent.clone()));
            let (extent, value) = (extent.clone(), outer.into());
            iters.push(BlockIter { var, extent, kind: IterKind::Spatial, value });
        }
        let point: Vec<Expr> = iters.iter().map(|i| i.var.into()).collect();
        let mut block = Block {
            name: name.to_string(),
            iters,
            predicate: Expr::bool(true),
            reads: vec![],
            writes: vec![],
            init: None,
            allocs: vec![],
            annotations: BTreeMap::new(),
            body: store(&self.func, &point),
        };
        self.refresh_regions(&mut block);
        let block = Stmt::Block(Box::new(block));
        loops.into_iter().rev().fold(block, |body, (var, n)| Stmt::serial(var, n, body))
    }

    /// A copy with its own loop variables, iterators, local buffers and block names.
    pub(super) fn fresh_copy(&mut self, stmt: &Stmt, suffix: &str) -> Stmt {
        let mut vars: FxHashMap<Var, Expr> = FxHashMap::default();
        let copy = self.rename_binders(stmt, suffix, &mut vars);
        let copy = copy.substitute(&|v| vars.get(&v).cloned());
        for (old, new) in tree::blocks(stmt).into_iter().zip(tree::blocks(&copy)) {
            if self.is_injective(old) {
                self.note_injective(new);
            }
        }
        copy
    }

    fn rename_binders(
        &mut self,
        stmt: &Stmt,
        suffix: &str,
        vars: &mut FxHashMap<Var, Expr>,
    ) -> Stmt {
        let mut renamed = stmt.map_children(&mut |s| self.rename_binders(s, suffix, vars));
        match &mut renamed {
            Stmt::For(l) => l.var = self.fresh_var(l.var, vars),
            Stmt::Let { var, .. } => *var = self.fresh_var(*var, vars),
            Stmt::Block(b) => {
                b.name = self.unique_block(&format!("{}{suffix}", b.name));
                for iter in &mut b.iters {
                    iter.var = self.fresh_var(iter.var, vars);
                }
            }
            Stmt::Store { .. }
            | Stmt::Tile(_)
            | Stmt::CallPacked(_)
            | Stmt::Barrier(_)
            | Stmt::If { .. }
            | Stmt::Allocate { .. }
            | Stmt::While { .. }
            | Stmt::Seq(_) => {}
        }
        renamed
    }

    fn fresh_var(&mut self, var: Var, vars: &mut FxHashMap<Var, Expr>) -> Var {
        let data = self.func.vars[var].clone();
        let dtype = data.dtype;
        let fresh = self.func.vars.push(data);
        vars.insert(var, Expr::new(crate::ExprKind::Var { var: fresh, dtype }));
        fresh
    }

    /// `name`, or `name_1`, `name_2`, ... if it is taken.
    pub(super) fn unique_block(&self, name: &str) -> String {
        let taken = self.blocks();
        let free = |n: &String| !taken.contains(n);
        let numbered = (1..).map(|i| format!("{name}_{i}"));
        std::iter::once(name.to_string()).chain(numbered).find(free).expect("endless supply")
    }

    /// Commits `body` if every loop that is to run concurrently still may. An iteration of the
    /// loops in `same` touches what it did before.
    pub(super) fn commit(
        &mut self,
        primitive: &'static str,
        at: &str,
        body: Stmt,
        same: &[Var],
    ) -> Result<(), ScheduleError> {
        let before = std::mem::replace(&mut self.func.body, body);
        let mut concurrent = vec![];
        self.func.body.visit(&mut |s| {
            if let Stmt::For(l) = s {
                match l.kind {
                    ForKind::Serial | ForKind::Unrolled => {}
                    ForKind::Parallel | ForKind::Vectorized | ForKind::ThreadBinding(_) => {
                        concurrent.push(l.var);
                    }
                }
            }
        });
        for var in concurrent.into_iter().filter(|v| !same.contains(v)) {
            if let Err(refused) = self.require_independent(primitive, var) {
                self.func.body = before;
                return Err(self.refuse(primitive, at, refused.why));
            }
        }
        Ok(())
    }

    /// Whether the loops around `block` run its reduction steps in the order of its reduction
    /// iterators, so that loops rebuilt from the iterators accumulate in the same order.
    pub(super) fn reduces_in_order(&self, path: &[&Stmt], block: &Block) -> bool {
        let reduce: Vec<&BlockIter> =
            block.iters.iter().filter(|i| i.kind != IterKind::Spatial).collect();
        if reduce.iter().any(|i| i.kind == IterKind::Opaque) {
            return false;
        }
        let depth = |v: Var| path.iter().position(|s| matches!(s, Stmt::For(l) if l.var == v));
        let plain: Option<Vec<usize>> = reduce
            .iter()
            .map(|i| {
                let at = depth(i.value.as_var()?)?;
                let Stmt::For(l) = path[at] else { return None };
                (l.min.as_int() == Some(0) && l.extent == i.extent).then_some(at)
            })
            .collect();
        if plain.is_some_and(|p| p.is_sorted_by(|a, b| a < b)) {
            return true;
        }
        let facts = self.facts(path);
        let (rank, count) = reduce.iter().fold((Expr::i64(0), Expr::i64(1)), |(rank, n), i| {
            (rank * i.extent.clone() + i.value.clone(), n * i.extent.clone())
        });
        let steps = facts.poly(&rank).and_then(|rank| counts_up(&facts, &rank, &depth));
        // A guard cuts off what lies past the end.
        steps.is_some_and(|n| count.as_int().is_some_and(|count| n >= count))
    }

    /// Whether every reduction iterator of `block` is 0 in the first iteration of `loops`.
    pub(super) fn starts_at_zero<'l>(
        &self,
        block: &Block,
        loops: impl Iterator<Item = &'l For>,
        facts: &Analyzer,
    ) -> bool {
        let first: FxHashMap<Var, Expr> = loops.map(|l| (l.var, l.min.clone())).collect();
        block.iters.iter().filter(|i| i.kind != IterKind::Spatial).all(|i| {
            let start = i.value.substitute(&|v| first.get(&v).cloned());
            facts.simplify(&start).as_int() == Some(0)
        })
    }
}

/// The number of iterations over which a sum of loop variables counts `0, 1, 2, ...`, if it does.
fn counts_up(facts: &Analyzer, rank: &Poly, depth: &dyn Fn(Var) -> Option<usize>) -> Option<i64> {
    let mut terms = vec![];
    for (factors, c) in &rank.terms {
        let [x] = &factors[..] else { return None };
        terms.push((depth(x.as_var()?)?, *c, facts.bounds(x)));
    }
    terms.sort_by_key(|(d, ..)| std::cmp::Reverse(*d));
    let mut count: i64 = 1;
    for (_, c, range) in terms {
        if range.max == 0 && range.min == 0 {
            continue;
        }
        if c != count || range.min != 0 {
            return None;
        }
        count = count.checked_mul(range.max.checked_add(1)?)?;
    }
    (rank.constant == 0).then_some(count)
}

impl Schedule {
    /// The only store of a block, its init aside: buffer, one index per dimension, value.
    pub(super) fn single_store<'b>(
        &self,
        primitive: &'static str,
        block: &'b Block,
    ) -> Result<(Buffer, &'b [Expr], &'b Expr), ScheduleError> {
        match &block.body {
            Stmt::Store { buffer, indices, value }
                if indices.len() == self.func.buffers[*buffer].shape.len() =>
            {
                Ok((*buffer, indices, value))
            }
            Stmt::Store { .. } => {
                Err(self.refuse(primitive, &block.name, "the block stores by row-major position"))
            }
            _ => Err(self.refuse(primitive, &block.name, "the block's body is not one store")),
        }
    }

    /// The statement of the function's top level (or of the enclosing block) that holds `name`.
    pub(super) fn top_statement(&self, name: &str) -> Option<&Stmt> {
        let path = tree::path_to_block(&self.func.body, name)?;
        path.iter().find(|s| !matches!(s, Stmt::Seq(_))).copied()
    }
}
