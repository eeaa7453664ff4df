//! VNNI-packed operands: elements rounded to bfloat16, two in a uint32, as [`Intrin::DotBf16`]
//! multiplies them.
//!
//! Elements `2k` and `2k + 1` along the reduced axis become the lower and the upper half of a
//! uint32; past an odd end there is a zero. Rounding is to nearest even; subnormal numbers become
//! zero, as the dot product treats them ([`Intrin::PairBf16`]). Elements that were stored rounded
//! ([`crate::fuse`]) are VNNI pairs in memory already.
//!
//! Decision: docs/decisions/0040-bf16-dot-product.md

use reflex_tir::{Buffer, DType, Expr, Intrin};

use crate::legalize::builder::OpBuilder;

/// VNNI pair `k` along an axis of `extent` elements, given by `element`.
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

/// A tensor operand with its elements along `axis` in VNNI pairs.
pub fn packed(cx: &mut OpBuilder<'_>, operand: usize, axis: usize) -> Buffer {
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
