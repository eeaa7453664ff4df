//! Loop distribution (fission): a nest of loops for each of the statements in it.

use super::access;
use super::state::{Schedule, ScheduleError, shape_facts};
use super::tree::{self, nested, sequence};
use crate::arith::Analyzer;
use crate::{BlockIter, Buffer, Expr, For, IterKind, Region, Stmt, Var};

impl Schedule {
    /// `for i in 0..n { for j in 0..m { X = alloc(..); S(i, j); T(i, j) } }`, at `i`, becomes
    /// `X' = alloc(n, m, ..); for i { for j { S } }; for i' { for j' { T } }`: the inverse of
    /// [`Schedule::fuse_adjacent`]. Buffers of one iteration get an element for every one (scalar
    /// expansion).
    ///
    /// Needs serial loops from 0 of constant extents directly around each other and around several
    /// statements, of which none touches in one iteration what another touches in a different one
    /// where one of the two writes it. The first statement keeps the loops.
    pub fn distribute_loops(&mut self, at: Var) -> Result<(), ScheduleError> {
        let refuse = |s: &Schedule, why: String| s.refuse_loop("distribute_loops", at, why);
        let path = self.path_to_loop("distribute_loops", at)?;
        let mut facts = self.facts(&path[..path.len() - 1]);
        let (loops, mut inner) = self.constant_nest("distribute_loops", at)?;
        loops.iter().for_each(|l| facts.bind_loop(l));
        let mut kept = vec![];
        while let Stmt::Allocate { buffer, body } = inner {
            kept.push(*buffer);
            inner = body;
        }
        let Stmt::Seq(parts) = inner else {
            return Err(refuse(self, "there is one statement in it".into()));
        };
        let parts = parts.clone();
        if parts.iter().any(|s| self.keeps_otherwise(s, &kept)) {
            return Err(refuse(
                self,
                "what it keeps is not used by blocks alone, at one index per dimension".into(),
            ));
        }
        self.require_distributable(&loops, &kept, &parts, &facts)?;
        let wider = self.expand(&kept, &loops);
        let mut apart = vec![];
        for (n, part) in parts.iter().enumerate() {
            let (mut own, mut part) = (loops.clone(), part.clone());
            if n > 0 {
                for l in &mut own {
                    let fresh = self.func.new_var(self.func.vars[l.var].name.clone());
                    part = part.substitute(&|v| (v == l.var).then(|| fresh.into()));
                    l.var = fresh;
                }
            }
            let part = self.widened(&part, &own, &wider);
            apart.push(nested(&own, part));
        }
        let all = wider.iter().rev().fold(sequence(apart), |body, (_, buffer)| Stmt::Allocate {
            buffer: *buffer,
            body: Box::new(body),
        });
        self.func.body = tree::replace_loop(&self.func.body, at, |_| all.clone());
        self.flatten();
        let vars: Vec<Var> = loops.iter().map(|l| l.var).collect();
        self.note(format!("distribute_loops {} over {}", self.names(&vars), parts.len()));
        Ok(())
    }

    /// No two of `parts` may touch the same element in different iterations of one of the loops where
    /// one of the two writes it.
    fn require_distributable(
        &self,
        loops: &[For],
        kept: &[Buffer],
        parts: &[Stmt],
        facts: &Analyzer,
    ) -> Result<(), ScheduleError> {
        let around = |depth: usize, s: &Stmt| {
            let body = kept.iter().fold(s.clone(), |body, buffer| Stmt::Allocate {
                buffer: *buffer,
                body: Box::new(body),
            });
            nested(&loops[depth + 1..], body)
        };
        for (n, first) in parts.iter().enumerate() {
            for second in &parts[n + 1..] {
                for (depth, l) in loops.iter().enumerate() {
                    let (first, second) = (around(depth, first), around(depth, second));
                    access::require_fusable(&self.func, facts, &first, &second, l.var)
                        .map_err(|why| self.refuse_loop("distribute_loops", loops[0].var, why))?;
                }
            }
        }
        Ok(())
    }

    /// Scalar expansion: each buffer, and a new one with an element for every iteration of the loops.
    fn expand(&mut self, buffers: &[Buffer], loops: &[For]) -> Vec<(Buffer, Buffer)> {
        let mut wider = vec![];
        for buffer in buffers {
            let mut data = self.func.buffers[*buffer].clone();
            data.shape = loops.iter().map(|l| l.extent.clone()).chain(data.shape).collect();
            wider.push((*buffer, self.func.buffers.push(data)));
        }
        wider
    }

    /// Whether one of `buffers` is accessed by position, or something other than a block, or a block
    /// inside of one, may use it.
    fn keeps_otherwise(&self, stmt: &Stmt, buffers: &[Buffer]) -> bool {
        let accesses = access::collect(stmt, &mut shape_facts(&self.func));
        let by_position = accesses.list.iter().any(|a| {
            buffers.contains(&a.buffer)
                && a.indices.len() != self.func.buffers[a.buffer].shape.len()
        });
        by_position || !of_blocks(stmt)
    }

    /// `stmt` with an element of the wider buffers for each iteration of the loops.
    fn widened(&mut self, stmt: &Stmt, loops: &[For], wider: &[(Buffer, Buffer)]) -> Stmt {
        let Stmt::Block(block) = stmt else {
            return stmt.map_children(&mut |s| self.widened(s, loops, wider));
        };
        let mut block = block.as_ref().clone();
        let is_kept = |r: &Region| wider.iter().any(|(old, _)| *old == r.buffer);
        if !block.reads.iter().chain(&block.writes).any(is_kept) {
            return stmt.clone();
        }
        let mut at: Vec<Expr> = vec![];
        for l in loops {
            let is =
                |i: &&BlockIter| i.kind == IterKind::Spatial && i.value.as_var() == Some(l.var);
            let own = block.iters.iter().find(is).map(|i| i.var);
            let own = own.unwrap_or_else(|| {
                let [iter] = &self.iterators(std::slice::from_ref(l), IterKind::Spatial)[..] else {
                    unreachable!("one for each loop")
                };
                block.iters.push(iter.clone());
                iter.var
            });
            at.push(own.into());
        }
        let swap = |stmt: &Stmt| {
            wider.iter().fold(stmt.clone(), |stmt, (old, new)| {
                stmt.map_accesses(*old, *new, &|own| [&at, own].concat())
            })
        };
        (block.init, block.body) = (block.init.as_ref().map(swap), swap(&block.body));
        self.refresh_regions(&mut block);
        Stmt::Block(Box::new(block))
    }
}

/// Whether it is nothing but loops, sequences and memory around blocks without others in them.
fn of_blocks(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For(_) | Stmt::Seq(_) | Stmt::Allocate { .. } => {
            stmt.children().into_iter().all(of_blocks)
        }
        Stmt::Block(b) => tree::blocks(&b.body).is_empty(),
        _ => false,
    }
}
