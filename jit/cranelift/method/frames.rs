//! Calls of VM functions and returns: methods push and pop frames inline.
//!
//! The inline path applies if the callee is known, its frame fits, there is fuel, and no interrupt is
//! requested. Otherwise a libcall of the VM does the call, before anything has happened, and raises
//! the error if there is one.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, type_index};
use reflex_vm::abi::{
    DISCARD, ERROR, FRAME_BASE, FRAME_CALLER, FRAME_DST, FRAME_FLAGS, FRAME_FUNC,
    FRAME_HEADER_SIZE, FRAME_NATIVE, FRAME_RESUME, FRAME_RETURN_PC, RETURNED, SESSION_CELLS,
    SESSION_CONSTS, SESSION_DEPTH, SESSION_DEPTH_LIMIT, SESSION_FUEL, SESSION_NATIVE_CALLS,
    SESSION_PC, SESSION_REGS, SESSION_STACK_LIMIT, SESSION_UNCOMPILED_CALL, libcall,
};
use reflex_vm::decode::{ArgRange, ArgSource, FuncCode, Source};

use super::MethodBody;
use crate::assemble::abi::native_signature;
use crate::emit::{Slot, scalar_bits, trusted};

/// Most registers of a callee whose frame is pushed inline; more registers need a loop to clear.
pub(crate) const MAX_REGS: u32 = 32;

/// Captured values in memory.
#[derive(Clone, Copy)]
pub(crate) struct CapturedValues {
    pub(crate) items: Value,
    pub(crate) count: usize,
}

/// Offset of a header field from register 0 of its frame.
fn header(field: usize) -> i32 {
    field as i32 - FRAME_HEADER_SIZE as i32
}

