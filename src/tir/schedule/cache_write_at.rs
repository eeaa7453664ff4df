//! Write caching below a loop (TVM's `write_at`): results accumulate in a local buffer.

use super::compute_inline::loads;
use super::injective::stores_own_element;
use super::perfect_nest::PerfectNest;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, nested};
use crate::arith::Analyzer;
use crate::{Block, BlockIter, Buffer, Expr, For, IterKind, Scope, Stmt, Var};

impl Schedule {
    /// `for k { for j { X[at(j)] += f(j, k) } }`, at `k`, becomes
    /// `for k { for j { X_c[j] += f(j, k) } }; for j { X[at(j)] = X_c[j] }`: the elements that the
    /// nest below and with the loop writes are kept in a new buffer in `scope`, with an element for
    /// each iteration of the loops that choose one, and a new block stores them when the nest is
    /// done. Where the guard of a reduction says no more than that an iterator is in its domain,
    /// elements past the end keep their initial value instead of being left out: all of the buffer
    /// is written.
    ///
    /// Needs a nest around nothing but a block of one store, which runs over the whole reduction
    /// and stores elsewhere in every instance. Returns the name of the new block.
    pub fn cache_write_at(
        &mut self,
        name: &str,
        at: Var,
        scope: Scope,
    ) -> Result<String, ScheduleError> {
        let nest = self.perfect_nest("cache_write_at", name, at)?;
        let refuse = |s: &Schedule, why: &str| s.refuse("cache_write_at", name, why);
        let (buffer, indices) = cacheable_store(&nest).map_err(|why| refuse(self, why))?;
        let above = self.path_to_loop("cache_write_at", at)?;
        let above = self.facts(&above[..above.len() - 1]);
        let partial = !reduces_whole_domain(&nest, &above) && self.is_written_apart(buffer, name);
        if partial && !surely_reduces(&nest, &above) {
            return Err(refuse(self, "another block reduces where its loops may not run at all"));
        }
        let spatial = nest.spatial_loops();
        let fixed = spatial.iter().all(|l| l.extent.as_int().is_some());
        if scope != Scope::Global && !fixed {
            return Err(refuse(self, "what it keeps has no constant size"));
        }
        let cache = self.buffer_over(buffer, scope.name(), &spatial, scope);
        let elements = self.iterators(&spatial, IterKind::Spatial);
        let index: Vec<Expr> = elements.iter().map(|i| i.var.into()).collect();
        let copy = self.unique_block(&self.func.buffers[cache].name.clone());
        let mut writing = Block {
            name: copy.clone(),
            iters: nest.block.spatial_iters().chain(&elements).cloned().collect(),
            predicate: nest.spatial_guards.iter().cloned().fold(Expr::bool(true), Expr::and),
            init: None,
            body: Stmt::store(buffer, indices.to_vec(), self.func.load(cache, index.clone())),
            ..nest.block.clone()
        };
        self.refresh_regions(&mut writing);
        if self.is_injective(&nest.block) || self.show_injective(&nest.block) {
            self.note_injective(&writing);
        }
        let writing = self.fresh_copy(&nested(&spatial, Stmt::Block(Box::new(writing))), "");

        let mut kept = nest.block.clone();
        kept.iters.extend(elements);
        let here = self.func.load(cache, index.clone());
        let swap = |e: &Expr| e.replace_loads(buffer, &mut |_, _| here.clone());
        kept.body = match &nest.block.body {
            Stmt::Store { value, .. } => Stmt::store(cache, index.clone(), swap(value)),
            _ => unreachable!("checked to be one store"),
        };
        kept.init = kept.init.map(|init| match init {
            Stmt::Store { value, .. } => Stmt::store(cache, index.clone(), swap(&value)),
            other => other,
        });
        if kept.init.is_some() {
            self.guard_values(&nest, &mut kept)?;
        }
        self.refresh_regions(&mut kept);
        let kept = nested(&nest.loops, Stmt::Block(Box::new(kept)));
        let body = Box::new(Stmt::Seq(vec![kept, writing]));
        let both = Stmt::Allocate { buffer: cache, body };
        self.func.body = tree::replace_loop(&self.func.body, at, |_| both.clone());
        self.note(format!("cache_write_at {name} {} {scope:?} -> {copy}", self.name(at)));
        Ok(copy)
    }

    /// Whether a block other than `name` gives the buffer values without those that it held.
    fn is_written_apart(&self, buffer: Buffer, name: &str) -> bool {
        tree::blocks(&self.func.body).iter().any(|b| {
            let updates = b.init.is_none() && b.reads.iter().any(|r| r.buffer == buffer);
            b.name != name && Schedule::block_writes(b, buffer) && !updates
        })
    }

