//! Integer expressions that the host evaluates between launches: extents, grids, conditions.
//!
//! An expression is a list of operations on a stack, so that those of a file are decoded, checked and
//! evaluated without recursion.

use std::collections::HashMap;

use reflex_tir::{BinOp, CmpOp, Expr, ExprKind, Intrin, Var};
use serde::{Deserialize, Serialize};

/// The deepest stack of an expression.
const DEPTH: usize = 32;

/// Numbers of variables in a frame.
#[derive(Debug, Default)]
pub(super) struct Slots(HashMap<Var, u32>);

impl Slots {
    /// The slot of a variable, which is made where it has none.
    pub(super) fn of(&mut self, var: Var) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(var).or_insert(next)
    }

    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }
}

/// An expression over the slots of a frame. Booleans are 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostExpr(Vec<HostOp>);

/// An operation: it takes its operands from the stack, the last one first, and leaves its value there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum HostOp {
    Int(i64),
    Slot(u32),
    Binary(BinOp),
    Compare(CmpOp),
    And,
    Or,
    Not,
    /// Of a condition and two values, both of which are there.
    Select,
}

impl HostOp {
    /// The number of its operands.
    fn takes(self) -> usize {
        match self {
            HostOp::Int(_) | HostOp::Slot(_) => 0,
            HostOp::Not => 1,
            HostOp::Binary(_) | HostOp::Compare(_) | HostOp::And | HostOp::Or => 2,
            HostOp::Select => 3,
        }
    }
}

impl HostExpr {
    /// Translates an expression of 64-bit integers and booleans; the error says what else it has.
    pub(super) fn of(expr: &Expr, slots: &mut Slots) -> Result<HostExpr, String> {
        let mut ops = vec![];
        add(expr, slots, &mut ops)?;
        Ok(HostExpr(ops))
    }

    /// A constant.
    pub(super) fn int(value: i64) -> HostExpr {
        HostExpr(vec![HostOp::Int(value)])
    }

    /// A product.
    pub(super) fn times(mut self, other: HostExpr) -> HostExpr {
        self.0.extend(other.0);
        self.0.push(HostOp::Binary(BinOp::Mul));
        self
    }

    /// The number that the expression is, if it is one.
    pub(super) fn as_int(&self) -> Option<i64> {
        match self.0[..] {
            [HostOp::Int(value)] => Some(value),
            _ => None,
        }
    }

    /// The slot that the expression is, if it is one.
    pub(super) fn as_slot(&self) -> Option<u32> {
        match self.0[..] {
            [HostOp::Slot(slot)] => Some(slot),
            _ => None,
        }
    }

    /// Checks an expression: each operation finds its operands, each slot is one of `slots`, and one
    /// value is left.
    pub(super) fn verify(&self, slots: u32) -> Result<(), String> {
        let mut depth = 0_usize;
        for op in &self.0 {
            if let HostOp::Slot(slot) = op
                && *slot >= slots
            {
                return Err(format!("slot {slot} of {slots}"));
            }
            depth = depth.checked_sub(op.takes()).ok_or("an operation without its operands")? + 1;
            if depth > DEPTH {
                return Err(format!("an expression of the host is deeper than {DEPTH}"));
            }
        }
        if depth == 1 { Ok(()) } else { Err(format!("an expression with {depth} values")) }
    }

    /// The value; a division by zero is 0, as loop IR leaves it open. The expression is verified.
    #[inline]
    pub(super) fn value(&self, slots: &[i64]) -> i64 {
        match self.0[..] {
            [HostOp::Int(value)] => value,
            [HostOp::Slot(slot)] => slots[slot as usize],
            _ => self.evaluated(slots),
        }
    }

