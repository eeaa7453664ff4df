//! Instructions of a trace, one by one; what takes more than a few lines has a file of its own.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, types};
use reflex_runtime::abi::{SHAPE_DATA, SHAPE_SIZE};
use reflex_vm::builtins::Builtin;
use reflex_vm::tier::Bailout;

use super::{ExitReason, TraceCodegen, internal};
use crate::emit::kernel_call::RawTensor;
use crate::emit::{Bits, Slot, trusted};
use crate::trace::ir::{Arg, BuiltinResult, ExitId, Ins, Scalar, VReg};

impl TraceCodegen<'_, '_> {
    pub(super) fn store(&mut self, vreg: VReg, scalar: Scalar) -> Result<(), Bailout> {
        let slot = self.slot(vreg);
        if scalar == Scalar::NONE {
            self.e.store_none_whole(slot);
            return Ok(());
        }
        let (tag, payload) = self.scalar_value(scalar)?;
        self.e.store_scalar(slot, tag, payload);
        Ok(())
    }

    pub(super) fn ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
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
            Ins::LoadPayload { var, vreg } => {
                let slot = self.slot(*vreg);
                self.vars[var.0 as usize] = Some(self.e.payload(slot));
            }
            Ins::Let { var, value } => {
                self.vars[var.0 as usize] = Some(self.scalar_value(*value)?.1);
            }
            Ins::LoadDim { var, vreg, dim } => {
                let slot = self.slot(*vreg);
                let tensor = self.e.payload(slot);
                self.vars[var.0 as usize] = Some(self.e.tensor_dim(tensor, *dim));
            }
            Ins::GuardShapeRank { vreg, rank, exit } => {
                let slot = self.slot(*vreg);
                let shape = self.e.payload(slot);
                let count = self.e.load(types::I64, shape, SHAPE_SIZE);
                let has = self.e.b.ins().icmp_imm_s(IntCC::Equal, count, i64::from(*rank));
                self.guard(has, *exit);
            }
            Ins::LoadShapeDim { var, vreg, at } => {
                let slot = self.slot(*vreg);
                let shape = self.e.payload(slot);
                let numbers = self.e.load(types::I64, shape, SHAPE_DATA);
                let number = self.e.load(types::I64, numbers, 8 * *at as usize);
                self.vars[var.0 as usize] = Some(number);
            }
            Ins::GuardViewFits { have, want, exit } => self.fits(have, want, *exit)?,
            Ins::GuardEqual { left, right, exit } => {
                let (left, right) = (self.scalar_value(*left)?.1, self.scalar_value(*right)?.1);
                let equal = self.e.b.ins().icmp(IntCC::Equal, left, right);
                self.guard(equal, *exit);
            }
            Ins::LoadBool { var, vreg } => {
                let slot = self.slot(*vreg);
                let tensor = RawTensor::Object(self.e.payload(slot));
                let data = self.e.raw_data(&tensor);
                let byte = self.e.b.ins().uload8(types::I64, trusted(), data, 0);
                let truth = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, byte, 0);
                self.vars[var.0 as usize] = Some(self.e.b.ins().uextend(types::I64, truth));
            }
            Ins::GuardTruth { var, expected, exit } => {
                let var = self.var(*var)?;
                let how = if *expected { IntCC::NotEqual } else { IntCC::Equal };
                let as_before = self.e.b.ins().icmp_imm_s(how, var, 0);
                self.guard(as_before, *exit);
            }
            Ins::GuardClosure { vreg, func, captured, exit } => {
                self.closure(*vreg, *func, *captured, *exit);
            }
            Ins::LoadCaptured { dst, closure, index } => self.captured(*dst, *closure, *index)?,
            Ins::CheckFuel { units, exit } => self.charge(*units, *exit),
            Ins::GuardCaller { frame, exit } => self.below(*frame, *exit)?,
            Ins::GuardCompiled { func, exit } => {
                let (code, nothing) = (self.code_at(*func), self.e.exit_address());
                let there = self.e.b.ins().icmp(IntCC::NotEqual, code, nothing);
                self.guard(there, *exit);
            }
            Ins::Copy { dst, src } => self.copy(*dst, *src)?,
            Ins::Move { dst, src } => {
                let (dst, src) = (self.slot(*dst), self.slot(*src));
                let value = self.e.load_any(src);
                self.e.store_any(dst, value);
            }
            Ins::ParallelMove(moves) => {
                let values: Vec<_> = moves.iter().map(|&move_| self.moved(move_)).collect();
                for (slot, value) in values {
                    self.e.store_any(slot, value);
                }
            }
            Ins::Store { dst, value } => self.store(*dst, *value)?,
            Ins::Release { vreg, tag } => {
                let slot = self.slot(*vreg);
                match tag {
                    Some(_) => self.e.release_object(slot),
                    None => self.e.release(slot),
                }
            }
            Ins::CallPacked { frame, callee, args, dst, exit } => {
                self.packed((*frame, *dst), *callee, args, *exit)?;
            }
            Ins::CallKernel { callee, args, exit, .. } => self.raw(*callee, args, *exit)?,
            Ins::CallFunction { frame, callee, args, dst, exit } => {
                self.invoke((*frame, *dst), *callee, args, *exit)?;
            }
            Ins::CallBuiltin { frame, builtin, inline, args, result, exit } => {
                let result_value = if *inline { self.inline(*builtin, args, *exit)? } else { None };
                match result_value {
                    Some(result_value) => self.keep(*frame, result_value, *result)?,
                    None => self.builtin(*frame, *builtin, args, *result, *exit)?,
                }
            }
            Ins::MakeView { frame, src, shape, exit, .. } => {
                let args = [*src, *shape];
                self.builtin(*frame, Builtin::Reshape, &args, BuiltinResult::Slot, *exit)?;
            }
            Ins::Allocate { frame, builtin, free_entry, args, dst, exit } => {
                self.allocate((*frame, *builtin), free_entry, args, *dst, *exit)?;
            }
            Ins::Recycle { vreg, to } => {
                let slot = self.slot(*vreg);
                self.e.recycle(slot, *to);
            }
            Ins::SetFrame { frame, was } => self.make_current(*frame, *was)?,
            Ins::EnterFrame { .. } | Ins::LeaveFrame { .. } => {
                return Err(internal("frames are entered and left one by one"));
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
                self.load_owned(*value, Arg::Reg(*src, *tag), *mode)?
            }
            Ins::CopyOwned { value, of } => self.copy_owned(*value, *of)?,
            Ins::StoreOwned { dst, value } => {
                let owned = self.owned(*value)?;
                let slot = self.slot(*dst);
                self.e.store_any(slot, owned.value);
            }
            Ins::ReleaseOwned { value } => self.release_owned(*value)?,
        }
        Ok(())
    }

    /// Leaves unless as many elements as extents `want` say, none of which may be negative, are
    /// among those of a tensor of extents `have`.
    fn fits(&mut self, have: &[Scalar], want: &[Scalar], exit: ExitId) -> Result<(), Bailout> {
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

    fn charge(&mut self, units: u32, exit: ExitId) {
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

    /// The value of a move, and where it goes.
    pub(super) fn moved(&mut self, (dst, src): (VReg, VReg)) -> (Slot, Bits) {
        let (dst, src) = (self.slot(dst), self.slot(src));
        (dst, self.e.load_any(src))
    }
}
