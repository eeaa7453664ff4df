//! Positions of elements in memory, with what is constant in them last.
//!
//! Decision: docs/decisions/0113-shared-code-in-llvm-objects.md

use inkwell::values::{BasicValueEnum, InstructionOpcode, IntValue};
use reflex_tir::arith::Analyzer;
use reflex_tir::index_width::flat_index;
use reflex_tir::{BinOp, Buffer, DType, Expr, ExprKind};

use crate::emit::value::LaneValue;
use crate::emit::{Emitter, Unit};
use crate::error::{CodegenError, Result};

/// An index: a part that is not constant, and the constant that is added to it.
type Parts<'c> = (LaneValue<'c>, i64);

/// The parts of a sum of a value and a constant.
pub(super) fn constant_part(sum: IntValue<'_>) -> Option<(IntValue<'_>, IntValue<'_>)> {
    let sum = sum.as_instruction().filter(|i| i.get_opcode() == InstructionOpcode::Add)?;
    let operand = |at: u32| match sum.get_operand(at)?.value()? {
        BasicValueEnum::IntValue(value) => Some(value),
        _ => None,
    };
    let constant = operand(1).filter(|value| value.is_constant_int())?;
    Some((operand(0)?, constant))
}

impl<'c> Emitter<'_, 'c> {
    /// Row-major element offset; a single index into another rank than 1 is one already.
    pub(super) fn offset(&mut self, buffer: Buffer, indices: &[Expr]) -> Result<LaneValue<'c>> {
        let shape = &self.func.buffers[buffer].shape;
        if let [flat] = indices
            && shape.len() != 1
        {
            return self.constant_last(flat);
        }
        if shape.len() != indices.len() {
            let (name, n) = (&self.func.buffers[buffer].name, indices.len());
            return Err(CodegenError::new(format!("{n} indices into {name}")));
        }
        if self.widths.is_some() && indices.len() > 1 {
            let flat = flat_index(self.func, buffer, indices);
            return self.expr(&flat);
        }
        if indices.iter().any(has_remainder) {
            // `64 * (x // 64) + x % 64` is `x` again, and `x` may be a ramp.
            let flat = Analyzer::new().simplify(&self.func.row_major(buffer, indices));
            return self.constant_last(&flat);
        }
        let mut offset = self.index(0);
        for (extent, index) in shape.iter().zip(indices) {
            let (known, extent) = (extent.as_int(), self.expr(extent)?);
            let index = self.index_parts(index)?;
            offset = match known {
                Some(factor) => self.scaled(offset, factor)?,
                None => {
                    let whole = self.sum(offset)?;
                    (self.index_binary(InstructionOpcode::Mul, whole, extent)?, 0)
                }
            };
            offset.0 = self.index_binary(InstructionOpcode::Add, offset.0, index.0)?;
            offset.1 = offset.1.wrapping_add(index.1);
        }
        self.sum(offset)
    }

    /// An index, its constant part added last.
    fn constant_last(&mut self, index: &Expr) -> Result<LaneValue<'c>> {
        let parts = self.index_parts(index)?;
        self.sum(parts)
    }

    /// An index as a sum of what is not constant here and a constant. Accesses that differ in constants share
    /// the rest, and the constants become displacements ([`Self::element`]).
    fn index_parts(&mut self, index: &Expr) -> Result<Parts<'c>> {
        if self.unit == Unit::Gpu || index.dtype() != DType::I64 {
            return Ok((self.expr(index)?, 0));
        }
        match index.kind() {
            ExprKind::Int { value, .. } => Ok(self.index(*value)),
            ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub), a, b } => {
                let (a, b) = (self.index_parts(a)?, self.index_parts(b)?);
                let (op, constant) = match op {
                    BinOp::Add => (InstructionOpcode::Add, a.1.wrapping_add(b.1)),
                    _ => (InstructionOpcode::Sub, a.1.wrapping_sub(b.1)),
                };
                Ok((self.index_binary(op, a.0, b.0)?, constant))
            }
            ExprKind::Binary { op: BinOp::Mul, a, b } => match (a.as_int(), b.as_int()) {
                (_, Some(factor)) => {
                    let a = self.index_parts(a)?;
                    self.scaled(a, factor)
                }
                (Some(factor), _) => {
                    let b = self.index_parts(b)?;
                    self.scaled(b, factor)
                }
                _ => Ok((self.expr(index)?, 0)),
            },
            ExprKind::Var { .. } => Ok(match self.expr(index)? {
                LaneValue::Uniform(BasicValueEnum::IntValue(n)) if n.is_constant_int() => {
                    self.index(n.get_sign_extended_constant().unwrap_or(0))
                }
                LaneValue::Ramp { base, stride } if base.is_constant_int() => {
                    let constant = base.get_sign_extended_constant().unwrap_or(0);
                    (LaneValue::Ramp { base: self.ir.i64(0), stride }, constant)
                }
                other => (other, 0),
            }),
            _ => Ok((self.expr(index)?, 0)),
        }
    }

    fn index(&self, constant: i64) -> Parts<'c> {
        (LaneValue::Uniform(self.ir.i64(0).into()), constant)
    }

    fn scaled(&self, (value, constant): Parts<'c>, factor: i64) -> Result<Parts<'c>> {
        let scale = LaneValue::Uniform(self.ir.i64(factor).into());
        let value = self.index_binary(InstructionOpcode::Mul, value, scale)?;
        Ok((value, constant.wrapping_mul(factor)))
    }

    fn sum(&self, (value, constant): Parts<'c>) -> Result<LaneValue<'c>> {
        if constant == 0 {
            return Ok(value);
        }
        let constant = LaneValue::Uniform(self.ir.i64(constant).into());
        self.index_binary(InstructionOpcode::Add, value, constant)
    }

    pub(super) fn index_binary(
        &self,
        op: InstructionOpcode,
        a: LaneValue<'c>,
        b: LaneValue<'c>,
    ) -> Result<LaneValue<'c>> {
        let kept = match op {
            InstructionOpcode::Mul => self.ir.mul_index(a, b)?,
            _ => self.ir.add_index(op, a, b)?,
        };
        if let Some(value) = kept {
            return Ok(value);
        }
        let both = self.same_shape(&[a, b])?;
        Ok(LaneValue::of(self.ir.binary(op, both[0], both[1])?))
    }
}

fn has_remainder(index: &Expr) -> bool {
    let mut found = false;
    index.visit(&mut |e| {
        found |= matches!(e.kind(), ExprKind::Binary { op: BinOp::FloorMod, .. });
    });
    found
}
