//! Copies of buffers that are laid out as a block iterates.

use super::state::{Schedule, ScheduleError};
use super::tree::{self, sequence};
use crate::{Block, BlockIter, Buffer, Expr, ExprKind, IterKind, PrimFunc, Scope, Stmt, Var};

/// A copy of a buffer with an axis for each of some iterators of a block.
pub struct Reindexed {
    /// The block that copies.
    pub block: String,
    /// The new intermediate.
    pub buffer: Buffer,
    /// The iterators, one for each of its axes, as places among those of the block.
    pub iters: Vec<usize>,
}

impl Schedule {
    /// `Y[i] = g(X[h(i)])` becomes `X_reindex[v] = X[h(v)]; Y[i] = g(X_reindex[i])`: a new block before the loops of
    /// `name` copies what the block loads to a new intermediate in `scope`, with an axis for each iterator that
    /// the indices mention.
    ///
    /// Needs a block that loads the buffer at one place, by indices that load nothing and lie in the buffer for all
    /// values of the iterators; and what [`cache_read`](Schedule::cache_read) needs of the buffer.
    pub fn reindex_read(
        &mut self,
        name: &str,
        buffer: Buffer,
        scope: Scope,
    ) -> Result<Reindexed, ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("reindex", name)?;
        let refuse = |why: &str| self.refuse("reindex", name, why);
        self.require_whole_function(buffer).map_err(|why| refuse(&why))?;
        let data = &self.func.buffers[buffer];
        if self.padded.contains(&buffer) {
            return Err(refuse(&format!("`{}` is not written whole", data.name)));
        }
        let indices = sole_load(&block, buffer).map_err(refuse)?;
        if indices.len() != data.shape.len() {
            return Err(refuse("the block loads by row-major position"));
        }
        let top = self.top_statement(name).expect("the block was found").clone();
        if let Some(b) = tree::blocks(&top).iter().find(|b| Schedule::block_writes(b, buffer)) {
            return Err(refuse(&format!("`{}` writes the buffer in the same loops", b.name)));
        }
        let iters = self.axes(&block, &indices).map_err(refuse)?;
        let mut facts = super::state::shape_facts(&self.func);
        for iter in &block.iters {
            facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
        }
        for (at, (index, extent)) in indices.iter().zip(&data.shape).enumerate() {
            let inside = index.clone().ge(0).and(index.clone().lt(extent.clone()));
            if !facts.prove(&inside) {
                return Err(refuse(&format!("index {at} may lie outside of `{}`", data.name)));
            }
        }
        let cache = self.reindexed(&block, buffer, scope, &iters);
        let used = of(&block, &iters);
        let (copy, copied) = self.reindexing_block(cache, &used, |func, at, placed| {
            let from = indices.iter().map(placed).collect();
            Stmt::store(cache, at.to_vec(), func.load(buffer, from))
        });
        let at = used.iter().map(|i| i.var.into()).collect::<Vec<Expr>>();
        let rewritten = self.rewritten(&top, name, buffer, cache, &at);
        let top = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(top, sequence([copied, rewritten]));
        let read = self.func.buffers[buffer].name.clone();
        self.note(format!("reindex {name} {read} {scope:?} -> {copy}"));
        Ok(Reindexed { block: copy, buffer: cache, iters })
    }

    /// `X[p(i)] = f(i)` becomes `X_reindex[i] = f(i); X[p(v)] = X_reindex[v]`: the block writes a new intermediate in
    /// `scope`, with an axis for each spatial iterator, and a new block after its loops copies that to the old
    /// buffer.
    ///
    /// Needs a block that alone writes the buffer, over its whole shape, at its spatial iterators in any order, and no
    /// other reader of it among the same loops.
    pub fn reindex_write(&mut self, name: &str, scope: Scope) -> Result<Reindexed, ScheduleError> {
        let block = self.get_block(name)?.clone();
        let (buffer, indices) = self.writer_alone("reindex", &block)?;
        let refuse = |why: &str| self.refuse("reindex", name, why);
        let iters = self.axes(&block, indices).map_err(refuse)?;
        let shape = &self.func.buffers[buffer].shape;
        let spatial = block.spatial_iters().count();
        // Each spatial iterator once, over the whole axis; a constant where there is one element.
        let mut at = vec![];
        let whole = indices.iter().zip(shape).all(|(index, extent)| {
            let iter = index.as_var().and_then(|v| block.iters.iter().find(|i| i.var == v));
            match iter {
                Some(iter) => {
                    at.push(iter.var);
                    iter.kind == IterKind::Spatial && iter.extent == *extent
                }
                None => extent.as_int() == Some(1) && index.as_int() == Some(0),
            }
        });
        if !whole || at.len() != iters.len() || iters.len() != spatial {
            return Err(refuse("it does not write the whole buffer at its own iterators"));
        }
        let own = super::injective::stores_own_element(&block);
        if !own || block.reads.iter().any(|r| r.buffer == buffer) {
            return Err(refuse("it updates what the buffer held before"));
        }
        let top = self.top_statement(name).expect("the block was found").clone();
        self.require_no_reader(&top, name, buffer).map_err(|why| refuse(&why))?;
        let indices = indices.to_vec();
        let cache = self.reindexed(&block, buffer, scope, &iters);
        let used = of(&block, &iters);
        let at = used.iter().map(|i| i.var.into()).collect::<Vec<Expr>>();
        let rewritten = self.rewritten(&top, name, buffer, cache, &at);
        let (copy, copied) = self.reindexing_block(cache, &used, |func, at, placed| {
            let to = indices.iter().map(placed).collect();
            Stmt::store(buffer, to, func.load(cache, at.to_vec()))
        });
        let top = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(top, sequence([rewritten, copied]));
        self.note(format!("reindex {name} {scope:?} -> {copy}"));
        Ok(Reindexed { block: copy, buffer: cache, iters })
    }

    /// The places of the iterators that indices mention. Their extents are those of a buffer of the function.
    pub(super) fn axes(&self, block: &Block, indices: &[Expr]) -> Result<Vec<usize>, &'static str> {
        let known = crate::abi::scalar_vars(&self.func);
        let mentioned = |iter: &BlockIter| indices.iter().any(|e| tree::mentions(e, iter.var));
        let places = block.iters.iter().enumerate().filter(|(_, iter)| mentioned(iter));
        let iters: Vec<usize> = places.map(|(place, _)| place).collect();
        let (mut fixed, mut closed) = (true, true);
        for index in indices {
            index.visit(&mut |e| {
                let var = e.as_var();
                let is_iter = |v: Var| block.iters.iter().any(|i| i.var == v);
                closed &= var.is_none_or(|v| is_iter(v) || known.contains(&v));
            });
        }
        for place in &iters {
            block.iters[*place].extent.visit(&mut |e| match e.kind() {
                ExprKind::Var { var, .. } => fixed &= known.contains(var),
                ExprKind::Load { .. } => fixed = false,
                _ => {}
            });
        }
        match (closed && fixed, iters.is_empty()) {
            (false, _) if !closed => Err("the indices mention something else than its iterators"),
            (false, _) => Err("an extent of its iterators is known inside of loops alone"),
            (_, true) => Err("the indices mention no iterator"),
            _ => Ok(iters),
        }
    }

    fn reindexed(&mut self, block: &Block, from: Buffer, scope: Scope, iters: &[usize]) -> Buffer {
        let mut data = self.func.buffers[from].clone();
        data.name = format!("{}_reindex", data.name);
        data.scope = scope;
        data.shape = iters.iter().map(|n| block.iters[*n].extent.clone()).collect();
        let cache = self.func.buffers.push(data);
        self.func.allocs.push(cache);
        cache
    }

    /// A block over the whole of `cache`, named after it. `store` gets a point, and what puts it in the place of
    /// the iterators.
    pub(super) fn reindexing_block(
        &mut self,
        cache: Buffer,
        iters: &[BlockIter],
        store: impl FnOnce(&PrimFunc, &[Expr], &dyn Fn(&Expr) -> Expr) -> Stmt,
    ) -> (String, Stmt) {
        let name = self.unique_block(&self.func.buffers[cache].name.clone());
        let shape = self.func.buffers[cache].shape.clone();
        let nest = self.block_over(&name, &shape, |func, at| {
            let given = |v: Var| Some(at[iters.iter().position(|i| i.var == v)?].clone());
            store(func, at, &|e| e.substitute(&given))
        });
        (name, nest)
    }

    /// `top` with the block's accesses to `old` going to `new`, at a point.
    fn rewritten(&self, top: &Stmt, name: &str, old: Buffer, new: Buffer, at: &[Expr]) -> Stmt {
        tree::replace_block(top, name, |b| {
            let moved = Stmt::Block(Box::new(b.clone())).map_accesses(old, new, &|_| at.to_vec());
            let Stmt::Block(mut block) = moved else { unreachable!("a block maps to a block") };
            self.refresh_regions(&mut block);
            Stmt::Block(block)
        })
    }
}

fn of(block: &Block, iters: &[usize]) -> Vec<BlockIter> {
    iters.iter().map(|n| block.iters[*n].clone()).collect()
}

/// The indices of all loads of a buffer in a block, if they are the same and load nothing.
fn sole_load(block: &Block, buffer: Buffer) -> Result<Vec<Expr>, &'static str> {
    let (mut found, mut others): (Option<Vec<Expr>>, bool) = (None, false);
    let mut see = |e: &Expr| {
        if let ExprKind::Load { buffer: b, indices, .. } = e.kind()
            && *b == buffer
        {
            others |= found.as_ref().is_some_and(|known| known != indices);
            found.get_or_insert_with(|| indices.to_vec());
        }
    };
    block.init.iter().chain([&block.body]).for_each(|s| s.visit_exprs(&mut see));
    let Some(indices) = found else { return Err("it does not load the buffer") };
    let mut nested = false;
    for index in &indices {
        index.visit(&mut |e| nested |= matches!(e.kind(), ExprKind::Load { .. }));
    }
    match (others, nested) {
        (true, _) => Err("it loads the buffer at several places"),
        (_, true) => Err("the indices depend on loaded elements"),
        _ => Ok(indices),
    }
}
