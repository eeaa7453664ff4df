//! Positions of elements in memory.

use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Buffer, Expr, ExprKind, PrimFunc};

/// The row-major position of an element, simplified where that helps: `64 * (x // 64) + x % 64` is
/// `x` again, which may be a ramp.
pub fn position(func: &PrimFunc, buffer: Buffer, indices: &[Expr]) -> Expr {
    let flat = func.row_major(buffer, indices);
    match indices.iter().any(has_remainder) {
        true => Analyzer::new().simplify(&flat),
        false => flat,
    }
}

/// Whether an index takes a remainder.
pub fn has_remainder(index: &Expr) -> bool {
    let mut found = false;
    index.visit(&mut |e| {
        found |= matches!(e.kind(), ExprKind::Binary { op: BinOp::FloorMod, .. });
    });
    found
}
