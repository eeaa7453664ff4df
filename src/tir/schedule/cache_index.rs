//! Indices of loads that are computed before.
//!
//! Decision: docs/decisions/0088-schedule-primitives-of-tvm.md

use super::state::{Schedule, ScheduleError};
use super::tree::{self, sequence};
use crate::{BinOp, Block, Buffer, BufferData, DType, Expr, ExprKind, Scope, Stmt};

impl Schedule {
    /// `Y[i] = X[f(i)]` becomes `index[v] = f(v); Y[i] = X[index[i]]`: for each index of a load that is computed, a new
    /// block before the loops of `name` stores it to a new int64 intermediate in `scope`, with an axis for each iterator
    /// that it mentions.
    ///
    /// Takes the indices that stand at more than `least` places, load nothing and divide by constants alone. Needs
    /// one at least. Returns the new blocks.
    pub fn cache_index(
        &mut self,
        name: &str,
        scope: Scope,
        least: usize,
    ) -> Result<Vec<String>, ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("cache_index", name)?;
        let mut found = computed_indices(&block);
        found.retain(|(_, places)| *places > least);
        if found.is_empty() {
            let why = "no index of its loads is computed at so many places";
            return Err(self.refuse("cache_index", name, why));
        }
        let mut known = vec![];
        for (index, _) in found {
            let axes = self.axes(&block, std::slice::from_ref(&index));
            let axes = axes.map_err(|why| self.refuse("cache_index", name, why))?;
            let data = BufferData {
                name: format!("{name}_index"),
                dtype: DType::I64,
                shape: axes.iter().map(|n| block.iters[*n].extent.clone()).collect(),
                scope,
            };
            let cache = self.func.buffers.push(data);
            self.func.allocs.push(cache);
            known.push((index, cache, axes));
        }
        let at = |axes: &[usize]| axes.iter().map(|n| block.iters[*n].var.into()).collect();
        let indices: Vec<(Expr, Buffer, Vec<Expr>)> =
            known.iter().map(|(index, cache, axes)| (index.clone(), *cache, at(axes))).collect();
        let top = self.top_statement(name).expect("the block was found").clone();
        let rewritten = tree::replace_block(&top, name, |b| {
            let mut b = b.clone();
            let mut swap = |e: &Expr| with_cached(e, &indices);
            (b.init, b.body) =
                (b.init.map(|s| s.map_exprs(&mut swap)), b.body.map_exprs(&mut swap));
            self.refresh_regions(&mut b);
            Stmt::Block(Box::new(b))
        });
        let old = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(old, rewritten);
        let mut made = vec![];
        for (index, cache, axes) in known {
            let used: Vec<_> = axes.iter().map(|n| block.iters[*n].clone()).collect();
            let (new, computed) = self.reindexing_block(cache, &used, |_, at, placed| {
                Stmt::store(cache, at.to_vec(), placed(&index))
            });
            let top = self.top_statement(name).expect("the block was found");
            self.func.body = self.insert_at(top, sequence([computed, top.clone()]));
            made.push(new);
        }
        self.note(format!("cache_index {name} {scope:?} -> {}", made.join(", ")));
        Ok(made)
    }
}

/// The indices of loads that are more than a variable or a number, each with the number of its places.
fn computed_indices(block: &Block) -> Vec<(Expr, usize)> {
    let mut found: Vec<(Expr, usize)> = vec![];
    let mut see = |e: &Expr| {
        let ExprKind::Load { indices, .. } = e.kind() else { return };
        for index in indices.iter().filter(|e| is_computed(e)) {
            match found.iter_mut().find(|(known, _)| known == index) {
                Some((_, places)) => *places += 1,
                None => found.push((index.clone(), 1)),
            }
        }
    };
    block.init.iter().chain([&block.body]).for_each(|s| s.visit_exprs(&mut see));
    found
}

/// Whether an index is an expression that may be evaluated for every value of its iterators.
fn is_computed(index: &Expr) -> bool {
    let mut safe = index.dtype() == DType::I64;
    index.visit(&mut |e| match e.kind() {
        ExprKind::Load { .. } => safe = false,
        ExprKind::Binary { op, b, .. } => {
            let divides = matches!(op, BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod);
            safe &= !divides || b.as_int().is_some_and(|n| n != 0);
        }
        _ => {}
    });
    safe && index.as_var().is_none() && index.as_int().is_none()
}

/// `e` with the elements of intermediates in place of indices.
fn with_cached(e: &Expr, known: &[(Expr, Buffer, Vec<Expr>)]) -> Expr {
    let ExprKind::Load { buffer, indices, dtype } = e.kind() else {
        return e.map_children(&mut |c| with_cached(c, known));
    };
    let cached = indices.iter().map(|index| match known.iter().find(|(of, ..)| of == index) {
        Some((_, cache, at)) => Expr::load(*cache, at.clone(), DType::I64),
        None => with_cached(index, known),
    });
    Expr::load(*buffer, cached.collect(), *dtype)
}
