//! Checks of shapes and axes, and tensors over computed bytes.

use std::sync::Arc;

use reflex_tir::DType;

use super::error::{EvalError, Result};
use crate::literal::Literal;

/// A tensor of `shape` over `bytes`; an error if their number does not fit.
pub(super) fn literal(dtype: DType, shape: Vec<i64>, bytes: Vec<u8>) -> Result<Literal> {
    let text = format!("{dtype}{shape:?} from {} bytes", bytes.len());
    Literal::new(dtype, shape, Arc::new(bytes)).ok_or_else(|| EvalError::new(text))
}

/// Results from this size on, in bytes, are computed when they are read, if they can be.
const LARGE: usize = 64 << 10;

/// A tensor of the bytes that `make` gives, which are as many as its shape asks for. Many are made when they are read:
/// a folded weight is read where it is packed, and gone after it.
pub(super) fn computed<const N: usize>(
    dtype: DType,
    shape: Vec<i64>,
    operands: [&Literal; N],
    make: impl FnOnce([&Literal; N], &[i64]) -> Vec<u8> + Send + 'static,
) -> Result<Literal> {
    let text = format!("{dtype}{shape:?}");
    if dtype.bytes_for(count(&shape)?).is_none_or(|size| size < LARGE) {
        let bytes = make(operands, &shape);
        return literal(dtype, shape, bytes);
    }
    let (to, of, operands) = (shape.clone(), operands, operands.map(Literal::clone));
    let result = Literal::computed(dtype, shape, &of, move || {
        let bytes = make(operands.each_ref(), &to);
        operands.iter().for_each(Literal::release);
        literal(dtype, to, bytes).expect("a number for each element")
    });
    result.ok_or_else(|| EvalError::new(text))
}

/// Number of elements of a shape; an error if a dimension is negative.
pub(super) fn count(shape: &[i64]) -> Result<usize> {
    shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))
        .filter(|n| *n <= isize::MAX as usize / 16)
        .ok_or_else(|| EvalError::new(format!("{shape:?} is not the shape of a tensor")))
}

pub(super) fn need_axis(axis: usize, rank: usize) -> Result<()> {
    if axis < rank {
        return Ok(());
    }
    Err(EvalError::new(format!("axis {axis} of a tensor of rank {rank}")))
}
