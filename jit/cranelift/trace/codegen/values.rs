//! Values that are copied, and closures.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, ARRAY_DATA, ARRAY_SIZE, type_index};
use reflex_vm::abi::{CLOSURE_CAPTURED, CLOSURE_FUNC, CLOSURE_PROGRAM, SESSION_CONSTS};
use reflex_vm::decode::ArgSource;
use reflex_vm::tier::Bailout;

use super::{ExitReason, TraceCodegen, internal};
use crate::assemble::relocation::Symbol;
use crate::trace::ir::{Arg, ExitId, VReg};

impl TraceCodegen<'_, '_> {
    /// Leaves unless a register holds a closure of this function of the program with this many
    /// captured values.
    pub(super) fn guard_closure(&mut self, vreg: VReg, func: u32, captured: u32, exit: ExitId) {
        let slot = self.slot(vreg);
        let block = self.exit(exit, ExitReason::Guard);
        self.force(block);
        let tag = self.e.tag(slot);
        let wanted = self.e.symbol(Symbol::ClosureType);
        let wanted = self.e.b.ins().ireduce(types::I32, wanted);
        let is = self.e.b.ins().icmp(IntCC::Equal, tag, wanted);
        self.e.require(is, block);
        let closure = self.e.payload(slot);
        let program = self.e.load(types::I64, closure, CLOSURE_PROGRAM);
        let own = self.e.i64(self.program.id() as i64);
        let own = self.e.b.ins().icmp(IntCC::Equal, program, own);
        self.e.require(own, block);
        let have = self.e.load(types::I32, closure, CLOSURE_FUNC);
        let same = self.e.b.ins().icmp_imm_s(IntCC::Equal, have, i64::from(func));
        self.e.require(same, block);
        let array = self.e.load(types::I64, closure, CLOSURE_CAPTURED);
        let count = self.e.load(types::I64, array, ARRAY_SIZE);
        let all = self.e.b.ins().icmp_imm_s(IntCC::Equal, count, i64::from(captured));
        self.e.require(all, block);
    }

    /// A second reference to a captured value of a closure.
    pub(super) fn load_captured(
        &mut self,
        dst: VReg,
        closure: Arg,
        index: u32,
    ) -> Result<(), Bailout> {
        let closure = match closure {
            Arg::Reg(vreg, _) => {
                let slot = self.slot(vreg);
                self.e.payload(slot)
            }
            Arg::Const(constant) => self.e.constant_object(constant),
            Arg::Scalar(_) | Arg::Vm | Arg::Object(_) => {
                return Err(internal("a closure that is no object"));
            }
        };
        let array = self.e.load(types::I64, closure, CLOSURE_CAPTURED);
        let items = self.e.load(types::I64, array, ARRAY_DATA);
        let at = index as usize * ANY_SIZE;
        self.e.retain_at(items, at);
        let value = self.e.any_at(items, at);
        let to = self.slot(dst);
        self.e.store_any(to, value);
        Ok(())
    }

    pub(super) fn constant_address(&mut self, index: u32) -> Value {
        let consts = self.e.load(types::I64, self.e.session, SESSION_CONSTS);
        self.e.b.ins().iadd_imm_s(consts, index as i64 * ANY_SIZE as i64)
    }

    pub(super) fn copy(&mut self, dst: VReg, src: Arg, refs: u32) -> Result<(), Bailout> {
        let to = self.slot(dst);
        match src {
            Arg::Reg(vreg, tag) => {
                let from = self.slot(vreg);
                match tag {
                    Some(tag) if tag >= type_index::STATIC_OBJECT_BEGIN => {
                        let object = self.e.payload(from);
                        self.e.add_references(object, refs);
                    }
                    Some(_) => {}
                    None => self.e.retain_times(from, refs),
                }
                let value = self.e.load_any(from);
                self.e.store_any(to, value);
            }
            Arg::Const(index) => {
                let constant = &self.program.consts()[index as usize];
                let at = self.constant_address(index);
                if constant.type_index() >= type_index::STATIC_OBJECT_BEGIN {
                    let object = self.e.load(types::I64, at, ANY_PAYLOAD);
                    self.e.retain_object(object);
                }
                let value = self.e.any_at(at, 0);
                self.e.store_any(to, value);
            }
            Arg::Vm => {
                let value = self.e.source(ArgSource::Vm);
                self.e.store_any(to, value);
            }
            Arg::Scalar(scalar) => self.store(dst, scalar)?,
            Arg::Object(_) => return Err(internal("a copy of an object that is not made")),
        }
        Ok(())
    }
}
