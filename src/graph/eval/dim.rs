//! Values of integer expressions over symbolic dimensions.

use reflex_tir::{BinOp, DType, Expr, ExprKind, Intrin, Var};

/// Values of symbolic dimensions; `None` for one that is not known.
pub type DimValues<'a> = &'a dyn Fn(Var) -> Option<i64>;

/// The value of an int64 or bool expression; `None` when a dimension is unknown, when it
/// divides by zero or overflows, or when it is not an integer expression.
pub fn eval_dim(e: &Expr, dims: DimValues<'_>) -> Option<i64> {
    let on = |e: &Expr| eval_dim(e, dims);
    match e.kind() {
        ExprKind::Int { value, .. } => Some(*value),
        ExprKind::Var { var, .. } => dims(*var),
        ExprKind::Binary { op, a, b } => binary(*op, on(a)?, on(b)?),
        ExprKind::Compare { op, a, b } => Some(op.holds(&on(a)?, &on(b)?) as i64),
        ExprKind::And(a, b) => Some(((on(a)? != 0) && (on(b)? != 0)) as i64),
        ExprKind::Or(a, b) => Some(((on(a)? != 0) || (on(b)? != 0)) as i64),
        ExprKind::Not(a) => Some((on(a)? == 0) as i64),
        ExprKind::Select { cond, on_true, on_false } => {
            if on(cond)? != 0 {
                on(on_true)
            } else {
                on(on_false)
            }
        }
        ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
            if on(&args[0])? != 0 {
                on(&args[1])
            } else {
                on(&args[2])
            }
        }
        ExprKind::Cast { dtype, value } if *dtype == DType::BOOL => Some((on(value)? != 0) as i64),
        ExprKind::Cast { dtype, value } if *dtype == DType::I64 => on(value),
        ExprKind::Float { .. }
        | ExprKind::Load { .. }
        | ExprKind::Call { .. }
        | ExprKind::Cast { .. } => None,
    }
}

fn binary(op: BinOp, a: i64, b: i64) -> Option<i64> {
    match op {
        BinOp::Add => a.checked_add(b),
        BinOp::Sub => a.checked_sub(b),
        BinOp::Mul => a.checked_mul(b),
        BinOp::Div => a.checked_div(b),
        BinOp::Mod => a.checked_rem(b),
        BinOp::FloorDiv => {
            let (q, r) = (a.checked_div(b)?, a.checked_rem(b)?);
            Some(if r != 0 && (r < 0) != (b < 0) { q - 1 } else { q })
        }
        BinOp::FloorMod => {
            let r = a.checked_rem(b)?;
            Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
        }
        BinOp::Min => Some(a.min(b)),
        BinOp::Max => Some(a.max(b)),
    }
}
