//! Integer expressions that the host evaluates between launches: extents, grids, conditions.

use std::collections::HashMap;

use reflex_tir::{BinOp, CmpOp, Expr, ExprKind, Intrin, Var};

/// Numbers of variables in a frame.
#[derive(Debug, Default)]
pub(super) struct Slots(HashMap<Var, usize>);

impl Slots {
    /// The slot of a variable, which is made where it has none.
    pub(super) fn of(&mut self, var: Var) -> usize {
        let next = self.0.len();
        *self.0.entry(var).or_insert(next)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// An expression over the slots of a frame. Booleans are 0 and 1.
#[derive(Debug)]
pub(super) enum HostExpr {
    Int(i64),
    Slot(usize),
    Binary(BinOp, Box<[HostExpr; 2]>),
    Compare(CmpOp, Box<[HostExpr; 2]>),
    And(Box<[HostExpr; 2]>),
    Or(Box<[HostExpr; 2]>),
    Not(Box<HostExpr>),
    Select(Box<[HostExpr; 3]>),
}

impl HostExpr {
    /// Translates an expression of 64-bit integers and booleans; the error says what else it has.
    pub(super) fn of(expr: &Expr, slots: &mut Slots) -> Result<HostExpr, String> {
        let mut two = |a: &Expr, b: &Expr| -> Result<Box<[HostExpr; 2]>, String> {
            Ok(Box::new([HostExpr::of(a, slots)?, HostExpr::of(b, slots)?]))
        };
        Ok(match expr.kind() {
            ExprKind::Int { value, .. } => HostExpr::Int(*value),
            ExprKind::Binary { op, a, b } => HostExpr::Binary(*op, two(a, b)?),
            ExprKind::Compare { op, a, b } => HostExpr::Compare(*op, two(a, b)?),
            ExprKind::And(a, b) => HostExpr::And(two(a, b)?),
            ExprKind::Or(a, b) => HostExpr::Or(two(a, b)?),
            ExprKind::Not(a) => HostExpr::Not(Box::new(HostExpr::of(a, slots)?)),
            ExprKind::Var { var, dtype } if !dtype.is_float() => HostExpr::Slot(slots.of(*var)),
            ExprKind::Select { cond, on_true, on_false } => {
                HostExpr::select([cond, on_true, on_false], slots)?
            }
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => match &args[..] {
                [cond, on_true, on_false] => HostExpr::select([cond, on_true, on_false], slots)?,
                _ => return Err("a condition without its two sides".to_owned()),
            },
            // Values of narrower types are as they were bound; only widening keeps them so.
            ExprKind::Cast { dtype, value }
                if dtype.is_int() && dtype.bits == 64 && !value.dtype().is_float() =>
            {
                HostExpr::of(value, slots)?
            }
            ExprKind::Var { .. }
            | ExprKind::Float { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Load { .. }
            | ExprKind::Call { .. } => return Err(format!("the host cannot evaluate {expr:?}")),
            #[allow(unreachable_patterns, reason = "variants of vectors")]
            _ => return Err(format!("the host cannot evaluate {expr:?}")),
        })
    }

    fn select(parts: [&Expr; 3], slots: &mut Slots) -> Result<HostExpr, String> {
        let [cond, on_true, on_false] = parts;
        let parts = [
            HostExpr::of(cond, slots)?,
            HostExpr::of(on_true, slots)?,
            HostExpr::of(on_false, slots)?,
        ];
        Ok(HostExpr::Select(Box::new(parts)))
    }

    /// The value; a division by zero is 0, as loop IR leaves it open.
    pub(super) fn value(&self, slots: &[i64]) -> i64 {
        match self {
            HostExpr::Int(value) => *value,
            HostExpr::Slot(slot) => slots[*slot],
            HostExpr::Binary(op, sides) => {
                let [a, b] = &**sides;
                binary(*op, a.value(slots), b.value(slots))
            }
            HostExpr::Compare(op, sides) => {
                let [a, b] = &**sides;
                let (a, b) = (a.value(slots), b.value(slots));
                i64::from(match op {
                    CmpOp::Eq => a == b,
                    CmpOp::Ne => a != b,
                    CmpOp::Lt => a < b,
                    CmpOp::Le => a <= b,
                    CmpOp::Gt => a > b,
                    CmpOp::Ge => a >= b,
                })
            }
            HostExpr::And(sides) => i64::from(sides.iter().all(|side| side.value(slots) != 0)),
            HostExpr::Or(sides) => i64::from(sides.iter().any(|side| side.value(slots) != 0)),
            HostExpr::Not(value) => i64::from(value.value(slots) == 0),
            HostExpr::Select(parts) => {
                let [cond, on_true, on_false] = &**parts;
                if cond.value(slots) != 0 { on_true.value(slots) } else { on_false.value(slots) }
            }
        }
    }
}

fn binary(op: BinOp, a: i64, b: i64) -> i64 {
    let floor_div = || {
        let quotient = a.checked_div(b).unwrap_or(0);
        let down = a.checked_rem(b).is_some_and(|rest| rest != 0 && (rest < 0) != (b < 0));
        quotient.wrapping_sub(i64::from(down))
    };
    match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div => a.checked_div(b).unwrap_or(0),
        BinOp::Mod => a.checked_rem(b).unwrap_or(0),
        BinOp::FloorDiv => floor_div(),
        BinOp::FloorMod => a.wrapping_sub(floor_div().wrapping_mul(b)),
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_as_loop_ir_says() {
        for (a, b, floor, rest) in [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1)]
        {
            assert_eq!(binary(BinOp::FloorDiv, a, b), floor, "{a} // {b}");
            assert_eq!(binary(BinOp::FloorMod, a, b), rest, "{a} % {b}");
            assert_eq!((binary(BinOp::Div, a, b), binary(BinOp::Mod, a, b)), (a / b, a % b));
        }
        assert_eq!(binary(BinOp::FloorDiv, 5, 0), 0);
    }
}
