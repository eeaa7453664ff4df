//! Builtins: written out, taking objects back, or called.

use cranelift_codegen::ir::{Block, InstBuilder};
use reflex_vm::abi::{DISCARD, libcall};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgRange, ArgSource, Op};

use super::Body;
use crate::constants::Constants;
use crate::emit::{Slot, plain_bits};
use crate::facts::{self, Holds};
use crate::fast::{Fast, Operand, Produced};
use crate::lowering::Lowering;
use crate::recycle::Kept;

impl Body<'_, '_> {
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
                    plain_bits(constant)
                        .map_or(Operand::Const(index), |(tag, bits)| Operand::Imm { tag, bits })
                }
                ArgSource::Vm => Operand::Vm,
            })
            .collect()
    }

    /// The type of what a register holds, when the code tells.
    fn tag(&self, reg: u32) -> Option<i32> {
        match self.holds(reg) {
            Holds::Tag(tag) => Some(tag),
            Holds::Made(pc) => match self.func.ops[pc as usize] {
                Op::Builtin { builtin, .. } => facts::result_tag(builtin),
                _ => None,
            },
            Holds::Any | Holds::Plain => None,
        }
    }

    /// How many entries the shape heap in a register has, when the code tells.
    fn heap_entries(&self, reg: u32) -> Option<i64> {
        let Holds::Made(pc) = self.holds(reg) else { return None };
        let Op::Builtin { builtin: Builtin::AllocShapeHeap, args, .. } = self.func.ops[pc as usize]
        else {
            return None;
        };
        Constants { program: self.program, func: self.func, args }.int(1)
    }

    pub(super) fn builtin(&mut self, pc: u32, builtin: Builtin, args: ArgRange, dst: u32) {
        if builtin == Builtin::CallTirDyn && self.call_with_extents(pc, args, dst) {
            return;
        }
        let operands = self.operands(args);
        let (slow, next) = (self.e.cold_block(), self.e.b.create_block());
        let kept = self.plans.get(pc).filter(|_| dst != DISCARD);
        let produced = match kept {
            Some(kept) => self.take(kept, &operands, slow),
            None => Fast { e: &mut self.e, slow }.builtin(builtin, &operands),
        };
        let how = match (&produced, kept) {
            (None, _) => Lowering::Called,
            (Some(_), Some(_)) => Lowering::Recycled,
            (Some(_), None) => Lowering::Inline,
        };
        self.note(pc, builtin, how);
        match produced {
            Some(produced) => {
                self.store(produced, dst);
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

    /// The object that an allocation left behind, or to `miss`.
    fn take(&mut self, kept: &Kept, operands: &[Operand], miss: Block) -> Option<Produced> {
        // The result slot is free between calls.
        let scratch = Slot::index(self.func.result_slot());
        kept.take(&mut self.e, operands, |reg| Slot::index(reg as usize), scratch, miss)
    }

    fn store(&mut self, produced: Produced, dst: u32) {
        if dst == DISCARD {
            // The result slot is free between calls.
            let slot = Slot::index(self.func.result_slot());
            match produced {
                Produced::None | Produced::Plain { .. } => {}
                Produced::Object { tag, payload } => {
                    self.e.store_plain(slot, tag, payload);
                    self.e.release_object(slot);
                }
                Produced::Owned(value) => {
                    self.e.store_any(slot, value);
                    self.e.release(slot);
                }
            }
            return;
        }
        let slot = Slot::index(dst as usize);
        self.release(dst);
        match produced {
            Produced::None => self.e.store_none(slot),
            Produced::Plain { tag, payload } | Produced::Object { tag, payload } => {
                self.e.store_plain(slot, tag, payload);
            }
            Produced::Owned(value) => self.e.store_any(slot, value),
        }
    }
}
