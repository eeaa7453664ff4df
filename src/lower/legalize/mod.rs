//! Legalisation: the naive loop IR of every operator, the last column of the operator table.
//!
//! [`legalize`] writes one [`PrimFunc`](reflex_tir::PrimFunc) whose blocks say what is computed
//! and nothing about how fast: one block per stage, one loop per axis, symbolic dimensions
//! anywhere. [`crate::schedule`] makes it fast. No `_` arm matches on [`Op`], so a new operator
//! does not compile until it is written here.
//!
//! Choices that are visible in results:
//! - A multiply-add of a contraction is one [`Intrin::Fma`](reflex_tir::Intrin::Fma) per step on
//!   floats, in index order; in precision `bf16` one
//!   [`Intrin::DotBf16`](reflex_tir::Intrin::DotBf16) for every two steps.
//! - float16 and bfloat16 are computed in float32 and rounded once per stage's result.
//! - `Mean` is the sum divided by the count. Softmax subtracts the maximum. Layer norm takes
//!   the variance in a second pass.
//! - An index tensor's values count from the end when negative and are then clamped into range,
//!   so that no index reads or writes foreign memory. Where the operator raises an error, a check
//!   before the kernel's body does.
//!
//! Decision: docs/decisions/0003-numeric-contract.md

mod builder;
mod conv;
mod elementwise;
mod index;
mod matmul;
mod nbits;
mod pool;
mod reduce;
mod registered;
mod resize;
mod rnn;
mod shape;
mod sort;
mod vnni;
mod winograd;

use reflex_graph::Op;

use crate::legalize::builder::OpBuilder;
pub use crate::legalize::builder::{LegalizeError, Legalized, OpCall, Operand};
use crate::legalize::reduce::{ReducedAxes, Scan, Ties};
use crate::legalize::sort::Order;
use crate::precision::Precision;

/// The naive kernel `name` of `op` over the types of `call`.
pub fn legalize(
    name: &str,
    op: &Op,
    call: &OpCall<'_>,
    precision: Precision,
) -> Result<Legalized, LegalizeError> {
    let mut cx = OpBuilder::new(name, op, call);
    let reduced = |keep_dims| if keep_dims { ReducedAxes::Kept } else { ReducedAxes::Dropped };
    cx.precision = precision;
    match op {
        Op::Unary(kind) => elementwise::unary(&mut cx, *kind)?,
        Op::Binary(kind) => elementwise::binary(&mut cx, *kind)?,
        Op::Where => elementwise::choose(&mut cx),
        Op::Cast(to) => elementwise::cast(&mut cx, *to),
        Op::Reduce { kind, axes, keep_dims } => {
            reduce::reduce(&mut cx, *kind, axes, reduced(*keep_dims))
        }
        Op::ArgReduce { kind, axis, keep_dims, select_last } => {
            let ties = if *select_last { Ties::Last } else { Ties::First };
            reduce::arg_reduce(&mut cx, *kind, *axis, reduced(*keep_dims), ties)
        }
        Op::Bitcast(to) => elementwise::bitcast(&mut cx, *to),
        Op::Scan { kind, axis, exclusive, reverse } => {
            let (kind, axis) = (*kind, *axis);
            let scan = Scan { kind, axis, exclusive: *exclusive, reverse: *reverse };
            reduce::scan(&mut cx, &scan)
        }
        Op::MatMul => matmul::matmul(&mut cx)?,
        Op::MatMulInteger => matmul::matmul_integer(&mut cx)?,
        Op::MatMulNBits(attrs) => nbits::matmul_nbits(&mut cx, *attrs)?,
        Op::ConvInteger(attrs) => conv::conv_integer(&mut cx, attrs)?,
        Op::Conv(attrs) => match cx.winograd_tile(1) {
            Some(tile) => winograd::conv(&mut cx, attrs, tile),
            None => conv::conv(&mut cx, attrs),
        },
        Op::ConvTranspose { conv, .. } => conv::conv_transpose(&mut cx, conv),
        Op::Pool(attrs) => pool::pool(&mut cx, attrs),
        Op::Softmax { axis, log: false } => reduce::softmax(&mut cx, *axis),
        Op::Softmax { axis, log: true } => reduce::log_softmax(&mut cx, *axis),
        Op::LayerNorm { axis, epsilon } => reduce::layer_norm(&mut cx, *axis, *epsilon),
        Op::Reshape(_) => shape::reshape(&mut cx),
        Op::Transpose(perm) => shape::transpose(&mut cx, perm),
        Op::Broadcast(_) => shape::broadcast(&mut cx),
        Op::Concat { axis } => shape::concat(&mut cx, *axis),
        Op::Slice { begin, stride, .. } => shape::slice(&mut cx, begin, stride),
        Op::Pad { mode, before, .. } => shape::pad(&mut cx, *mode, before),
        Op::Gather { kind, out_of_range } => index::gather(&mut cx, kind, *out_of_range),
        Op::Scatter { kind, reduce, out_of_range } => {
            index::scatter(&mut cx, kind, *reduce, *out_of_range)?;
        }
        Op::Resize(attrs) => resize::resize(&mut cx, attrs),
        Op::TopK { axis, largest, .. } => {
            sort::top_k(&mut cx, *axis, if *largest { Order::Descending } else { Order::Ascending })
        }
        Op::Iota { .. } => shape::iota(&mut cx),
        Op::Dims { values, .. } => shape::dims(&mut cx, values),
        Op::Rnn(attrs) => rnn::rnn(&mut cx, attrs)?,
        Op::Registered(op) => return registered::kernel(name, op),
    }
    Ok(cx.finish())
}
