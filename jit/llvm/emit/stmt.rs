//! Statements.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue};
use reflex_tir::pipeline::is_pipelined;
use reflex_tir::tile::TileOp;
use reflex_tir::{Buffer, Expr, For, ForKind, Scope, Stmt, Var};

use crate::emit::value::LaneValue;
use crate::emit::vectorizable::is_vectorizable;
use crate::emit::{Emitter, Unit, VectorLoop};
use crate::error::{CodegenError, Result};

/// The widest vector, in lanes. LLVM splits vectors into registers; far wider ones only spill.
const MAX_LANES: i64 = 256;
/// Lanes at once of a vector loop that is wider still.
const CHUNK: i64 = 64;
/// The largest number of copies of one body.
const MAX_UNROLL: i64 = 4096;

/// The number of iterations of a loop, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TripCount {
    /// There is at least one: `min < end`.
    Positive,
    /// There may be none; the loop begins with a test.
    Unknown,
}

impl TripCount {
    fn of(extent: Option<i64>) -> TripCount {
        match extent {
            Some(_) => TripCount::Positive,
            None => TripCount::Unknown,
        }
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Emits `stmt`.
    pub fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        if self.settles(stmt) {
            self.settle()?;
        }
        self.wait_for_copies(stmt)?;
        match stmt {
            Stmt::For(l) => {
                self.for_loop(l)?;
                self.end_of_copies(stmt)
            }
            Stmt::Block(b) => {
                let text = format!("block {} is still there: the function is not lowered", b.name);
                Err(CodegenError::new(text))
            }
            Stmt::Store { buffer, indices, value } => self.store(*buffer, indices, value),
            Stmt::If { cond, then, otherwise } => {
                self.control(|e| e.if_stmt(cond, then, otherwise.as_deref()))
            }
            Stmt::Let { var, value, body } => {
                if self.has_7_bits(value) {
                    self.seven_bits.insert(*var);
                }
                let value = self.expr(value)?;
                self.bound(*var, value, |e| e.stmt(body))
            }
            Stmt::Allocate { buffer, body } => self.allocate(*buffer, body),
            Stmt::While { cond, body } => self.control(|e| e.while_loop(cond, body)),
            Stmt::Tile(TileOp::Mma(mma)) if self.unit == Unit::Gpu => self.mma(mma),
            Stmt::Tile(TileOp::Box(copy)) if self.unit == Unit::Gpu => self.box_copy(copy),
            Stmt::Tile(tile) if self.unit == Unit::Cpu => self.tile(tile),
            Stmt::Tile(_) => Err(CodegenError::new("a CPU's matrix registers on a GPU")),
            Stmt::CallPacked(call) if self.unit == Unit::Cpu => self.call_packed(call),
            Stmt::CallPacked(_) => Err(CodegenError::new("a packed function called on a GPU")),
            Stmt::Barrier(scope) if self.unit == Unit::Gpu => self.barrier(*scope),
            Stmt::Barrier(_) => Err(CodegenError::new("a barrier on a CPU")),
            Stmt::Seq(all) => all.iter().try_for_each(|s| self.stmt(s)),
        }
    }

    /// Emits a loop or a condition. Products that are in flight go on, and are no business of its parts.
    fn control(&mut self, emit: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let outer = std::mem::take(&mut self.in_flight);
        emit(self)?;
        self.in_flight = outer;
        Ok(())
    }

    /// Emits what runs again, or perhaps: its products are waited for at its end.
    fn part(&mut self, stmt: &Stmt) -> Result<()> {
        self.stmt(stmt)?;
        self.settle()
    }

    fn allocate(&mut self, buffer: Buffer, body: &Stmt) -> Result<()> {
        match (self.func.buffers[buffer].scope, self.unit) {
            (Scope::Local, _) => self.local(buffer, body),
            (Scope::Global, Unit::Cpu) => self.workspace(buffer, body),
            (Scope::Tile, Unit::Cpu) => self.registers(buffer, body),
            (scope, unit) => {
                let name = &self.func.buffers[buffer].name;
                Err(CodegenError::new(format!(
                    "{scope:?} memory {name} inside code for a {unit:?}"
                )))
            }
        }
    }

