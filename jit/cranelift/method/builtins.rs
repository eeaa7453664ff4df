//! Builtins: inline, with recycled objects, or called.
//!
//! Decision: docs/decisions/0009-inlined-builtins.md

use cranelift_codegen::ir::{Block, InstBuilder};
use reflex_vm::abi::{DISCARD, libcall};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgRange, ArgSource, Op, Source};

use super::MethodBody;
use crate::emit::fast_path::{FastPath, FastResult, Operand};
use crate::emit::{Slot, scalar_bits};
use crate::facts::call_args::CallArgs;
use crate::facts::registers::{self, RegFact};
use crate::method::lowering::InlineDecision;
use crate::recycle::FreeListEntry;

impl MethodBody<'_, '_> {
    fn operands(&self, args: ArgRange) -> Vec<Operand> {
        self.func
            .args(args)
            .iter()
            .map(|source| match source.get() {
                ArgSource::Reg(index) | ArgSource::LastUse(index) => {
                    let slot = Slot::index(index as usize);
                    match self.heap_entries(index) {
                        Some(entries) => Operand::Heap(slot, entries),
                        None => Operand::Slot(slot, self.tag(index)),
                    }
                }
                ArgSource::Const(index) => {
                    let constant = self.program.consts()[index as usize].as_raw();
                    scalar_bits(constant)
                        .map_or(Operand::Const(index), |(tag, bits)| Operand::Imm { tag, bits })
                }
                ArgSource::Vm => Operand::Vm,
            })
            .collect()
    }

    /// The type of the value of a register, if it is known.
    fn tag(&self, reg: u32) -> Option<i32> {
        match self.holds(reg) {
            RegFact::Tag(tag) => Some(tag),
            RegFact::Allocated(pc) => match self.func.ops[pc as usize] {
                Op::Builtin { builtin, .. } => registers::result_tag(builtin),
                _ => None,
            },
            RegFact::Unknown | RegFact::Scalar => None,
        }
    }

    /// The number of entries of the shape heap in a register, if it is known.
    fn heap_entries(&self, reg: u32) -> Option<i64> {
        let RegFact::Allocated(pc) = self.holds(reg) else { return None };
        let Op::Builtin { builtin: Builtin::AllocShapeHeap, args, .. } = self.func.ops[pc as usize]
        else {
            return None;
        };
        CallArgs { program: self.program, func: self.func, args }.int(1)
    }

    pub(super) fn builtin(&mut self, pc: u32, builtin: Builtin, args: ArgRange, dst: u32) {
        if builtin == Builtin::CallTirDyn && self.call_with_dims(pc, args, dst) {
            return;
        }
        let operands = self.operands(args);
        // A tensor in the next body would be that body's first operation, which nothing may pass over.
        let fused = self.fused.get(&pc).filter(|_| self.has(pc as usize + 1));
        if let Some(tensor) = fused {
            self.tensor_and_storage(pc, tensor, dst);
        }
        let (slow, next) = (self.e.cold_block(), self.e.b.create_block());
        let free_entry = self.plans.get(pc).filter(|_| dst != DISCARD);
        let result_value = match free_entry {
            Some(entry) => self.reuse(entry, args, &operands, slow),
            None => FastPath { e: &mut self.e, slow }.builtin(builtin, &operands),
        };
        let how = match (&result_value, free_entry) {
            _ if fused.is_some() => InlineDecision::Fused,
            (None, _) => InlineDecision::Called,
            (Some(_), Some(_)) => InlineDecision::Recycled,
            (Some(_), None) => InlineDecision::Inline,
        };
        self.note(pc, builtin, how);
        match result_value {
            Some(result_value) => {
                let is_empty = self.is_taken(builtin, args, dst);
                self.store(result_value, dst, is_empty);
                self.e.b.ins().jump(next, &[]);
                self.e.b.switch_to_block(slow);
            }
            None => {
                self.e.b.ins().jump(slow, &[]);
                self.e.b.switch_to_block(slow);
            }
        }
        self.e.call_or_fail(libcall::EXECUTE, pc);
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Makes a tensor and its storage, of the register `storage`, by one allocation, and continues behind
    /// both. The storage's register is empty then, since nothing reads it. If there is no memory, the two
    /// operations follow.
    fn tensor_and_storage(&mut self, pc: u32, entry: &FreeListEntry, storage: u32) {
        let Op::Builtin { args, dst, .. } = self.func.ops[pc as usize + 1] else { return };
        let operands = self.operands(args);
        let miss = self.e.cold_block();
        let Some(tensor) = self.reuse(entry, args, &operands, miss) else { return };
        self.store(tensor, dst, false);
        self.release(storage);
        self.e.store_none(Slot::index(storage as usize));
        let behind = self.block(pc as usize + 2);
        self.e.b.ins().jump(behind, &[]);
        self.e.b.switch_to_block(miss);
    }

    /// Pops the object of an allocation, or jumps to `miss`. A tuple takes the references of registers that
    /// are read for the last time.
    fn reuse(
        &mut self,
        entry: &FreeListEntry,
        args: ArgRange,
        operands: &[Operand],
        miss: Block,
    ) -> Option<FastResult> {
        // The result slot is free between calls.
        let scratch = Slot::index(self.func.result_slot());
        let sources = self.func.args(args);
        let moves = |source: &Source| matches!(source.get(), ArgSource::LastUse(_));
        let moved: Vec<bool> = sources.iter().map(moves).collect();
        let slot_of = |reg| Slot::index(reg as usize);
        let made = self.e.reuse(entry, operands, &moved, slot_of, scratch, miss)?;
        for reg in registers::moved(self.func, args) {
            self.e.store_none(Slot::index(reg as usize));
        }
        Some(made)
    }

    /// Whether a tuple takes the reference of a register.
    fn is_taken(&self, builtin: Builtin, args: ArgRange, reg: u32) -> bool {
        builtin == Builtin::MakeTuple && registers::moved(self.func, args).any(|taken| taken == reg)
    }

    /// Stores a result in a register, which may be empty whatever the facts about it say.
    fn store(&mut self, result_value: FastResult, dst: u32, is_empty: bool) {
        if dst == DISCARD {
            // The result slot is free between calls.
            let slot = Slot::index(self.func.result_slot());
            match result_value {
                FastResult::None | FastResult::Scalar { .. } => {}
                FastResult::Object { tag, payload } => {
                    self.e.store_scalar(slot, tag, payload);
                    self.e.release_object(slot);
                }
                FastResult::Owned(value) => {
                    self.e.store_any(slot, value);
                    self.e.release(slot);
                }
            }
            return;
        }
        let slot = Slot::index(dst as usize);
        if !is_empty {
            self.release(dst);
        }
        match result_value {
            FastResult::None => self.e.store_none(slot),
            FastResult::Scalar { tag, payload } | FastResult::Object { tag, payload } => {
                self.e.store_scalar(slot, tag, payload);
            }
            FastResult::Owned(value) => self.e.store_any(slot, value),
        }
    }
}
