//! Loop kinds: vectorized, parallel, unrolled, bound to a thread axis.

use super::state::{Schedule, ScheduleError};
use super::{access, tree};
use crate::thread::ThreadAxis;
use crate::{For, ForKind, IterKind, Stmt, Var};

impl Schedule {
    /// `for i in 0..n` becomes lanes of a vector. Needs a constant extent, independent
    /// iterations and no block below that reduces along the loop.
    pub fn vectorize(&mut self, at: Var) -> Result<(), ScheduleError> {
        self.require_constant("vectorize", at)?;
        self.require_independent("vectorize", at)?;
        self.set_kind("vectorize", at, ForKind::Vectorized)
    }

    /// `for i in 0..n` is divided statically among threads. Needs independent iterations and no
    /// block below that reduces along the loop.
    pub fn parallel(&mut self, at: Var) -> Result<(), ScheduleError> {
        self.require_independent("parallel", at)?;
        self.set_kind("parallel", at, ForKind::Parallel)
    }

    /// `for i in 0..n { S(i) }` is replicated: `S(0) S(1) ...`, in the same order. Needs a
    /// constant extent.
    pub fn unroll(&mut self, at: Var) -> Result<(), ScheduleError> {
        self.require_constant("unroll", at)?;
        self.set_kind("unroll", at, ForKind::Unrolled)
    }

    /// `for i in 0..n` becomes the GPU thread axis `axis`. Needs what [`Schedule::parallel`] needs.
    pub fn bind(&mut self, at: Var, axis: ThreadAxis) -> Result<(), ScheduleError> {
        self.require_independent("bind", at)?;
        self.set_kind("bind", at, ForKind::ThreadBinding(axis))
    }

    pub(super) fn set_kind(
        &mut self,
        primitive: &'static str,
        at: Var,
        kind: ForKind,
    ) -> Result<(), ScheduleError> {
        let l = self.get_loop(at)?;
        if l.kind != ForKind::Serial {
            let why = format!("the loop already is {:?}", l.kind);
            return Err(self.refuse_loop(primitive, at, why));
        }
        self.func.body = tree::replace_loop(&self.func.body, at, |l| {
            Stmt::For(Box::new(For { kind: kind.clone(), ..l.clone() }))
        });
        let to = match &kind {
            ForKind::ThreadBinding(axis) => format!(" to {axis}"),
            _ => String::new(),
        };
        self.note(format!("{primitive} {}{to}", self.name(at)));
        Ok(())
    }

    fn require_constant(&mut self, primitive: &'static str, at: Var) -> Result<(), ScheduleError> {
        let Some(extent) = self.extent(at)? else {
            return Err(self.refuse_loop(primitive, at, "the extent is not constant"));
        };
        if self.get_loop(at)?.extent.as_int().is_none() {
            self.func.body = tree::replace_loop(&self.func.body, at, |l| {
                Stmt::For(Box::new(For { extent: extent.into(), ..l.clone() }))
            });
        }
        Ok(())
    }

    pub(super) fn require_independent(
        &self,
        primitive: &'static str,
        at: Var,
    ) -> Result<(), ScheduleError> {
        let path = self.path_to_loop(primitive, at)?;
        let l = self.get_loop(at)?;
        if l.extent.as_int() == Some(1) {
            return Ok(());
        }
        for block in tree::blocks(&l.body) {
            let reduces = block
                .iters
                .iter()
                .find(|i| i.kind != IterKind::Spatial && tree::mentions(&i.value, at));
            if let Some(iter) = reduces {
                let (name, kind) = (&self.func.vars[iter.var].name, iter.kind);
                let why = format!("iterator `{name}` of block `{}` is {kind:?}", block.name);
                return Err(self.refuse_loop(primitive, at, why));
            }
        }
        let facts = self.facts(&path);
        if self.runs_other_instances(&l.body, at, &facts, &[]) {
            return Ok(());
        }
        access::independent(&self.func, &facts, &l.body, at, &[])
            .map_err(|why| self.refuse_loop(primitive, at, why))
    }
}
