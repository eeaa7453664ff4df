//! Recycled views of tensors.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{
    ANY_PAYLOAD, DLTENSOR_BYTE_OFFSET, DLTENSOR_DATA, DLTENSOR_DEVICE, DLTENSOR_DTYPE,
    DLTENSOR_NDIM, DLTENSOR_SHAPE, DLTENSOR_STRIDES, SHAPE_DATA, TENSOR_DLTENSOR, TENSOR_OWNER,
    type_index,
};

use crate::emit::fast_path::Operand;
use crate::emit::{Bits, Emit, trusted};

impl Emit<'_> {
    /// Pops the view at `entry` and makes it a view of a tensor in another shape. Goes to `miss` if
    /// there is none or the tensor does not allow it.
    pub(super) fn reuse_view(
        &mut self,
        entry: u32,
        rank: usize,
        operands: &[Operand],
        miss: Block,
    ) -> Option<Value> {
        let &[tensor, shape] = operands else { return None };
        let tensor = self.tensor(tensor, miss)?;
        let table = self.free_list();
        let object = self.free_object(table, entry, miss);
        let from = match shape {
            Operand::Slot(slot, _) => self.payload(slot),
            Operand::Const(index) => self.constant_object(index),
            _ => return None,
        };
        let from = self.load(types::I64, from, SHAPE_DATA);
        let count = self.contiguous_elements(tensor, miss);
        let dims: Vec<Value> = (0..rank).map(|dim| self.load(types::I64, from, 8 * dim)).collect();
        // Row-major strides, and the number of elements.
        let mut stride = self.i64(1);
        let mut strides = vec![stride; rank];
        for dim in (0..rank).rev() {
            strides[dim] = stride;
            let counts = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, dims[dim], 0);
            self.require(counts, miss);
            let over = self.b.ins().umulhi(stride, dims[dim]);
            let fits = self.b.ins().icmp_imm_s(IntCC::Equal, over, 0);
            self.require(fits, miss);
            stride = self.b.ins().imul(stride, dims[dim]);
        }
        let inside = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, stride, count);
        self.require(inside, miss);
        self.clear_entry(table, entry);
        for (field, ty) in [
            (DLTENSOR_DATA, types::I64),
            (DLTENSOR_DEVICE, types::I64),
            (DLTENSOR_DTYPE, types::I32),
            (DLTENSOR_BYTE_OFFSET, types::I64),
        ] {
            let value = self.load(ty, tensor, TENSOR_DLTENSOR + field);
            self.b.ins().store(trusted(), value, object, (TENSOR_DLTENSOR + field) as i32);
        }
        for (field, values) in [(DLTENSOR_SHAPE, dims), (DLTENSOR_STRIDES, strides)] {
            let to = self.load(types::I64, object, TENSOR_DLTENSOR + field);
            for (dim, value) in values.into_iter().enumerate() {
                self.b.ins().store(trusted(), value, to, 8 * dim as i32);
            }
        }
        self.retain_object(tensor);
        let owner = Bits { head: self.i64(i64::from(type_index::OBJECT)), payload: tensor };
        self.b.ins().store(trusted(), owner.head, object, TENSOR_OWNER as i32);
        let payload = (TENSOR_OWNER + ANY_PAYLOAD) as i32;
        self.b.ins().store(trusted(), owner.payload, object, payload);
        Some(object)
    }

    /// The number of elements of a tensor in row-major order, of any rank. Goes to `miss` if it is
    /// in another order, or has no strides.
    fn contiguous_elements(&mut self, tensor: Value, miss: Block) -> Value {
        let field = |e: &mut Self, field| e.load(types::I64, tensor, TENSOR_DLTENSOR + field);
        let (dims, strides) = (field(self, DLTENSOR_SHAPE), field(self, DLTENSOR_STRIDES));
        let rank = self.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        let rank = self.b.ins().sextend(types::I64, rank);
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, strides, 0);
        self.require(there, miss);
        let (look, more) = (self.b.create_block(), self.b.create_block());
        let done = self.b.create_block();
        let left = self.b.append_block_param(look, types::I64);
        let count = self.b.append_block_param(look, types::I64);
        let one = self.i64(1);
        self.b.ins().jump(look, &[rank.into(), one.into()]);
        self.b.switch_to_block(look);
        self.b.ins().brif(left, more, &[], done, &[]);
        self.b.switch_to_block(more);
        let left = self.b.ins().iadd_imm_s(left, -1);
        let offset = self.b.ins().ishl_imm_u(left, 3);
        let (extent, stride) =
            (self.b.ins().iadd(dims, offset), self.b.ins().iadd(strides, offset));
        let (extent, stride) = (self.load(types::I64, extent, 0), self.load(types::I64, stride, 0));
        let usual = self.b.ins().icmp(IntCC::Equal, stride, count);
        self.require(usual, miss);
        let more = self.b.ins().imul(count, extent);
        self.b.ins().jump(look, &[left.into(), more.into()]);
        self.b.switch_to_block(done);
        count
    }
}
