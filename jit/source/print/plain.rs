//! Arithmetic of positions, which operators of C mean as well: it cannot overflow.
//!
//! Loop variables and extents are bounded by the size of what is in memory, so sums and products of them that are
//! positions of elements stay far below 2^63. Other 64-bit integers may be anything, and wrap.

use reflex_tir::{BinOp, DType, Expr, ExprKind, Intrin};

use crate::print::Printer;

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the position of an element, or a bound of a loop: products are of extents.
    Index,
    /// It is a value, of which nothing is known.
    Value,
}

/// Numbers that are added to positions, and those that values are multiplied by, are below these.
const LARGEST: u64 = 1 << 40;
const FACTOR: u64 = 1 << 20;

impl Printer<'_, '_> {
    /// Whether int64 arithmetic cannot overflow.
    pub fn is_plain(&self, e: &Expr, place: Place) -> bool {
        let both = |a: &Expr, b: &Expr| self.is_plain(a, place) && self.is_plain(b, place);
        let factor = |e: &Expr| e.as_int().is_some_and(|n| n.unsigned_abs() < FACTOR);
        match e.kind() {
            ExprKind::Int { value, .. } => value.unsigned_abs() < LARGEST,
            ExprKind::Var { var, .. } => self.positions.contains(var),
            ExprKind::Binary { op, a, b } => match op {
                BinOp::Mul => both(a, b) && (place == Place::Index || factor(a) || factor(b)),
                BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => {
                    b.as_int().is_some_and(|n| n > 0) && self.is_plain(a, place)
                }
                BinOp::Add | BinOp::Sub | BinOp::Min | BinOp::Max => both(a, b),
            },
            ExprKind::Cast { dtype: DType::I64, value } => {
                let dtype = value.dtype();
                !dtype.is_float() && dtype.bits <= 32
            }
            ExprKind::Select { on_true, on_false, .. } => both(on_true, on_false),
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => both(&args[1], &args[2]),
            _ => false,
        }
    }
}
