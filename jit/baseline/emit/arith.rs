//! Binary arithmetic and comparisons on scalars or vectors of one shape.
//!
//! No operation traps: dividing by zero gives 0 (quotient and remainder), and the quotient of
//! the smallest integer by -1 wraps.

use cranelift_codegen::ir::condcodes::{CondCode, FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use reflex_tir::codegen::Arch;
use reflex_tir::{BinOp, CmpOp, DType};

use crate::emit::Emitter;
use crate::error::{BaselineError, Result};

impl Emitter<'_, '_, '_> {
    /// `a op b`; both of type `dtype` and of one shape. Sums and products of int64 are indices (`index.rs`).
    pub(super) fn binary(&mut self, op: BinOp, a: Value, b: Value, dtype: DType) -> Result<Value> {
        if dtype.is_float() {
            let value = self.float_binary(op, a, b)?;
            let exact = matches!(op, BinOp::Min | BinOp::Max);
            let rounds = dtype.is_half() && !exact;
            return Ok(if rounds { self.round_half(value, dtype) } else { value });
        }
        if dtype.is_bool() {
            return match op {
                BinOp::Mul | BinOp::Min => Ok(self.b.ins().band(a, b)),
                BinOp::Add | BinOp::Max => Ok(self.b.ins().bor(a, b)),
                _ => Err(BaselineError::new(format!("no {op:?} of bools"))),
            };
        }
        let less = if dtype.is_int() { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
        match op {
            BinOp::Add => Ok(self.b.ins().iadd(a, b)),
            BinOp::Sub => Ok(self.b.ins().isub(a, b)),
            BinOp::Mul => Ok(self.b.ins().imul(a, b)),
            BinOp::Min => {
                let better = self.b.ins().icmp(less, a, b);
                Ok(self.select(better, a, b))
            }
            BinOp::Max => {
                let better = self.b.ins().icmp(less, b, a);
                Ok(self.select(better, a, b))
            }
            BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => {
                self.int_division(op, a, b, dtype)
            }
        }
    }

    /// `a op b`
    pub(super) fn compare(&mut self, op: CmpOp, a: Value, b: Value, dtype: DType) -> Value {
        if dtype.is_float() {
            let op = match op {
                CmpOp::Eq => FloatCC::Equal,
                CmpOp::Ne => FloatCC::NotEqual,
                CmpOp::Lt => FloatCC::LessThan,
                CmpOp::Le => FloatCC::LessThanOrEqual,
                CmpOp::Gt => FloatCC::GreaterThan,
                CmpOp::Ge => FloatCC::GreaterThanOrEqual,
            };
            return self.fcmp(op, a, b);
        }
        let op = match (op, dtype.is_int()) {
            (CmpOp::Eq, _) => IntCC::Equal,
            (CmpOp::Ne, _) => IntCC::NotEqual,
            (CmpOp::Lt, true) => IntCC::SignedLessThan,
            (CmpOp::Le, true) => IntCC::SignedLessThanOrEqual,
            (CmpOp::Gt, true) => IntCC::SignedGreaterThan,
            (CmpOp::Ge, true) => IntCC::SignedGreaterThanOrEqual,
            (CmpOp::Lt, false) => IntCC::UnsignedLessThan,
            (CmpOp::Le, false) => IntCC::UnsignedLessThanOrEqual,
            (CmpOp::Gt, false) => IntCC::UnsignedGreaterThan,
            (CmpOp::Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
        };
        self.b.ins().icmp(op, a, b)
    }

    /// A comparison of floats: a bool, or a mask of lanes.
    pub(super) fn fcmp(&mut self, op: FloatCC, a: Value, b: Value) -> Value {
        let or_unordered = matches!(
            op,
            FloatCC::UnorderedOrLessThan
                | FloatCC::UnorderedOrLessThanOrEqual
                | FloatCC::UnorderedOrGreaterThan
                | FloatCC::UnorderedOrGreaterThanOrEqual
        );
        // Cranelift has no rule for these of NEON's vectors, whose comparisons are false for a NaN.
        if or_unordered && self.ty(a).is_vector() && self.unit.cpu.arch() == Some(Arch::Aarch64) {
            let ordered = self.b.ins().fcmp(op.complement(), a, b);
            return self.b.ins().bnot(ordered);
        }
        self.b.ins().fcmp(op, a, b)
    }

    fn float_binary(&mut self, op: BinOp, a: Value, b: Value) -> Result<Value> {
        Ok(match op {
            BinOp::Add => self.b.ins().fadd(a, b),
            BinOp::Sub => self.b.ins().fsub(a, b),
            BinOp::Mul => self.b.ins().fmul(a, b),
            BinOp::Div => self.b.ins().fdiv(a, b),
            BinOp::Mod => return self.libm("fmod", &[a, b]),
            BinOp::FloorDiv => {
                let quotient = self.b.ins().fdiv(a, b);
                self.b.ins().floor(quotient)
            }
            BinOp::FloorMod => {
                let quotient = self.b.ins().fdiv(a, b);
                let floor = self.b.ins().floor(quotient);
                let product = self.b.ins().fmul(floor, b);
                self.b.ins().fsub(a, product)
            }
            BinOp::Min => self.float_extremum(FloatCC::LessThan, a, b),
            BinOp::Max => self.float_extremum(FloatCC::GreaterThan, a, b),
        })
    }

    /// `if a cmp b or a is NaN { a } else { b }`
    fn float_extremum(&mut self, op: FloatCC, a: Value, b: Value) -> Value {
        let better = self.fcmp(op, a, b);
        let nan = self.fcmp(FloatCC::Unordered, a, a);
        let first = self.b.ins().bor(better, nan);
        self.select(first, a, b)
    }

    /// `Min` or `Max` of `value` and a constant that is not NaN: one comparison.
    pub(super) fn float_limit(&mut self, op: BinOp, value: Value, limit: Value) -> Value {
        let op = match op {
            BinOp::Max => FloatCC::UnorderedOrGreaterThan,
            _ => FloatCC::UnorderedOrLessThan,
        };
        let better = self.fcmp(op, value, limit);
        self.select(better, value, limit)
    }

    fn int_division(&mut self, op: BinOp, a: Value, b: Value, dtype: DType) -> Result<Value> {
        let ty = self.ty(a);
        if ty.is_vector() {
            return Err(BaselineError::new(format!("no {op:?} of integers in vectors")));
        }
        if ty.bits() >= 32 {
            return Ok(self.division(op, a, b, dtype));
        }
        let [a, b] = [a, b].map(|x| match dtype.is_int() {
            true => self.b.ins().sextend(types::I32, x),
            false => self.b.ins().uextend(types::I32, x),
        });
        let wide = self.division(op, a, b, dtype);
        Ok(self.b.ins().ireduce(ty, wide))
    }

    /// Of 32 or 64 bits. 0 for a divisor of 0. A divisor of -1 becomes a division of `-a` by 1, which
    /// gives the same quotient and remainder and cannot overflow.
    fn division(&mut self, op: BinOp, a: Value, b: Value, dtype: DType) -> Value {
        let (ty, signed) = (self.ty(a), dtype.is_int());
        let constant =
            self.known(b).map(|c| if ty == types::I32 { i64::from(c as i32) } else { c });
        if let (Some(c), true, BinOp::FloorDiv | BinOp::FloorMod) = (constant, signed, op)
            && c > 0
            && c & (c - 1) == 0
        {
            return self.by_power_of_two(op, a, c);
        }
        if matches!(constant, Some(c) if c != 0 && c != -1) {
            return self.plain_division(op, a, b, signed);
        }
        let (zero, one, minus_one) = (self.int(ty, 0), self.int(ty, 1), self.int(ty, -1));
        let zero_divisor = self.b.ins().icmp(IntCC::Equal, b, zero);
        let (mut replaced, mut dividend) = (zero_divisor, a);
        if signed {
            let negates = self.b.ins().icmp(IntCC::Equal, b, minus_one);
            replaced = self.b.ins().bor(zero_divisor, negates);
            let negated = self.b.ins().ineg(a);
            dividend = self.b.ins().select(negates, negated, a);
        }
        let divisor = self.b.ins().select(replaced, one, b);
        let result = self.plain_division(op, dividend, divisor, signed);
        self.b.ins().select(zero_divisor, zero, result)
    }

    fn by_power_of_two(&mut self, op: BinOp, a: Value, divisor: i64) -> Value {
        let ty = self.ty(a);
        if op == BinOp::FloorMod {
            let mask = self.int(ty, divisor - 1);
            return self.b.ins().band(a, mask);
        }
        let shift = self.int(ty, i64::from(divisor.trailing_zeros()));
        self.b.ins().sshr(a, shift)
    }

    /// By a divisor that is neither 0 nor -1.
    fn plain_division(&mut self, op: BinOp, a: Value, b: Value, signed: bool) -> Value {
        match (op, signed) {
            (BinOp::Div | BinOp::FloorDiv, false) => self.b.ins().udiv(a, b),
            (_, false) => self.b.ins().urem(a, b),
            (BinOp::Div, true) => self.b.ins().sdiv(a, b),
            (BinOp::Mod, true) => self.b.ins().srem(a, b),
            (op, true) => self.floor_division(op, a, b),
        }
    }

    /// From the truncating pair: where the remainder's sign is not the divisor's, step down.
    fn floor_division(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        let ty: Type = self.ty(a);
        let zero = self.int(ty, 0);
        let quotient = self.b.ins().sdiv(a, b);
        let product = self.b.ins().imul(quotient, b);
        let rest = self.b.ins().isub(a, product);
        let nonzero = self.b.ins().icmp(IntCC::NotEqual, rest, zero);
        let signs = self.b.ins().bxor(rest, b);
        let differ = self.b.ins().icmp(IntCC::SignedLessThan, signs, zero);
        let adjust = self.b.ins().band(nonzero, differ);
        if op == BinOp::FloorDiv {
            let step = self.b.ins().uextend(ty, adjust);
            return self.b.ins().isub(quotient, step);
        }
        let step = self.b.ins().select(adjust, b, zero);
        self.b.ins().iadd(rest, step)
    }
}
