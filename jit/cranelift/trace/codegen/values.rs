//! Values that are copied, and closures.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, type_index};
use reflex_vm::abi::SESSION_CONSTS;
use reflex_vm::decode::ArgSource;
use reflex_vm::tier::Bailout;

use super::{Writer, internal};
use crate::trace::helpers;
use crate::trace::ir::{Arg, ExitId, Place};

impl Writer<'_, '_> {
    pub(super) fn closure(&mut self, place: Place, func: u32, captured: u32, exit: ExitId) {
        let slot = self.slot(place);
        let value = self.e.slot_address(slot);
        let program = self.e.i64(self.program.id() as i64);
        let func = self.e.i32(i64::from(func));
        let captured = self.e.i32(i64::from(captured));
        let call = self.e.call_helper(
            helpers::closure_matches as *const () as usize,
            &[types::I64, types::I64, types::I32, types::I32],
            Some(types::I32),
            &[value, program, func, captured],
        );
        let matches = self.e.b.inst_results(call)[0];
        self.guard(matches, exit);
    }

    pub(super) fn captured(&mut self, dst: Place, closure: Arg, index: u32) -> Result<(), Bailout> {
        let value = match closure {
            Arg::Place(place, _) => {
                let slot = self.slot(place);
                self.e.slot_address(slot)
            }
            Arg::Const(constant) => self.constant_address(constant),
            Arg::Plain(_) | Arg::Vm | Arg::Object(_) => {
                return Err(internal("a closure that is no object"));
            }
        };
        let out = self.slot(dst);
        let out = self.e.slot_address(out);
        let index = self.e.i32(i64::from(index));
        self.e.call_helper(
            helpers::captured_value as *const () as usize,
            &[types::I64, types::I32, types::I64],
            None,
            &[value, index, out],
        );
        Ok(())
    }

    pub(super) fn constant_address(&mut self, index: u32) -> Value {
        let consts = self.e.load(types::I64, self.e.session, SESSION_CONSTS);
        self.e.b.ins().iadd_imm_s(consts, index as i64 * ANY_SIZE as i64)
    }

    pub(super) fn copy(&mut self, dst: Place, src: Arg) -> Result<(), Bailout> {
        let to = self.slot(dst);
        match src {
            Arg::Place(place, tag) => {
                let from = self.slot(place);
                match tag {
                    Some(tag) if tag >= type_index::STATIC_OBJECT_BEGIN => {
                        let object = self.e.payload(from);
                        self.e.retain_object(object);
                    }
                    Some(_) => {}
                    None => self.e.retain(from),
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
            Arg::Plain(plain) => self.store(dst, plain)?,
            Arg::Object(_) => return Err(internal("a copy of an object that is not made")),
        }
        Ok(())
    }
}