    /// Turns guards that iterators are in their domain into a choice of the value stored, these
    /// iterators into those of the loops that make them up.
    fn guard_values(&mut self, nest: &PerfectNest, block: &mut Block) -> Result<(), ScheduleError> {
        let path = self.path_to_block("cache_write_at", &nest.block.name)?;
        let around: Vec<For> = tree::loops_of(&path).cloned().collect();
        let mut left = nest.reduction_guards.clone();
        for guard in &nest.spatial_guards {
            let of_domain = |i: &BlockIter| {
                i.kind == IterKind::Spatial && *guard == i.value.clone().lt(i.extent.clone())
            };
            let used: Vec<For> =
                around.iter().filter(|l| tree::mentions(guard, l.var)).cloned().collect();
            let (of_guard, others): (Vec<BlockIter>, Vec<BlockIter>) =
                block.iters.iter().cloned().partition(of_domain);
            // Iterators that stay are in their domains without the guard.
            let free = |i: &BlockIter| {
                !used.iter().any(|l| tree::mentions(&i.value, l.var))
                    || nest.facts.prove(&i.value.clone().lt(i.extent.clone()))
            };
            let whole = used.iter().all(|l| l.min.as_int() == Some(0)) && others.iter().all(free);
            let Some(iter) = of_guard.first().filter(|_| whole) else {
                left.push(guard.clone());
                continue;
            };
            let own = self.iterators(&used, IterKind::Spatial);
            let to_own =
                |v: Var| own.iter().find(|i| i.value.as_var() == Some(v)).map(|i| i.var.into());
            let value = iter.value.substitute(&to_own);
            let inside = value.clone().lt(iter.extent.clone());
            let bind = |v: Var| of_guard.iter().any(|i| i.var == v).then(|| value.clone());
            let Stmt::Store { buffer, indices, value: new } = block.body.substitute(&bind) else {
                unreachable!("checked to be one store");
            };
            let old = self.func.load(buffer, indices.clone());
            block.init =
                block.init.as_ref().map(|init| loads_within(&init.substitute(&bind), &inside));
            block.body = Stmt::store(buffer, indices, Expr::if_then_else(inside, new, old));
            let at = block.iters.iter().position(|i| i.var == iter.var).expect("its own");
            block.iters.splice(at..=at, own);
            block.iters.retain(|i| !of_guard.iter().any(|gone| gone.var == i.var));
        }
        block.predicate = left.into_iter().fold(Expr::bool(true), Expr::and);
        Ok(())
    }
}

/// A store of an initial value, which is loaded only where its iterators are in their domains.
fn loads_within(init: &Stmt, inside: &Expr) -> Stmt {
    match init {
        Stmt::Store { buffer, indices, value } if !loads(value).is_empty() => {
            let zero = Expr::constant(0.0, value.dtype());
            let value = Expr::if_then_else(inside.clone(), value.clone(), zero);
            Stmt::store(*buffer, indices.clone(), value)
        }
        other => other.clone(),
    }
}

/// Whether the last iteration reaches the end of each iterator of the reduction: then no other block has
/// a part of it. `above` is known around the nest.
fn reduces_whole_domain(nest: &PerfectNest, above: &Analyzer) -> bool {
    let loops = nest.reduction_loops();
    let last = |v: Var| loops.iter().find(|l| l.var == v).map(|l| l.extent.clone() - 1);
    let mut iters = nest.block.reduction_iters();
    iters.all(|i| above.prove(&(i.value.substitute(&last) + 1).ge(i.extent.clone())))
}

/// Whether an element gets its initial value whatever the extents are: each loop of the reduction runs,
/// and no guard over them keeps the first iteration out. `above` is known around the nest.
fn surely_reduces(nest: &PerfectNest, above: &Analyzer) -> bool {
    let loops = nest.reduction_loops();
    let first = |v: Var| loops.iter().any(|l| l.var == v).then(|| Expr::i64(0));
    loops.iter().all(|l| above.prove(&l.extent.clone().ge(1)))
        && nest.reduction_guards.iter().all(|guard| nest.facts.prove(&guard.substitute(&first)))
}

/// The block's only store, if its instances may accumulate in another buffer; else why not.
fn cacheable_store(nest: &PerfectNest) -> Result<(Buffer, &[Expr]), &'static str> {
    let Stmt::Store { buffer, indices, value } = &nest.block.body else {
        return Err("the block's body is not one store");
    };
    if nest.block.init.is_none()
        && (loads(value).contains(buffer) || !nest.reduction_loops().is_empty())
    {
        return Err("it accumulates onto what the buffer held before");
    }
    match stores_own_element(&nest.block) {
        true => Ok((*buffer, indices)),
        false => Err("it reads other elements of its result"),
    }
}
