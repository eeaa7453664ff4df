//! Blocks shown to store to another element for every tuple of their spatial iterators.
//!
//! That is plain while a block stores at its iterators, and hard to see once elements are
//! addressed by position with symbolic steps. So it is shown before, and kept: iterations of a
//! loop are independent if they differ in the values of such a block's spatial iterators.

use rustc_hash::FxHashSet;

use super::state::{InjectiveStore, Schedule, shape_facts};
use super::{access, tree};
use crate::arith::Analyzer;
use crate::{Block, BlockIter, Buffer, Expr, ExprKind, IterKind, Stmt, Var};

impl Schedule {
    /// Keeps that `block` is injective.
    pub(super) fn note_injective(&mut self, block: &Block) {
        if let Some((buffer, indices)) = only_element(block) {
            let store = InjectiveStore { buffer, indices: indices.to_vec() };
            self.injective.insert(block.name.clone(), store);
        }
    }

    /// Whether the block was shown to be injective as it is now.
    pub(super) fn is_injective(&self, block: &Block) -> bool {
        let known = self.injective.get(&block.name).zip(only_element(block));
        known.is_some_and(|(known, (buffer, at))| {
            known.buffer == buffer && equal(known.indices.iter().cloned(), at)
        })
    }

    /// Shows it from the indices of the store.
    pub(super) fn show_injective(&self, block: &Block) -> bool {
        let Some((_, indices)) = only_element(block) else { return false };
        let mut facts = shape_facts(&self.func);
        for iter in &block.iters {
            facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
        }
        let free: FxHashSet<Var> = block.iters.iter().map(|i| i.var).collect();
        block.iters.iter().all(|i| match i.kind {
            IterKind::Spatial => access::determines(&facts, indices, i.var, &free),
            IterKind::Reduce => true,
            IterKind::Opaque => false,
        })
    }

    /// Whether iterations of loop `var` over `body` are independent because they are other instances
    /// of one block that is known to be injective, or of copies of it. Loops in `moving` are not
    /// fixed meanwhile, nor are those in `body`.
    pub(super) fn runs_other_instances(
        &self,
        body: &Stmt,
        var: Var,
        facts: &Analyzer,
        moving: &[Var],
    ) -> bool {
        let loops = moving.iter().copied().collect();
        let mut below = Below { facts: facts.clone(), loops, blocks: vec![] };
        let Some((first, copies)) = below
            .collect(body)
            .and_then(|()| below.blocks.split_first())
            .filter(|(first, copies)| {
                self.is_injective(first)
                    && copies.iter().all(|c| self.is_injective(c) && same_store(first, c))
            })
        else {
            return false;
        };
        let reduces = |i: &BlockIter| i.kind != IterKind::Spatial && tree::mentions(&i.value, var);
        if below.blocks.iter().any(|b| b.iters.iter().any(reduces)) {
            return false;
        }
        // The values that the loop gives to the same iterator of every copy tell iterations apart.
        let shared = first.iters.iter().enumerate().filter(|(n, i)| {
            i.kind == IterKind::Spatial && copies.iter().all(|c| c.iters[*n].value == i.value)
        });
        let values: Vec<Expr> = shared.map(|(_, i)| i.value.clone()).collect();
        access::determines(&below.facts, &values, var, &below.loops)
    }
}

/// Loops and blocks below a loop, where there is nothing else.
struct Below<'s> {
    facts: Analyzer,
    loops: FxHashSet<Var>,
    blocks: Vec<&'s Block>,
}

impl<'s> Below<'s> {
    fn collect(&mut self, stmt: &'s Stmt) -> Option<()> {
        match stmt {
            Stmt::For(l) => {
                self.facts.bind_loop(l);
                self.loops.insert(l.var);
                self.collect(&l.body)
            }
            Stmt::Seq(list) => list.iter().try_for_each(|s| self.collect(s)),
            Stmt::Block(block) => {
                self.blocks.push(block);
                Some(())
            }
            _ => None,
        }
    }
}

/// Whether both store to the same element for the same values of their iterators.
fn same_store(a: &Block, b: &Block) -> bool {
    let alike = a.iters.len() == b.iters.len()
        && a.iters.iter().zip(&b.iters).all(|(x, y)| x.kind == y.kind);
    let (Some((from, at)), Some((to, to_at))) = (only_element(a), only_element(b)) else {
        return false;
    };
    let renamed = |e: &Expr| {
        e.substitute(&|v| Some(a.iters[b.iters.iter().position(|i| i.var == v)?].var.into()))
    };
    alike && from == to && equal(to_at.iter().map(renamed), at)
}

/// Whether the indices are equal, however they were simplified.
fn equal(mut a: impl ExactSizeIterator<Item = Expr>, b: &[Expr]) -> bool {
    let same = |(x, y): (Expr, &Expr)| {
        x == *y || Analyzer::new().simplify(&(x - y.clone())).as_int() == Some(0)
    };
    a.len() == b.len() && a.by_ref().zip(b).all(same)
}

/// Whether an instance of `block` stores to one element and reads no other of that buffer.
pub(super) fn stores_own_element(block: &Block) -> bool {
    only_element(block).is_some()
}

/// The only element an instance of `block` stores to and, of that buffer, loads from.
fn only_element(block: &Block) -> Option<(Buffer, &[Expr])> {
    let Stmt::Store { buffer, indices, value } = &block.body else { return None };
    let init = match &block.init {
        None => true,
        Some(Stmt::Store { buffer: b, indices: at, value }) => {
            b == buffer && at == indices && loads_only(value, *buffer, indices)
        }
        Some(_) => false,
    };
    (init && loads_only(value, *buffer, indices)).then_some((*buffer, indices))
}

fn loads_only(value: &Expr, of: Buffer, at: &[Expr]) -> bool {
    let mut only = true;
    value.visit(&mut |e| {
        if let ExprKind::Load { buffer, indices, .. } = e.kind() {
            only &= *buffer != of || indices == at;
        }
    });
    only
}
