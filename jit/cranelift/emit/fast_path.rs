//! Inline fast paths of builtins, for the usual types and constants.
//!
//! A fast path either has exactly the effect of the builtin or jumps to `slow` without any lasting
//! effect, except for heap entries that it stored, which the builtin stores again with the same
//! values. Errors are therefore raised by the slow path only. Builtins without a fast path are
//! listed with the others, without a default arm, so that a new builtin needs a decision.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{
    ANY_PAYLOAD, ANY_SIZE, ARRAY_DATA, ARRAY_SIZE, DLDevice, DLTENSOR_BYTE_OFFSET, DLTENSOR_DATA,
    DLTENSOR_DEVICE, DLTENSOR_DTYPE, DLTENSOR_NDIM, TENSOR_DLTENSOR, type_index,
};
use reflex_runtime::dtype::DType;
use reflex_vm::builtins::{Builtin, Lowering};

use crate::emit::{Bits, Emit, Slot, trusted};

mod adt;
mod checks;
mod shapes;

pub(crate) use checks::accepted_types;

/// An argument of a builtin in generated code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A value in the register stack, and its type where that is known.
    Slot(Slot, Option<i32>),
    /// A shape heap that the VM allocated, and its number of entries.
    Heap(Slot, i64),
    /// An object of the constant table.
    Const(u32),
    /// A constant that is not an object.
    Imm { tag: i32, bits: i64 },
    /// A value that is not an object, in a machine register.
    Scalar { tag: i32, payload: Value },
    /// The session.
    Vm,
}

/// The result of a fast path.
pub(crate) enum FastResult {
    None,
    /// A value that is not an object.
    Scalar {
        tag: i32,
        payload: Value,
    },
    /// An object, with a reference of its own.
    Object {
        tag: i32,
        payload: Value,
    },
    /// All bits of a value, with a reference of its own if it is an object.
    Owned(Bits),
}

/// Emits fast paths.
pub(crate) struct FastPath<'e, 'f> {
    pub(crate) e: &'e mut Emit<'f>,
    /// The block to jump to if the fast path does not apply.
    pub(crate) slow: Block,
}

/// A slot and its type where that is known.
type Typed = (Slot, Option<i32>);

impl FastPath<'_, '_> {
    /// Emits the fast path of a builtin; `None` if there is none, and then nothing is emitted.
    pub(crate) fn builtin(&mut self, builtin: Builtin, args: &[Operand]) -> Option<FastResult> {
        match builtin.lowering() {
            Lowering::CheckTensor => self.check_tensor(args),
            Lowering::CheckShape => self.check_shape(args),
            Lowering::CheckTuple => self.check_tuple(args),
            Lowering::MatchShape => self.match_shape(args),
            Lowering::MatchPrimValue => self.match_prim_value(args),
            Lowering::MakePrimValue => self.make_prim_value(args),
            Lowering::ReadIfCond => self.read_if_cond(args),
            Lowering::TupleItem => self.tuple_item(args),
            Lowering::TagTest => self.tag_test(args),
            Lowering::EqualScalars => self.equal_scalars(args),
            Lowering::CheckType => self.check_type(builtin, args),
            Lowering::ZeroOffset => self.zero_offset(args),
            Lowering::Elided => Some(FastResult::None),
            // Allocations are recycled: see `recycle`.
            Lowering::RecycleStorage
            | Lowering::RecycleTensor
            | Lowering::RecycleHeap
            | Lowering::RecycleShape
            | Lowering::RecycleTuple
            | Lowering::RecycleClosure
            | Lowering::RecycleView
            | Lowering::Call => None,
        }
    }

    fn const_int(&self, arg: Option<&Operand>) -> Option<i64> {
        match arg {
            Some(Operand::Imm { tag: type_index::INT, bits }) => Some(*bits),
            _ => None,
        }
    }

    fn is_none(&self, arg: Operand) -> bool {
        matches!(arg, Operand::Imm { tag: type_index::NONE, .. })
    }

    fn require(&mut self, condition: Value) {
        self.e.require(condition, self.slow);
    }

    fn require_equal(&mut self, value: Value, expected: i64) {
        let equal = self.e.b.ins().icmp_imm_s(IntCC::Equal, value, expected);
        self.require(equal);
    }

    /// The object in a slot of the given type.
    fn object(&mut self, (slot, known): Typed, tag: i32) -> Value {
        if known != Some(tag) {
            let fits = self.e.has_tag(slot, tag);
            self.require(fits);
        }
        self.e.payload(slot)
    }

