//! Expressions.

use inkwell::values::{BasicValueEnum, InstructionOpcode, VectorValue};
use reflex_tir::{BinOp, DType, Expr, ExprKind, Intrin, Sign, half_float};

use crate::emit::arith::Limit;
use crate::emit::value::LaneValue;
use crate::emit::{Emitter, VectorLoop};
use crate::error::{CodegenError, Result};

impl<'c> Emitter<'_, 'c> {
    /// Evaluates `expr` in the current lanes.
    pub fn expr(&mut self, expr: &Expr) -> Result<LaneValue<'c>> {
        match expr.kind() {
            ExprKind::Int { value, dtype } => self.int_constant(*value, *dtype),
            ExprKind::Float { bits, dtype } => self.float_constant(f64::from_bits(*bits), *dtype),
            ExprKind::Var { var, .. } => self.vars.get(var).copied().ok_or_else(|| {
                CodegenError::new(format!("variable {} is unbound", self.func.vars[*var].name))
            }),
            ExprKind::Binary { op, a, b } => self.binary_expr(expr, *op, a, b),
            ExprKind::Compare { op, a, b } => {
                let (x, y) = self.pair(a, b)?;
                if let Some([x, y]) = self.narrowed(&[a, b], [x, y])? {
                    return Ok(LaneValue::of(self.compare(*op, x, y, DType::I32)?));
                }
                Ok(LaneValue::of(self.compare(*op, x, y, a.dtype())?))
            }
            ExprKind::And(a, b) => self.logic(InstructionOpcode::And, a, b),
            ExprKind::Or(a, b) => self.logic(InstructionOpcode::Or, a, b),
            ExprKind::Not(a) => {
                let value = self.uniform_or_varying(a)?;
                let ones = self.ir.int_like(value, self.ir.context.bool_type(), 1);
                Ok(LaneValue::of(self.ir.binary(InstructionOpcode::Xor, value, ones)?))
            }
            ExprKind::Select { cond, on_true, on_false } => {
                let cond = self.uniform_or_varying(cond)?;
                let (a, b) = self.pair(on_true, on_false)?;
                self.choose(cond, a, b)
            }
            ExprKind::Cast { dtype, value } => {
                let operand = self.uniform_or_varying(value)?;
                if is_clipped(value, *dtype) {
                    return Ok(LaneValue::of(self.clipped_to_int(operand, *dtype)?));
                }
                Ok(LaneValue::of(self.cast(operand, value.dtype(), *dtype)?))
            }
            ExprKind::Load { buffer, indices, .. } => self.load(*buffer, indices),
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => self.if_then_else(args),
            ExprKind::Call { op: Intrin::Reinterpret, args, dtype } => {
                let operand = self.uniform_or_varying(&args[0])?;
                Ok(LaneValue::of(self.reinterpret(operand, args[0].dtype(), *dtype)?))
            }
            ExprKind::Call { op: Intrin::Prefetch, args, .. } => {
                self.prefetch(&args[0], &args[1])?;
                self.expr(&args[0])
            }
            ExprKind::Call { op, args, .. } => {
                if *op == Intrin::PairBf16
                    && let Some(pairs) = self.adjacent_pairs(args)?
                {
                    return Ok(pairs);
                }
                if *op == Intrin::Pack4x8
                    && let Some(words) = self.adjacent_bytes(args)?
                {
                    return Ok(words);
                }
                let values = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>>>()?;
                let operands = self.same_shape(&values)?;
                if let Intrin::DotI8 { a, b } = *op
                    && self.unsigned_have_7_bits([a, b], args)
                {
                    return Ok(LaneValue::of(self.dot_i8_of_7_bits([a, b], &operands)?));
                }
                Ok(LaneValue::of(self.call(*op, &operands, args[0].dtype())?))
            }
        }
    }

    /// A scalar int64 that all lanes agree on.
    pub fn uniform_int(
        &mut self,
        expr: &Expr,
        what: &str,
    ) -> Result<inkwell::values::IntValue<'c>> {
        self.expr(expr)?.uniform_int(what)
    }

    /// Evaluates with `mask` as the active lanes.
    pub(super) fn masked<T>(
        &mut self,
        mask: VectorValue<'c>,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.lanes;
        let lanes = before.ok_or_else(|| CodegenError::new("a mask outside a vector loop"))?;
        let mask = match lanes.mask {
            Some(outer) => self.ir.builder.build_and(outer, mask, "")?,
            None => mask,
        };
        self.lanes = Some(VectorLoop { mask: Some(mask), ..lanes });
        let result = body(self);
        self.lanes = before;
        result
    }

    /// The active lanes, which must exist.
    pub(super) fn lane_count(&self) -> Result<u32> {
        self.lanes
            .map(|l| l.count)
            .ok_or_else(|| CodegenError::new("a vector value outside a vector loop"))
    }

    fn int_constant(&self, value: i64, dtype: DType) -> Result<LaneValue<'c>> {
        let ty = self.value_type(dtype)?;
        let value = if dtype.is_bool() { i64::from(value != 0) } else { value };
        Ok(LaneValue::Uniform(ty.into_int_type().const_int(value as u64, true).into()))
    }

    fn float_constant(&self, value: f64, dtype: DType) -> Result<LaneValue<'c>> {
        let rounded = match dtype {
            DType::F64 => value,
            DType::F32 => f64::from(value as f32),
            DType::F16 => half_float::f64_to_f16(value).to_f64(),
            DType::BF16 => half_float::f64_to_bf16(value).to_f64(),
            other => return Err(CodegenError::new(format!("no constants of type {other}"))),
        };
        Ok(LaneValue::Uniform(
            self.value_type(dtype)?.into_float_type().const_float(rounded).into(),
        ))
    }

    fn binary_expr(&mut self, e: &Expr, op: BinOp, a: &Expr, b: &Expr) -> Result<LaneValue<'c>> {
        let dtype = a.dtype();
        let (x, y) = (self.expr(a)?, self.expr(b)?);
        if let (LaneValue::Uniform(x), LaneValue::Uniform(y)) = (x, y)
            && let Some([x, y]) = self.narrowed(&[e, a, b], [x, y])?
        {
            let short = self.binary(op, x, y, DType::I32)?;
            let wide = self.ir.context.i64_type();
            return Ok(LaneValue::of(self.ir.convert(InstructionOpcode::SExt, short, wide)?));
        }
        if dtype == DType::I64 {
            let kept = match op {
                BinOp::Add => self.ir.add_index(InstructionOpcode::Add, x, y)?,
                BinOp::Sub => self.ir.add_index(InstructionOpcode::Sub, x, y)?,
                BinOp::Mul => self.ir.mul_index(x, y)?,
                _ => None,
            };
            if let Some(value) = kept {
                return Ok(value);
            }
        }
        let operands = self.same_shape(&[x, y])?;
        if let (BinOp::Min | BinOp::Max, ExprKind::Float { bits, .. }) = (op, b.kind())
            && !f64::from_bits(*bits).is_nan()
        {
            let limit = match is_zero_of(f64::from_bits(*bits), dtype) {
                true => Limit::Zero,
                false => Limit::Nonzero,
            };
            return Ok(LaneValue::of(self.float_limit(op, operands[0], operands[1], limit)?));
        }
        Ok(LaneValue::of(self.binary(op, operands[0], operands[1], dtype)?))
    }

    /// Two int64 values in 32 bits, where these expressions of int64, theirs among them, all fit.
    fn narrowed(
        &self,
        exprs: &[&Expr],
        values: [BasicValueEnum<'c>; 2],
    ) -> Result<Option<[BasicValueEnum<'c>; 2]>> {
        let Some(widths) = &self.widths else { return Ok(None) };
        let scalar = values.iter().all(|value| value.is_int_value());
        if !scalar || !exprs.iter().all(|e| e.dtype() == DType::I64 && widths.fits(e)) {
            return Ok(None);
        }
        let short =
            |value| self.ir.convert(InstructionOpcode::Trunc, value, self.ir.context.i32_type());
        Ok(Some([short(values[0])?, short(values[1])?]))
    }

    fn logic(&mut self, op: InstructionOpcode, a: &Expr, b: &Expr) -> Result<LaneValue<'c>> {
        let (x, y) = self.pair(a, b)?;
        Ok(LaneValue::of(self.ir.binary(op, x, y)?))
    }

    fn pair(&mut self, a: &Expr, b: &Expr) -> Result<(BasicValueEnum<'c>, BasicValueEnum<'c>)> {
        let (x, y) = (self.expr(a)?, self.expr(b)?);
        let both = self.same_shape(&[x, y])?;
        Ok((both[0], both[1]))
    }

    /// A scalar if lanes agree, else a vector.
    pub(super) fn uniform_or_varying(&mut self, expr: &Expr) -> Result<BasicValueEnum<'c>> {
        let value = self.expr(expr)?;
        Ok(self.same_shape(&[value])?[0])
    }

    /// All scalars if every value is the same in all lanes, else all vectors.
    pub(super) fn same_shape(&self, values: &[LaneValue<'c>]) -> Result<Vec<BasicValueEnum<'c>>> {
        let scalars: Option<Vec<BasicValueEnum<'c>>> = values
            .iter()
            .map(|v| match v {
                LaneValue::Uniform(v) => Some(*v),
                _ => None,
            })
            .collect();
        if let Some(scalars) = scalars {
            return Ok(scalars);
        }
        let lanes = self.lane_count()?;
        values.iter().map(|v| Ok(self.ir.widen(*v, lanes)?.into())).collect()
    }

    fn choose(
        &self,
        cond: BasicValueEnum<'c>,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Result<LaneValue<'c>> {
        if cond.is_vector_value() && !a.is_vector_value() {
            let lanes = self.lane_count()?;
            let (a, b) = (self.ir.splat(a, lanes)?, self.ir.splat(b, lanes)?);
            return Ok(LaneValue::of(self.ir.select(cond, a.into(), b.into())?));
        }
        Ok(LaneValue::of(self.ir.select(cond, a, b)?))
    }

    /// Branches where the condition is one for all lanes, masks the loads where it is not.
    fn if_then_else(&mut self, args: &[Expr]) -> Result<LaneValue<'c>> {
        match self.uniform_or_varying(&args[0])? {
            BasicValueEnum::VectorValue(mask) => {
                let a = self.masked(mask, |e| e.expr(&args[1]))?;
                // Lanes that do not load hold zeros already.
                let load = matches!(args[1].kind(), ExprKind::Load { .. });
                if load && matches!(a, LaneValue::Varying(_)) && is_positive_zero(&args[2]) {
                    return Ok(a);
                }
                let not = self.ir.builder.build_not(mask, "")?;
                let b = self.masked(not, |e| e.expr(&args[2]))?;
                let both = self.same_shape(&[a, b])?;
                self.choose(mask.into(), both[0], both[1])
            }
            cond if !loads(&args[1]) && !loads(&args[2]) => {
                let (a, b) = self.pair(&args[1], &args[2])?;
                self.choose(cond, a, b)
            }
            cond => self.branching_choice(cond.into_int_value(), &args[1], &args[2]),
        }
    }

    fn branching_choice(
        &mut self,
        cond: inkwell::values::IntValue<'c>,
        a: &Expr,
        b: &Expr,
    ) -> Result<LaneValue<'c>> {
        let on_true = self.ir.block(self.function, "if.true");
        let on_false = self.ir.block(self.function, "if.false");
        let join = self.ir.block(self.function, "if.join");
        self.ir.builder.build_conditional_branch(cond, on_true, on_false)?;
        self.ir.builder.position_at_end(on_true);
        let a = self.expr(a)?;
        let a_end = self.ir.here()?;
        self.ir.builder.position_at_end(on_false);
        let b = self.expr(b)?;
        let b_end = self.ir.here()?;
        // Widening is emitted at the end of the block that computed the value.
        let uniform = matches!((a, b), (LaneValue::Uniform(_), LaneValue::Uniform(_)));
        let mut ends = vec![];
        for (value, end) in [(a, a_end), (b, b_end)] {
            self.ir.builder.position_at_end(end);
            let value: BasicValueEnum<'c> = match value {
                LaneValue::Uniform(v) if uniform => v,
                other => self.ir.widen(other, self.lane_count()?)?.into(),
            };
            self.ir.builder.build_unconditional_branch(join)?;
            ends.push((value, end));
        }
        self.ir.builder.position_at_end(join);
        let phi = self.ir.builder.build_phi(ends[0].0.get_type(), "")?;
        phi.add_incoming(&[(&ends[0].0, ends[0].1), (&ends[1].0, ends[1].1)]);
        Ok(LaneValue::of(phi.as_basic_value()))
    }
}

