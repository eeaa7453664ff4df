//! Storage of an intermediate inside of a loop (Halide's `store_at`).

use rustc_hash::FxHashSet;

use super::state::{Schedule, ScheduleError, shape_facts};
use super::{access, tree};
use crate::arith::Analyzer;
use crate::{BufferData, Expr, ExprKind, Scope, Stmt, Var};

impl Schedule {
    /// An intermediate `X[i, j]` that is used in one iteration of loop `i` alone becomes `X'[j]` in
    /// `scope`, allocated inside of that loop: dimensions whose index an iteration does not change
    /// are left out.
    ///
    /// Needs an intermediate of the whole function, written by block `name`, which is accessed at
    /// one index per dimension and only below the loop, where the indices that stay the same for an
    /// iteration tell iterations of the loop, and of all around it, apart.
    pub fn store_at(&mut self, name: &str, at: Var, scope: Scope) -> Result<(), ScheduleError> {
        let refuse = |s: &Schedule, why: String| s.refuse("store_at", name, why);
        let Some(buffer) = self.get_block(name)?.writes.first().map(|r| r.buffer) else {
            return Err(refuse(self, "it writes nothing".into()));
        };
        if !self.func.allocs.contains(&buffer) || self.padded.contains(&buffer) {
            return Err(refuse(self, "its result is not an intermediate of the function".into()));
        }
        let path = self.path_to_free_loop("store_at", at)?;
        let body = self.get_loop(at)?.body.clone();
        let mut facts = self.facts(&path);
        let inside = access::collect(&body, &mut facts);
        let of_buffer =
            |all: &access::Accesses| all.list.iter().filter(|a| a.buffer == buffer).count();
        let everywhere = access::collect(&self.func.body, &mut shape_facts(&self.func));
        if of_buffer(&everywhere) != of_buffer(&inside) {
            return Err(refuse(self, "its result is used outside of the loop".into()));
        }
        let shape = self.func.buffers[buffer].shape.clone();
        let accesses: Vec<&[Expr]> =
            inside.list.iter().filter(|a| a.buffer == buffer).map(|a| &a.indices[..]).collect();
        if accesses.iter().any(|indices| indices.len() != shape.len()) {
            return Err(refuse(self, "its result is accessed by position".into()));
        }
        let first = accesses.first().expect("the block writes it");
        let dropped = unchanged_dims(&accesses, &inside.bound, &facts);
        let own: Vec<Expr> =
            first.iter().zip(&dropped).filter(|(_, d)| **d).map(|(e, _)| e.clone()).collect();
        // A loop of one iteration shares nothing with another one.
        let several = tree::loops_of(&path).filter(|l| l.extent.as_int() != Some(1));
        let around: FxHashSet<Var> = several.map(|l| l.var).collect();
        if let Some(v) = around.iter().find(|v| !access::determines(&facts, &own, **v, &around)) {
            let why = format!("iterations of `{}` share elements of its result", self.name(*v));
            return Err(refuse(self, why));
        }
        let keep = |list: &[Expr]| -> Vec<Expr> {
            list.iter().zip(&dropped).filter(|(_, d)| !**d).map(|(e, _)| e.clone()).collect()
        };
        let shape = keep(&shape);
        if scope != Scope::Global && shape.iter().any(|n| n.as_int().is_none()) {
            return Err(refuse(self, "what is left of it has no constant size".into()));
        }
        let data = &self.func.buffers[buffer];
        let (label, dtype) = (data.name.clone(), data.dtype);
        let row = self.func.buffers.push(BufferData { name: label, dtype, shape, scope });
        self.func.allocs.retain(|b| *b != buffer);
        let body = self.refreshed(&body.map_accesses(buffer, row, &keep), &[buffer]);
        let body = Stmt::Allocate { buffer: row, body: Box::new(body) };
        self.func.body = tree::replace_loop(&self.func.body, at, |l| {
            Stmt::For(Box::new(l.with_body(body.clone())))
        });
        self.note(format!("store_at {name} {} {scope:?}", self.name(at)));
        Ok(())
    }
}

/// Per dimension, whether all accesses have the same index there, which no variable in `inner` and
/// no load changes.
fn unchanged_dims(accesses: &[&[Expr]], inner: &FxHashSet<Var>, facts: &Analyzer) -> Vec<bool> {
    let varies = |e: &Expr| {
        let mut varies = false;
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => varies |= inner.contains(var),
            ExprKind::Load { .. } => varies = true,
            _ => {}
        });
        varies
    };
    let first = accesses[0];
    let same = |d: usize| {
        let one = |at: &&[Expr]| {
            at[d] == first[d]
                || facts.simplify(&(at[d].clone() - first[d].clone())).as_int() == Some(0)
        };
        !varies(&first[d]) && accesses.iter().all(one)
    };
    (0..first.len()).map(same).collect()
}
