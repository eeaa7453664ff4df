//! Read caching in front of a nest (TVM's `read_at`).

use super::state::{Schedule, ScheduleError};
use super::tree::{self, nested};
use super::unroll_and_jam::visit_evaluated;
use crate::{Block, Buffer, Expr, ExprKind, For, IterKind, Param, Scope, Stmt, Var};

impl Schedule {
    /// `for i { for j { Y[i, j] = f(X[at(i, j)]) } }`, at `i`, becomes
    /// `for i { for j { X_c[i, j] = X[at(i, j)] } }; for i { for j { Y[i, j] = f(X_c[i, j]) } }`: the
    /// elements of `buffer` that the nest reads are copied first to a new buffer in `scope`, with an
    /// element for each iteration of the loops.
    ///
    /// Needs serial loops from 0 of constant extents from the loop down to a block of one store, which
    /// always reads the buffer, at one index tuple, and does not write it. Where that element exists
    /// and was written before in every iteration, the copy needs no guard of the block. Returns the
    /// name of the new block.
    pub fn cache_read_at(
        &mut self,
        name: &str,
        buffer: Buffer,
        at: Var,
        scope: Scope,
    ) -> Result<String, ScheduleError> {
        let refuse = |s: &Schedule, why: &str| s.refuse("cache_read_at", name, why);
        let path = self.path_to_loop("cache_read_at", at)?;
        let mut facts = self.facts(&path);
        let (loops, inner) = self.constant_nest("cache_read_at", at)?;
        let Stmt::Block(block) = inner else {
            return Err(refuse(self, "it does not have the loops alone"));
        };
        if block.name != name {
            return Err(refuse(self, "the loop is not around it"));
        }
        loops.iter().for_each(|l| facts.bind_loop(l));
        let block = block.as_ref().clone();
        let element = element_read(&block, buffer).map_err(|why| refuse(self, why))?;
        let shape = &self.func.buffers[buffer].shape;
        let exists = |(at, n): (&Expr, &Expr)| {
            facts.prove(&at.clone().ge(0)) && facts.prove(&at.clone().lt(n.clone()))
        };
        let whole = element.len() == shape.len()
            && element.iter().zip(shape).all(exists)
            && self.is_written_before(buffer, name);
        let cache = self.buffer_over(buffer, scope.name(), &loops, scope);
        let copy = self.unique_block(&self.func.buffers[cache].name.clone());
        let mut copying = block.clone();
        copying.name.clone_from(&copy);
        copying.annotations.clear();
        if whole {
            copying.predicate = Expr::bool(true);
        }
        copying.iters = self.iterators(&loops, IterKind::Spatial);
        let copied = self.copy_nest(copying, &loops, self.func.load(buffer, element), cache);

        let mut reading = block;
        let own = self.iterators(&loops, IterKind::Spatial);
        let index: Vec<Expr> = own.iter().map(|i| i.var.into()).collect();
        reading.iters.extend(own);
        reading.body = reading.body.map_accesses(buffer, cache, &|_| index.clone());
        self.refresh_regions(&mut reading);
        let reading = nested(&loops, Stmt::Block(Box::new(reading)));
        let body = Box::new(Stmt::Seq(vec![copied, reading]));
        let both = Stmt::Allocate { buffer: cache, body };
        self.func.body = tree::replace_loop(&self.func.body, at, |_| both.clone());
        let read = self.func.buffers[buffer].name.clone();
        self.note(format!("cache_read_at {name} {read} {} {scope:?} -> {copy}", self.name(at)));
        Ok(copy)
    }

    /// The loops around `block`, which stores the element `from` of each iteration to `cache`.
    fn copy_nest(&mut self, mut block: Block, loops: &[For], from: Expr, cache: Buffer) -> Stmt {
        let of_loop = |v: Var| {
            let own = block.iters.iter().find(|i| i.value.as_var() == Some(v))?;
            Some(own.var.into())
        };
        let from = from.substitute(&of_loop);
        let to = block.iters.iter().map(|i| i.var.into()).collect();
        block.body = Stmt::store(cache, to, from);
        self.refresh_regions(&mut block);
        let copied = nested(loops, Stmt::Block(Box::new(block)));
        self.fresh_copy(&copied, "")
    }

    /// Whether all elements of a buffer are shown to have a value before a block runs: it is an
    /// input, or a block without a guard before it writes each at its own iterators.
    fn is_written_before(&self, buffer: Buffer, name: &str) -> bool {
        let shape = &self.func.buffers[buffer].shape;
        let whole = |b: &Block| {
            let Stmt::Store { buffer: to, indices, .. } = &b.body else { return false };
            let Ok(path) = self.path_to_block("cache_read_at", &b.name) else { return false };
            let loops: Vec<&For> = tree::loops_of(&path).collect();
            let mut used = vec![];
            let mut all = |(at, n): (&Expr, &Expr)| {
                let iter = b.iters.iter().find(|i| at.as_var() == Some(i.var));
                let l = iter.and_then(|i| loops.iter().find(|l| i.value.as_var() == Some(l.var)));
                l.is_some_and(|l| {
                    let fresh = !used.contains(&l.var);
                    used.push(l.var);
                    fresh && l.min.as_int() == Some(0) && l.extent == *n
                })
            };
            *to == buffer
                && b.predicate.as_int() == Some(1)
                && indices.len() == shape.len()
                && indices.iter().zip(shape).all(&mut all)
                && !path.iter().any(|s| matches!(s, Stmt::If { .. } | Stmt::While { .. }))
        };
        let mut before = tree::blocks(&self.func.body).into_iter().take_while(|b| b.name != name);
        let inputs = self.func.params.len() - self.func.num_outputs;
        self.func.params[..inputs].contains(&Param::Buffer(buffer)) || before.any(whole)
    }
}

/// The only element of `buffer` that the block reads, over the loops; else why it cannot be copied.
fn element_read(block: &Block, buffer: Buffer) -> Result<Vec<Expr>, &'static str> {
    if block.init.is_some() {
        return Err("it has an init");
    }
    if Schedule::block_writes(block, buffer) {
        return Err("it writes the buffer");
    }
    let Stmt::Store { value, .. } = &block.body else {
        return Err("the block's body is not one store");
    };
    let Some(element) = element_always_read(value, buffer) else {
        return Err("it does not always read one element of the buffer");
    };
    let bound = |v: Var| block.iters.iter().find(|i| i.var == v).map(|i| i.value.clone());
    Ok(element.iter().map(|e| e.substitute(&bound)).collect())
}

/// The only element of `buffer` that `value` loads, if it loads it whenever it is evaluated.
fn element_always_read(value: &Expr, buffer: Buffer) -> Option<Vec<Expr>> {
    let (mut elements, mut always): (Vec<Vec<Expr>>, usize) = (vec![], 0);
    let of_buffer = |e: &Expr| match e.kind() {
        ExprKind::Load { buffer: b, indices, .. } if *b == buffer => Some(indices.clone()),
        _ => None,
    };
    value.visit(&mut |e| elements.extend(of_buffer(e)));
    visit_evaluated(value, &mut |e| always += usize::from(of_buffer(e).is_some()));
    let count = elements.len();
    elements.dedup();
    let only = (elements.len() == 1 && always == count).then(|| elements.pop());
    only.flatten()
}