/// Whether all bits of a constant are 0.
pub(crate) fn is_positive_zero(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Int { value: 0, .. } | ExprKind::Float { bits: 0, .. })
}

/// Whether `value` is a zero once rounded to `dtype`.
fn is_zero_of(value: f64, dtype: DType) -> bool {
    match dtype {
        DType::F64 => value == 0.0,
        DType::F32 => value as f32 == 0.0,
        DType::F16 => half_float::f64_to_f16(value).to_f32() == 0.0,
        _ => half_float::f64_to_bf16(value).to_f32() == 0.0,
    }
}

/// Whether evaluating `expr` may touch memory.
fn loads(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Load { .. }));
    found
}

impl Emitter<'_, '_> {
    /// Whether one operand of a dot product is of signed integers, and the other of unsigned ones of 7 bits
    /// or fewer.
    fn unsigned_have_7_bits(&self, signs: [Sign; 2], args: &[Expr]) -> bool {
        match signs {
            [Sign::Unsigned, Sign::Signed] => self.has_7_bits(&args[0]),
            [Sign::Signed, Sign::Unsigned] => self.has_7_bits(&args[1]),
            _ => false,
        }
    }

    /// Whether the bytes of a word are known to have 7 bits or fewer: they were masked.
    pub(super) fn has_7_bits(&self, word: &Expr) -> bool {
        match word.kind() {
            ExprKind::Var { var, .. } => self.seven_bits.contains(var),
            ExprKind::Call { op: Intrin::BitAnd, args, .. } => {
                args.iter().any(|mask| mask.as_int().is_some_and(|mask| mask & 0x8080_8080 == 0))
            }
            _ => false,
        }
    }
}

/// Whether a float32 is limited to what a type of 16 bits or fewer holds, but for NaN.
fn is_clipped(value: &Expr, to: DType) -> bool {
    let end = f64::powi(2.0, i32::from(to.bits));
    let (least, most) = match to.bits <= 16 && value.dtype() == DType::F32 {
        true if to.is_int() => (-end / 2.0, end / 2.0 - 1.0),
        true if to.is_uint() && !to.is_bool() => (0.0, end - 1.0),
        _ => return false,
    };
    let Some((outer, inside, first)) = limit(value) else { return false };
    let Some((inner, _, second)) = limit(inside) else { return false };
    let (low, high) = match (outer, inner) {
        (BinOp::Min, BinOp::Max) => (second, first),
        (BinOp::Max, BinOp::Min) => (first, second),
        _ => return false,
    };
    least <= low && low <= high && high <= most
}

/// The minimum or maximum of a value and a number.
fn limit(e: &Expr) -> Option<(BinOp, &Expr, f64)> {
    match e.kind() {
        ExprKind::Binary { op: op @ (BinOp::Min | BinOp::Max), a, b } => {
            Some((*op, a, b.as_float()?))
        }
        _ => None,
    }
}
