//! Side exits: restoring snapshots, and pushing the frames of inlined calls.

use std::mem::offset_of;
use std::sync::Arc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::ANY_SIZE;
use reflex_vm::abi::{
    ERROR, FRAME_CALLER, FRAME_DST, FRAME_FUNC, FRAME_HEADER_SIZE, FRAME_RESUME, FrameHeader,
    RESUME, SESSION_PC, SESSION_REGS, SessionAbi, libcall,
};
use reflex_vm::tier::Bailout;

use super::{ExitReason, TraceCodegen, internal};
use crate::emit::{Slot, trusted};
use crate::forced_exits::ForcedExits;
use crate::side_exits::SideExits;
use crate::trace::ir::{Caller, ExitId, FrameId};
use crate::trace::materialise::VirtualObjects;

impl TraceCodegen<'_, '_> {
    pub(super) fn exit(&mut self, exit: ExitId, leave: ExitReason) -> Block {
        let key = (exit, leave, self.e.regs);
        if let Some(&block) = self.exit_blocks.get(&key) {
            return block;
        }
        let block = self.e.cold_block();
        self.exit_blocks.insert(key, block);
        block
    }

    /// A guard: leaves unless `condition` holds, or if a test forces the exit.
    pub(super) fn guard(&mut self, condition: Value, exit: ExitId) {
        let block = self.exit(exit, ExitReason::Guard);
        self.force(block);
        self.e.require(condition, block);
    }

