//! The virtual objects of allocations.

use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::byte_size;
use reflex_vm::builtins::Builtin;

use super::super::super::ir::{Arg, Object, Scalar};
use super::{EscapeAnalysis, shapes};
use crate::recycle::ReusePlan;

impl EscapeAnalysis<'_> {
    /// The virtual object of an allocation, if its contents are known.
    pub(super) fn allocated(
        &mut self,
        builtin: Builtin,
        plan: &ReusePlan,
        args: &[Arg],
    ) -> Option<Object> {
        match (builtin, plan, args) {
            // The arena of a trace is host memory.
            (Builtin::AllocStorage, ReusePlan::Storage { .. }, [_, shape, _, dtype, ..])
                if self.program.device().is_cpu() =>
            {
                let bytes = byte_size(&self.shape(*shape)?, element_type(*dtype)?).ok()?;
                Some(Object::Storage { at: self.arena.take(bytes)?, bytes })
            }
            (
                Builtin::AllocTensor,
                ReusePlan::Tensor { .. },
                [Arg::Reg(storage, _), offset, shape, dtype, ..],
            ) => {
                let on = *self.virtuals.get(storage)?;
                let Object::Storage { bytes, .. } = self.objects[on.0 as usize] else {
                    return None;
                };
                let Arg::Scalar(Scalar::Const { tag: type_index::INT, bits }) = *offset else {
                    return None;
                };
                let (shape, dtype) = (self.shape(*shape)?, element_type(*dtype)?);
                let offset = usize::try_from(bits).ok()?;
                let end = offset.checked_add(byte_size(&shape, dtype).ok()?)?;
                (end <= bytes).then_some(Object::Tensor { on, offset, shape, dtype })
            }
            (Builtin::AllocShapeHeap, ReusePlan::Heap { entries }, _) => {
                Some(Object::Heap { entries: vec![shapes::number(0); *entries] })
            }
            (Builtin::MakeShape, ReusePlan::Shape, [heap, _, pairs @ ..]) => {
                Some(Object::Shape { dims: self.dims_made(*heap, pairs)? })
            }
            _ => None,
        }
    }

    pub(super) fn shape(&self, arg: Arg) -> Option<Vec<i64>> {
        let Arg::Const(index) = arg else { return None };
        let constant = self.program.consts()[index as usize].view();
        Some(constant.downcast_ref::<Shape>()?.to_vec())
    }
}

fn element_type(arg: Arg) -> Option<DType> {
    let Arg::Scalar(Scalar::Const { tag: type_index::DATA_TYPE, bits }) = arg else { return None };
    Some(DType::from_bits(bits as i32))
}
