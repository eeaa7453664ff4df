//! VNNI-packed operands: elements rounded to bfloat16, two in a uint32, as [`Intrin::DotBf16`]
//! multiplies them; 8-bit integers, four in a uint32, as [`Intrin::DotI8`] does.
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

/// Word `k` of four 8-bit integers along an axis of `extent` elements, given by `element`; past the
/// end there are zeros.
pub fn word(k: &Expr, extent: &Expr, element: &dyn Fn(Expr) -> Expr) -> Expr {
    let whole = extent.as_int().is_some_and(|n| n % 4 == 0);
    let bytes = (0..4).map(|n| {
        let at = k.clone() * 4 + n;
        let byte = element(at.clone());
        match whole || n == 0 {
            true => byte,
            false => {
                let zero = Expr::int(0, byte.dtype());
                Expr::if_then_else(at.lt(extent.clone()), byte, zero)
            }
        }
    });
    Expr::call(Intrin::Pack4x8, bytes.collect())
}

/// A tensor operand of 8-bit integers with its elements along `axis` in words.
pub fn words(cx: &mut OpBuilder<'_>, operand: usize, axis: usize) -> Buffer {
    let (mut shape, read) = (cx.args[operand].shape.clone(), cx.reader(operand));
    let extent = shape[axis].clone();
    shape[axis] = extent.clone().ceildiv(4);
    cx.f.stage(&format!("words{operand}"), "words", DType::U32, shape, |f, i| {
        word(&i[axis], &extent, &|k| {
            let mut at = i.to_vec();
            at[axis] = k;
            read(f, &at)
        })
    })
}
