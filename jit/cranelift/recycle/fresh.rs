//! Code that makes objects: tuples in place, from the free lists of the thread's object memory, small
//! tensors from its free tensors, other storages and tensors by one libcall each, without the checks of the
//! builtins.
//!
//! Objects that escape cannot be recycled where they were made: a list keeps them. Their blocks come back
//! through the free lists of the thread that releases them.
//!
//! Decision: docs/decisions/0069-objects-in-machine-code.md
//! Decision: docs/decisions/0090-free-tensors.md

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{
    ANY_SIZE, ARRAY_CAPACITY, ARRAY_DATA, ARRAY_DATA_DELETER, ARRAY_ITEMS, ARRAY_SIZE,
    BLOCK_GRANULE, BLOCK_PREFIX, BOTH_ONE, DLDevice, DLTENSOR_BYTE_OFFSET, DLTENSOR_DEVICE,
    DLTENSOR_DTYPE, FREE_LIST_HEAD, FREE_LIST_LEN, FREE_LIST_SIZE, FREE_TENSOR_SIZES,
    FREE_TENSOR_STEP, FREE_TENSORS_LIMIT, FREE_TENSORS_RESERVE, MAX_FREE_BLOCK, OBJECT_DELETER,
    OBJECT_TYPE_INDEX, TENSOR_DIMS, TENSOR_DLTENSOR, free_tensor_class, type_index,
};
use reflex_vm::abi::{SESSION_OBJECT_LISTS, SESSION_TENSOR_LISTS, libcall};

use crate::assemble::relocation::Symbol;
use crate::emit::fast_path::Operand;
use crate::emit::{Emit, Slot, trusted};

