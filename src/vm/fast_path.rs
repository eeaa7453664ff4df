//! Fast paths: the interpreter's inline checks for the builtins that functions begin with.
//!
//! A check of a tensor against constants mostly passes. Then no argument needs to be put into the
//! argument area and no code of the builtin runs. The slow path (another kind of value, a
//! mismatch, a heap) is the builtin, which makes the error message.

use reflex_runtime::abi::{DLTensor, TVMFFIAny, type_index};

use crate::builtins::{Builtin, match_code};
use crate::decode::Source;

/// The operands of an operation.
#[derive(Clone, Copy)]
pub struct Operands<'a> {
    /// The base address of each kind of source, by [`Source::kind`].
    pub bases: [*const TVMFFIAny; 4],
    /// The source operands of the operation.
    pub sources: &'a [Source],
}

impl Operands<'_> {
    /// # Safety
    /// The bases are those of a live frame, and the operation has an argument `at`.
    #[inline(always)]
    unsafe fn get(self, at: usize) -> TVMFFIAny {
        // SAFETY: sources of verified code are in bounds of their base.
        unsafe {
            let source = self.sources.get_unchecked(at);
            *self.bases[source.kind()].add(source.index() as usize)
        }
    }

    /// # Safety
    /// As for [`Operands::get`].
    #[inline(always)]
    unsafe fn int(self, at: usize) -> Option<i64> {
        // SAFETY: the caller's obligations are those of `get`; a value of type INT has an integer
        // payload.
        unsafe {
            let value = self.get(at);
            if value.type_index == type_index::INT { Some(value.payload.int) } else { None }
        }
    }

    /// # Safety
    /// As for [`Operands::get`]; the tensor lives as long as the frame is unchanged.
    #[inline(always)]
    unsafe fn tensor<'t>(self, at: usize) -> Option<&'t DLTensor> {
        // SAFETY: tensor objects have a DLTensor after their header.
        unsafe {
            let value = self.get(at);
            (value.type_index == type_index::TENSOR).then(|| &*value.payload.obj.add(1).cast())
        }
    }
}

/// Returns true if `builtin` is a check that passes, so that its call would do nothing and give None.
///
/// # Safety
/// The operands are those of a verified call of `builtin` in a live frame.
#[inline(always)]
pub unsafe fn check_passes(builtin: Builtin, operands: Operands<'_>) -> bool {
    // SAFETY: the caller passes the operands of a verified call of this builtin.
    unsafe {
        match builtin {
            Builtin::CheckTensorInfo => check_tensor(operands),
            Builtin::MatchShape => match_constants(operands).unwrap_or(false),
            _ => false,
        }
    }
}

/// `check_tensor_info(x, ndim, dtype, context)`.
///
/// # Safety
/// As for [`check_passes`].
#[inline(always)]
unsafe fn check_tensor(operands: Operands<'_>) -> bool {
    if operands.sources.len() != 4 {
        return false;
    }
    // SAFETY: there are four operands; an element type's payload is the type.
    unsafe {
        let (Some(tensor), Some(ndim)) = (operands.tensor(0), operands.int(1)) else {
            return false;
        };
        let dtype = operands.get(2);
        i64::from(tensor.ndim) == ndim
            && dtype.type_index == type_index::DATA_TYPE
            && dtype.payload.dtype == tensor.dtype
    }
}

/// `match_shape(x, None, n, (ASSERT_IMM, dim) * n, context)`; None for any other form.
///
/// # Safety
/// As for [`check_passes`].
#[inline(always)]
unsafe fn match_constants(operands: Operands<'_>) -> Option<bool> {
    if operands.sources.len() < 4 {
        return None;
    }
    // SAFETY: the indices are below the number of operands, which is 4 + 2n; a tensor's shape
    // has `ndim` dimensions.
    unsafe {
        let tensor = operands.tensor(0)?;
        let ndim = operands.int(2)?;
        if i64::from(tensor.ndim) != ndim || operands.sources.len() as i64 != 4 + 2 * ndim {
            return None;
        }
        for dim in 0..ndim as usize {
            let (code, expected) = (operands.int(3 + 2 * dim)?, operands.int(4 + 2 * dim)?);
            if code != match_code::ASSERT_IMM || *tensor.shape.add(dim) != expected {
                return None;
            }
        }
        // No code uses the heap, but it must be a heap or None; the builtin checks other values.
        Some(operands.get(1).type_index == type_index::NONE)
    }
}
