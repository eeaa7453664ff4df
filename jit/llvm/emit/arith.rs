//! Binary arithmetic and comparisons on scalars or vectors of one shape.
//!
//! No operation traps: dividing by zero gives 0 (quotient and remainder), and the quotient of
//! the smallest integer by -1 wraps. Masked lanes may hold any divisor.

use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, InstructionOpcode};
use inkwell::{FloatPredicate, IntPredicate};
use reflex_tir::{BinOp, CmpOp, DType};

use crate::emit::Emitter;
use crate::emit::ir::{element_of, result_of};
use crate::error::{CodegenError, Result};

type Basic<'c> = BasicValueEnum<'c>;

/// Signedness of integer operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signedness {
    Signed,
    Unsigned,
}

/// A constant limit of a clamp.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// A zero of either sign.
    Zero,
    /// Any other number.
    Nonzero,
}

impl<'c> Emitter<'_, 'c> {
    /// `a op b`; both of type `dtype` and of one shape.
    pub(super) fn binary(
        &self,
        op: BinOp,
        a: Basic<'c>,
        b: Basic<'c>,
        dtype: DType,
    ) -> Result<Basic<'c>> {
        if dtype.is_float() {
            let value = self.float_binary(op, a, b)?;
            let exact = matches!(op, BinOp::Min | BinOp::Max);
            return if dtype.is_half() && !exact {
                self.round_half(value, dtype)
            } else {
                Ok(value)
            };
        }
        if dtype.is_bool() {
            return self.bool_binary(op, a, b);
        }
        let sign = if dtype.is_int() { Signedness::Signed } else { Signedness::Unsigned };
        self.int_binary(op, a, b, sign)
    }

    /// `a op b`
    pub(super) fn compare(
        &self,
        op: CmpOp,
        a: Basic<'c>,
        b: Basic<'c>,
        dtype: DType,
    ) -> Result<Basic<'c>> {
        if dtype.is_float() {
            let op = match op {
                CmpOp::Eq => FloatPredicate::OEQ,
                CmpOp::Ne => FloatPredicate::UNE,
                CmpOp::Lt => FloatPredicate::OLT,
                CmpOp::Le => FloatPredicate::OLE,
                CmpOp::Gt => FloatPredicate::OGT,
                CmpOp::Ge => FloatPredicate::OGE,
            };
            return self.ir.fcmp(op, a, b);
        }
        let op = match (op, dtype.is_int()) {
            (CmpOp::Eq, _) => IntPredicate::EQ,
            (CmpOp::Ne, _) => IntPredicate::NE,
            (CmpOp::Lt, true) => IntPredicate::SLT,
            (CmpOp::Le, true) => IntPredicate::SLE,
            (CmpOp::Gt, true) => IntPredicate::SGT,
            (CmpOp::Ge, true) => IntPredicate::SGE,
            (CmpOp::Lt, false) => IntPredicate::ULT,
            (CmpOp::Le, false) => IntPredicate::ULE,
            (CmpOp::Gt, false) => IntPredicate::UGT,
            (CmpOp::Ge, false) => IntPredicate::UGE,
        };
        self.ir.icmp(op, a, b)
    }

    fn float_binary(&self, op: BinOp, a: Basic<'c>, b: Basic<'c>) -> Result<Basic<'c>> {
        let ir = &self.ir;
        match op {
            BinOp::Add => ir.binary(InstructionOpcode::FAdd, a, b),
            BinOp::Sub => ir.binary(InstructionOpcode::FSub, a, b),
            BinOp::Mul => ir.binary(InstructionOpcode::FMul, a, b),
            BinOp::Div => ir.binary(InstructionOpcode::FDiv, a, b),
            BinOp::Mod => self.each_lane("fmod", &[a, b]),
            BinOp::FloorDiv => {
                let quotient = ir.binary(InstructionOpcode::FDiv, a, b)?;
                ir.pure_intrinsic("llvm.floor", &[quotient])
            }
            BinOp::FloorMod => {
                let quotient = ir.binary(InstructionOpcode::FDiv, a, b)?;
                let floor = ir.pure_intrinsic("llvm.floor", &[quotient])?;
                let product = ir.binary(InstructionOpcode::FMul, floor, b)?;
                ir.binary(InstructionOpcode::FSub, a, product)
            }
            BinOp::Min => self.float_extremum(FloatPredicate::OLT, a, b),
            BinOp::Max => self.float_extremum(FloatPredicate::OGT, a, b),
        }
    }

    /// `if a cmp b or a is NaN { a } else { b }`. As two choices, one of them for NaN, LLVM 19.1 makes
    /// `x > 0 ? |x| : 0` of the maximum of `|x|` and 0 (InstCombine looks through the absolute value), unless the first is
    /// an instruction asked for by name.
    fn float_extremum(&self, op: FloatPredicate, a: Basic<'c>, b: Basic<'c>) -> Result<Basic<'c>> {
        let nan = self.ir.fcmp(FloatPredicate::UNO, a, a)?;
        if let Some(better) = self.x86_extremum(op, a, b)? {
            return self.ir.select(nan, a, better);
        }
        let better = self.ir.fcmp(op, a, b)?;
        let first = self.ir.binary(InstructionOpcode::Or, better, nan)?;
        self.ir.select(first, a, b)
    }

    /// `if a cmp b { a } else { b }` of float32 that fill a register: `maxps` or `minps`.
    fn x86_extremum(
        &self,
        op: FloatPredicate,
        a: Basic<'c>,
        b: Basic<'c>,
    ) -> Result<Option<Basic<'c>>> {
        let BasicValueEnum::VectorValue(vector) = a else { return Ok(None) };
        if vector.get_type().get_element_type() != self.ir.context.f32_type().into() {
            return Ok(None);
        }
        let name = if op == FloatPredicate::OGT { "max" } else { "min" };
        let mut args: Vec<BasicMetadataValueEnum<'c>> = vec![a.into(), b.into()];
        let name = match (self.instructions.x86_vector_bytes, vector.get_type().get_size()) {
            (16.., 4) => format!("llvm.x86.sse.{name}.ps"),
            (32.., 8) => format!("llvm.x86.avx.{name}.ps.256"),
            (64.., 16) => {
                // The rounding that is set: none takes place.
                args.push(self.ir.i32(4).into());
                format!("llvm.x86.avx512.{name}.ps.512")
            }
            _ => return Ok(None),
        };
        Ok(Some(result_of(self.ir.intrinsic(&name, &[], &args)?)?))
    }

    /// `Min` or `Max` of `value` and a constant that is not NaN, which takes one or two
    /// instructions where the general form takes four.
    pub(super) fn float_limit(
        &self,
        op: BinOp,
        value: Basic<'c>,
        limit: Basic<'c>,
        kind: Limit,
    ) -> Result<Basic<'c>> {
        if kind == Limit::Zero {
            // Zeros of either sign compare equal, and the limit must win then.
            let unordered =
                if op == BinOp::Max { FloatPredicate::UGT } else { FloatPredicate::ULT };
            let better = self.ir.fcmp(unordered, value, limit)?;
            return self.ir.select(better, value, limit);
        }
        let op = if op == BinOp::Max { FloatPredicate::OGT } else { FloatPredicate::OLT };
        let beyond = self.ir.fcmp(op, limit, value)?;
        self.ir.select(beyond, limit, value)
    }

    fn bool_binary(&self, op: BinOp, a: Basic<'c>, b: Basic<'c>) -> Result<Basic<'c>> {
        match op {
            BinOp::Mul | BinOp::Min => self.ir.binary(InstructionOpcode::And, a, b),
            BinOp::Add | BinOp::Max => self.ir.binary(InstructionOpcode::Or, a, b),
            _ => Err(CodegenError::new(format!("no {op:?} of bools"))),
        }
    }

    fn int_binary(
        &self,
        op: BinOp,
        a: Basic<'c>,
        b: Basic<'c>,
        sign: Signedness,
    ) -> Result<Basic<'c>> {
        let ir = &self.ir;
        let extremum = |s: IntPredicate, u: IntPredicate| {
            let better = ir.icmp(if sign == Signedness::Signed { s } else { u }, a, b)?;
            ir.select(better, a, b)
        };
        match op {
            BinOp::Add => ir.binary(InstructionOpcode::Add, a, b),
            BinOp::Sub => ir.binary(InstructionOpcode::Sub, a, b),
            BinOp::Mul => ir.binary(InstructionOpcode::Mul, a, b),
            BinOp::Min => extremum(IntPredicate::SLT, IntPredicate::ULT),
            BinOp::Max => extremum(IntPredicate::SGT, IntPredicate::UGT),
            BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => {
                self.int_division(op, a, b, sign)
            }
        }
    }

    fn int_division(
        &self,
        op: BinOp,
        a: Basic<'c>,
        b: Basic<'c>,
        sign: Signedness,
    ) -> Result<Basic<'c>> {
        let ir = &self.ir;
        if sign == Signedness::Unsigned {
            let quotient = matches!(op, BinOp::Div | BinOp::FloorDiv);
            let opcode = if quotient { InstructionOpcode::UDiv } else { InstructionOpcode::URem };
            return self.guarded_division(a, b, sign, |a, b| ir.binary(opcode, a, b));
        }
        if let (Some(shift), BinOp::FloorDiv | BinOp::FloorMod) = (power_of_two(b), op) {
            let ty = element_of(b.get_type()).into_int_type();
            return match op {
                BinOp::FloorDiv => {
                    ir.binary(InstructionOpcode::AShr, a, ir.int_like(a, ty, i64::from(shift)))
                }
                _ => ir.binary(InstructionOpcode::And, a, ir.int_like(a, ty, (1i64 << shift) - 1)),
            };
        }
        self.guarded_division(a, b, sign, |a, b| match op {
            BinOp::Div => ir.binary(InstructionOpcode::SDiv, a, b),
            BinOp::Mod => ir.binary(InstructionOpcode::SRem, a, b),
            _ => self.floor_division(op, a, b),
        })
    }

    /// From the truncating pair: where the remainder's sign is not the divisor's, step down.
    fn floor_division(&self, op: BinOp, a: Basic<'c>, b: Basic<'c>) -> Result<Basic<'c>> {
        let ir = &self.ir;
        let ty = element_of(a.get_type()).into_int_type();
        let zero = ir.int_like(a, ty, 0);
        let quotient = ir.binary(InstructionOpcode::SDiv, a, b)?;
        let product = ir.binary(InstructionOpcode::Mul, quotient, b)?;
        let rest = ir.binary(InstructionOpcode::Sub, a, product)?;
        let nonzero = ir.icmp(IntPredicate::NE, rest, zero)?;
        let signs = ir.binary(InstructionOpcode::Xor, rest, b)?;
        let differ = ir.icmp(IntPredicate::SLT, signs, zero)?;
        let adjust = ir.binary(InstructionOpcode::And, nonzero, differ)?;
        if op == BinOp::FloorDiv {
            let step = ir.convert(InstructionOpcode::SExt, adjust, ty)?;
            return ir.binary(InstructionOpcode::Add, quotient, step);
        }
        let step = ir.select(adjust, b, zero)?;
        ir.binary(InstructionOpcode::Add, rest, step)
    }

    /// `divide(a, b)` where that is defined; 0 for a divisor of 0. A divisor of -1 becomes a
    /// division of `-a` by 1, which gives the same quotient and remainder and cannot overflow.
    fn guarded_division(
        &self,
        a: Basic<'c>,
        b: Basic<'c>,
        sign: Signedness,
        divide: impl Fn(Basic<'c>, Basic<'c>) -> Result<Basic<'c>>,
    ) -> Result<Basic<'c>> {
        let ir = &self.ir;
        if matches!(constant(b), Some(c) if c != 0 && c != -1) {
            return divide(a, b);
        }
        let ty = element_of(b.get_type()).into_int_type();
        let value = |v: i64| ir.int_like(b, ty, v);
        let zero_divisor = ir.icmp(IntPredicate::EQ, b, value(0))?;
        let mut replaced = zero_divisor;
        let mut dividend = a;
        if sign == Signedness::Signed {
            let minus_one = ir.icmp(IntPredicate::EQ, b, value(-1))?;
            replaced = ir.binary(InstructionOpcode::Or, zero_divisor, minus_one)?;
            let negated = ir.binary(InstructionOpcode::Sub, value(0), a)?;
            dividend = ir.select(minus_one, negated, a)?;
        }
        let divisor = ir.select(replaced, value(1), b)?;
        let result = divide(dividend, divisor)?;
        ir.select(zero_divisor, value(0), result)
    }
}

/// The constant that every lane holds.
fn constant(value: Basic<'_>) -> Option<i64> {
    match value {
        BasicValueEnum::IntValue(v) => v.get_sign_extended_constant(),
        BasicValueEnum::VectorValue(v) if v.is_constant_data_vector() => {
            let lane =
                |i| v.get_element_as_constant(i).into_int_value().get_sign_extended_constant();
            let first = lane(0)?;
            (1..v.get_type().get_size()).all(|i| lane(i) == Some(first)).then_some(first)
        }
        _ => None,
    }
}

fn power_of_two(value: Basic<'_>) -> Option<u32> {
    let constant = constant(value)?;
    (constant > 0 && constant & (constant - 1) == 0).then(|| constant.trailing_zeros())
}