impl<'p> MethodBody<'_, 'p> {
    /// Calls VM function `callee`.
    pub(crate) fn call_function(&mut self, pc: usize, callee: u32, args: ArgRange, dst: u32) {
        let target = self.program.function(callee);
        let target = target.filter(|to| !to.is_foreign && to.num_regs <= MAX_REGS);
        let Some(target) = target else { return self.call_by_libcall(pc, dst) };
        let rare = self.e.cold_block();
        self.require_frame(target, rare);
        self.fill_frame(target, self.func.args(args), None);
        self.enter_callee(pc, callee, dst);
        self.e.b.switch_to_block(rare);
        self.call_by_libcall(pc, dst);
    }

    /// Makes the frame of `callee`, whose registers are written, the current one and enters it.
    pub(crate) fn enter_callee(&mut self, pc: usize, callee: u32, dst: u32) {
        let resume = self.continuation();
        let new = self.e.slot_address(self.callee_slot(0));
        let words = [
            (self.e.regs, FRAME_CALLER),
            (resume, FRAME_RESUME),
            (self.e.i64(i64::from(callee) | (pc as i64 + 1) << 32), FRAME_FUNC),
        ];
        for (word, field) in words {
            self.e.b.ins().store(trusted(), word, new, header(field));
        }
        self.e.b.ins().store(trusted(), new, self.e.session, SESSION_REGS as i32);
        let cells = self.e.load(types::I64, self.e.session, SESSION_CELLS);
        let cell = self.e.b.ins().iadd_imm_s(cells, i64::from(callee) * size_of::<usize>() as i64);
        let code = self.e.b.ins().atomic_load(types::I64, trusted(), cell);
        self.enter(pc, code, dst, new);
    }

    /// Jumps to `rare` unless a frame of `target` fits, there is fuel, and no interrupt is requested.
    /// Takes the fuel and counts the frame.
    pub(crate) fn require_frame(&mut self, target: &FuncCode, rare: Block) {
        let session = self.e.session;
        let end = self.e.slot_address(self.callee_slot(target.frame_slots as usize));
        let limit = self.e.load(types::I64, session, SESSION_STACK_LIMIT);
        let fits = self.e.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, limit);
        self.e.require(fits, rare);
        let depth = self.e.load(types::I32, session, SESSION_DEPTH);
        let most = self.e.load(types::I32, session, SESSION_DEPTH_LIMIT);
        let shallow = self.e.b.ins().icmp(IntCC::UnsignedLessThan, depth, most);
        self.e.require(shallow, rare);
        let wanted = self.e.interrupted();
        let quiet = self.e.b.ins().icmp_imm_s(IntCC::Equal, wanted, 0);
        self.e.require(quiet, rare);
        let fuel = self.e.load(types::I64, session, SESSION_FUEL);
        let some = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, fuel, 0);
        self.e.require(some, rare);
        let fuel = self.e.b.ins().iadd_imm_s(fuel, -1);
        self.e.b.ins().store(trusted(), fuel, session, SESSION_FUEL as i32);
        let depth = self.e.b.ins().iadd_imm_s(depth, 1);
        self.e.b.ins().store(trusted(), depth, session, SESSION_DEPTH as i32);
    }

    /// Slot number `at` of a frame above the current one.
    fn callee_slot(&self, at: usize) -> Slot {
        Slot::index(self.func.frame_slots as usize + at)
    }

    /// Writes the registers of a frame above the current one: the arguments, then captured values.
    pub(crate) fn fill_frame(
        &mut self,
        target: &FuncCode,
        sources: &[Source],
        captured: Option<CapturedValues>,
    ) {
        for (at, source) in sources.iter().enumerate() {
            let to = self.callee_slot(at);
            self.pass(*source, to);
        }
        let mut given = sources.len();
        if let Some(CapturedValues { items, count }) = captured {
            for at in 0..count {
                self.e.retain_at(items, at * ANY_SIZE);
                let value = self.e.any_at(items, at * ANY_SIZE);
                let to = self.callee_slot(given + at);
                self.e.store_any(to, value);
            }
            given += count;
        }
        for at in given..target.num_regs as usize {
            let to = self.callee_slot(at);
            self.e.store_none_wide(to);
        }
    }

    /// Stores an owned reference to an argument in an empty slot.
    pub(crate) fn pass(&mut self, source: Source, to: Slot) {
        match source.get() {
            ArgSource::Reg(reg) => {
                self.retain(reg);
                let value = self.e.load_any(Slot::index(reg as usize));
                self.e.store_any(to, value);
            }
            ArgSource::LastUse(reg) => {
                let from = Slot::index(reg as usize);
                let value = self.e.load_any(from);
                self.e.store_any(to, value);
                self.e.store_none_wide(from);
            }
            ArgSource::Const(index) => self.pass_constant(index, to),
            ArgSource::Vm => {
                let value = self.e.source(ArgSource::Vm);
                self.e.store_any(to, value);
            }
        }
    }

    fn pass_constant(&mut self, index: u32, to: Slot) {
        let constant = &self.program.consts()[index as usize];
        if let Some((tag, payload)) = scalar_bits(constant.as_raw()) {
            let payload = self.e.i64(payload);
            self.e.store_scalar(to, tag, payload);
            return;
        }
        if constant.type_index() >= type_index::STATIC_OBJECT_BEGIN {
            let consts = self.e.load(types::I64, self.e.session, SESSION_CONSTS);
            let object = self.e.load(types::I64, consts, index as usize * ANY_SIZE + ANY_PAYLOAD);
            self.e.retain_object(object);
        }
        let value = self.e.source(ArgSource::Const(index));
        self.e.store_any(to, value);
    }

    /// Enters `code` in the frame `new`, which is complete except for its flags. The callee returns to
    /// the operation after the call.
    fn enter(&mut self, pc: usize, code: Value, dst: u32, new: Value) {
        let session = self.e.session;
        let exit = self.e.exit_address();
        let (jump, maybe, call) =
            (self.e.cold_block(), self.e.b.create_block(), self.e.b.create_block());
        let compiled = self.e.b.ins().icmp(IntCC::NotEqual, code, exit);
        self.e.b.ins().brif(compiled, maybe, &[], jump, &[]);
        self.e.b.switch_to_block(maybe);
        let left = self.e.load(types::I32, session, SESSION_NATIVE_CALLS);
        self.e.b.ins().brif(left, call, &[], jump, &[]);

        self.e.b.switch_to_block(call);
        self.write_flags(new, dst, FRAME_NATIVE);
        let fewer = self.e.b.ins().iadd_imm_s(left, -1);
        self.e.b.ins().store(trusted(), fewer, session, SESSION_NATIVE_CALLS as i32);
        let signature = self.e.b.import_signature(native_signature());
        let done = self.e.b.ins().call_indirect(signature, code, &[session, new]);
        let status = self.e.b.inst_results(done)[0];
        let fewer = self.e.load(types::I32, session, SESSION_NATIVE_CALLS);
        let left = self.e.b.ins().iadd_imm_s(fewer, 1);
        self.e.b.ins().store(trusted(), left, session, SESSION_NATIVE_CALLS as i32);
        let returned = self.e.b.ins().icmp_imm_s(IntCC::Equal, status, i64::from(RETURNED));
        let stopped = self.e.cold_block();
        let next = self.block(pc + 1);
        self.e.b.ins().brif(returned, next, &[], stopped, &[]);

        self.e.b.switch_to_block(stopped);
        let new = self.e.slot_address(self.callee_slot(0));
        self.write_flags(new, dst, 0);
        self.e.b.ins().return_(&[status]);

        self.e.b.switch_to_block(jump);
        let new = self.e.slot_address(self.callee_slot(0));
        self.write_flags(new, dst, 0);
        let zero = self.e.i32(0);
        self.e.b.ins().store(trusted(), zero, session, SESSION_PC as i32);
        let uncompiled = self.e.b.ins().icmp(IntCC::Equal, code, exit);
        let uncompiled = self.e.b.ins().uextend(types::I64, uncompiled);
        self.e.b.ins().store(trusted(), uncompiled, session, SESSION_UNCOMPILED_CALL as i32);
        self.e.b.ins().return_call_indirect(signature, code, &[session, new]);
    }

    /// Writes the last word of a header.
    fn write_flags(&mut self, frame: Value, dst: u32, flags: u32) {
        let word = self.e.i64((u64::from(dst) | u64::from(flags) << 32) as i64);
        self.e.b.ins().store(trusted(), word, frame, header(FRAME_DST));
    }

    /// The address of the continuation.
    fn continuation(&mut self) -> Value {
        // Every function with calls has one.
        let Some(resume) = self.resume else { return self.e.exit_address() };
        self.e.b.ins().func_addr(types::I64, resume)
    }

    /// Makes the VM do the call at `pc` for register `dst`, and continues at the address it returns.
    pub(crate) fn call_by_libcall(&mut self, pc: usize, dst: u32) {
        let resume = self.continuation();
        let at = self.e.i32(pc as i64);
        let call = self.e.call_libcall(
            libcall::PUSH_CALL,
            &[types::I64, types::I32, types::I64],
            Some(types::I64),
            &[self.e.session, at, resume],
        );
        let code = self.e.b.inst_results(call)[0];
        let failed = self.e.cold_block();
        let fine = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, code, 0);
        self.e.require(fine, failed);
        // A function object has run already.
        let entered = self.e.b.create_block();
        let resume = self.continuation();
        let done = self.e.b.ins().icmp(IntCC::Equal, code, resume);
        let next = self.block(pc + 1);
        self.e.b.ins().brif(done, next, &[], entered, &[]);
        self.e.b.switch_to_block(entered);
        let new = self.e.slot_address(self.callee_slot(0));
        self.enter(pc, code, dst, new);
        self.e.b.switch_to_block(failed);
        self.e.return_status(ERROR);
    }

    /// Returns the value of `result` from the frame.
    pub(crate) fn return_value(&mut self, pc: usize, result: Source) {
        let result_reg = match result.get() {
            ArgSource::LastUse(reg) => Some(reg),
            ArgSource::Const(index)
                if self.program.consts()[index as usize].type_index() == type_index::NONE =>
            {
                None
            }
            ArgSource::Reg(_) | ArgSource::Const(_) | ArgSource::Vm => {
                return self.return_by_libcall(pc);
            }
        };
        let rare = self.e.cold_block();
        let flags = self.e.b.ins().load(types::I32, trusted(), self.e.regs, header(FRAME_FLAGS));
        let base = self.e.b.ins().band_imm_s(flags, i64::from(FRAME_BASE));
        let called = self.e.b.ins().icmp_imm_s(IntCC::Equal, base, 0);
        self.e.require(called, rare);
        for reg in (0..self.func.num_regs).filter(|&reg| Some(reg) != result_reg) {
            self.release(reg);
        }
        let caller = self.e.b.ins().load(types::I64, trusted(), self.e.regs, header(FRAME_CALLER));
        // Destructors may enter the VM: its frames then lie above the frame that returns.
        self.pass_result(result_reg, caller);
        self.e.b.ins().store(trusted(), caller, self.e.session, SESSION_REGS as i32);
        let depth = self.e.load(types::I32, self.e.session, SESSION_DEPTH);
        let depth = self.e.b.ins().iadd_imm_s(depth, -1);
        self.e.b.ins().store(trusted(), depth, self.e.session, SESSION_DEPTH as i32);
        self.resume_caller(caller);
        self.e.b.switch_to_block(rare);
        self.return_by_libcall(pc);
    }

    /// Passes the value of register `result_reg`, or None, to the frame `caller`.
    fn pass_result(&mut self, result_reg: Option<u32>, caller: Value) {
        let dst = self.e.b.ins().load(types::I32, trusted(), self.e.regs, header(FRAME_DST));
        let (wanted, dropped, next) =
            (self.e.b.create_block(), self.e.cold_block(), self.e.b.create_block());
        let discard = self.e.b.ins().icmp_imm_s(IntCC::Equal, dst, i64::from(DISCARD as i32));
        self.e.b.ins().brif(discard, dropped, &[], wanted, &[]);

        self.e.b.switch_to_block(wanted);
        let index = self.e.b.ins().uextend(types::I64, dst);
        let offset = self.e.b.ins().ishl_imm_u(index, i64::from(ANY_SIZE.trailing_zeros()));
        let to = self.e.b.ins().iadd(caller, offset);
        let old = self.e.load(types::I32, to, 0);
        let (free, store) = (self.e.cold_block(), self.e.b.create_block());
        let object = self.e.is_object(old);
        self.e.b.ins().brif(object, free, &[], store, &[]);
        self.e.b.switch_to_block(free);
        self.e.call_libcall(libcall::RELEASE, &[types::I64], None, &[to]);
        self.e.b.ins().jump(store, &[]);
        self.e.b.switch_to_block(store);
        match result_reg {
            Some(reg) => {
                let value = self.e.load_any(Slot::index(reg as usize));
                self.e.b.ins().store(trusted(), value.head, to, 0);
                self.e.b.ins().store(trusted(), value.payload, to, ANY_PAYLOAD as i32);
            }
            None => {
                let zero = self.e.i64(0);
                self.e.b.ins().store(trusted(), zero, to, 0);
                self.e.b.ins().store(trusted(), zero, to, ANY_PAYLOAD as i32);
            }
        }
        self.e.b.ins().jump(next, &[]);

        self.e.b.switch_to_block(dropped);
        if let Some(reg) = result_reg {
            self.release(reg);
        }
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Continues in the caller, whose frame is current again.
    fn resume_caller(&mut self, caller: Value) {
        // The frame that returned is still in memory.
        let flags = self.e.b.ins().load(types::I32, trusted(), self.e.regs, header(FRAME_FLAGS));
        let native = self.e.b.ins().band_imm_s(flags, i64::from(FRAME_NATIVE));
        let (waiting, resumed) = (self.e.b.create_block(), self.e.b.create_block());
        self.e.b.ins().brif(native, waiting, &[], resumed, &[]);
        self.e.b.switch_to_block(waiting);
        self.e.return_status(RETURNED);
        self.e.b.switch_to_block(resumed);
        let pc = self.e.b.ins().load(types::I32, trusted(), self.e.regs, header(FRAME_RETURN_PC));
        self.e.b.ins().store(trusted(), pc, self.e.session, SESSION_PC as i32);
        let code = self.e.b.ins().load(types::I64, trusted(), self.e.regs, header(FRAME_RESUME));
        let signature = self.e.b.import_signature(native_signature());
        self.e.b.ins().return_call_indirect(signature, code, &[self.e.session, caller]);
    }

    fn return_by_libcall(&mut self, pc: usize) {
        let at = self.e.i32(pc as i64);
        let call = self.e.call_libcall(
            libcall::POP_FRAME,
            &[types::I64, types::I32],
            Some(types::I64),
            &[self.e.session, at],
        );
        let code = self.e.b.inst_results(call)[0];
        self.e.tail_call(code);
    }
}

const _: () = assert!(FRAME_RETURN_PC == FRAME_FUNC + 4 && FRAME_FLAGS == FRAME_DST + 4);
