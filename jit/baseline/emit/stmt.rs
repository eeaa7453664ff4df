//! Statements.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use reflex_tir::{Buffer, Expr, For, ForKind, Scope, Stmt, Var};

use crate::emit::tile::tile_ops_of;
use crate::emit::value::{LANES, LaneValue};
use crate::emit::vector_form::has_vector_form;
use crate::emit::{Emitter, Lanes};
use crate::error::{BaselineError, Result};

/// The most nodes of expressions that the copies of an unrolled loop's body may have; a loop of more
/// stays a loop. Copies save the arithmetic of indices, and cost time to compile; more of them ran no
/// faster.
const UNROLL_NODES: i64 = 100;

/// The number of iterations of a loop, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TripCount {
    /// There is at least one: `min < end`.
    Positive,
    /// There may be none; the loop begins with a test.
    Unknown,
}

impl Emitter<'_, '_, '_> {
    /// Emits `stmt`.
    pub fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::For(l) => self.for_loop(l),
            Stmt::Block(b) => {
                let text = format!("block {} is still there: the function is not lowered", b.name);
                Err(BaselineError::new(text))
            }
            Stmt::Store { buffer, indices, value } => self.store(*buffer, indices, value),
            Stmt::If { cond, then, otherwise } => self.if_stmt(cond, then, otherwise.as_deref()),
            Stmt::Let { var, value, body } => {
                let value = self.expr(value)?;
                self.bound(*var, value, |e| e.stmt(body))
            }
            Stmt::Allocate { buffer, body } => self.allocate(*buffer, body),
            Stmt::While { cond, body } => self.while_loop(cond, body),
            Stmt::Tile(op) => self.tile_ops(&[op]),
            Stmt::CallPacked(call) => self.call_packed(call),
            Stmt::Barrier(_) => Err(BaselineError::new("a barrier on a CPU")),
            Stmt::Seq(all) => self.seq(all),
        }
    }

    /// Statements in order. Neighbours that are operations on matrix registers are one function.
    fn seq(&mut self, all: &[Stmt]) -> Result<()> {
        let ops: Vec<_> = all.iter().map(tile_ops_of).collect();
        let mut at = 0;
        while at < all.len() {
            if let Some(kernel) = self.micro_kernel_behind_zeros(&all[at..]) {
                self.call_micro_kernel(&kernel)?;
                at += 2;
                continue;
            }
            let run: Vec<_> = ops[at..].iter().map_while(Option::as_ref).collect();
            match run.len() {
                0 => self.stmt(&all[at])?,
                _ => self.tile_ops(&run.iter().copied().flatten().copied().collect::<Vec<_>>())?,
            }
            at += run.len().max(1);
        }
        Ok(())
    }

    fn allocate(&mut self, buffer: Buffer, body: &Stmt) -> Result<()> {
        match self.func.buffers[buffer].scope {
            Scope::Local => self.local(buffer, body),
            Scope::Global => self.workspace(buffer, body),
            Scope::Tile => self.registers(buffer, body),
            Scope::Shared => {
                let name = &self.func.buffers[buffer].name;
                Err(BaselineError::new(format!("shared memory {name} on a CPU")))
            }
        }
    }

    /// Runs `body` with `var` bound to `value`.
    fn bound(
        &mut self,
        var: Var,
        value: LaneValue,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let outer = self.vars.insert(var, value);
        body(self)?;
        match outer {
            Some(value) => self.vars.insert(var, value),
            None => self.vars.remove(&var),
        };
        Ok(())
    }

    fn for_loop(&mut self, l: &For) -> Result<()> {
        match &l.kind {
            ForKind::Vectorized if self.lanes == Lanes::One => self.vectorized(l),
            ForKind::Unrolled if is_unrolled(l) => self.unrolled(l),
            // Parts of a parallel loop and lanes of a vector already run at once.
            ForKind::Parallel if !self.in_parallel && self.lanes == Lanes::One => self.parallel(l),
            ForKind::Serial if self.lanes == Lanes::One => {
                if let Some(kernel) = self.micro_kernel(l) {
                    self.call_micro_kernel(&kernel)
                } else if let Some(tiles) = self.tile_loop(l) {
                    self.call_tile_loop(l, &tiles)
                } else {
                    self.serial(l)
                }
            }
            ForKind::Serial | ForKind::Unrolled | ForKind::Vectorized | ForKind::Parallel => {
                self.serial(l)
            }
            ForKind::ThreadBinding(axis) => {
                Err(BaselineError::new(format!("a loop bound to {axis} inside of a kernel")))
            }
        }
    }

    fn unrolled(&mut self, l: &For) -> Result<()> {
        let min = self.uniform_int(&l.min, "a loop's start")?;
        for i in 0..l.extent.as_int().unwrap_or(0) {
            let step = self.i64(i);
            let at = self.add(min, step);
            self.bound(l.var, LaneValue::Uniform(at), |e| e.stmt(&l.body))?;
        }
        Ok(())
    }

    /// Four iterations at once where the body has that form, and the rest in order.
    fn vectorized(&mut self, l: &For) -> Result<()> {
        let extent = l.extent.as_int().unwrap_or(0);
        if !self.unit.has_vectors || extent < LANES || !has_vector_form(self.func, l) {
            return self.serial(l);
        }
        let min = self.uniform_int(&l.min, "a loop's start")?;
        let chunks = extent / LANES;
        if chunks * weight(&l.body) <= UNROLL_NODES {
            for chunk in 0..chunks {
                let step = self.i64(chunk * LANES);
                let first = self.add(min, step);
                self.four_lanes(l, first)?;
            }
        } else {
            let (zero, end) = (self.i64(0), self.i64(chunks));
            self.repeat(zero, end, TripCount::Positive, |e, chunk| {
                let lanes = e.i64(LANES);
                let at = e.mul(chunk, lanes);
                let first = e.add(min, at);
                e.four_lanes(l, first)
            })?;
        }
        for i in chunks * LANES..extent {
            let step = self.i64(i);
            let at = self.add(min, step);
            self.bound(l.var, LaneValue::Uniform(at), |e| e.stmt(&l.body))?;
        }
        Ok(())
    }

    /// The iterations from `first` on, one for each lane.
    fn four_lanes(&mut self, l: &For, first: Value) -> Result<()> {
        self.lanes = Lanes::Four;
        let ramp = LaneValue::Ramp { base: first, stride: 1 };
        let result = self.bound(l.var, ramp, |e| e.stmt(&l.body));
        self.lanes = Lanes::One;
        result
    }

    pub(super) fn serial(&mut self, l: &For) -> Result<()> {
        let min = self.uniform_int(&l.min, "a loop's start")?;
        let extent = self.uniform_int(&l.extent, "a loop's extent")?;
        let end = self.add(min, extent);
        match l.extent.as_int() {
            Some(n) if n <= 0 => Ok(()),
            Some(1) => self.bound(l.var, LaneValue::Uniform(min), |e| e.stmt(&l.body)),
            Some(_) => self.counted(l.var, min, end, TripCount::Positive, |e| e.stmt(&l.body)),
            None => self.counted(l.var, min, end, TripCount::Unknown, |e| e.stmt(&l.body)),
        }
    }

    /// `for var in min..end { body }`.
    pub fn counted(
        &mut self,
        var: Var,
        min: Value,
        end: Value,
        trips: TripCount,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.repeat(min, end, trips, |e, index| e.bound(var, LaneValue::Uniform(index), body))
    }

    fn repeat(
        &mut self,
        min: Value,
        end: Value,
        trips: TripCount,
        body: impl FnOnce(&mut Self, Value) -> Result<()>,
    ) -> Result<()> {
        let (top, after) = (self.b.create_block(), self.b.create_block());
        let index = self.b.append_block_param(top, types::I64);
        let first = [BlockArg::Value(min)];
        if trips == TripCount::Positive {
            self.b.ins().jump(top, &first);
        } else {
            let any = self.b.ins().icmp(IntCC::SignedLessThan, min, end);
            self.b.ins().brif(any, top, &first, after, &[]);
        }
        let nowhere = || BaselineError::new("a loop outside of a function");
        self.preheaders.push(self.b.current_block().ok_or_else(nowhere)?);
        self.b.switch_to_block(top);
        self.depths.insert(top, self.preheaders.len());
        body(self, index)?;
        let one = self.i64(1);
        let next = self.b.ins().iadd(index, one);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, end);
        self.b.ins().brif(more, top, &[BlockArg::Value(next)], after, &[]);
        self.preheaders.pop();
        self.b.switch_to_block(after);
        Ok(())
    }

    fn while_loop(&mut self, cond: &Expr, body: &Stmt) -> Result<()> {
        let [top, inside, after] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().jump(top, &[]);
        self.b.switch_to_block(top);
        let cond = self.uniform_int(cond, "a condition of while")?;
        self.b.ins().brif(cond, inside, &[], after, &[]);
        self.b.switch_to_block(inside);
        self.stmt(body)?;
        self.b.ins().jump(top, &[]);
        self.b.switch_to_block(after);
        Ok(())
    }

    fn if_stmt(&mut self, cond: &Expr, then: &Stmt, otherwise: Option<&Stmt>) -> Result<()> {
        let cond = self.uniform_int(cond, "a condition")?;
        if let Some(known) = self.known(cond) {
            return match (known != 0, otherwise) {
                (true, _) => self.stmt(then),
                (false, Some(otherwise)) => self.stmt(otherwise),
                (false, None) => Ok(()),
            };
        }
        let (on_true, after) = (self.b.create_block(), self.b.create_block());
        let on_false = if otherwise.is_some() { self.b.create_block() } else { after };
        self.b.ins().brif(cond, on_true, &[], on_false, &[]);
        self.b.switch_to_block(on_true);
        self.stmt(then)?;
        self.b.ins().jump(after, &[]);
        if let Some(otherwise) = otherwise {
            self.b.switch_to_block(on_false);
            self.stmt(otherwise)?;
            self.b.ins().jump(after, &[]);
        }
        self.b.switch_to_block(after);
        Ok(())
    }
}

