//! Rows of float32 as integers, each with a scale of its own.

use reflex_graph::{Binary, Func, Literal, Op, ReduceKind, Unary, Value};
use reflex_tir::DType;

use super::edit::Emitter;
use crate::LowerError;

/// The least magnitude that a row is scaled for: its reciprocal is finite, and zeros stay zeros.
pub(super) const TINY: f32 = 1e-30;

/// Whether a value is made of rows of float32.
pub(super) fn has_rows(func: &Func, x: Value) -> bool {
    let ty = func.tensor(x);
    ty.dtype == DType::F32 && ty.shape.len() > 1
}

/// Rows whose greatest magnitude becomes `greatest`, rounded to even and moved by `zero_point`, still float32; and what `greatest`
/// stands for in each row.
pub(super) fn rounded_rows(
    emit: &mut Emitter<'_>,
    x: Value,
    [greatest, zero_point]: [f32; 2],
) -> Result<[Value; 2], LowerError> {
    let [tiny, greatest, zero] =
        [TINY, greatest, zero_point].map(|n| emit.constant(Literal::from_f32(vec![], &[n])));
    let last = emit.func.tensor(x).shape.len() - 1;
    let magnitude = emit.op(Op::Unary(Unary::Abs), &[x])?;
    let kind = ReduceKind::Max;
    let most = emit.op(Op::Reduce { kind, axes: vec![last], keep_dims: true }, &[magnitude])?;
    let most = emit.op(Op::Binary(Binary::Max), &[most, tiny])?;
    let inverse = emit.op(Op::Binary(Binary::Div), &[greatest, most])?;
    let scaled = emit.op(Op::Binary(Binary::Mul), &[x, inverse])?;
    let whole = emit.op(Op::Unary(Unary::Round), &[scaled])?;
    let moved = emit.op(Op::Binary(Binary::Add), &[whole, zero])?;
    Ok([moved, most])
}
