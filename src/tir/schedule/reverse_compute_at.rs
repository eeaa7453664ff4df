//! Moving a consumer under a loop of its producer.

use std::collections::HashSet;

use super::access::{self, AccessKind};
use super::nest::Ranges;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, is_block, sequence};
use crate::arith::Analyzer;
use crate::{Block, Buffer, Expr, ExprKind, Stmt, Var};

impl Schedule {
    /// `for i { X[i] = f(i) }; for j { Y[j] = g(X[j]) }` becomes
    /// `for i { X[i] = f(i); for ax in what this iteration wrote { Y[ax] = g(X[ax]) } }`.
    /// The block's own loops are replaced.
    ///
    /// Needs a block that reads one intermediate of the loop at its own iterators; iterations of
    /// the loop, and of all around it, that write different elements and finish them; and
    /// whatever else the block reads to be complete before.
    pub fn reverse_compute_at(&mut self, name: &str, at: Var) -> Result<(), ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("reverse_compute_at", name)?;
        let refuse = |why: &str| self.refuse("reverse_compute_at", name, why);
        let path = self.path_to_free_loop("reverse_compute_at", at)?;
        self.require_visible(&path, &block).map_err(|why| refuse(&why))?;
        let body = self.get_loop(at)?.body.clone();
        if tree::path_to_block(&body, name).is_some() {
            return Err(refuse("the block is already below the loop"));
        }
        let (out, ..) = self.single_store("reverse_compute_at", &block)?;
        self.require_rebuildable("reverse_compute_at", &block)?;
        let inside = tree::blocks(&body);
        let (buffer, indices) = self.input_from(&block, &inside).map_err(|why| refuse(&why))?;
        let producer = self.sole_writer(buffer).map_err(|why| refuse(&why))?.name.clone();
        self.require_inputs_before(&block, &producer, buffer)?;
        self.require_output_untouched(&block, at, out)?;
        let facts = self.facts(&path);
        let ranges = self.finished(&path, &facts, &body, buffer).map_err(|why| refuse(&why))?;
        let shape = &self.func.buffers[buffer].shape;
        let beyond = indices.iter().zip(shape).any(|(v, n)| {
            let iter = block.iters.iter().find(|i| Some(i.var) == *v);
            iter.is_some_and(|i| !facts.prove(&i.extent.clone().le(n.clone())))
        });
        if beyond {
            // Guarded reads: instances past the end belong to no iteration of the loop.
            return Err(refuse("it also runs where the intermediate has no element"));
        }
        let ranges = block.iters.iter().map(|iter| {
            match indices.iter().position(|v| *v == Some(iter.var)) {
                Some(d) => ranges[d].clone(),
                None => (Expr::i64(0), iter.extent.clone()),
            }
        });
        let ranges = ranges.collect();
        let nest = self.nest_over(&facts, &block, &ranges);
        let removed = tree::remove(&self.func.body, &|s| is_block(s, name));
        let moved = tree::replace_loop(&removed.unwrap_or_else(Stmt::nop), at, |l| {
            let body = sequence([l.body.clone(), nest.clone()]);
            Stmt::For(Box::new(l.with_body(body)))
        });
        self.commit("reverse_compute_at", name, moved, &[])?;
        self.note(format!("reverse_compute_at {name} {}", self.name(at)));
        Ok(())
    }

    /// The buffer that the blocks `inside` write and `block` reads, with the iterator that
    /// indexes each dimension. A dimension without one must have extent 1.
    fn input_from(
        &self,
        block: &Block,
        inside: &[&Block],
    ) -> Result<(Buffer, Vec<Option<Var>>), String> {
        let mut found: Vec<(Buffer, Vec<Expr>)> = vec![];
        block.body.visit_exprs(&mut |e| {
            if let ExprKind::Load { buffer, indices, .. } = e.kind()
                && inside.iter().any(|b| Schedule::block_writes(b, *buffer))
                && !found.contains(&(*buffer, indices.clone()))
            {
                found.push((*buffer, indices.clone()));
            }
        });
        let [(buffer, indices)] = &found[..] else {
            return Err(format!("it reads {} results of the loop, not one", found.len()));
        };
        let shape = &self.func.buffers[*buffer].shape;
        if shape.len() != indices.len() {
            return Err("it reads the loop's result by row-major position".into());
        }
        let mut seen = HashSet::new();
        let vars = indices.iter().zip(shape).map(|(index, n)| match index.as_var() {
            Some(v) if seen.insert(v) && block.iters.iter().any(|i| i.var == v) => Ok(Some(v)),
            _ if n.as_int() == Some(1) && index.as_int() == Some(0) => Ok(None),
            _ => Err("it does not read the loop's result at its own iterators".to_string()),
        });
        Ok((*buffer, vars.collect::<Result<_, _>>()?))
    }

    /// The box of `buffer` that one iteration writes and finishes, shown to be exactly that.
    fn finished(
        &self,
        path: &[&Stmt],
        facts: &Analyzer,
        body: &Stmt,
        buffer: Buffer,
    ) -> Result<Ranges, String> {
        let mut inner_facts = facts.clone();
        let accesses = access::collect(body, &mut inner_facts);
        let writes: Vec<&access::Access> =
            accesses.list.iter().filter(|a| a.buffer == buffer && a.writes()).collect();
        let Some(first) = writes.first() else {
            return Err("the loop does not write what it reads".into());
        };
        // A reduction's init and step write the same element.
        if writes.iter().any(|w| w.indices != first.indices) {
            return Err("the loop writes the intermediate in several places".into());
        }
        let outside: Vec<Var> = tree::loops_of(path).map(|l| l.var).collect();
        let mut free = accesses.bound.clone();
        free.extend(&outside);
        let name = |v: &Var| &self.func.vars[*v].name;
        for var in &outside {
            if !access::determines(&inner_facts, &first.indices, *var, &free) {
                return Err(format!(
                    "iterations of `{}` do not each finish elements of their own",
                    name(var)
                ));
            }
        }
        let mut count = Expr::i64(1);
        let mut counted = Ok(());
        body.visit(&mut |s| {
            let Stmt::For(l) = s else { return };
            if !first.indices.iter().any(|i| tree::mentions(i, l.var)) {
                return;
            }
            if !access::determines(&inner_facts, &first.indices, l.var, &free) {
                counted = Err(format!("the elements that `{}` writes overlap", name(&l.var)));
            }
            count = count.clone() * l.extent.clone();
        });
        counted?;
        let ranges =
            self.touched(facts, body, buffer, AccessKind::Write).ok_or("nothing is written")?;
        let size = ranges.iter().fold(Expr::i64(1), |size, (_, n)| size * n.clone());
        if facts.simplify(&(size - count)).as_int() != Some(0) {
            return Err("one iteration does not write a whole box".into());
        }
        Ok(ranges)
    }

    /// The block's inputs but `except` must be complete before the producer's statement.
    fn require_inputs_before(
        &self,
        block: &Block,
        producer: &str,
        except: Buffer,
    ) -> Result<(), ScheduleError> {
        let late = self.blocks_not_before(producer);
        for read in block.reads.iter().filter(|r| r.buffer != except) {
            let writer = late
                .iter()
                .find(|b| b.name != block.name && Schedule::block_writes(b, read.buffer));
            if let Some(writer) = writer {
                let input = &self.func.buffers[read.buffer].name;
                let why = format!("its input `{input}` is written by `{}`", writer.name);
                return Err(self.refuse("reverse_compute_at", &block.name, why));
            }
        }
        Ok(())
    }

    /// Blocks in the top-level statement of `name` and after it.
    fn blocks_not_before(&self, name: &str) -> Vec<&Block> {
        let mut late: Vec<&Block> = self.top_statement(name).map_or(vec![], tree::blocks);
        let all = tree::blocks(&self.func.body);
        late.extend(all.into_iter().skip_while(|b| b.name != name));
        late
    }

    /// From the loop's statement up to the block nothing else may touch what the block writes.
    fn require_output_untouched(
        &self,
        block: &Block,
        at: Var,
        out: Buffer,
    ) -> Result<(), ScheduleError> {
        let path = self.path_to_loop("reverse_compute_at", at)?;
        let first = path.iter().find(|s| !matches!(s, Stmt::Seq(_)));
        let first = first.and_then(|s| tree::blocks(s).first().map(|b| b.name.clone()));
        let readers = self.readers(out);
        let all = tree::blocks(&self.func.body);
        let mut between = all
            .iter()
            .skip_while(|b| Some(&b.name) != first.as_ref())
            .take_while(|b| b.name != block.name);
        match between.find(|b| readers.contains(&b.name) || Schedule::block_writes(b, out)) {
            Some(b) => {
                let why = format!("`{}` uses `{}` before", b.name, self.func.buffers[out].name);
                Err(self.refuse("reverse_compute_at", &block.name, why))
            }
            None => Ok(()),
        }
    }
}
