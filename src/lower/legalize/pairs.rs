//! Factors rounded to bfloat16, two in a word: what [`Intrin::DotBf16`] multiplies.
//!
//! Elements `2k` and `2k + 1` along the axis that a product sums over become the lower and the
//! upper half of a uint32; past an odd end there is a zero. Rounding is to nearest even; subnormal
//! numbers become zero, which the product takes them for ([`Intrin::PairBf16`]). Elements that were
//! stored rounded ([`crate::fuse`]) are pairs in memory already.

use half::bf16;
use reflex_graph::{ConvAttrs, Literal, TensorType};
use reflex_tir::{Buffer, DType, Expr, Intrin};
use reflex_vm::executable::AlignedBytes;

use super::packing::Matrix;
use super::{Cx, Packing};
use crate::precision::Precision;
use crate::schedule::LAYOUT_LANES;

/// Shorter sums of products of two tensors that are no constants stay in float32.
const MIN_DEPTH: i64 = 16;

/// Element `k` of a tensor of pairs whose axis has `extent` elements, given by `element`.
pub fn pair(k: &Expr, extent: &Expr, element: &dyn Fn(Expr) -> Expr) -> Expr {
    let (low, high) = (k.clone() * 2, k.clone() * 2 + 1);
    let inside = match extent.as_int() {
        Some(n) if n % 2 == 0 => Expr::bool(true),
        _ => high.clone().lt(extent.clone()),
    };
    let low = element(low);
    let upper = Expr::if_then_else(inside, element(high), Expr::constant(0.0, low.dtype()));
    Expr::call(Intrin::PairBf16, vec![low, upper])
}

/// A tensor operand with its elements along `axis` in pairs.
pub fn paired(cx: &mut Cx<'_>, operand: usize, axis: usize) -> Buffer {
    let (mut shape, read) = (cx.args[operand].shape.clone(), cx.reader(operand));
    let extent = shape[axis].clone();
    shape[axis] = extent.clone().ceildiv(2);
    cx.f.stage(&format!("pairs{operand}"), "pairs", DType::U32, shape, |f, i| {
        pair(&i[axis], &extent, &|k| {
            let mut at = i.to_vec();
            at[axis] = k;
            read(f, &at)
        })
    })
}

/// Whether a matrix product of operands that are not packed is computed from pairs.
pub fn suit_matmul(precision: Precision, a: &TensorType, b: &TensorType) -> bool {
    let long = |n: &Expr, least: i64| n.as_int().is_none_or(|n| n >= least);
    let ([.., rows, depth], [.., columns]) = (&a.shape[..], &b.shape[..]) else { return false };
    let floats = (a.dtype, b.dtype) == (DType::F32, DType::F32) && b.shape.len() > 1;
    // A row alone would use each of the other operand's elements once.
    precision == Precision::Bf16
        && floats
        && long(rows, 2)
        && long(depth, MIN_DEPTH)
        && long(columns, LAYOUT_LANES)
}

/// Whether a convolution of groups of channels is computed from pairs: each group has whole ones,
/// and enough of them for the copy of its input to be worth it.
pub fn suit_groups(attrs: &ConvAttrs, weights: &TensorType) -> bool {
    let channels = |n: &Expr| n.as_int().is_some_and(|n| n >= MIN_DEPTH && n % 2 == 0);
    let outputs = weights.shape[0].as_int().unwrap_or(0) / attrs.groups;
    attrs.groups > 1 && channels(&weights.shape[1]) && outputs > 1
}

/// The bytes of a constant's packed form.
pub fn packed(packing: &Packing, value: &Literal) -> Option<AlignedBytes> {
    let (batch, k, n) = packing.matrix.extents(&packing.shape)?;
    let [batch, k, n, taps, width] =
        [batch, k, n, packing.taps(), packing.width].map(|extent| extent as usize);
    let (row_stride, col_stride) = match packing.matrix {
        Matrix::KByN => (n, 1),
        Matrix::NByK | Matrix::NByRest | Matrix::Tiles { .. } => (1, k),
    };
    let words = value.bytes().as_chunks::<4>().0;
    let (channels, panels) = (k / taps, n.div_ceil(width));
    let rows = channels.div_ceil(2) * taps;
    let mut out = AlignedBytes::zeroed(batch * panels * rows * width * 4);
    for (at, word) in out.as_mut().as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let (line, lane) = (at / width, at % width);
        let (outer, row) = (line / rows, line % rows);
        let (matrix, column) = (outer / panels, outer % panels * width + lane);
        let (channel, tap) = (row / taps * 2, row % taps);
        let half = |channel: usize| {
            if channel >= channels || column >= n {
                return 0;
            }
            let from = (channel * taps + tap) * row_stride + column * col_stride;
            let x = f32::from_le_bytes(words[matrix * k * n + from]);
            let normal = if x.is_subnormal() { 0_f32.copysign(x) } else { x };
            bf16::from_f32(normal).to_bits()
        };
        let (low, high) = (half(channel).to_le_bytes(), half(channel + 1).to_le_bytes());
        *word = [low[0], low[1], high[0], high[1]];
    }
    Some(out)
}
