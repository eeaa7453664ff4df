//! Type checks.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_runtime::abi::{
    ARRAY_SIZE, DLTENSOR_DTYPE, DLTENSOR_NDIM, SHAPE_SIZE, TENSOR_DLTENSOR, type_index,
};
use reflex_runtime::dtype::code;
use reflex_vm::builtins::Builtin;

use super::{FastPath, FastResult, Operand};

/// A range of type indices, both ends included.
type Range = (i32, i32);

/// The types that pass a type check, as far as the fast path tests them; none if it leaves the test
/// to the builtin. `wanted` is the element type that numbers must convert to.
pub(crate) fn accepted_types(builtin: Builtin, wanted: Option<u8>) -> Vec<Range> {
    let only = |tag| (tag, tag);
    match (builtin, wanted) {
        (Builtin::CheckPrimValueInfo, Some(code::BOOL | code::INT | code::UINT)) => {
            vec![(type_index::INT, type_index::BOOL)]
        }
        (Builtin::CheckPrimValueInfo, Some(code::FLOAT | code::BFLOAT)) => {
            vec![(type_index::INT, type_index::FLOAT)]
        }
        (Builtin::CheckStringInfo, _) => vec![only(type_index::SMALL_STR), only(type_index::STR)],
        // Closures are recognised by more than their type.
        (Builtin::CheckFuncInfo, _) => vec![only(type_index::FUNCTION)],
        _ => Vec::new(),
    }
}

impl FastPath<'_, '_> {
    pub(super) fn check_tensor(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[Operand::Slot(x, tag), _, ref rest @ ..] = args else { return None };
        let ndim = self.const_int(args.get(1))?;
        let dtype = match rest {
            [_context] => None,
            [Operand::Imm { tag: type_index::DATA_TYPE, bits }, _context] => Some(*bits),
            _ => return None,
        };
        let tensor = self.object((x, tag), type_index::TENSOR);
        if ndim != -1 {
            let have = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_NDIM);
            self.require_equal(have, i64::from(i32::try_from(ndim).unwrap_or(i32::MIN)));
        }
        if let Some(bits) = dtype {
            let have = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_DTYPE);
            self.require_equal(have, i64::from(bits as i32));
        }
        Some(FastResult::None)
    }

    pub(super) fn check_shape(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[Operand::Slot(x, tag), _, _] = args else { return None };
        let ndim = self.const_int(args.get(1))?;
        let shape = self.object((x, tag), type_index::SHAPE);
        if ndim != -1 {
            let size = self.e.load(types::I64, shape, SHAPE_SIZE);
            self.require_equal(size, ndim);
        }
        Some(FastResult::None)
    }

    pub(super) fn check_tuple(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[Operand::Slot(x, tag), _, _] = args else { return None };
        let size = self.const_int(args.get(1))?;
        let tuple = self.object((x, tag), type_index::ARRAY);
        let have = self.e.load(types::I64, tuple, ARRAY_SIZE);
        self.require_equal(have, size);
        Some(FastResult::None)
    }

    /// A check of nothing but the type of a value.
    pub(super) fn check_type(&mut self, builtin: Builtin, args: &[Operand]) -> Option<FastResult> {
        let wanted = match args.get(1) {
            // The code is the first byte.
            Some(Operand::Imm { tag: type_index::DATA_TYPE, bits }) => Some(*bits as u8),
            _ => None,
        };
        let ranges = accepted_types(builtin, wanted);
        let known = match *args.first()? {
            Operand::Slot(_, tag) => tag,
            Operand::Imm { tag, .. } | Operand::Scalar { tag, .. } => Some(tag),
            Operand::Heap(..) | Operand::Const(_) | Operand::Vm => return None,
        };
        match (known, args[0]) {
            (Some(tag), _) => {
                let passes = ranges.iter().any(|&(first, last)| (first..=last).contains(&tag));
                return passes.then_some(FastResult::None);
            }
            (None, Operand::Slot(slot, None)) if !ranges.is_empty() => {
                let tag = self.e.tag(slot);
                let passes = ranges.iter().map(|&range| self.between(tag, range));
                let passes: Vec<Value> = passes.collect();
                let any = passes.into_iter().reduce(|any, this| self.e.b.ins().bor(any, this))?;
                self.require(any);
            }
            _ => return None,
        }
        Some(FastResult::None)
    }

    fn between(&mut self, tag: Value, (first, last): Range) -> Value {
        let above = self.e.b.ins().iadd_imm_s(tag, -i64::from(first));
        self.e.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, above, i64::from(last - first))
    }
}