    #[inline(never)]
    fn evaluated(&self, slots: &[i64]) -> i64 {
        let (mut stack, mut depth) = ([0; DEPTH], 0);
        for op in &self.0 {
            depth -= op.takes();
            let operand = |n: usize| stack[depth + n];
            let truth = |n: usize| operand(n) != 0;
            stack[depth] = match *op {
                HostOp::Int(value) => value,
                HostOp::Slot(slot) => slots[slot as usize],
                HostOp::Binary(op) => binary(op, operand(0), operand(1)),
                HostOp::Compare(op) => i64::from(op.holds(&operand(0), &operand(1))),
                HostOp::And => i64::from(truth(0) && truth(1)),
                HostOp::Or => i64::from(truth(0) || truth(1)),
                HostOp::Not => i64::from(!truth(0)),
                HostOp::Select => operand(if truth(0) { 1 } else { 2 }),
            };
            depth += 1;
        }
        stack[0]
    }
}

/// Adds the operations of an expression.
fn add(expr: &Expr, slots: &mut Slots, ops: &mut Vec<HostOp>) -> Result<(), String> {
    let mut all = |parts: &[&Expr], op: HostOp| -> Result<(), String> {
        parts.iter().try_for_each(|part| add(part, slots, ops))?;
        ops.push(op);
        Ok(())
    };
    match expr.kind() {
        ExprKind::Int { value, .. } => all(&[], HostOp::Int(*value)),
        ExprKind::Binary { op, a, b } => all(&[a, b], HostOp::Binary(*op)),
        ExprKind::Compare { op, a, b } => all(&[a, b], HostOp::Compare(*op)),
        ExprKind::And(a, b) => all(&[a, b], HostOp::And),
        ExprKind::Or(a, b) => all(&[a, b], HostOp::Or),
        ExprKind::Not(a) => all(&[a], HostOp::Not),
        ExprKind::Var { var, dtype } if !dtype.is_float() => {
            let slot = slots.of(*var);
            ops.push(HostOp::Slot(slot));
            Ok(())
        }
        ExprKind::Select { cond, on_true, on_false } => {
            all(&[cond, on_true, on_false], HostOp::Select)
        }
        ExprKind::Call { op: Intrin::IfThenElse, args, .. } => match &args[..] {
            [cond, on_true, on_false] => all(&[cond, on_true, on_false], HostOp::Select),
            _ => Err("a condition without its two sides".to_owned()),
        },
        // Values of narrower types are as they were bound; only widening keeps them so.
        ExprKind::Cast { dtype, value }
            if dtype.is_int() && dtype.bits == 64 && !value.dtype().is_float() =>
        {
            add(value, slots, ops)
        }
        ExprKind::Var { .. }
        | ExprKind::Float { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Load { .. }
        | ExprKind::Call { .. } => Err(format!("the host cannot evaluate {expr:?}")),
        #[allow(unreachable_patterns, reason = "variants of vectors")]
        _ => Err(format!("the host cannot evaluate {expr:?}")),
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

    #[test]
    fn a_stack_has_the_values_of_the_tree() {
        use HostOp::{Compare, Int, Not, Select, Slot};
        let minus = HostOp::Binary(BinOp::Sub);
        // select(slot0 < 4, 10 - slot1, !slot1)
        let ops =
            [Slot(0), Int(4), Compare(CmpOp::Lt), Int(10), Slot(1), minus, Slot(1), Not, Select];
        let expr = HostExpr(ops.to_vec());
        expr.verify(2).unwrap();
        assert_eq!((expr.value(&[3, 7]), expr.value(&[4, 7]), expr.value(&[4, 0])), (3, 0, 1));
        assert_eq!(expr.verify(1), Err("slot 1 of 1".to_owned()));
    }

    #[test]
    fn damaged_expressions_are_refused() {
        for ops in [
            vec![],
            vec![HostOp::Not],
            vec![HostOp::Int(1), HostOp::And],
            vec![HostOp::Int(1), HostOp::Int(2)],
            vec![HostOp::Int(1); 2 * DEPTH],
        ] {
            assert!(HostExpr(ops.clone()).verify(9).is_err(), "{ops:?}");
        }
    }
}
