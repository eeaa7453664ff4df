//! The boxes a block reads and writes, computed from its body.

use super::access::{self, AccessKind};
use super::state::{Schedule, shape_facts};
use crate::arith::Analyzer;
use crate::{Block, Buffer, Expr, PrimFunc, Region, Stmt, Var};

/// The box that `index` covers while the variables in `inner` run over their ranges: first
/// value and extent. Falls back to the whole dimension.
pub(super) fn cover(
    facts: &Analyzer,
    index: &Expr,
    inner: &dyn Fn(Var) -> bool,
    whole: &Expr,
) -> (Expr, Expr) {
    facts.symbolic_bounds(index, inner).map_or_else(
        || (Expr::i64(0), whole.clone()),
        |(min, max)| {
            let extent = facts.simplify(&(max - min.clone() + 1));
            (min, extent)
        },
    )
}

/// The indices of the element at a row-major position.
pub(super) fn delinearise(position: &Expr, shape: &[Expr]) -> Vec<Expr> {
    let mut rest = position.clone();
    let mut indices: Vec<Expr> = shape
        .iter()
        .skip(1)
        .rev()
        .map(|n| {
            let index = rest.clone().floormod(n.clone());
            rest = rest.clone().floordiv(n.clone());
            index
        })
        .collect();
    indices.push(rest);
    indices.reverse();
    indices.truncate(shape.len());
    indices
}

impl Schedule {
    /// Recomputes a block's read and write regions after its body changed.
    pub(super) fn refresh_regions(&self, block: &mut Block) {
        refresh_regions(&self.func, block);
    }

    /// `stmt` with the regions recomputed of every block that names one of `buffers` in one.
    pub(super) fn refreshed(&self, stmt: &Stmt, buffers: &[Buffer]) -> Stmt {
        match stmt.map_children(&mut |s| self.refreshed(s, buffers)) {
            Stmt::Block(mut b)
                if b.reads.iter().chain(&b.writes).any(|r| buffers.contains(&r.buffer)) =>
            {
                self.refresh_regions(&mut b);
                Stmt::Block(b)
            }
            other => other,
        }
    }

    /// Whether `block` writes `buffer` anywhere inside.
    pub(super) fn block_writes(block: &Block, buffer: Buffer) -> bool {
        let mut writes = false;
        Stmt::Seq(block.init.iter().chain([&block.body]).cloned().collect()).visit(&mut |s| {
            writes |= s.written() == Some(buffer);
        });
        writes
    }
}

/// Computes the regions that `block` reads and writes from its body.
pub fn refresh_regions(func: &PrimFunc, block: &mut Block) {
    let mut facts = shape_facts(func);
    for iter in &block.iters {
        facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
    }
    let body = Stmt::Seq(block.init.iter().chain([&block.body]).cloned().collect());
    let accesses = access::collect(&body, &mut facts);
    let inner = |v: Var| accesses.bound.contains(&v);
    let regions_of = |kind: AccessKind| {
        let mut regions: Vec<Region> = vec![];
        for a in accesses.list.iter().filter(|a| a.kind == kind) {
            if accesses.private.contains(&a.buffer) || block.allocs.contains(&a.buffer) {
                continue;
            }
            let shape = &func.buffers[a.buffer].shape;
            let ranges = match a.indices.len() == shape.len() {
                true => {
                    let ranges = a.indices.iter().zip(shape);
                    ranges.map(|(i, n)| cover(&facts, i, &inner, n)).collect()
                }
                // By row-major position: anywhere.
                false => shape.iter().map(|n| (Expr::i64(0), n.clone())).collect(),
            };
            let region = Region { buffer: a.buffer, ranges };
            if !regions.contains(&region) {
                regions.push(region);
            }
        }
        regions
    };
    let (mut reads, writes) = (regions_of(AccessKind::Read), regions_of(AccessKind::Write));
    if block.init.is_some() {
        // A reduction's reading of its own accumulator is not a read of the block.
        reads.retain(|r| !writes.contains(r));
    }
    (block.reads, block.writes) = (reads, writes);
}
