//! Calls: of packed functions, kernels, function objects and builtins.

use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{ANY_PAYLOAD, FUNCTION_SAFE_CALL, type_index};
use reflex_vm::abi::{SESSION_VM_VALUE, libcall};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::ArgSource;
use reflex_vm::tier::Bailout;

use super::{ExitReason, TraceCodegen, internal};
use crate::assemble::relocation::Symbol;
use crate::emit::Slot;
use crate::emit::fast_path::{FastPath, FastResult, Operand};
use crate::emit::kernel_call::RawTensor;
use crate::recycle::{FreeListEntry, ReusePlan};
use crate::trace::ir::{Arg, BuiltinResult, ExitId, FrameId, Scalar, VReg};
use crate::trace::libcalls;

/// Kernels that are called by raw entries per poll of the interrupt word.
const KERNELS_PER_POLL: u32 = 8;

/// The destination of a call's result: a register, or the result slot of the frame.
#[derive(Clone, Copy)]
pub(super) struct CallResult {
    pub(super) frame: FrameId,
    pub(super) dst: Option<VReg>,
}

/// A call of a builtin.
#[derive(Clone, Copy)]
pub(super) struct BuiltinCall<'a> {
    pub(super) frame: FrameId,
    pub(super) builtin: Builtin,
    pub(super) args: &'a [Arg],
    pub(super) exit: ExitId,
}

impl TraceCodegen<'_, '_> {
    /// Copies borrowed arguments into the frame's argument area; returns its address.
    pub(super) fn arguments(&mut self, frame: FrameId, args: &[Arg]) -> Result<Value, Bailout> {
        let area = self.code_of(frame)?.arg_area() as u32;
        let area = self.trace.slot(VReg { frame, reg: area });
        for (at, arg) in args.iter().enumerate() {
            let slot = Slot::offset(area + at as i32);
            match *arg {
                Arg::Reg(vreg, tag) => {
                    let from = self.slot(vreg);
                    let value = match tag {
                        Some(tag) => self.e.load_typed(from, tag),
                        None => self.e.load_any(from),
                    };
                    self.e.store_any(slot, value);
                }
                Arg::Scalar(scalar) => {
                    let (tag, payload) = self.scalar_value(scalar)?;
                    self.e.store_scalar(slot, tag, payload);
                }
                Arg::Const(index) => {
                    let value = self.e.source(ArgSource::Const(index));
                    self.e.store_any(slot, value);
                }
                Arg::Vm => {
                    let value = self.e.source(ArgSource::Vm);
                    self.e.store_any(slot, value);
                }
                Arg::Object(_) => return Err(internal("an argument that is not made")),
            }
        }
        Ok(self.e.slot_address(Slot::offset(area)))
    }

    pub(super) fn check(&mut self, status: Value, exit: ExitId, leave: ExitReason) {
        let next = self.e.b.create_block();
        self.check_then(status, exit, leave, next);
        self.e.b.switch_to_block(next);
    }

    /// Jumps to `next` unless the operation of an exit has failed.
    fn check_then(&mut self, status: Value, exit: ExitId, leave: ExitReason, next: Block) {
        let trace = self.trace;
        let at = &trace.snapshots[exit.0 as usize];
        let made = !at.copies.is_empty() || !at.objects.is_empty() || self.arena.is_some();
        let made = made || self.results.contains_key(&exit);
        let in_place = at.scalars.is_empty() && at.moves.is_empty() && !made;
        if !(in_place && at.entered == at.frame && at.refund == 0) {
            let failed = self.exit(exit, leave);
            self.e.b.ins().brif(status, failed, &[], next, &[]);
            return;
        }
        let failed = self.failed_exit(at.frame, leave);
        let pc = self.e.i32(i64::from(at.pc));
        self.e.b.ins().brif(status, failed, &[pc.into()], next, &[]);
    }

