//! Instructions of a trace, one by one. Those of more than a few lines have files of their own.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, types};
use reflex_runtime::abi::{SHAPE_DATA, SHAPE_SIZE, type_index};
use reflex_vm::builtins::Builtin;
use reflex_vm::tier::Bailout;

use super::calls::{BuiltinCall, CallResult};
use super::{ExitReason, TraceCodegen, internal};
use crate::emit::kernel_call::RawTensor;
use crate::emit::{Bits, Slot, trusted};
use crate::trace::ir::{Arg, BuiltinResult, ExitId, Ins, Scalar, VReg};

impl TraceCodegen<'_, '_> {
    pub(super) fn store(&mut self, vreg: VReg, scalar: Scalar) -> Result<(), Bailout> {
        let slot = self.slot(vreg);
        if scalar == Scalar::NONE {
            self.e.store_none_wide(slot);
            return Ok(());
        }
        let (tag, payload) = self.scalar_value(scalar)?;
        self.e.store_scalar(slot, tag, payload);
        Ok(())
    }

    /// Emits an instruction.
    pub(super) fn ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
        match ins {
            Ins::GuardType { .. }
            | Ins::GuardFact { .. }
            | Ins::GuardSameDim { .. }
            | Ins::GuardShapeRank { .. }
            | Ins::GuardViewFits { .. }
            | Ins::GuardEqual { .. }
            | Ins::GuardTruth { .. }
            | Ins::GuardClosure { .. }
            | Ins::GuardCaller { .. }
            | Ins::GuardCompiled { .. }
            | Ins::CheckFuel { .. } => self.guard_ins(ins),
            Ins::LoadPayload { .. }
            | Ins::Let { .. }
            | Ins::LoadDim { .. }
            | Ins::LoadShapeDim { .. }
            | Ins::LoadBool { .. } => self.load_ins(ins),
            Ins::LoadCaptured { .. }
            | Ins::Copy { .. }
            | Ins::Move { .. }
            | Ins::ParallelMove(_)
            | Ins::Store { .. }
            | Ins::Release { .. }
            | Ins::Forget { .. }
            | Ins::Recycle { .. }
            | Ins::TakeResult { .. }
            | Ins::DropResult { .. }
            | Ins::LoadOwned { .. }
            | Ins::CopyOwned { .. }
            | Ins::StoreOwned { .. }
            | Ins::ReleaseOwned { .. } => self.move_ins(ins),
            Ins::CallPacked { .. }
            | Ins::CallKernel { .. }
            | Ins::CallFunction { .. }
            | Ins::CallBuiltin { .. }
            | Ins::MakeView { .. }
            | Ins::Allocate { .. } => self.call_ins(ins),
            Ins::SetFrame { frame, was } => self.make_current(*frame, *was),
            Ins::EnterFrame { .. } | Ins::LeaveFrame { .. } => {
                Err(internal("frames are entered and left one by one"))
            }
        }
    }

    /// Emits a guard.
    fn guard_ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
        match ins {
            Ins::GuardType { vreg, tag, exit } => {
                let slot = self.slot(*vreg);
                let fits = self.e.has_tag(slot, *tag);
                self.guard(fits, *exit);
            }
            Ins::GuardFact { vreg, fact, exit } => {
                let slot = self.slot(*vreg);
                let tensor = self.e.payload(slot);
                let block = self.exit(*exit, ExitReason::Guard);
                self.force(block);
                self.e.require_fact(tensor, *fact, block);
            }
            Ins::GuardSameDim { vreg, dim, other, at, exit } => {
                let (slot, other) = (self.slot(*vreg), self.slot(*other));
                let (tensor, other) = (self.e.payload(slot), self.e.payload(other));
                let (have, want) = (self.e.tensor_dim(tensor, *dim), self.e.tensor_dim(other, *at));
                let same = self.e.b.ins().icmp(IntCC::Equal, have, want);
                self.guard(same, *exit);
            }
            Ins::GuardShapeRank { vreg, rank, exit } => {
                let slot = self.slot(*vreg);
                let shape = self.e.payload(slot);
                let count = self.e.load(types::I64, shape, SHAPE_SIZE);
                let has = self.e.b.ins().icmp_imm_s(IntCC::Equal, count, i64::from(*rank));
                self.guard(has, *exit);
            }
            Ins::GuardViewFits { have, want, exit } => self.guard_view_fits(have, want, *exit)?,
            Ins::GuardEqual { left, right, exit } => {
                let (left, right) = (self.scalar_value(*left)?.1, self.scalar_value(*right)?.1);
                let equal = self.e.b.ins().icmp(IntCC::Equal, left, right);
                self.guard(equal, *exit);
            }
            Ins::GuardTruth { var, expected, exit } => {
                let var = self.var(*var)?;
                let condition = if *expected { IntCC::NotEqual } else { IntCC::Equal };
                let as_recorded = self.e.b.ins().icmp_imm_s(condition, var, 0);
                self.guard(as_recorded, *exit);
            }
            Ins::GuardClosure { vreg, func, captured, exit } => {
                self.guard_closure(*vreg, *func, *captured, *exit);
            }
            Ins::GuardCaller { frame, exit } => self.guard_caller(*frame, *exit)?,
            Ins::GuardCompiled { func, exit } => {
                let (code, nothing) = (self.code_at(*func), self.e.exit_address());
                let there = self.e.b.ins().icmp(IntCC::NotEqual, code, nothing);
                self.guard(there, *exit);
            }
            Ins::CheckFuel { units, exit } => self.check_fuel(*units, *exit),
            _ => return Err(internal("an instruction that is no guard")),
        }
        Ok(())
    }

    /// Emits an instruction that defines a variable.
    fn load_ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
        let (var, value) = match ins {
            Ins::LoadPayload { var, vreg } => {
                let slot = self.slot(*vreg);
                (var, self.e.payload(slot))
            }
            Ins::Let { var, value } => (var, self.scalar_value(*value)?.1),
            Ins::LoadDim { var, vreg, dim } => {
                let slot = self.slot(*vreg);
                let tensor = self.e.payload(slot);
                (var, self.e.tensor_dim(tensor, *dim))
            }
            Ins::LoadShapeDim { var, vreg, at } => {
                let slot = self.slot(*vreg);
                let shape = self.e.payload(slot);
                let dims = self.e.load(types::I64, shape, SHAPE_DATA);
                (var, self.e.load(types::I64, dims, 8 * *at as usize))
            }
            Ins::LoadBool { var, vreg } => {
                let slot = self.slot(*vreg);
                let tensor = RawTensor::Object(self.e.payload(slot));
                let data = self.e.raw_data(&tensor);
                let byte = self.e.b.ins().uload8(types::I64, trusted(), data, 0);
                let truth = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, byte, 0);
                (var, self.e.b.ins().uextend(types::I64, truth))
            }
            _ => return Err(internal("an instruction that is no load")),
        };
        self.vars[var.0 as usize] = Some(value);
        Ok(())
    }

    /// Emits an instruction that moves, copies or releases values.
    fn move_ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
        match ins {
            Ins::LoadCaptured { dst, closure, index } => {
                self.load_captured(*dst, *closure, *index)?
            }
            Ins::Copy { dst, src, refs } => self.copy(*dst, *src, *refs)?,
            Ins::Move { dst, src } => {
                let (slot, value) = self.moved(*dst, *src);
                self.e.store_any(slot, value);
            }
            Ins::ParallelMove(moves) => {
                let values: Vec<_> = moves.iter().map(|&(dst, src)| self.moved(dst, src)).collect();
                for (slot, value) in values {
                    self.e.store_any(slot, value);
                }
            }
            Ins::Store { dst, value } => self.store(*dst, *value)?,
            Ins::Release { vreg, tag } => {
                let slot = self.slot(*vreg);
                match tag {
                    // Parts of what others hold too, most often.
                    Some(type_index::ARRAY) | None => self.e.release_shared(slot),
                    Some(_) => self.e.release_object(slot),
                }
            }
            Ins::Forget { .. } => {}
            Ins::Recycle { vreg, to } => {
                let slot = self.slot(*vreg);
                self.e.recycle(slot, *to);
            }
            Ins::TakeResult { frame, dst } => {
                let (from, to) = (self.result_slot(*frame)?, self.slot(*dst));
                let value = self.e.load_any(from);
                self.e.store_any(to, value);
            }
            Ins::DropResult { frame } => {
                let slot = self.result_slot(*frame)?;
                self.e.release(slot);
            }
            Ins::LoadOwned { value, src, tag, mode } => {
                self.load_owned(*value, Arg::Reg(*src, *tag), *mode)?;
            }
            Ins::CopyOwned { value, of } => self.copy_owned(*value, *of)?,
            Ins::StoreOwned { dst, value } => {
                let owned = self.owned(*value)?;
                let slot = self.slot(*dst);
                self.e.store_any(slot, owned.value);
            }
            Ins::ReleaseOwned { value } => self.release_owned(*value)?,
            _ => return Err(internal("an instruction that is no move")),
        }
        Ok(())
    }

    /// Emits a call.
    fn call_ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
        match ins {
            Ins::CallPacked { frame, callee, args, dst, exit } => {
                let result = CallResult { frame: *frame, dst: *dst };
                self.call_packed(result, *callee, args, *exit)
            }
            Ins::CallKernel { callee, args, exit, .. } => self.call_kernel(*callee, args, *exit),
            Ins::CallFunction { frame, callee, args, dst, exit } => {
                let result = CallResult { frame: *frame, dst: *dst };
                self.call_function(result, *callee, args, *exit)
            }
            &Ins::CallBuiltin {
                frame,
                builtin: builtin @ Builtin::MakeTuple,
                ref args,
                ref taken,
                result,
                exit,
                ..
            } => self.make_tuple(BuiltinCall { frame, builtin, args, exit }, taken, result),
            &Ins::CallBuiltin {
                frame, builtin, inline, ref args, borrows, result, exit, ..
            } => {
                let produced = match inline {
                    true if borrows => Some(self.borrow_item(args, exit)?),
                    true => self.inline(builtin, args, exit)?,
                    false => None,
                };
                match produced {
                    Some(produced) => self.store_result(frame, produced, result),
                    None => self.call_builtin(BuiltinCall { frame, builtin, args, exit }, result),
                }
            }
            &Ins::MakeView { frame, src, shape, exit, .. } => {
                let (builtin, args) = (Builtin::Reshape, [src, shape]);
                let call = BuiltinCall { frame, builtin, args: &args, exit };
                self.call_builtin(call, BuiltinResult::Slot)
            }
            &Ins::Allocate { frame, builtin, ref free_entry, ref args, dst, exit } => {
                self.allocate(BuiltinCall { frame, builtin, args, exit }, free_entry, dst)
            }
            _ => Err(internal("an instruction that is no call")),
        }
    }

    /// Leaves unless a view of dimensions `want`, none of which may be negative, fits in a tensor of
    /// dimensions `have`.
    fn guard_view_fits(
        &mut self,
        have: &[Scalar],
        want: &[Scalar],
        exit: ExitId,
    ) -> Result<(), Bailout> {
        let block = self.exit(exit, ExitReason::Guard);
        self.force(block);
        let mut there = self.e.i64(1);
        for &extent in have {
            let extent = self.scalar_value(extent)?.1;
            there = self.e.b.ins().imul(there, extent);
        }
        let mut count = self.e.i64(1);
        for &extent in want {
            let extent = self.scalar_value(extent)?.1;
            let counts = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, extent, 0);
            self.e.require(counts, block);
            let over = self.e.b.ins().umulhi(count, extent);
            let all = self.e.b.ins().icmp_imm_s(IntCC::Equal, over, 0);
            self.e.require(all, block);
            count = self.e.b.ins().imul(count, extent);
        }
        let inside = self.e.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, count, there);
        self.e.require(inside, block);
        Ok(())
    }

    fn check_fuel(&mut self, units: u32, exit: ExitId) {
        let fuel_at = reflex_vm::abi::SESSION_FUEL;
        let units = i64::from(units);
        let fuel = self.e.load(types::I64, self.e.session, fuel_at);
        let some = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, fuel, units);
        self.guard(some, exit);
        let wanted = self.e.interrupted();
        let quiet = self.e.b.ins().icmp_imm_s(IntCC::Equal, wanted, 0);
        let block = self.exit(exit, ExitReason::Guard);
        self.e.require(quiet, block);
        let fuel = self.e.b.ins().iadd_imm_s(fuel, -units);
        self.e.b.ins().store(trusted(), fuel, self.e.session, fuel_at as i32);
    }

    /// The slot that a move writes, and the value.
    pub(super) fn moved(&mut self, dst: VReg, src: VReg) -> (Slot, Bits) {
        let (dst, src) = (self.slot(dst), self.slot(src));
        (dst, self.e.load_any(src))
    }
}
