//! The arena of a trace: memory for the storages of virtual objects. The trace takes it from the
//! session when it is entered, and puts it back when it leaves. Nested runs of the session, in host
//! code that the trace calls, use another arena.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_runtime::abi::{ANY_PAYLOAD, BOTH_ONE, STORAGE_BYTES, STORAGE_DATA};
use reflex_vm::abi::{RESUME, SESSION_VM_VALUE};
use reflex_vm::tier::Bailout;

use super::{TraceCodegen, internal};
use crate::emit::kernel_call::RawTensor;
use crate::emit::trusted;
use crate::recycle::reuse::offset;
use crate::trace::ir::{Item, Object, ObjectId};
use crate::trace::libcalls;

impl TraceCodegen<'_, '_> {
    /// Takes the session's arena. Allocates a new one if the arena is too small, or if a materialised
    /// object refers to it. Leaves before anything has run if there is no memory.
    pub(super) fn take_arena(&mut self) {
        if self.trace.arena == 0 {
            return;
        }
        let entry = offset(self.program.code().arena_slot());
        let (look, fits) = (self.e.b.create_block(), self.e.b.create_block());
        let (make, full) = (self.e.cold_block(), self.e.cold_block());
        let ready = self.e.b.create_block();
        let arena = self.e.b.append_block_param(ready, types::I64);
        let table = self.e.free_list();
        let there = self.e.load(types::I64, table, entry);
        self.e.b.ins().brif(there, look, &[], make, &[]);
        self.e.b.switch_to_block(look);
        let bytes = self.e.load(types::I64, there, STORAGE_BYTES);
        let needed = self.trace.arena as i64;
        let large = self.e.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, bytes, needed);
        self.e.b.ins().brif(large, fits, &[], make, &[]);
        self.e.b.switch_to_block(fits);
        let count = self.e.load(types::I64, there, 0);
        let unique = self.e.i64(BOTH_ONE as i64);
        let unique = self.e.b.ins().icmp(IntCC::Equal, count, unique);
        self.e.b.ins().brif(unique, ready, &[there.into()], make, &[]);
        self.e.b.switch_to_block(make);
        let at = self.e.b.ins().iadd_imm_s(table, entry as i64);
        let vm = self.e.load(types::I64, self.e.session, SESSION_VM_VALUE + ANY_PAYLOAD);
        let bytes = self.e.i64(needed);
        let helper = libcalls::new_arena as *const () as usize;
        let params = [types::I64; 3];
        let call = self.e.call_c(helper, &params, Some(types::I64), &[at, vm, bytes]);
        let made = self.e.b.inst_results(call)[0];
        self.e.b.ins().brif(made, ready, &[made.into()], full, &[]);
        self.e.b.switch_to_block(full);
        self.e.set_pc(self.trace.start_pc);
        self.e.return_status(RESUME);
        self.e.b.switch_to_block(ready);
        let none = self.e.i64(0);
        self.e.b.ins().store(trusted(), none, table, entry as i32);
        self.arena = Some(arena);
    }

    /// Puts the arena that `take_arena` took back into the session.
    pub(super) fn put_arena(&mut self) {
        let Some(arena) = self.arena else { return };
        let table = self.e.free_list();
        let at = self.e.b.ins().iadd_imm_s(table, offset(self.program.code().arena_slot()) as i64);
        let helper = libcalls::put_arena as *const () as usize;
        self.e.call_c(helper, &[types::I64; 2], None, &[at, arena]);
    }

    /// The data of a virtual tensor.
    pub(super) fn data(&mut self, id: ObjectId) -> Result<RawTensor, Bailout> {
        let trace = self.trace;
        match trace.object(id) {
            Object::Tensor { on, offset, .. } => {
                let Object::Storage { at, .. } = trace.object(*on) else {
                    return Err(internal("a tensor on no storage"));
                };
                let arena = self.arena.ok_or_else(|| internal("a storage without an arena"))?;
                let data = self.e.load(types::I64, arena, STORAGE_DATA);
                let data = self.e.b.ins().iadd_imm_s(data, (at + offset) as i64);
                Ok(RawTensor::Data { data, dims: self.dims(id)? })
            }
            Object::View { items, .. } => {
                let tensor = match items[0] {
                    Item::Object(object) => self.data(object)?,
                    Item::Owned(value) => RawTensor::Object(self.owned(value)?.value.payload),
                    Item::Const(index) => RawTensor::Object(self.e.constant_object(index)),
                    Item::Scalar(_) => return Err(internal("a view of no object")),
                };
                let data = self.e.raw_data(&tensor);
                Ok(RawTensor::Data { data, dims: self.dims(id)? })
            }
            Object::Storage { .. }
            | Object::Tuple { .. }
            | Object::Closure { .. }
            | Object::Shape { .. }
            | Object::Heap { .. } => Err(internal("an argument that is no tensor")),
        }
    }

    fn dims(&mut self, id: ObjectId) -> Result<Vec<Value>, Bailout> {
        let dims = self.trace.object(id).dims();
        let dims = dims.ok_or_else(|| internal("a tensor without dims"))?;
        dims.into_iter().map(|extent| Ok(self.scalar_value(extent)?.1)).collect()
    }
}