    /// Polls the interrupt word, as every packed call does.
    pub(super) fn poll(&mut self, exit: ExitId) {
        let wanted = self.e.interrupted();
        let (poll, next) = (self.e.cold_block(), self.e.b.create_block());
        self.e.b.ins().brif(wanted, poll, &[], next, &[]);
        self.e.b.switch_to_block(poll);
        let status = self.e.call_at(libcall::POLL, self.trace.snapshots[exit.0 as usize].pc);
        self.check_then(status, exit, ExitReason::Raised, next);
        self.e.b.switch_to_block(next);
    }

    /// The address of the register or result slot for the result of a call, set to None.
    fn fresh_result(
        &mut self,
        CallResult { frame, dst }: CallResult,
        exit: ExitId,
    ) -> Result<Value, Bailout> {
        let slot = match dst {
            Some(dst) => self.slot(dst),
            None => self.result_slot(frame)?,
        };
        if let Some(dst) = dst
            && self.results.insert(exit, dst).is_some_and(|other| other != dst)
        {
            return Err(internal("two calls at an exit"));
        }
        self.e.store_none_wide(slot);
        Ok(self.e.slot_address(slot))
    }

    pub(super) fn call_packed(
        &mut self,
        result: CallResult,
        callee: u32,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<(), Bailout> {
        self.program.packed(callee).ok_or_else(|| internal("no such function"))?;
        self.poll(exit);
        let area = self.arguments(result.frame, args)?;
        let result = self.fresh_result(result, exit)?;
        let code = self.e.symbol(Symbol::Code(callee));
        let this = self.e.symbol(Symbol::This(callee));
        let status = self.e.call_packed(code, this, area, args.len(), result);
        self.check(status, exit, ExitReason::Failed);
        Ok(())
    }

    pub(super) fn call_kernel(
        &mut self,
        callee: u32,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<(), Bailout> {
        let program = self.program;
        let kernel = program.packed(callee).and_then(|packed| packed.raw.as_ref());
        let kernel = kernel.ok_or_else(|| internal("no such kernel"))?;
        self.poll_before_kernel(exit);
        let (mut tensors, mut data) = (Vec::with_capacity(args.len()), Vec::new());
        for (at, arg) in args.iter().enumerate() {
            let tensor = match *arg {
                Arg::Reg(vreg, _) => Arg::Reg(vreg, None),
                other => other,
            };
            let address = self.addresses.get(&tensor).copied();
            let tells = kernel.symbol_sources().iter().any(|from| from.param == at);
            let source = match (address, *arg) {
                (Some(data), _) if !tells => RawTensor::Data { data, dims: Vec::new() },
                (_, Arg::Reg(vreg, _)) => {
                    let slot = self.slot(vreg);
                    RawTensor::Object(self.e.payload(slot))
                }
                (_, Arg::Const(index)) => RawTensor::Object(self.e.constant_object(index)),
                (_, Arg::Object(object)) => self.data(object)?,
                (_, Arg::Scalar(_) | Arg::Vm) => {
                    return Err(internal("a tensor that is no object"));
                }
            };
            let address = address.unwrap_or_else(|| self.e.raw_data(&source));
            self.addresses.insert(tensor, address);
            data.push(address);
            tensors.push(source);
        }
        let status = self.e.call_raw_on(callee, data, &tensors, kernel.symbol_sources());
        self.check(status, exit, ExitReason::FailedRaw);
        Ok(())
    }

    /// Polls the interrupt word before a kernel, unless few kernels have run since the last poll.
    /// Kernels run no code that could request an interrupt.
    fn poll_before_kernel(&mut self, exit: ExitId) {
        self.polled = match self.polled {
            Some(since) if since + 1 < KERNELS_PER_POLL => Some(since + 1),
            Some(_) | None => {
                self.poll(exit);
                Some(0)
            }
        };
    }

    pub(super) fn call_function(
        &mut self,
        result: CallResult,
        callee: Arg,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<(), Bailout> {
        let function = match callee {
            Arg::Reg(vreg, _) => {
                let slot = self.slot(vreg);
                self.e.payload(slot)
            }
            Arg::Const(index) => self.e.constant_object(index),
            Arg::Scalar(_) | Arg::Vm | Arg::Object(_) => {
                return Err(internal("a function that is no object"));
            }
        };
        let area = self.arguments(result.frame, args)?;
        let result = self.fresh_result(result, exit)?;
        let code = self.e.load(types::I64, function, FUNCTION_SAFE_CALL);
        let status = self.e.call_packed(code, function, area, args.len(), result);
        self.check(status, exit, ExitReason::Failed);
        Ok(())
    }

    pub(super) fn call_builtin(
        &mut self,
        BuiltinCall { frame, builtin, args, exit }: BuiltinCall<'_>,
        result: BuiltinResult,
    ) -> Result<(), Bailout> {
        let index = Builtin::ALL.iter().position(|&row| row == builtin);
        let index = index.ok_or_else(|| internal("a builtin that is not in the table"))?;
        let area = self.arguments(frame, args)?;
        let dst = match result {
            BuiltinResult::Reg(dst) => Some(dst),
            BuiltinResult::Nothing | BuiltinResult::Var(..) | BuiltinResult::Slot => None,
        };
        let slot = self.fresh_result(CallResult { frame, dst }, exit)?;
        let vm = self.e.load(types::I64, self.e.session, SESSION_VM_VALUE + ANY_PAYLOAD);
        let (index, count) = (self.e.i64(index as i64), self.e.i32(args.len() as i64));
        let call = self.e.call_c(
            libcalls::run_builtin as *const () as usize,
            &[types::I64, types::I64, types::I64, types::I32, types::I64],
            Some(types::I32),
            &[index, vm, area, count, slot],
        );
        let status = self.e.b.inst_results(call)[0];
        self.check(status, exit, ExitReason::Failed);
        if let BuiltinResult::Var(_, var) = result {
            let slot = self.result_slot(frame)?;
            self.vars[var.0 as usize] = Some(self.e.payload(slot));
        }
        Ok(())
    }

    pub(super) fn operands(&self, args: &[Arg]) -> Result<Vec<Operand>, Bailout> {
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            operands.push(match *arg {
                Arg::Reg(vreg, tag) => Operand::Slot(self.slot(vreg), tag),
                Arg::Scalar(Scalar::Const { tag, bits }) => Operand::Imm { tag, bits },
                Arg::Scalar(Scalar::Var { tag, var }) => {
                    Operand::Scalar { tag, payload: self.var(var)? }
                }
                Arg::Const(index) => Operand::Const(index),
                Arg::Vm => Operand::Vm,
                Arg::Object(_) => return Err(internal("an operand that is not made")),
            });
        }
        Ok(operands)
    }

    /// An allocation that recycles its last object.
    pub(super) fn allocate(
        &mut self,
        call: BuiltinCall<'_>,
        free_entry: &FreeListEntry,
        dst: Option<VReg>,
    ) -> Result<(), Bailout> {
        let next = self.e.b.create_block();
        // Before a storage that is made together with its tensor nothing has happened yet.
        let leaves = matches!(free_entry.plan, ReusePlan::TensorAndStorage { .. });
        let miss = match leaves {
            true => self.exit(call.exit, ExitReason::Guard),
            false => self.e.cold_block(),
        };
        let frame = call.frame;
        let result = self.result_slot(frame)?;
        self.force(miss);
        let operands = self.operands(call.args)?;
        let trace = self.trace;
        let slot_of = |reg| Slot::offset(trace.slot(VReg { frame, reg }));
        match self.e.reuse(free_entry, &operands, &[], slot_of, result, miss) {
            Some(FastResult::Object { tag, payload }) => {
                let to = dst.map_or(result, |dst| self.slot(dst));
                self.e.store_scalar(to, tag, payload);
                self.e.b.ins().jump(next, &[]);
            }
            _ => {
                self.e.b.ins().jump(miss, &[]);
            }
        }
        if leaves {
            self.e.b.switch_to_block(next);
            return Ok(());
        }
        self.e.b.switch_to_block(miss);
        self.call_builtin(call, BuiltinResult::Slot)?;
        if let Some(dst) = dst {
            let to = self.slot(dst);
            let value = self.e.load_any(result);
            self.e.store_any(to, value);
        }
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
        Ok(())
    }

    /// Makes a tuple in place, or by the builtin where no block is free. It takes the references of the
    /// registers `taken`.
    pub(super) fn make_tuple(
        &mut self,
        call: BuiltinCall<'_>,
        taken: &[VReg],
        result: BuiltinResult,
    ) -> Result<(), Bailout> {
        let (miss, next) = (self.e.cold_block(), self.e.b.create_block());
        self.force(miss);
        let operands = self.operands(call.args)?;
        let moves = |arg: &Arg| matches!(arg, Arg::Reg(vreg, _) if taken.contains(vreg));
        let moved: Vec<bool> = call.args.iter().map(moves).collect();
        match self.e.new_tuple(&operands, &moved, miss) {
            Some(payload) => {
                let tag = type_index::ARRAY;
                self.store_result(call.frame, FastResult::Object { tag, payload }, result)?;
                self.e.b.ins().jump(next, &[]);
            }
            None => {
                self.e.b.ins().jump(miss, &[]);
            }
        }
        self.e.b.switch_to_block(miss);
        self.call_builtin(call, result)?;
        // The builtin took second references.
        for &vreg in taken {
            let slot = self.slot(vreg);
            self.e.release_shared(slot);
        }
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
        Ok(())
    }

    /// Emits the inline fast path of a builtin, if it has one.
    pub(super) fn inline(
        &mut self,
        builtin: Builtin,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<Option<FastResult>, Bailout> {
        let operands = self.operands(args)?;
        let slow = self.exit(exit, ExitReason::Guard);
        self.force(slow);
        let result_value = FastPath { e: &mut self.e, slow }.builtin(builtin, &operands);
        Ok(result_value)
    }

    /// An item of a tuple without a reference of its own.
    pub(super) fn borrow_item(
        &mut self,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<FastResult, Bailout> {
        let operands = self.operands(args)?;
        let slow = self.exit(exit, ExitReason::Guard);
        self.force(slow);
        let item = FastPath { e: &mut self.e, slow }.borrowed_item(&operands);
        item.map(FastResult::Owned).ok_or_else(|| internal("an item that cannot be borrowed"))
    }

    fn result_of(&self, frame: FrameId, result: BuiltinResult) -> Result<Slot, Bailout> {
        match result {
            BuiltinResult::Reg(dst) => Ok(self.slot(dst)),
            BuiltinResult::Nothing | BuiltinResult::Var(..) | BuiltinResult::Slot => {
                self.result_slot(frame)
            }
        }
    }

    /// Stores the result of an inline builtin where the trace expects it.
    pub(super) fn store_result(
        &mut self,
        frame: FrameId,
        result_value: FastResult,
        result: BuiltinResult,
    ) -> Result<(), Bailout> {
        match (result_value, result) {
            (FastResult::None, BuiltinResult::Nothing) => Ok(()),
            (FastResult::Scalar { payload, .. }, BuiltinResult::Var(_, var)) => {
                self.vars[var.0 as usize] = Some(payload);
                Ok(())
            }
            (FastResult::Object { tag, payload }, BuiltinResult::Slot | BuiltinResult::Reg(_)) => {
                let slot = self.result_of(frame, result)?;
                self.e.store_scalar(slot, tag, payload);
                Ok(())
            }
            (FastResult::Owned(value), BuiltinResult::Slot | BuiltinResult::Reg(_)) => {
                let slot = self.result_of(frame, result)?;
                self.e.store_any(slot, value);
                Ok(())
            }
            _ => Err(internal("a builtin with another kind of result")),
        }
    }
}