    fn require_dtype(&mut self, tensor: Value, dtype: DType) {
        let have = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_DTYPE);
        let bits = dtype.to_bits();
        self.require_equal(have, i64::from(bits));
    }

    fn int(&mut self, value: Operand) -> Option<Value> {
        match value {
            Operand::Scalar { tag: type_index::INT, payload } => Some(payload),
            Operand::Slot(slot, tag) => Some(self.object((slot, tag), type_index::INT)),
            Operand::Heap(..)
            | Operand::Const(_)
            | Operand::Imm { .. }
            | Operand::Scalar { .. }
            | Operand::Vm => None,
        }
    }

    fn read_if_cond(&mut self, args: &[Operand]) -> Option<FastResult> {
        let payload = match *args {
            [Operand::Scalar { tag: type_index::INT | type_index::BOOL, payload }] => payload,
            [Operand::Slot(x, tag)] => self.truth_source((x, tag)),
            _ => return None,
        };
        let truth = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, payload, 0);
        let payload = self.e.b.ins().uextend(types::I64, truth);
        Some(FastResult::Scalar { tag: type_index::BOOL, payload })
    }

    /// The number behind an integer, a boolean, or a boolean tensor without dimensions.
    fn truth_source(&mut self, (x, known): Typed) -> Value {
        match known {
            Some(type_index::TENSOR) => return self.scalar_element(x),
            Some(type_index::INT | type_index::BOOL) => return self.e.payload(x),
            _ => {}
        }
        let tag = self.e.tag(x);
        let (tensor, scalar) = (self.e.b.create_block(), self.e.b.create_block());
        let done = self.e.b.create_block();
        self.e.b.append_block_param(done, types::I64);
        let is_tensor = self.e.b.ins().icmp_imm_s(IntCC::Equal, tag, i64::from(type_index::TENSOR));
        self.e.b.ins().brif(is_tensor, tensor, &[], scalar, &[]);
        self.e.b.switch_to_block(scalar);
        self.require_scalar(tag);
        let payload = self.e.payload(x);
        self.e.b.ins().jump(done, &[payload.into()]);
        self.e.b.switch_to_block(tensor);
        let element = self.scalar_element(x);
        self.e.b.ins().jump(done, &[element.into()]);
        self.e.b.switch_to_block(done);
        self.e.b.block_params(done)[0]
    }

    /// The element of a boolean tensor without dimensions.
    fn scalar_element(&mut self, x: Slot) -> Value {
        let object = self.e.payload(x);
        self.require_dtype(object, DType::BOOL);
        let ndim = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        self.require_equal(ndim, 0);
        let device = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_DEVICE);
        self.require_equal(device, i64::from(DLDevice::KIND_CPU));
        let data = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let mapped = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, data, 0);
        self.require(mapped);
        let offset = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET);
        let at = self.e.b.ins().iadd(data, offset);
        self.e.b.ins().uload8(types::I64, trusted(), at, 0)
    }

    /// Jumps to `slow` unless `tag` is that of an integer or a boolean, which are neighbours.
    fn require_scalar(&mut self, tag: Value) {
        let above = self.e.b.ins().iadd_imm_s(tag, -i64::from(type_index::INT));
        let scalar = self.e.b.ins().icmp_imm_u(
            IntCC::UnsignedLessThanOrEqual,
            above,
            i64::from(type_index::BOOL - type_index::INT),
        );
        self.require(scalar);
    }

    fn tuple_item(&mut self, args: &[Operand]) -> Option<FastResult> {
        let (items, at) = self.item_place(args)?;
        self.e.retain_at(items, at);
        Some(FastResult::Owned(self.e.any_at(items, at)))
    }

    /// An item of a tuple, without a second reference to it.
    pub(crate) fn borrowed_item(&mut self, args: &[Operand]) -> Option<Bits> {
        let (items, at) = self.item_place(args)?;
        Some(self.e.any_at(items, at))
    }

    /// The items of a tuple, and the offset of one.
    fn item_place(&mut self, args: &[Operand]) -> Option<(Value, usize)> {
        let &[Operand::Slot(x, tag), _] = args else { return None };
        let index = self.const_int(args.get(1)).filter(|index| (0..1 << 20).contains(index))?;
        let tuple = self.object((x, tag), type_index::ARRAY);
        let size = self.e.load(types::I64, tuple, ARRAY_SIZE);
        let inside = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, size, index);
        self.require(inside);
        let items = self.e.load(types::I64, tuple, ARRAY_DATA);
        Some((items, index as usize * ANY_SIZE))
    }

    /// The tensor itself, whose byte offset is zero.
    fn zero_offset(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[Operand::Slot(x, tag)] = args else { return None };
        let tensor = self.object((x, tag), type_index::TENSOR);
        let offset = self.e.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET);
        self.require_equal(offset, 0);
        self.e.retain_object(tensor);
        Some(FastResult::Object { tag: type_index::TENSOR, payload: tensor })
    }
}

const _: () = {
    assert!(type_index::BOOL == type_index::INT + 1);
    assert!(ANY_PAYLOAD == 8);
};
