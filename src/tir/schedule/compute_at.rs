//! Moving a producer under a loop of its consumers.

use super::access::AccessKind;
use super::state::{Schedule, ScheduleError, shape_facts};
use super::tree::{self, conjuncts, is_block, sequence};
use crate::arith::{Coverage, InputIter, detect_iter_map};
use crate::{Block, Buffer, Expr, For, IterKind, Stmt, Var};

impl Schedule {
    /// `for i { X[i] = f(i) }; for j { ...X[j]... }` becomes
    /// `for j { for ax in what this iteration reads { X[ax] = f(ax) }; ...X[j]... }`.
    /// The block's own loops are replaced; elements that several iterations read are computed
    /// in each of them, from the same inputs in the same order.
    ///
    /// Needs a block that alone writes an intermediate, one element per spatial iterator tuple;
    /// all readers below the loop; inputs that do not change after the block.
    pub fn compute_at(&mut self, name: &str, at: Var) -> Result<(), ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("compute_at", name)?;
        let refuse = |why: &str| self.refuse("compute_at", name, why);
        let (buffer, indices) = self.movable("compute_at", name, &block)?;
        let path = self.path_to_free_loop("compute_at", at)?;
        self.require_visible(&path, &block).map_err(|why| refuse(&why))?;
        let body = self.get_loop(at)?.body.clone();
        if tree::path_to_block(&body, name).is_some() {
            return Err(refuse("the block is already below the loop"));
        }
        let inside: Vec<&str> = tree::blocks(&body).iter().map(|b| b.name.as_str()).collect();
        let readers = self.readers(buffer);
        if let Some(other) = readers.iter().find(|r| *r != name && !inside.contains(&r.as_str())) {
            return Err(refuse(&format!("block `{other}` reads its result outside the loop")));
        }
        self.require_stable("compute_at", &block)?;
        let facts = self.facts(&path);
        let Some(region) = self.touched(&facts, &body, buffer, AccessKind::Read) else {
            return Err(refuse("nothing below the loop reads its result"));
        };
        let ranges =
            block.iters.iter().map(|iter| match indices.iter().position(|v| *v == iter.var) {
                Some(d) => region[d].clone(),
                None => (Expr::i64(0), iter.extent.clone()),
            });
        let ranges = ranges.collect();
        let nest = self.nest_over(&facts, &block, &ranges);
        let removed = tree::remove(&self.func.body, &|s| is_block(s, name));
        let moved = tree::replace_loop(&removed.unwrap_or_else(Stmt::nop), at, |l| {
            let body = sequence([nest.clone(), l.body.clone()]);
            Stmt::For(Box::new(l.with_body(body)))
        });
        self.commit("compute_at", name, moved, &[])?;
        self.note(format!("compute_at {name} {}", self.name(at)));
        Ok(())
    }

    /// A producer that can be run over any box: the buffer and the iterator of each dimension.
    pub(super) fn movable(
        &self,
        primitive: &'static str,
        name: &str,
        block: &Block,
    ) -> Result<(Buffer, Vec<Var>), ScheduleError> {
        let refuse = |why: &str| self.refuse(primitive, name, why);
        let (buffer, indices, _) = self.single_store(primitive, block)?;
        if !self.func.allocs.contains(&buffer) {
            return Err(refuse("its result is not an intermediate of the whole function"));
        }
        self.sole_writer(buffer).map_err(|why| refuse(&why))?;
        self.require_rebuildable(primitive, block)?;
        let vars: Option<Vec<Var>> = indices.iter().map(Expr::as_var).collect();
        let Some(vars) = vars else {
            return Err(refuse("its result is not indexed by its iterators"));
        };
        let spatial = block.iters.iter().filter(|i| i.kind == IterKind::Spatial);
        let mut counts = spatial.map(|i| vars.iter().filter(|v| **v == i.var).count());
        if !counts.all(|n| n == 1) || block.reads.iter().any(|r| r.buffer == buffer) {
            return Err(refuse("it does not write one element per tuple of spatial iterators"));
        }
        Ok((buffer, vars))
    }

    /// Loops rebuilt from the iterators must run the instances that run now, in an order that
    /// keeps accumulation.
    pub(super) fn require_rebuildable(
        &self,
        primitive: &'static str,
        block: &Block,
    ) -> Result<(), ScheduleError> {
        let path = self.path_to_block(primitive, &block.name)?;
        let refuse = |why: &str| Err(self.refuse(primitive, &block.name, why));
        // A guard that a split left says no more than that an iterator is in its domain, which
        // rebuilt loops say again; any other is lost.
        let of_domain =
            |c: &Expr| block.iters.iter().any(|i| *c == i.value.clone().lt(i.extent.clone()));
        if !conjuncts(&block.predicate).iter().all(of_domain) {
            return refuse("it is guarded; move it before fusing and splitting its loops");
        }
        if !self.reduces_in_order(&path, block) {
            return refuse("its loops do not run the reduction in the order of its iterators");
        }
        if !self.runs_its_domain(&path, block) {
            return refuse("its iterators follow each other: its loops run a part of its domain");
        }
        Ok(())
    }

    /// Whether the loops run every combination of the iterators, as rebuilt ones do; guards are those that
    /// iterators are in their domains. Loops and domains of constant extents are looked at as an iterator map. Of others
    /// iterators with loops of their own do, or if no guard is on them and there are as many combinations as
    /// iterations, since no two iterations are the same instance.
    fn runs_its_domain(&self, path: &[&Stmt], block: &Block) -> bool {
        let users = |v: Var| block.iters.iter().filter(|i| tree::mentions(&i.value, v)).count();
        let loops: Vec<&For> = tree::loops_of(path).filter(|l| users(l.var) > 0).collect();
        let constant = |l: &&For| Some((l.var, l.min.as_int()?, l.extent.as_int()?));
        let inputs: Option<Vec<InputIter>> = loops.iter().map(constant).collect();
        let extents: Option<Vec<i64>> = block.iters.iter().map(|i| i.extent.as_int()).collect();
        if let (Some(inputs), Some(extents)) = (inputs, extents) {
            return covers(block, &inputs, &extents);
        }
        if loops.iter().all(|l| users(l.var) == 1) {
            return true;
        }
        let product = |extents: &mut dyn Iterator<Item = &Expr>| {
            extents.fold(Expr::i64(1), |product, extent| product * extent.clone())
        };
        let iterations = product(&mut loops.iter().map(|l| &l.extent));
        let instances = product(&mut block.iters.iter().map(|i| &i.extent));
        let surplus = shape_facts(&self.func).simplify(&(instances - iterations));
        block.predicate.as_int() == Some(1) && surplus.as_int() == Some(0)
    }

    /// The block's inputs must not be written after it, nor in a loop around it.
    pub(super) fn require_stable(
        &self,
        primitive: &'static str,
        block: &Block,
    ) -> Result<(), ScheduleError> {
        let around = self.top_statement(&block.name);
        let mut late: Vec<&Block> = around.map_or(vec![], tree::blocks);
        let all = tree::blocks(&self.func.body);
        late.extend(all.iter().skip_while(|b| b.name != block.name));
        for read in &block.reads {
            let writer = late
                .iter()
                .find(|b| b.name != block.name && Schedule::block_writes(b, read.buffer));
            if let Some(writer) = writer {
                let input = &self.func.buffers[read.buffer].name;
                let why = format!("its input `{input}` is written later by `{}`", writer.name);
                return Err(self.refuse(primitive, &block.name, why));
            }
        }
        Ok(())
    }
}

/// Whether the values of the iterators are all of their domains, in every combination.
fn covers(block: &Block, inputs: &[InputIter], extents: &[i64]) -> bool {
    let values: Vec<Expr> = block.iters.iter().map(|i| i.value.clone()).collect();
    let map = detect_iter_map(&values, inputs, &Expr::bool(true), Coverage::Surjective);
    map.is_ok_and(|map| {
        map.sums.iter().zip(extents).all(|(sum, extent)| {
            (sum.step() == 1 || sum.extent() == 1)
                && sum.base <= 0
                && sum.base.saturating_add(sum.extent()) >= *extent
        })
    })
}
