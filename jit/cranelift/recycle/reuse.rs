//! Code that pops objects from the free list and pushes them to it.
//!
//! Decision: docs/decisions/0008-object-recycling.md

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{
    ANY_PAYLOAD, ANY_SIZE, ARRAY_DATA, BOTH_ONE, DLTENSOR_DATA, DLTENSOR_NDIM, DLTENSOR_SHAPE,
    SHAPE_DATA, SHAPE_SIZE, STORAGE_DATA, TENSOR_DLTENSOR, TENSOR_OWNER, TENSOR_OWNER_BLOCK,
    type_index,
};
use reflex_vm::abi::{CLOSURE_CAPTURED, SESSION_CONSTS, SESSION_RECYCLED, libcall};
use reflex_vm::decode::ArgSource;

use crate::emit::fast_path::{FastPath, FastResult, Operand};
use crate::emit::{Bits, Emit, Slot, trusted};
use crate::recycle::{FreeListEntry, FreeListReturn, OwnedContents, ReusePlan};

/// Offset of an entry in the free list.
pub(crate) fn offset(entry: u32) -> usize {
    entry as usize * size_of::<usize>()
}

impl Emit<'_> {
    /// Pops the object of an allocation, or makes a new one if it is of a kind that often escapes, or
    /// goes to `miss` with nothing changed. `slot_of` maps registers to slots, `scratch` is a free slot.
    /// A tuple takes the references of the operands that are `moved`, all of them slots. `None` if that
    /// cannot be emitted.
    pub(crate) fn reuse(
        &mut self,
        FreeListEntry { entry, plan }: &FreeListEntry,
        operands: &[Operand],
        moved: &[bool],
        slot_of: impl Fn(u32) -> Slot,
        scratch: Slot,
        miss: Block,
    ) -> Option<FastResult> {
        let fresh = self.b.create_block();
        let object = match plan {
            ReusePlan::Storage { tensors, bytes } => {
                let object = self.reuse_storage(*entry, tensors, scratch, fresh);
                self.or_new(object, [fresh, miss], |e| e.new_storage(*bytes, operands, miss))
            }
            ReusePlan::Tensor { storage, .. } => {
                let storage = slot_of(*storage);
                let object = self.reuse_tensor(*entry, storage, scratch, fresh);
                self.or_new(object, [fresh, miss], |e| e.new_tensor(storage, operands, miss))
            }
            ReusePlan::TensorAndStorage { bytes, device, dims } => {
                let object = self.reuse_whole_tensor(*entry, scratch, fresh);
                let make =
                    |e: &mut Self| e.new_whole_tensor((*bytes, *device), dims, operands, miss);
                self.or_new(object, [fresh, miss], make)
            }
            ReusePlan::Heap { entries } => self.reuse_heap(*entry, *entries, miss),
            ReusePlan::Shape => {
                let dims = FastPath { e: self, slow: miss }.dims_made(operands)?;
                self.reuse_shape(*entry, &dims, miss)
            }
            ReusePlan::ShapeOf => self.reuse_shape_of(*entry, *operands.first()?, scratch, miss)?,
            ReusePlan::Tuple { .. } => {
                let object = self.reuse_tuple(*entry, operands, moved, fresh);
                self.or_new(object, [fresh, miss], |e| e.new_tuple(operands, moved, miss))
            }
            ReusePlan::Closure { .. } => self.reuse_closure(*entry, operands.get(1..)?, miss),
            ReusePlan::View { rank } => self.reuse_view(*entry, *rank, operands, miss)?,
        };
        Some(FastResult::Object { tag: plan.tag(), payload: object })
    }

    /// The session's free list.
    pub(crate) fn free_list(&mut self) -> Value {
        self.load(types::I64, self.session, SESSION_RECYCLED)
    }

    /// Empties an entry of the free list.
    pub(super) fn clear_entry(&mut self, table: Value, entry: u32) {
        let zero = self.i64(0);
        self.b.ins().store(trusted(), zero, table, offset(entry) as i32);
    }

    /// The object on the free list at `entry`; goes to `miss` if there is none.
    pub(super) fn free_object(&mut self, table: Value, entry: u32, miss: Block) -> Value {
        let object = self.load(types::I64, table, offset(entry));
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, object, 0);
        self.require(there, miss);
        object
    }

    /// Releases an object of the free list that does not fit, then goes to `miss`.
    fn discard(&mut self, object: Value, entry: u32, scratch: Slot, miss: Block) {
        let table = self.free_list();
        self.clear_entry(table, entry);
        self.store_scalar(scratch, type_index::OBJECT, object);
        self.release_object(scratch);
        self.b.ins().jump(miss, &[]);
    }

    /// Pops the storage at `entry`, or goes to `miss`. `scratch` is a free slot.
    pub(super) fn reuse_storage(
        &mut self,
        entry: u32,
        tensors: &[u32],
        scratch: Slot,
        miss: Block,
    ) -> Value {
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        let data = self.load(types::I64, object, STORAGE_DATA);
        // Tensors on the free list refer to the storage; nothing else may.
        let mut expected = self.i64(BOTH_ONE as i64);
        for &tensor in tensors {
            let (look, next) = (self.b.create_block(), self.b.create_block());
            let sum = self.b.append_block_param(next, types::I64);
            let tensor = self.load(types::I64, table, offset(tensor));
            self.b.ins().brif(tensor, look, &[], next, &[expected.into()]);
            self.b.switch_to_block(look);
            let theirs = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_DATA);
            let same = self.b.ins().icmp(IntCC::Equal, theirs, data);
            let one = self.b.ins().uextend(types::I64, same);
            let more = self.b.ins().iadd(expected, one);
            self.b.ins().jump(next, &[more.into()]);
            self.b.switch_to_block(next);
            expected = sum;
        }
        let count = self.load(types::I64, object, 0);
        let unused = self.b.ins().icmp(IntCC::Equal, count, expected);
        self.take_if(unused, object, entry, scratch, miss);
        object
    }

    /// Pops the tensor at `entry` if it lies on the storage in slot `storage`, or goes to `miss`.
    pub(super) fn reuse_tensor(
        &mut self,
        entry: u32,
        storage: Slot,
        scratch: Slot,
        miss: Block,
    ) -> Value {
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        let storage = self.payload(storage);
        let data = self.load(types::I64, storage, STORAGE_DATA);
        // Blocks of live storages differ, and a tensor on the free list keeps its storage alive.
        let theirs = self.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let same = self.b.ins().icmp(IntCC::Equal, theirs, data);
        self.take_if(same, object, entry, scratch, miss);
        object
    }

    /// Pops the tensor at `entry` if its data is its own, or goes to `miss`. Another one lies on a storage
    /// that others may use.
    pub(super) fn reuse_whole_tensor(&mut self, entry: u32, scratch: Slot, miss: Block) -> Value {
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        let owner = self.load(types::I64, object, TENSOR_OWNER);
        let whole = self.b.ins().icmp_imm_s(IntCC::Equal, owner, TENSOR_OWNER_BLOCK);
        self.take_if(whole, object, entry, scratch, miss);
        object
    }

    /// Takes the object out of `entry` if it fits; otherwise releases it and goes to `miss`.
    fn take_if(&mut self, fits: Value, object: Value, entry: u32, scratch: Slot, miss: Block) {
        let (stale, here) = (self.cold_block(), self.b.create_block());
        self.require(fits, stale);
        let table = self.free_list();
        self.clear_entry(table, entry);
        self.b.ins().jump(here, &[]);
        self.b.switch_to_block(stale);
        self.discard(object, entry, scratch, miss);
        self.b.switch_to_block(here);
    }

    /// Pops the shape heap at `entry` and clears its entries, or goes to `miss`.
    pub(super) fn reuse_heap(&mut self, entry: u32, entries: usize, miss: Block) -> Value {
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        self.clear_entry(table, entry);
        let data = self.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let zero = self.i64(0);
        for at in 0..entries {
            self.b.ins().store(trusted(), zero, data, 8 * at as i32);
        }
        object
    }

    /// Pops the shape at `entry` and sets its dimensions, or goes to `miss`.
    pub(super) fn reuse_shape(&mut self, entry: u32, dims: &[Value], miss: Block) -> Value {
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        self.clear_entry(table, entry);
        let data = self.load(types::I64, object, SHAPE_DATA);
        for (at, &extent) in dims.iter().enumerate() {
            self.b.ins().store(trusted(), extent, data, 8 * at as i32);
        }
        object
    }

    /// Pops the shape at `entry` and sets it to the shape of a tensor, or goes to `miss`.
    pub(super) fn reuse_shape_of(
        &mut self,
        entry: u32,
        tensor: Operand,
        scratch: Slot,
        miss: Block,
    ) -> Option<Value> {
        let tensor = self.tensor(tensor, miss)?;
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        let rank = self.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        let rank = self.b.ins().sextend(types::I64, rank);
        let have = self.load(types::I64, object, SHAPE_SIZE);
        let same = self.b.ins().icmp(IntCC::Equal, have, rank);
        let other = self.cold_block();
        self.require(same, other);
        self.clear_entry(table, entry);
        let from = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_SHAPE);
        let to = self.load(types::I64, object, SHAPE_DATA);
        let (copy, done) = (self.b.create_block(), self.b.create_block());
        let (more, left) = (self.b.create_block(), self.b.append_block_param(copy, types::I64));
        self.b.ins().jump(copy, &[rank.into()]);
        self.b.switch_to_block(copy);
        self.b.ins().brif(left, more, &[], done, &[]);
        self.b.switch_to_block(more);
        let left = self.b.ins().iadd_imm_s(left, -1);
        let offset = self.b.ins().ishl_imm_u(left, 3);
        let (from, to) = (self.b.ins().iadd(from, offset), self.b.ins().iadd(to, offset));
        let extent = self.load(types::I64, from, 0);
        self.b.ins().store(trusted(), extent, to, 0);
        self.b.ins().jump(copy, &[left.into()]);
        self.b.switch_to_block(other);
        self.discard(object, entry, scratch, miss);
        self.b.switch_to_block(done);
        Some(object)
    }

    /// The tensor object of an operand; goes to `miss` if its slot holds another type. `None` if
    /// the operand can be no tensor.
    pub(super) fn tensor(&mut self, operand: Operand, miss: Block) -> Option<Value> {
        match operand {
            Operand::Slot(slot, tag) => {
                if tag != Some(type_index::TENSOR) {
                    let is = self.has_tag(slot, type_index::TENSOR);
                    self.require(is, miss);
                }
                Some(self.payload(slot))
            }
            Operand::Heap(slot, _) => Some(self.payload(slot)),
            Operand::Const(_) | Operand::Imm { .. } | Operand::Scalar { .. } | Operand::Vm => None,
        }
    }

    /// Pops the tuple at `entry` and sets its items, or goes to `miss`.
    pub(super) fn reuse_tuple(
        &mut self,
        entry: u32,
        items: &[Operand],
        moved: &[bool],
        miss: Block,
    ) -> Value {
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        self.clear_entry(table, entry);
        self.put_items(object, items, moved);
        object
    }

    /// Pops the closure at `entry` and sets its captured values, or goes to `miss`.
    pub(super) fn reuse_closure(&mut self, entry: u32, captured: &[Operand], miss: Block) -> Value {
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        self.clear_entry(table, entry);
        let array = self.load(types::I64, object, CLOSURE_CAPTURED);
        self.put_items(array, captured, &[]);
        object
    }

    /// Writes references to operands into an array, whose items are None.
    fn put_items(&mut self, array: Value, items: &[Operand], moved: &[bool]) {
        let data = self.load(types::I64, array, ARRAY_DATA);
        self.write_items(data, items, moved);
    }

    /// Writes references to operands to memory at `data`, which owns nothing: those of slots that are
    /// `moved`, and second ones of the others.
    pub(super) fn write_items(&mut self, data: Value, items: &[Operand], moved: &[bool]) {
        for (at, &item) in items.iter().enumerate() {
            let value = match item {
                Operand::Slot(slot, _) | Operand::Heap(slot, _) if moved.get(at) == Some(&true) => {
                    self.load_any(slot)
                }
                _ => self.retained(item),
            };
            let at = (at * ANY_SIZE) as i32;
            self.b.ins().store(trusted(), value.head, data, at);
            self.b.ins().store(trusted(), value.payload, data, at + ANY_PAYLOAD as i32);
        }
    }

    /// A second reference to an operand.
    fn retained(&mut self, operand: Operand) -> Bits {
        match operand {
            Operand::Slot(slot, Some(tag)) => {
                let value = self.load_typed(slot, tag);
                if tag >= type_index::STATIC_OBJECT_BEGIN {
                    self.retain_object(value.payload);
                }
                value
            }
            Operand::Slot(slot, None) => {
                self.retain(slot);
                self.load_any(slot)
            }
            Operand::Heap(slot, _) => {
                let value = self.load_any(slot);
                self.retain_object(value.payload);
                value
            }
            Operand::Const(index) => {
                let consts = self.load(types::I64, self.session, SESSION_CONSTS);
                let at = index as usize * ANY_SIZE;
                self.retain_at(consts, at);
                self.any_at(consts, at)
            }
            Operand::Imm { tag, bits } => {
                Bits { head: self.i64(i64::from(tag)), payload: self.i64(bits) }
            }
            Operand::Scalar { tag, payload } => Bits { head: self.i64(i64::from(tag)), payload },
            Operand::Vm => self.source(ArgSource::Vm),
        }
    }

    /// Releases the object in a slot: pushes it to its entry of the free list if the entry is empty
    /// and nothing else refers to the object. The slot keeps its bits; overwrite it.
    pub(crate) fn recycle(&mut self, slot: Slot, FreeListReturn { entry, owns }: FreeListReturn) {
        let (released, next) = (self.cold_block(), self.b.create_block());
        let object = self.payload(slot);
        if owns != OwnedContents::Memory {
            self.require_unique(object, released);
        }
        // Releasing these may run host code, which may run this code.
        match owns {
            OwnedContents::Nothing | OwnedContents::Memory => {}
            OwnedContents::Items(count) => self.drop_items(object, count),
            OwnedContents::Captured(count) => {
                let array = self.load(types::I64, object, CLOSURE_CAPTURED);
                self.require_unique(array, released);
                self.drop_items(array, count);
            }
            OwnedContents::Viewed => {
                self.drop_value(object, TENSOR_OWNER);
            }
        }
        let object = self.payload(slot);
        let table = self.free_list();
        let there = self.load(types::I64, table, offset(entry));
        let free = self.b.ins().icmp_imm_s(IntCC::Equal, there, 0);
        self.require(free, released);
        self.b.ins().store(trusted(), object, table, offset(entry) as i32);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(released);
        self.release_object(slot);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }

    /// Goes to `otherwise` if an object has other references.
    fn require_unique(&mut self, object: Value, otherwise: Block) {
        let count = self.load(types::I64, object, 0);
        let unique = self.i64(BOTH_ONE as i64);
        let unique = self.b.ins().icmp(IntCC::Equal, count, unique);
        self.require(unique, otherwise);
    }

    /// Releases the items of an array, which are None afterwards.
    fn drop_items(&mut self, array: Value, count: usize) {
        let data = self.load(types::I64, array, ARRAY_DATA);
        for at in 0..count {
            self.drop_value(data, at * ANY_SIZE);
        }
    }

    /// Releases a value in memory, which is None afterwards.
    fn drop_value(&mut self, base: Value, offset: usize) {
        let (free, next) = (self.cold_block(), self.b.create_block());
        let tag = self.load(types::I32, base, offset);
        let object = self.is_object(tag);
        self.b.ins().brif(object, free, &[], next, &[]);
        self.b.switch_to_block(free);
        let address = self.b.ins().iadd_imm_s(base, offset as i64);
        self.call_libcall(libcall::RELEASE, &[types::I64], None, &[address]);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
        let none = self.i64(0);
        self.b.ins().store(trusted(), none, base, offset as i32);
        self.b.ins().store(trusted(), none, base, (offset + ANY_PAYLOAD) as i32);
    }
}
