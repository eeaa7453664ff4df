//! Recognises products with constant matrices, which Winograd transforms are.

use reflex_tir::{BinOp, DType, Expr, ExprKind, Intrin};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::panels::bind;
use crate::schedule::core::stage::Axis;

/// Longest side of a constant matrix.
const MAX_SIDE: i64 = 8;

/// Whether `value` adds to a sum an element times one constant matrix or two.
pub fn is_constant_matrix_product(value: &Expr) -> bool {
    constant_matrices(value).is_ok()
}

/// The constant matrices and the element of a sum `acc + (P * Q) * x` or `acc + P * x`.
pub fn constant_matrices(value: &Expr) -> Result<(&Expr, Option<&Expr>, &Expr), Refusal> {
    let ExprKind::Call { op: Intrin::Fma, args, .. } = value.kind() else {
        return Err(Refusal::NoConstantMatrix);
    };
    let (p, q) = match args[0].kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } => (a, Some(b)),
        _ => (&args[0], None),
    };
    let element = matches!(args[1].kind(), ExprKind::Load { dtype: DType::F32, .. });
    let sums = matches!(args[2].kind(), ExprKind::Load { .. });
    match element && sums && is_constant_matrix(p) && q.is_none_or(is_constant_matrix) {
        true => Ok((p, q, &args[1])),
        false => Err(Refusal::NoConstantMatrix),
    }
}

/// Whether `e` chooses between constants.
/// A matrix by rows.
pub type ConstantMatrix = Vec<Vec<f64>>;

fn is_constant_matrix(e: &Expr) -> bool {
    fn chosen(e: &Expr) -> bool {
        match e.kind() {
            ExprKind::Float { .. } => true,
            ExprKind::Select { on_true, on_false, .. } => chosen(on_true) && chosen(on_false),
            _ => false,
        }
    }
    matches!(e.kind(), ExprKind::Select { .. }) && chosen(e)
}

/// The entries of a constant matrix, by the axes that index its rows and its columns.
pub fn constant_matrix(e: &Expr, row: &Axis, column: &Axis) -> Result<ConstantMatrix, Refusal> {
    let (Some(rows @ 1..=MAX_SIDE), Some(columns @ 1..=MAX_SIDE)) =
        (row.extent.as_int(), column.extent.as_int())
    else {
        return Err(Refusal::NoConstantMatrix);
    };
    let at = |r: i64, c: i64| {
        let bound = [(row.var, Expr::i64(r)), (column.var, Expr::i64(c))];
        match bind(e, &bound).kind() {
            ExprKind::Float { bits, .. } => Ok(f64::from_bits(*bits)),
            _ => Err(Refusal::NoConstantMatrix),
        }
    };
    (0..rows).map(|r| (0..columns).map(|c| at(r, c)).collect()).collect()
}
