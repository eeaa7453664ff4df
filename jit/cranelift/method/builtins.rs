//! Builtins: inline, with recycled objects, or called.
//!
//! Decision: docs/decisions/0009-inlined-builtins.md

use cranelift_codegen::ir::{Block, InstBuilder};
use reflex_vm::abi::{DISCARD, libcall};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgRange, ArgSource, Op};

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
        let (slow, next) = (self.e.cold_block(), self.e.b.create_block());
        let free_entry = self.plans.get(pc).filter(|_| dst != DISCARD);
        let result_value = match free_entry {
            Some(entry) => self.reuse(entry, &operands, slow),
            None => FastPath { e: &mut self.e, slow }.builtin(builtin, &operands),
        };
        let how = match (&result_value, free_entry) {
            (None, _) => InlineDecision::Called,
            (Some(_), Some(_)) => InlineDecision::Recycled,
            (Some(_), None) => InlineDecision::Inline,
        };
        self.note(pc, builtin, how);
        match result_value {
            Some(result_value) => {
                self.store(result_value, dst);
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

    /// Pops the object of an allocation, or jumps to `miss`.
    fn reuse(
        &mut self,
        entry: &FreeListEntry,
        operands: &[Operand],
        miss: Block,
    ) -> Option<FastResult> {
        // The result slot is free between calls.
        let scratch = Slot::index(self.func.result_slot());
        self.e.reuse(entry, operands, |reg| Slot::index(reg as usize), scratch, miss)
    }

    fn store(&mut self, result_value: FastResult, dst: u32) {
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
        self.release(dst);
        match result_value {
            FastResult::None => self.e.store_none(slot),
            FastResult::Scalar { tag, payload } | FastResult::Object { tag, payload } => {
                self.e.store_scalar(slot, tag, payload);
            }
            FastResult::Owned(value) => self.e.store_any(slot, value),
        }
    }
}