    /// Runs `body` with `var` bound to `value`.
    pub(crate) fn bound(
        &mut self,
        var: Var,
        value: LaneValue<'c>,
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
            ForKind::Serial if self.ring.is_some() && is_pipelined(l) => {
                self.control(|e| e.products(l))
            }
            ForKind::Serial => self.control(|e| e.serial(l)),
            ForKind::Unrolled => self.unrolled(l),
            ForKind::Vectorized if self.async_copy(l)? => Ok(()),
            ForKind::Vectorized => self.control(|e| e.vectorized(l)),
            // Parts of a parallel loop and lanes of a vector already run at once.
            ForKind::Parallel if self.in_parallel || self.lanes.is_some() => self.serial(l),
            ForKind::Parallel if self.unit == Unit::Cpu => self.parallel(l),
            ForKind::Parallel => Err(CodegenError::new("a loop over a CPU's threads on a GPU")),
            ForKind::ThreadBinding(axis) => {
                Err(CodegenError::new(format!("a loop bound to {axis} inside of a kernel")))
            }
        }
    }

    fn const_extent(&self, l: &For, limit: i64) -> Result<i64> {
        let name = &self.func.vars[l.var].name;
        let kind = &l.kind;
        match l.extent.as_int() {
            Some(n) if n <= limit => Ok(n.max(0)),
            Some(n) => {
                let text = format!("{kind:?} loop {name} has extent {n}, more than {limit}");
                Err(CodegenError::new(text))
            }
            None => Err(CodegenError::new(format!("{kind:?} loop {name} has no constant extent"))),
        }
    }

    fn unrolled(&mut self, l: &For) -> Result<()> {
        let extent = self.const_extent(l, MAX_UNROLL)?;
        let min = self.uniform_int(&l.min, "loop start")?;
        for i in 0..extent {
            let value = self.ir.builder.build_int_add(min, self.ir.i64(i), "")?;
            self.bound(l.var, LaneValue::Uniform(value.into()), |e| e.stmt(&l.body))?;
        }
        Ok(())
    }

    fn vectorized(&mut self, l: &For) -> Result<()> {
        if self.lanes.is_some() || !is_vectorizable(l) {
            return self.serial(l);
        }
        let extent = self.const_extent(l, i64::MAX)?;
        let min = self.uniform_int(&l.min, "loop start")?;
        if extent <= MAX_LANES {
            return self.lanes(l, min, extent);
        }
        let whole = extent / CHUNK * CHUNK;
        let (zero, chunks) = (self.ir.i64(0), self.ir.i64(whole / CHUNK));
        self.repeat(zero, chunks, TripCount::Positive, |e, chunk| {
            let at = e.ir.builder.build_int_mul(chunk, e.ir.i64(CHUNK), "")?;
            let first = e.ir.builder.build_int_add(min, at, "")?;
            e.lanes(l, first, CHUNK)
        })?;
        let rest = self.ir.builder.build_int_add(min, self.ir.i64(whole), "")?;
        self.lanes(l, rest, extent - whole)
    }

    /// The iterations `first .. first + count` of a vectorized loop, all at once.
    fn lanes(&mut self, l: &For, first: IntValue<'c>, count: i64) -> Result<()> {
        match count {
            0 => Ok(()),
            1 => self.bound(l.var, LaneValue::Uniform(first.into()), |e| e.stmt(&l.body)),
            _ => {
                let min = l.min.as_int();
                self.lanes = Some(VectorLoop { var: l.var, min, count: count as u32, mask: None });
                let ramp = LaneValue::Ramp { base: first, stride: 1 };
                let result = self.bound(l.var, ramp, |e| e.stmt(&l.body));
                self.lanes = None;
                result
            }
        }
    }

    fn serial(&mut self, l: &For) -> Result<()> {
        let min = self.uniform_int(&l.min, "loop start")?;
        let extent = self.uniform_int(&l.extent, "loop extent")?;
        let end = self.ir.builder.build_int_add(min, extent, "")?;
        match l.extent.as_int() {
            Some(n) if n <= 0 => Ok(()),
            Some(1) => self.bound(l.var, LaneValue::Uniform(min.into()), |e| e.part(&l.body)),
            known => self.counted(l.var, min, end, TripCount::of(known), |e| e.part(&l.body)),
        }
    }

    /// `for var in min..end { body }`.
    pub fn counted(
        &mut self,
        var: Var,
        min: IntValue<'c>,
        end: IntValue<'c>,
        trips: TripCount,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.repeat(min, end, trips, |e, index| {
            e.bound(var, LaneValue::Uniform(index.into()), body)
        })
    }

    fn repeat(
        &mut self,
        min: IntValue<'c>,
        end: IntValue<'c>,
        trips: TripCount,
        body: impl FnOnce(&mut Self, IntValue<'c>) -> Result<()>,
    ) -> Result<()> {
        let top = self.ir.block(self.function, "loop");
        let after = self.ir.block(self.function, "after");
        let before = self.ir.here()?;
        if trips == TripCount::Positive {
            self.ir.builder.build_unconditional_branch(top)?;
        } else {
            let any = self.ir.builder.build_int_compare(IntPredicate::SLT, min, end, "")?;
            self.ir.builder.build_conditional_branch(any, top, after)?;
        }
        self.ir.builder.position_at_end(top);
        let phi = self.ir.builder.build_phi(self.ir.context.i64_type(), "")?;
        let index = phi.as_basic_value().into_int_value();
        body(self, index)?;
        // Below `end`, so the step cannot wrap.
        let next = self.ir.builder.build_int_nsw_add(index, self.ir.i64(1), "")?;
        let more = self.ir.builder.build_int_compare(IntPredicate::SLT, next, end, "")?;
        let last = self.ir.here()?;
        self.ir.builder.build_conditional_branch(more, top, after)?;
        phi.add_incoming(&[(&min, before), (&next, last)]);
        self.ir.builder.position_at_end(after);
        Ok(())
    }

    fn while_loop(&mut self, cond: &Expr, body: &Stmt) -> Result<()> {
        let top = self.ir.block(self.function, "while");
        let inside = self.ir.block(self.function, "while.body");
        let after = self.ir.block(self.function, "while.end");
        self.ir.builder.build_unconditional_branch(top)?;
        self.ir.builder.position_at_end(top);
        let cond = self.uniform_int(cond, "while condition")?;
        self.ir.builder.build_conditional_branch(cond, inside, after)?;
        self.ir.builder.position_at_end(inside);
        self.part(body)?;
        self.ir.builder.build_unconditional_branch(top)?;
        self.ir.builder.position_at_end(after);
        Ok(())
    }

    fn if_stmt(&mut self, cond: &Expr, then: &Stmt, otherwise: Option<&Stmt>) -> Result<()> {
        match self.uniform_or_varying(cond)? {
            BasicValueEnum::VectorValue(mask) => {
                self.masked(mask, |e| e.stmt(then))?;
                let Some(otherwise) = otherwise else { return Ok(()) };
                let not = self.ir.builder.build_not(mask, "")?;
                self.masked(not, |e| e.stmt(otherwise))
            }
            cond => self.branch(cond.into_int_value(), then, otherwise),
        }
    }

    fn branch(&mut self, cond: IntValue<'c>, then: &Stmt, otherwise: Option<&Stmt>) -> Result<()> {
        if let Some(known) = cond.get_zero_extended_constant() {
            return match (known != 0, otherwise) {
                (true, _) => self.part(then),
                (false, Some(otherwise)) => self.part(otherwise),
                (false, None) => Ok(()),
            };
        }
        let on_true = self.ir.block(self.function, "then");
        let after = self.ir.block(self.function, "endif");
        let on_false = match otherwise {
            Some(_) => self.ir.block(self.function, "else"),
            None => after,
        };
        self.ir.builder.build_conditional_branch(cond, on_true, on_false)?;
        self.ir.builder.position_at_end(on_true);
        self.part(then)?;
        self.ir.builder.build_unconditional_branch(after)?;
        if let Some(otherwise) = otherwise {
            self.ir.builder.position_at_end(on_false);
            self.part(otherwise)?;
            self.ir.builder.build_unconditional_branch(after)?;
        }
        self.ir.builder.position_at_end(after);
        Ok(())
    }
}