    /// Jumps to `block` at random, if a test forces exits.
    pub(super) fn force(&mut self, block: Block) {
        let Some(force) = self.hooks.forced_exits.clone() else { return };
        let hook = self.e.i64(force.state_address() as i64);
        let state = self.e.load(types::I64, hook, 0);
        let state = self.e.b.ins().imul_imm_s(state, ForcedExits::MULTIPLIER);
        let state = self.e.b.ins().iadd_imm_s(state, ForcedExits::INCREMENT);
        self.e.b.ins().store(trusted(), state, hook, 0);
        let draw = self.e.b.ins().ushr_imm_u(state, 32);
        let odds = self.e.load(types::I64, hook, ForcedExits::ODDS_OFFSET);
        let spared = self.e.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, draw, odds);
        self.e.require(spared, block);
    }

    pub(super) fn write_exits(&mut self) -> Result<(), Bailout> {
        let mut exits: Vec<_> =
            self.exit_blocks.iter().map(|(&key, &block)| (key, block)).collect();
        exits.sort_by_key(|&((exit, leave, regs), _)| (exit.0, leave as u8, regs));
        for ((exit, leave, regs), block) in exits {
            self.e.b.switch_to_block(block);
            self.e.regs = regs;
            let at = &self.trace.snapshots[exit.0 as usize];
            if leave == ExitReason::Failed
                && let Some(dst) = self.results.get(&exit).copied()
            {
                // A callee may store a result even if it fails; the register must stay empty.
                let (from, to) = (self.slot(dst), self.result_slot(at.frame)?);
                let value = self.e.load_any(from);
                self.e.store_any(to, value);
                self.e.store_none_wide(from);
            }
            let taken = self.restore(exit)?;
            match leave {
                ExitReason::Guard => self.take_exit(exit, taken),
                ExitReason::End => self.e.return_status(RESUME),
                ExitReason::Raised | ExitReason::Failed | ExitReason::FailedRaw => {
                    let pc = self.e.i32(i64::from(at.pc));
                    self.fail(at.frame, leave, pc)?;
                }
            }
        }
        let mut exits: Vec<_> =
            self.failure_exits.iter().map(|(&key, &block)| (key, block)).collect();
        exits.sort_by_key(|&((frame, leave, regs), _)| (frame, leave as u8, regs));
        for ((frame, leave, regs), block) in exits {
            self.e.b.switch_to_block(block);
            self.e.regs = regs;
            let pc = self.e.b.block_params(block)[0];
            self.e.b.ins().store(trusted(), pc, self.e.session, SESSION_PC as i32);
            self.fail(frame, leave, pc)?;
        }
        Ok(())
    }

    /// Returns the error of the operation at `pc`.
    fn fail(&mut self, frame: FrameId, leave: ExitReason, pc: Value) -> Result<(), Bailout> {
        if leave == ExitReason::Raised {
            self.e.return_status(ERROR);
            return Ok(());
        }
        let result = self.result_slot(frame)?;
        if leave == ExitReason::FailedRaw {
            self.e.store_none_wide(result);
        }
        let result = self.e.slot_address(result);
        let params = [types::I64, types::I32, types::I64];
        let args = [self.e.session, pc, result];
        let ret = Some(types::I32);
        let call = self.e.call_libcall(libcall::PACKED_FAILED, &params, ret, &args);
        let status = self.e.b.inst_results(call)[0];
        self.e.b.ins().return_(&[status]);
        Ok(())
    }

    /// Restores a snapshot: registers, frames, fuel and the operation. Returns how often the exit was
    /// taken.
    pub(super) fn restore(&mut self, exit: ExitId) -> Result<Value, Bailout> {
        let trace = self.trace;
        let at = &trace.snapshots[exit.0 as usize];
        for &vreg in &at.borrowed {
            let slot = self.slot(vreg);
            self.e.retain(slot);
        }
        // Sources of moves and copies may be destinations of others, so load all first.
        let mut values: Vec<_> = at.moves.iter().map(|&(dst, src)| self.moved(dst, src)).collect();
        for &(vreg, of) in &at.copies {
            let slot = self.slot(of);
            self.e.retain(slot);
            values.push(self.moved(vreg, of));
        }
        for &(vreg, scalar) in &at.scalars {
            self.store(vreg, scalar)?;
        }
        for (slot, value) in values {
            self.e.store_any(slot, value);
        }
        let made = self.materialise_objects(exit)?;
        self.make_current(at.frame, at.entered)?;
        self.put_arena();
        if at.refund > 0 {
            let fuel_at = reflex_vm::abi::SESSION_FUEL;
            let fuel = self.e.load(types::I64, self.e.session, fuel_at);
            let fuel = self.e.b.ins().iadd_imm_s(fuel, i64::from(at.refund));
            self.e.b.ins().store(trusted(), fuel, self.e.session, fuel_at as i32);
        }
        let taken = self.count(&raw const self.hooks.exits.taken[exit.0 as usize] as usize);
        self.e.set_pc(at.pc);
        for &value in &at.held {
            self.release_owned(value)?;
        }
        if let Some(status) = made {
            let failed = self.failed_exit(at.frame, ExitReason::FailedRaw);
            let pc = self.e.i32(i64::from(at.pc));
            let next = self.e.b.create_block();
            self.e.b.ins().brif(status, failed, &[pc.into()], next, &[]);
            self.e.b.switch_to_block(next);
        }
        Ok(taken)
    }

    /// Materialises the virtual objects of a snapshot; the result is a status.
    fn materialise_objects(&mut self, exit: ExitId) -> Result<Option<Value>, Bailout> {
        let trace = self.trace;
        let at = &trace.snapshots[exit.0 as usize];
        if at.objects.is_empty() {
            return Ok(None);
        }
        let sources = self.store_sources(&trace.sources(at))?;
        let virtual_objects = self.e.i64(Arc::as_ptr(&self.hooks.virtual_objects) as i64);
        let number = self.e.i32(i64::from(exit.0));
        let arena = self.arena.unwrap_or_else(|| self.e.i64(0));
        let mut params = [types::I64; 6];
        params[1] = types::I32;
        let args = [virtual_objects, number, self.e.session, self.e.regs, arena, sources];
        let make = VirtualObjects::make as *const () as usize;
        let call = self.e.call_c(make, &params, Some(types::I32), &args);
        Ok(Some(self.e.b.inst_results(call)[0]))
    }

    /// The block of a failure that restores nothing; the operation that failed is its parameter.
    pub(super) fn failed_exit(&mut self, frame: FrameId, leave: ExitReason) -> Block {
        let key = (frame, leave, self.e.regs);
        if let Some(&block) = self.failure_exits.get(&key) {
            return block;
        }
        let block = self.e.cold_block();
        self.e.b.append_block_param(block, types::I32);
        self.failure_exits.insert(key, block);
        block
    }

    /// Adds one to a counter; the result is the new count.
    pub(super) fn count(&mut self, counter: usize) -> Value {
        let counter = self.e.i64(counter as i64);
        let count = self.e.load(types::I64, counter, 0);
        let count = self.e.b.ins().iadd_imm_s(count, 1);
        self.e.b.ins().store(trusted(), count, counter, 0);
        count
    }

    /// Continues at the address in the cell of an exit, which was taken `taken` times.
    pub(super) fn take_exit(&mut self, exit: ExitId, taken: Value) {
        let rest = self.e.b.ins().band_imm_s(taken, self.hooks.exit_threshold as i64 - 1);
        let (tell, cool) = (self.e.cold_block(), self.e.cold_block());
        self.e.b.ins().brif(rest, cool, &[], tell, &[]);
        self.e.b.switch_to_block(tell);
        let hook = self.e.i64(Arc::as_ptr(&self.hooks.exits) as i64);
        let number = self.e.i32(i64::from(exit.0));
        let params = [types::I64, types::I64, types::I32, types::I64];
        let report = SideExits::report as *const () as usize;
        self.e.call_c(report, &params, None, &[hook, self.e.session, number, taken]);
        self.e.b.ins().jump(cool, &[]);
        self.e.b.switch_to_block(cool);
        let cell = &raw const self.hooks.exits.cells[exit.0 as usize];
        let cell = self.e.i64(cell as i64);
        let code = self.e.b.ins().atomic_load(types::I64, trusted(), cell);
        self.e.tail_call(code);
    }

    /// Makes `frame` the session's current one, `by` levels deeper.
    pub(super) fn set_frame(&mut self, frame: FrameId, by: i64) {
        let regs = self.e.slot_address(Slot::offset(self.trace.frame(frame).base));
        self.e.b.ins().store(trusted(), regs, self.e.session, SESSION_REGS as i32);
        let at = offset_of!(SessionAbi, depth);
        let depth = self.e.load(types::I32, self.e.session, at);
        let depth = self.e.b.ins().iadd_imm_s(depth, by);
        self.e.b.ins().store(trusted(), depth, self.e.session, at as i32);
    }

    /// Makes `frame` the current one and writes the headers of frames that were not pushed yet. `was`
    /// is the session's current frame.
    pub(super) fn make_current(&mut self, frame: FrameId, was: FrameId) -> Result<(), Bailout> {
        let (chain, old) = (self.trace.callers(frame), self.trace.callers(was));
        let common = chain.iter().zip(&old).take_while(|(left, right)| left == right).count();
        for &frame in &chain[common..] {
            self.write_header(frame)?;
        }
        if frame != was {
            self.set_frame(frame, chain.len() as i64 - old.len() as i64);
        }
        Ok(())
    }

    /// Leaves unless the caller of a frame is the one that the trace recorded.
    pub(super) fn guard_caller(&mut self, frame: FrameId, exit: ExitId) -> Result<(), Bailout> {
        let data = self.trace.frame(frame);
        let caller = data.caller.ok_or_else(|| internal("a guard of an unknown caller"))?;
        let Caller { frame: caller, return_pc, dst } = caller;
        let block = self.exit(exit, ExitReason::Guard);
        self.force(block);
        let caller = self.trace.frame(caller);
        let below = self.e.slot_address(Slot::offset(caller.base));
        let resume = self.e.exit_address();
        let words = [
            (below, FRAME_CALLER),
            (resume, FRAME_RESUME),
            (self.e.i64((u64::from(data.func) | u64::from(return_pc) << 32) as i64), FRAME_FUNC),
            (self.e.i64(i64::from(dst)), FRAME_DST),
        ];
        let header = |base: i32| base * ANY_SIZE as i32 - FRAME_HEADER_SIZE as i32;
        for (word, field) in words {
            let at = header(data.base) + field as i32;
            let have = self.e.b.ins().load(types::I64, trusted(), self.e.regs, at);
            let same = self.e.b.ins().icmp(IntCC::Equal, have, word);
            self.e.require(same, block);
        }
        // The caller lies at the recorded address, so its header can be read.
        let at = header(caller.base) + FRAME_FUNC as i32;
        let have = self.e.b.ins().load(types::I32, trusted(), self.e.regs, at);
        let same = self.e.b.ins().icmp_imm_s(IntCC::Equal, have, i64::from(caller.func));
        self.e.require(same, block);
        Ok(())
    }

    /// Writes the header of the frame of an inlined call.
    pub(super) fn write_header(&mut self, frame: FrameId) -> Result<(), Bailout> {
        let data = self.trace.frame(frame);
        let caller = data.caller.ok_or_else(|| internal("frame 0 is entered"))?;
        let Caller { frame: caller, return_pc, dst } = caller;
        let header = data.base * ANY_SIZE as i32 - FRAME_HEADER_SIZE as i32;
        let caller = Slot::offset(self.trace.frame(caller).base);
        let (caller, resume) = (self.e.slot_address(caller), self.e.exit_address());
        let pointers =
            [(caller, offset_of!(FrameHeader, caller)), (resume, offset_of!(FrameHeader, resume))];
        let words = [
            ((data.func, return_pc), offset_of!(FrameHeader, func)),
            ((dst, 0), offset_of!(FrameHeader, dst)),
        ];
        for (value, field) in pointers {
            self.e.b.ins().store(trusted(), value, self.e.regs, header + field as i32);
        }
        for ((low, high), field) in words {
            let value = self.e.i64((u64::from(low) | u64::from(high) << 32) as i64);
            self.e.b.ins().store(trusted(), value, self.e.regs, header + field as i32);
        }
        Ok(())
    }
}
