//! Blocks shown to store to another element for every tuple of their spatial iterators.
//!
//! That is plain while a block stores at its iterators, and hard to see once elements are
//! addressed by position with symbolic steps. So it is shown before, and kept: iterations of a
//! loop are independent if they differ in the values of such a block's spatial iterators.

use std::collections::HashSet;

use super::{Schedule, access, tree};
use crate::{Block, Buffer, Expr, ExprKind, For, IterKind, Stmt, Var};

/// What was shown of a block: it stores here.
#[derive(Clone, Debug)]
pub(super) struct Store {
    buffer: Buffer,
    indices: Vec<Expr>,
}

impl Schedule {
    /// Keeps that `block` is injective.
    pub(super) fn note_injective(&mut self, block: &Block) {
        if let Some((buffer, indices)) = only_element(block) {
            let store = Store { buffer, indices: indices.to_vec() };
            self.injective.insert(block.name.clone(), store);
        }
    }

    /// Whether the block was shown to be injective as it is now.
    pub(super) fn is_injective(&self, block: &Block) -> bool {
        let known = self.injective.get(&block.name).zip(only_element(block));
        known.is_some_and(|(known, (buffer, at))| known.buffer == buffer && known.indices == *at)
    }

    /// Shows it from the indices of the store.
    pub(super) fn show_injective(&self, block: &Block) -> bool {
        let Some((_, indices)) = only_element(block) else { return false };
        let mut facts = super::shape_facts(&self.func);
        for iter in &block.iters {
            facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
        }
        let free: HashSet<Var> = block.iters.iter().map(|i| i.var).collect();
        block.iters.iter().all(|i| match i.kind {
            IterKind::Spatial => access::determines(&facts, indices, i.var, &free),
            IterKind::Reduce => true,
            IterKind::Opaque => false,
        })
    }

    /// Whether iterations of `l` are independent because they are other instances of one block
    /// that is known to be injective.
    pub(super) fn runs_other_instances(&self, l: &For, facts: &crate::arith::Analyzer) -> bool {
        let (mut facts, mut free) = (facts.clone(), HashSet::new());
        let mut inner = &l.body;
        let block = loop {
            match inner {
                Stmt::For(l) => {
                    facts.bind_loop(l);
                    free.insert(l.var);
                    inner = &l.body;
                }
                Stmt::Block(block) => break block,
                _ => return false,
            }
        };
        let spatial = block.iters.iter().filter(|i| i.kind == IterKind::Spatial);
        let values: Vec<Expr> = spatial.map(|i| i.value.clone()).collect();
        let reduces =
            |i: &crate::BlockIter| i.kind != IterKind::Spatial && tree::mentions(&i.value, l.var);
        self.is_injective(block)
            && !block.iters.iter().any(reduces)
            && access::determines(&facts, &values, l.var, &free)
    }
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
