//! Expressions.

use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use reflex_tir::adjacent::adjacent_bytes;
use reflex_tir::{BinOp, DType, Expr, ExprKind, Intrin, half_float};

use crate::emit::value::LaneValue;
use crate::emit::{Emitter, value_type};
use crate::error::{BaselineError, Result};

impl Emitter<'_, '_, '_> {
    /// Evaluates `expr` in the current lanes.
    pub fn expr(&mut self, expr: &Expr) -> Result<LaneValue> {
        match expr.kind() {
            ExprKind::Int { value, dtype } => {
                let value = if dtype.is_bool() { i64::from(*value != 0) } else { *value };
                let ty = value_type(*dtype)?;
                Ok(LaneValue::Uniform(self.int(ty, value)))
            }
            ExprKind::Float { bits, dtype } => self.float_constant(f64::from_bits(*bits), *dtype),
            ExprKind::Var { var, .. } => self.vars.get(var).copied().ok_or_else(|| {
                BaselineError::new(format!("variable {} is unbound", self.func.vars[*var].name))
            }),
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub | BinOp::Mul, a, .. }
                if a.dtype() == DType::I64 =>
            {
                let form = self.linear(expr)?;
                Ok(self.index(form))
            }
            ExprKind::Binary { op, a, b } => self.binary_expr(*op, a, b),
            ExprKind::Compare { op, a, b } => {
                let [x, y] = self.pair_of(a, b)?;
                let value = self.compare(*op, x, y, a.dtype());
                Ok(self.shaped(value))
            }
            ExprKind::And(a, b) => {
                let [x, y] = self.pair_of(a, b)?;
                let value = self.b.ins().band(x, y);
                Ok(self.shaped(value))
            }
            ExprKind::Or(a, b) => {
                let [x, y] = self.pair_of(a, b)?;
                let value = self.b.ins().bor(x, y);
                Ok(self.shaped(value))
            }
            ExprKind::Not(a) => {
                let value = self.operand(a)?;
                let value = self.not(value);
                Ok(self.shaped(value))
            }
            ExprKind::Select { cond, on_true, on_false } => {
                let cond = self.operand(cond)?;
                self.choice(cond, on_true, on_false)
            }
            ExprKind::Cast { dtype, value } => {
                let operand = self.operand(value)?;
                let value = self.cast(operand, value.dtype(), *dtype)?;
                Ok(self.shaped(value))
            }
            ExprKind::Load { buffer, indices, .. } => self.load(*buffer, indices),
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => self.if_then_else(args),
            ExprKind::Call { op: Intrin::Reinterpret, args, dtype } => {
                let operand = self.operand(&args[0])?;
                let value = self.reinterpret(operand, args[0].dtype(), *dtype)?;
                Ok(self.shaped(value))
            }
            // Cranelift has no instruction for it.
            ExprKind::Call { op: Intrin::Prefetch, args, .. } => self.expr(&args[0]),
            ExprKind::Call { op, args, .. } => self.call_expr(*op, args),
        }
    }

    /// A scalar that all lanes agree on.
    pub fn uniform_int(&mut self, expr: &Expr, what: &str) -> Result<Value> {
        self.expr(expr)?.uniform(what)
    }

    /// Wraps the result of an instruction.
    fn shaped(&self, value: Value) -> LaneValue {
        match self.ty(value).is_vector() {
            true => LaneValue::Varying(value),
            false => LaneValue::Uniform(value),
        }
    }

    fn float_constant(&mut self, value: f64, dtype: DType) -> Result<LaneValue> {
        let rounded = match dtype {
            DType::F64 => value,
            DType::F32 => f64::from(value as f32),
            DType::F16 => half_float::f64_to_f16(value).to_f64(),
            DType::BF16 => half_float::f64_to_bf16(value).to_f64(),
            other => return Err(BaselineError::new(format!("no constants of type {other}"))),
        };
        let ty = value_type(dtype)?;
        Ok(LaneValue::Uniform(self.float(ty, rounded)))
    }

    fn binary_expr(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Result<LaneValue> {
        let dtype = a.dtype();
        let operands = self.pair_of(a, b)?;
        let value = match (op, b.kind()) {
            (BinOp::Min | BinOp::Max, ExprKind::Float { bits, .. })
                if !f64::from_bits(*bits).is_nan() =>
            {
                self.float_limit(op, operands[0], operands[1])
            }
            _ => self.binary(op, operands[0], operands[1], dtype)?,
        };
        Ok(self.shaped(value))
    }

    fn call_expr(&mut self, op: Intrin, args: &[Expr]) -> Result<LaneValue> {
        if op == Intrin::Pack4x8
            && let Some((buffer, indices)) = adjacent_bytes(args)
            && let Some(word) = self.load_word(buffer, indices)?
        {
            return Ok(word);
        }
        let values = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>>>()?;
        let operands = match (op, &values[..]) {
            // The amount is a scalar for all lanes.
            (Intrin::Shl | Intrin::Shr, [LaneValue::Varying(a), LaneValue::Uniform(amount)]) => {
                vec![*a, *amount]
            }
            _ => self.same_shape(&values)?,
        };
        let value = self.intrinsic(op, &operands, args[0].dtype())?;
        Ok(self.shaped(value))
    }

    fn pair_of(&mut self, a: &Expr, b: &Expr) -> Result<[Value; 2]> {
        let (x, y) = (self.expr(a)?, self.expr(b)?);
        let both = self.same_shape(&[x, y])?;
        Ok([both[0], both[1]])
    }

    /// A scalar if lanes agree, else a vector.
    fn operand(&mut self, expr: &Expr) -> Result<Value> {
        let value = self.expr(expr)?;
        Ok(self.same_shape(&[value])?[0])
    }

    /// All scalars if every value is the same in all lanes, else all vectors.
    pub(super) fn same_shape(&mut self, values: &[LaneValue]) -> Result<Vec<Value>> {
        let scalars: Option<Vec<Value>> = values
            .iter()
            .map(|v| match v {
                LaneValue::Uniform(v) => Some(*v),
                _ => None,
            })
            .collect();
        match scalars {
            Some(scalars) => Ok(scalars),
            None => values.iter().map(|v| self.widen(*v)).collect(),
        }
    }

    /// One element for each lane.
    pub(super) fn widen(&mut self, value: LaneValue) -> Result<Value> {
        let scalar = match value {
            LaneValue::Varying(vector) => return Ok(vector),
            LaneValue::Uniform(scalar) => scalar,
            LaneValue::Ramp { .. } => {
                return Err(BaselineError::new("an index as a value of vector lanes"));
            }
        };
        match self.ty(scalar) {
            types::F32 => Ok(self.splat(types::F32X4, scalar)),
            types::I32 => Ok(self.splat(types::I32X4, scalar)),
            // A bool as a mask.
            types::I8 => {
                let wide = self.b.ins().uextend(types::I32, scalar);
                let mask = self.b.ins().ineg(wide);
                Ok(self.splat(types::I32X4, mask))
            }
            other => Err(BaselineError::new(format!("no vectors of {other}"))),
        }
    }

    fn choice(&mut self, cond: Value, a: &Expr, b: &Expr) -> Result<LaneValue> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let both = match self.ty(cond).is_vector() {
            true => vec![self.widen(a)?, self.widen(b)?],
            false => self.same_shape(&[a, b])?,
        };
        let value = self.select(cond, both[0], both[1]);
        Ok(self.shaped(value))
    }

    /// Branches where a side may touch memory.
    fn if_then_else(&mut self, args: &[Expr]) -> Result<LaneValue> {
        let cond = self.operand(&args[0])?;
        if !loads(&args[1]) && !loads(&args[2]) {
            return self.choice(cond, &args[1], &args[2]);
        }
        if self.ty(cond).is_vector() {
            return Err(BaselineError::new("a guarded load whose guard differs between lanes"));
        }
        let varies = self.varies(&args[1]) || self.varies(&args[2]);
        let [on_true, on_false, join] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(cond, on_true, &[], on_false, &[]);
        let mut result = None;
        for (block, side) in [(on_true, &args[1]), (on_false, &args[2])] {
            self.b.switch_to_block(block);
            let value = self.expr(side)?;
            let value = if varies { self.widen(value)? } else { value.uniform("a side")? };
            if result.is_none() {
                result = Some(self.b.append_block_param(join, self.ty(value)));
            }
            self.b.ins().jump(join, &[BlockArg::Value(value)]);
        }
        self.b.switch_to_block(join);
        let result = result.ok_or_else(|| BaselineError::new("a choice of nothing"))?;
        Ok(self.shaped(result))
    }

    /// Whether a value differs between lanes.
    fn varies(&self, e: &Expr) -> bool {
        let mut found = false;
        e.visit(&mut |e| {
            if let ExprKind::Var { var, .. } = e.kind() {
                found |= !matches!(self.vars.get(var), Some(LaneValue::Uniform(_)) | None);
            }
        });
        found
    }
}

/// Whether evaluating `expr` may touch memory.
pub(super) fn loads(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Load { .. }));
    found
}
