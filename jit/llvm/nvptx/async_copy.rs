//! Copies from global to shared memory that need no register and go on by themselves (`cp.async`), until they are
//! waited for (`copy_waits`).
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", version 8.0, "Data Movement and Conversion Instructions:
//! Asynchronous copy".

use inkwell::values::PointerValue;
use reflex_tir::thread::ASYNC_COPY;
use reflex_tir::{Buffer, DType, Expr, ExprKind, For, ForKind, Intrin, Scope, Stmt};

use crate::emit::expr::is_positive_zero;
use crate::emit::value::LaneValue;
use crate::emit::{Emitter, Unit, VectorLoop};
use crate::error::Result;

/// Bytes of a copy.
const BYTES: u32 = 16;

/// Whether a loop is marked as a copy.
pub(super) fn is_copy(l: &For) -> bool {
    l.kind == ForKind::Vectorized && l.annotations.contains_key(ASYNC_COPY)
}

impl<'c> Emitter<'_, 'c> {
    /// Issues the copy that a vector loop is, if it is marked as one and has the form of one: neighbours in
    /// global memory, or zeros under a condition, to neighbours in shared memory, 16 bytes.
    pub(crate) fn async_copy(&mut self, l: &For) -> Result<bool> {
        let Stmt::Store { buffer: to, indices, value } = &l.body else { return Ok(false) };
        if self.unit != Unit::Gpu || self.lanes.is_some() || !is_copy(l) {
            return Ok(false);
        }
        let (cond, load) = match value.kind() {
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } if is_positive_zero(&args[2]) => {
                (Some(&args[0]), &args[1])
            }
            _ => (None, value),
        };
        let ExprKind::Load { buffer: from, indices: source, .. } = load.kind() else {
            return Ok(false);
        };
        let data =
            |buffer: Buffer| (self.func.buffers[buffer].scope, self.func.buffers[buffer].dtype);
        let (dtype, count) = (data(*to).1, l.extent.as_int().unwrap_or(0));
        let wide = count * dtype.itemsize() as i64 == i64::from(BYTES);
        if data(*to).0 != Scope::Shared || data(*from) != (Scope::Global, dtype) || !wide {
            return Ok(false);
        }
        let Some(to_place) = self.first_of(l, (*to, dtype), indices)? else { return Ok(false) };
        let Some(from_place) = self.first_of(l, (*from, dtype), source)? else { return Ok(false) };
        let name = "llvm.nvvm.cp.async.cg.shared.global.16";
        match cond {
            None => {
                self.ir.intrinsic(name, &[], &[to_place.into(), from_place.into()])?;
            }
            Some(cond) => {
                let cond = self.uniform_int(cond, "the condition of a copy")?;
                // Zeros follow the bytes that are read.
                let (all, none) = (self.ir.i32(BYTES as i32), self.ir.i32(0));
                let read = self.ir.builder.build_select(cond, all, none, "")?;
                let arguments = [to_place.into(), from_place.into(), read.into()];
                self.ir.intrinsic(&format!("{name}.s"), &[], &arguments)?;
            }
        }
        Ok(true)
    }

    /// Waits for the copies that have to be there at a statement.
    pub(crate) fn wait_for_copies(&mut self, s: &Stmt) -> Result<()> {
        if let Some(left) = self.copy_waits.left(s) {
            let left = self.ir.i32(left as i32).into();
            self.ir.intrinsic("llvm.nvvm.cp.async.wait.group", &[], &[left])?;
        }
        Ok(())
    }

    /// Ends a group of copies, if that is what a statement is.
    pub(crate) fn end_of_copies(&mut self, s: &Stmt) -> Result<()> {
        if self.copy_waits.is_group(s) {
            self.ir.intrinsic("llvm.nvvm.cp.async.commit.group", &[], &[])?;
        }
        Ok(())
    }

    /// The address of the first of a vector's elements, if they are neighbours and aligned.
    fn first_of(
        &mut self,
        l: &For,
        (buffer, dtype): (Buffer, DType),
        indices: &[Expr],
    ) -> Result<Option<PointerValue<'c>>> {
        let min = self.uniform_int(&l.min, "loop start")?;
        let count = l.extent.as_int().unwrap_or(0) as u32;
        self.lanes = Some(VectorLoop { var: l.var, min: l.min.as_int(), count, mask: None });
        let ramp = LaneValue::Ramp { base: min, stride: 1 };
        let aligned = self.alignment(buffer, indices) == BYTES;
        let mut place = None;
        let found = self.bound(l.var, ramp, |e| {
            place = Some(e.address(buffer, indices)?);
            Ok(())
        });
        self.lanes = None;
        found?;
        match place {
            Some((base, LaneValue::Ramp { base: first, stride: 1 })) if aligned => {
                self.element(base, first, dtype).map(Some)
            }
            _ => Ok(None),
        }
    }
}