/// Whether an unrolled loop becomes copies of its body.
fn is_unrolled(l: &For) -> bool {
    l.extent.as_int().is_some_and(|n| n.max(0).saturating_mul(weight(&l.body)) <= UNROLL_NODES)
}

/// Nodes of expressions that a statement becomes, copies included.
fn weight(stmt: &Stmt) -> i64 {
    let own = |stmt: &Stmt| {
        let mut nodes = 1;
        stmt.exprs().into_iter().for_each(|e| e.visit(&mut |_| nodes += 1));
        nodes
    };
    match stmt {
        Stmt::For(l) => {
            let body = weight(&l.body);
            let copies = match (&l.kind, l.extent.as_int()) {
                (ForKind::Unrolled, Some(n)) => n.max(0),
                (ForKind::Vectorized, Some(n)) => n.max(0) / LANES + n.max(0) % LANES,
                _ => 1,
            };
            match body.saturating_mul(copies) {
                copied if copied <= UNROLL_NODES => copied,
                _ => body,
            }
        }
        Stmt::Seq(all) => all.iter().map(weight).sum(),
        Stmt::If { then, otherwise, .. } => {
            own(stmt) + weight(then) + otherwise.as_deref().map_or(0, weight)
        }
        Stmt::Let { body, .. } | Stmt::While { body, .. } | Stmt::Allocate { body, .. } => {
            own(stmt) + weight(body)
        }
        Stmt::Store { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_)
        | Stmt::Block(_) => own(stmt),
    }
}
