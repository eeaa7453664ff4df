//! Costs that thresholds compare.

use reflex_tir::{DType, Expr, ExprKind, Intrin};

use crate::schedule::core::access::has_load;

/// Rough cost of one element in simple vector operations; loads are free, but for gathers, whose
/// indices are loaded themselves.
pub fn cost(e: &Expr) -> usize {
    let mut total = 0;
    e.visit(&mut |e| {
        total += match e.kind() {
            ExprKind::Call { op, args, .. } => match op {
                // Two neighbouring elements: a load.
                Intrin::PairBf16 if args[0].dtype() == DType::BF16 => 0,
                Intrin::Prefetch => 0,
                Intrin::Pack4x8 => 1,
                Intrin::IfThenElse | Intrin::Fma | Intrin::Abs | Intrin::Floor => 1,
                Intrin::Sqrt | Intrin::Round | Intrin::Ceil | Intrin::Trunc => 4,
                Intrin::Pow => 40,
                _ => 15,
            },
            ExprKind::Load { indices, .. } if has_load(indices) => 8,
            ExprKind::Binary { op: reflex_tir::BinOp::Div, .. } => 4,
            ExprKind::Binary { .. } | ExprKind::Compare { .. } | ExprKind::Select { .. } => 1,
            _ => 0,
        };
    });
    total
}
