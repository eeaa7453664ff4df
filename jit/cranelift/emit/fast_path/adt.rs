//! Tests of tags, and comparisons of scalars.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_runtime::abi::{
    ANY_PAYLOAD, ARRAY_DATA, ARRAY_SIZE, DLDevice, DLTENSOR_BYTE_OFFSET, DLTENSOR_DATA,
    DLTENSOR_DEVICE, DLTENSOR_DTYPE, DLTENSOR_NDIM, DLTENSOR_SHAPE, TENSOR_DLTENSOR, type_index,
};
use reflex_runtime::dtype::code;

use super::{FastPath, FastResult, Operand};
use crate::emit::{Slot, trusted};

impl FastPath<'_, '_> {
    /// Whether the first item of a tuple is this integer.
    pub(super) fn tag_test(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[Operand::Slot(x, known), _] = args else { return None };
        let wanted = self.const_int(args.get(1))?;
        let tuple = self.object((x, known), type_index::ARRAY);
        let size = self.e.load(types::I64, tuple, ARRAY_SIZE);
        let some = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, size, 0);
        self.require(some);
        let items = self.e.load(types::I64, tuple, ARRAY_DATA);
        let tag = self.e.load(types::I32, items, 0);
        self.require_equal(tag, i64::from(type_index::INT));
        let value = self.e.load(types::I64, items, ANY_PAYLOAD);
        let equal = self.e.b.ins().icmp_imm_s(IntCC::Equal, value, wanted);
        let payload = self.e.b.ins().uextend(types::I64, equal);
        Some(FastResult::Scalar { tag: type_index::BOOL, payload })
    }

    /// Whether two integers or scalar tensors agree in their low 32 bits.
    pub(super) fn equal_scalars(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[left, right] = args else { return None };
        if ![left, right].into_iter().all(may_be_scalar) {
            return None;
        }
        let (left, right) = (self.low_word(left)?, self.low_word(right)?);
        let equal = self.e.b.ins().icmp(IntCC::Equal, left, right);
        let payload = self.e.b.ins().uextend(types::I64, equal);
        Some(FastResult::Scalar { tag: type_index::BOOL, payload })
    }

    /// The low 32 bits of an operand that may be a scalar.
    fn low_word(&mut self, operand: Operand) -> Option<Value> {
        Some(match operand {
            Operand::Imm { bits, .. } => self.e.i32(i64::from(bits as i32)),
            Operand::Scalar { payload, .. } => self.e.b.ins().ireduce(types::I32, payload),
            Operand::Slot(slot, Some(type_index::TENSOR)) => self.low_element(slot),
            Operand::Slot(slot, Some(_)) => {
                let payload = self.e.payload(slot);
                self.e.b.ins().ireduce(types::I32, payload)
            }
            Operand::Slot(slot, None) => self.low_word_of_any(slot),
            Operand::Heap(..) | Operand::Const(_) | Operand::Vm => return None,
        })
    }

    fn low_word_of_any(&mut self, slot: Slot) -> Value {
        let (tensor, scalar) = (self.e.b.create_block(), self.e.b.create_block());
        let done = self.e.b.create_block();
        self.e.b.append_block_param(done, types::I32);
        let tag = self.e.tag(slot);
        let is_tensor = self.e.b.ins().icmp_imm_s(IntCC::Equal, tag, i64::from(type_index::TENSOR));
        self.e.b.ins().brif(is_tensor, tensor, &[], scalar, &[]);
        self.e.b.switch_to_block(scalar);
        self.require_scalar(tag);
        let payload = self.e.payload(slot);
        let word = self.e.b.ins().ireduce(types::I32, payload);
        self.e.b.ins().jump(done, &[word.into()]);
        self.e.b.switch_to_block(tensor);
        let element = self.low_element(slot);
        self.e.b.ins().jump(done, &[element.into()]);
        self.e.b.switch_to_block(done);
        self.e.b.block_params(done)[0]
    }

    /// The low 32 bits of the element of a tensor with one, of 1, 8, 32 or 64 bits.
    fn low_element(&mut self, slot: Slot) -> Value {
        let tensor = self.e.payload(slot);
        let dtype = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_DTYPE);
        let lanes = self.e.b.ins().ushr_imm_u(dtype, 16);
        self.require_equal(lanes, 1);
        self.require_one_of(dtype, 0, &[code::INT, code::UINT, code::BOOL]);
        self.require_one_element(tensor);
        let device = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_DEVICE);
        self.require_equal(device, i64::from(DLDevice::KIND_CPU));
        let data = self.e.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let mapped = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, data, 0);
        self.require(mapped);
        let offset = self.e.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET);
        let at = self.e.b.ins().iadd(data, offset);
        let (narrow, wide) = (self.e.b.create_block(), self.e.b.create_block());
        let done = self.e.b.create_block();
        self.e.b.append_block_param(done, types::I32);
        let is_narrow = self.one_of(dtype, 8, &[1, 8]);
        self.e.b.ins().brif(is_narrow, narrow, &[], wide, &[]);
        self.e.b.switch_to_block(narrow);
        let byte = self.e.b.ins().sload8(types::I32, trusted(), at, 0);
        self.e.b.ins().jump(done, &[byte.into()]);
        self.e.b.switch_to_block(wide);
        self.require_one_of(dtype, 8, &[32, 64]);
        // The low half comes first.
        let word = self.e.load(types::I32, at, 0);
        self.e.b.ins().jump(done, &[word.into()]);
        self.e.b.switch_to_block(done);
        self.e.b.block_params(done)[0]
    }

    fn require_one_element(&mut self, tensor: Value) {
        let (vector, next) = (self.e.b.create_block(), self.e.b.create_block());
        let ndim = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        self.e.b.ins().brif(ndim, vector, &[], next, &[]);
        self.e.b.switch_to_block(vector);
        self.require_equal(ndim, 1);
        let dims = self.e.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_SHAPE);
        let extent = self.e.load(types::I64, dims, 0);
        self.require_equal(extent, 1);
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Whether the byte of a word at this bit is one of these.
    fn one_of(&mut self, word: Value, bit: i64, bytes: &[u8]) -> Value {
        let shifted = self.e.b.ins().ushr_imm_u(word, bit);
        let byte = self.e.b.ins().band_imm_u(shifted, 0xff);
        let mut any = self.e.i32(0);
        for &wanted in bytes {
            let equal = self.e.b.ins().icmp_imm_s(IntCC::Equal, byte, i64::from(wanted));
            let equal = self.e.b.ins().uextend(types::I32, equal);
            any = self.e.b.ins().bor(any, equal);
        }
        any
    }

    fn require_one_of(&mut self, word: Value, bit: i64, bytes: &[u8]) {
        let any = self.one_of(word, bit, bytes);
        self.require(any);
    }
}

fn may_be_scalar(operand: Operand) -> bool {
    match operand {
        Operand::Imm { tag, .. } | Operand::Scalar { tag, .. } => is_integer(tag),
        Operand::Slot(_, Some(tag)) => is_integer(tag) || tag == type_index::TENSOR,
        Operand::Slot(_, None) => true,
        Operand::Heap(..) | Operand::Const(_) | Operand::Vm => false,
    }
}

fn is_integer(tag: i32) -> bool {
    tag == type_index::INT || tag == type_index::BOOL
}