impl Emit<'_> {
    /// `object`, or in the block `otherwise` the one that `make` makes, which goes to
    /// `miss` where it cannot.
    pub(super) fn or_new(
        &mut self,
        object: Value,
        [otherwise, miss]: [Block; 2],
        make: impl FnOnce(&mut Self) -> Option<Value>,
    ) -> Value {
        let done = self.b.create_block();
        let either = self.b.append_block_param(done, types::I64);
        self.b.ins().jump(done, &[object.into()]);
        self.b.switch_to_block(otherwise);
        match make(self) {
            Some(made) => self.b.ins().jump(done, &[made.into()]),
            None => self.b.ins().jump(miss, &[]),
        };
        self.b.switch_to_block(done);
        either
    }

    /// A tuple of references to operands: those of slots that are `moved`, which are empty afterwards but
    /// keep their bits, and second ones of the others. Goes to `miss` if no block is free. `None` if its
    /// block has no free list.
    pub(crate) fn new_tuple(
        &mut self,
        items: &[Operand],
        moved: &[bool],
        miss: Block,
    ) -> Option<Value> {
        let size = ARRAY_ITEMS + items.len() * ANY_SIZE;
        let array = self.new_object(size, miss)?;
        let data = self.b.ins().iadd_imm_s(array, ARRAY_ITEMS as i64);
        let count = self.i64(items.len() as i64);
        let words = [
            (self.i64(BOTH_ONE as i64), 0),
            (self.i64(i64::from(type_index::ARRAY)), OBJECT_TYPE_INDEX),
            (self.symbol(Symbol::ArrayDeleter), OBJECT_DELETER),
            (data, ARRAY_DATA),
            (count, ARRAY_SIZE),
            (count, ARRAY_CAPACITY),
            (self.i64(0), ARRAY_DATA_DELETER),
        ];
        for (word, at) in words {
            self.b.ins().store(trusted(), word, array, at as i32);
        }
        self.write_items(data, items, moved);
        Some(array)
    }

    /// The first free block for an object body of `size` bytes, as the address of the body; goes to
    /// `miss` if there is none.
    fn new_object(&mut self, size: usize, miss: Block) -> Option<Value> {
        let block_size = (BLOCK_PREFIX + size).next_multiple_of(BLOCK_GRANULE);
        if block_size > MAX_FREE_BLOCK {
            return None;
        }
        let list = (block_size / BLOCK_GRANULE - 1) * FREE_LIST_SIZE;
        let lists = self.load(types::I64, self.session, SESSION_OBJECT_LISTS);
        let block = self.load(types::I64, lists, list + FREE_LIST_HEAD);
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, block, 0);
        self.require(there, miss);
        self.take_first(lists, list, block);
        // The allocation header behind the first word is that of the block's last use.
        let block_size = self.i64(block_size as i64);
        self.b.ins().store(trusted(), block_size, block, 0);
        Some(self.b.ins().iadd_imm_s(block, BLOCK_PREFIX as i64))
    }

    /// A storage, for the operands of its builtin; goes to `miss` if there is no memory.
    pub(super) fn new_storage(
        &mut self,
        bytes: usize,
        operands: &[Operand],
        miss: Block,
    ) -> Option<Value> {
        let Operand::Imm { tag: type_index::INT, bits: device } = *operands.get(2)? else {
            return None;
        };
        let args = [self.session, self.i64(bytes as i64), self.i64(device)];
        self.made(libcall::NEW_STORAGE, &args, miss)
    }

    /// A tensor on the storage in a slot, for the operands of its builtin; goes to `miss` if that fails.
    pub(super) fn new_tensor(
        &mut self,
        storage: Slot,
        operands: &[Operand],
        miss: Block,
    ) -> Option<Value> {
        let [offset, shape, dtype] = self.tensor_parts(operands)?;
        let args = [self.payload(storage), offset, shape, dtype];
        self.made(libcall::NEW_TENSOR, &args, miss)
    }

    /// A tensor of these dimensions on a storage of its own, for the operands of the tensor's builtin: a
    /// free one if there is one. Goes to `miss` if there is no memory.
    pub(super) fn new_whole_tensor(
        &mut self,
        (bytes, device): (usize, i64),
        dims: &[i64],
        operands: &[Operand],
        miss: Block,
    ) -> Option<Value> {
        let Some(class) = free_tensor_class(dims.len(), bytes) else {
            return self.new_tensor_and_storage(bytes, device, operands, miss);
        };
        let none_free = self.b.create_block();
        let object = self.free_tensor(class, dims, operands, none_free)?;
        let make = |e: &mut Self| e.new_tensor_and_storage(bytes, device, operands, miss);
        Some(self.or_new(object, [none_free, miss], make))
    }

    fn new_tensor_and_storage(
        &mut self,
        bytes: usize,
        device: i64,
        operands: &[Operand],
        miss: Block,
    ) -> Option<Value> {
        let [offset, shape, dtype] = self.tensor_parts(operands)?;
        let (bytes, device) = (self.i64(bytes as i64), self.i64(device));
        let args = [self.session, bytes, device, offset, shape, dtype];
        self.made(libcall::NEW_TENSOR_AND_STORAGE, &args, miss)
    }

    /// The first free tensor of a class, with these dimensions, for the operands of the tensor's builtin;
    /// goes to `miss` if there is none.
    fn free_tensor(
        &mut self,
        class: usize,
        dims: &[i64],
        operands: &[Operand],
        miss: Block,
    ) -> Option<Value> {
        let &[
            _,
            Operand::Imm { tag: type_index::INT, bits: offset },
            _,
            Operand::Imm { tag: type_index::DATA_TYPE, bits: dtype },
            ..,
        ] = operands
        else {
            return None;
        };
        let lists = self.load(types::I64, self.session, SESSION_TENSOR_LISTS);
        let list = class * FREE_LIST_SIZE;
        let tensor = self.load(types::I64, lists, list + FREE_LIST_HEAD);
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, tensor, 0);
        self.require(there, miss);
        let limit = self.load(types::I64, lists, FREE_TENSORS_LIMIT);
        let limit = self.load(types::I64, limit, 0);
        let unlimited = self.b.ins().icmp_imm_s(IntCC::Equal, limit, -1);
        self.require(unlimited, miss);
        let reserve = self.load(types::I64, lists, FREE_TENSORS_RESERVE);
        let left = self.load(types::I64, reserve, 0);
        let block = (class % FREE_TENSOR_SIZES + 1) * FREE_TENSOR_STEP;
        let some = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, left, block as i64);
        self.require(some, miss);
        let left = self.b.ins().iadd_imm_s(left, -(block as i64));
        self.b.ins().store(trusted(), left, reserve, 0);
        self.take_first(lists, list, tensor);
        let mut words = vec![
            (BOTH_ONE as i64, 0),
            (i64::from(DLDevice::KIND_CPU), TENSOR_DLTENSOR + DLTENSOR_DEVICE),
            (offset, TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET),
        ];
        let mut stride = 1_i64;
        for (at, &extent) in dims.iter().enumerate().rev() {
            words.push((extent, TENSOR_DIMS + 8 * at));
            words.push((stride, TENSOR_DIMS + 8 * (dims.len() + at)));
            stride = stride.wrapping_mul(extent);
        }
        for (word, at) in words {
            let word = self.i64(word);
            self.b.ins().store(trusted(), word, tensor, at as i32);
        }
        let dtype = self.i32(dtype);
        let at = TENSOR_DLTENSOR + DLTENSOR_DTYPE;
        self.b.ins().store(trusted(), dtype, tensor, at as i32);
        Some(tensor)
    }

    /// Takes the first entry off a free list `list` bytes behind `lists`.
    fn take_first(&mut self, lists: Value, list: usize, first: Value) {
        let (head, len) = (list + FREE_LIST_HEAD, list + FREE_LIST_LEN);
        let next = self.load(types::I64, first, 0);
        self.b.ins().store(trusted(), next, lists, head as i32);
        let left = self.load(types::I64, lists, len);
        let left = self.b.ins().iadd_imm_s(left, -1);
        self.b.ins().store(trusted(), left, lists, len as i32);
    }

    /// Offset, shape and element type of a tensor, from the operands of its builtin.
    fn tensor_parts(&mut self, operands: &[Operand]) -> Option<[Value; 3]> {
        let &[
            _,
            Operand::Imm { tag: type_index::INT, bits: offset },
            Operand::Const(shape),
            Operand::Imm { tag: type_index::DATA_TYPE, bits: dtype },
            ..,
        ] = operands
        else {
            return None;
        };
        Some([self.i64(offset), self.constant_object(shape), self.i64(dtype)])
    }

    /// The object that a libcall makes; goes to `miss` if that fails.
    fn made(&mut self, libcall: usize, args: &[Value], miss: Block) -> Option<Value> {
        let params = vec![types::I64; args.len()];
        let call = self.call_libcall(libcall, &params, Some(types::I64), args);
        let object = self.b.inst_results(call)[0];
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, object, 0);
        self.require(there, miss);
        Some(object)
    }
}
