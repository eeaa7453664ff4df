//! Expressions.

use reflex_tir::{BinOp, CmpOp, DType, Expr, ExprKind, Intrin, half_float};

use crate::dialect::{Dialect, value_type};
use crate::error::{Result, SourceError};
use crate::print::Printer;
use crate::print::plain::Place;
use crate::print::text::{Strength, Text};

impl Printer<'_, '_> {
    /// The text of an expression whose value is anything.
    pub fn expr(&mut self, e: &Expr) -> Result<Text> {
        self.expr_at(e, Place::Value)
    }

    /// The text of a position or a bound.
    pub fn index(&mut self, e: &Expr) -> Result<Text> {
        self.expr_at(e, Place::Index)
    }

    /// The text of an expression that stands in a place.
    pub(super) fn expr_at(&mut self, e: &Expr, place: Place) -> Result<Text> {
        self.nested(|p| p.node(e, place))?.checked()
    }

    fn node(&mut self, e: &Expr, place: Place) -> Result<Text> {
        match e.kind() {
            ExprKind::Int { value, dtype } => self.int_constant(*value, *dtype),
            ExprKind::Float { bits, dtype } => self.float_constant(f64::from_bits(*bits), *dtype),
            ExprKind::Var { var, .. } => {
                let name = &self.func.vars[*var].name;
                let unbound = || SourceError::new(format!("variable {name} is unbound"));
                Ok(Text::primary(self.vars.get(var).ok_or_else(unbound)?.clone()))
            }
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b, e, place),
            ExprKind::Compare { op, a, b } => {
                let (op, strength) = match op {
                    CmpOp::Eq => ("==", Strength::Equal),
                    CmpOp::Ne => ("!=", Strength::Equal),
                    CmpOp::Lt => ("<", Strength::Order),
                    CmpOp::Le => ("<=", Strength::Order),
                    CmpOp::Gt => (">", Strength::Order),
                    CmpOp::Ge => (">=", Strength::Order),
                };
                let (a, b) = (self.expr_at(a, place)?, self.expr_at(b, place)?);
                Ok(Text::infix(&a, op, &b, strength))
            }
            ExprKind::And(a, b) => self.logic("&&", a, b, Strength::And),
            ExprKind::Or(a, b) => self.logic("||", a, b, Strength::Or),
            ExprKind::Not(a) => Ok(Text::prefix("!", &self.expr(a)?)),
            ExprKind::Select { cond, on_true, on_false } => {
                self.choice(cond, on_true, on_false, place)
            }
            ExprKind::Cast { dtype, value } => {
                let text = self.expr_at(value, place)?;
                self.cast(text, value.dtype(), *dtype)
            }
            ExprKind::Load { buffer, indices, .. } => self.load(*buffer, indices),
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
                self.choice(&args[0], &args[1], &args[2], place)
            }
            ExprKind::Call { op, args, dtype } => self.intrinsic(*op, args, *dtype),
        }
    }

    fn logic(&mut self, op: &str, a: &Expr, b: &Expr, strength: Strength) -> Result<Text> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        Ok(Text::infix(&a, op, &b, strength))
    }

    fn choice(&mut self, cond: &Expr, a: &Expr, b: &Expr, place: Place) -> Result<Text> {
        let cond = self.expr(cond)?;
        let (a, b) = (self.expr_at(a, place)?, self.expr_at(b, place)?);
        Ok(Text::choice(&cond, &a, &b))
    }

    fn int_constant(&mut self, value: i64, dtype: DType) -> Result<Text> {
        let text = match dtype {
            DType::BOOL => if value != 0 { "true" } else { "false" }.to_owned(),
            DType::U64 => format!("{}u", value as u64),
            // The smallest numbers have no literal: a minus is an operator.
            DType::I64 if value == i64::MIN => {
                return Ok(Text::new("-9223372036854775807 - 1".to_owned(), Strength::Sum));
            }
            DType::I32 if value == i64::from(i32::MIN) => {
                return Ok(Text::new("-2147483647 - 1".to_owned(), Strength::Sum));
            }
            other if other.is_uint() => {
                let mask = u64::MAX >> (64 - u32::from(other.bits.clamp(1, 64)));
                format!("{}u", value as u64 & mask)
            }
            other => {
                self.dialect.word(value_type(other))?;
                format!("{value}")
            }
        };
        Ok(Text::number(text))
    }

    fn float_constant(&mut self, value: f64, dtype: DType) -> Result<Text> {
        let (value, kind) = match dtype {
            DType::F64 => (value, DType::F64),
            DType::F32 => (f64::from(value as f32), DType::F32),
            DType::F16 => (half_float::f64_to_f16(value).to_f64(), DType::F32),
            DType::BF16 => (half_float::f64_to_bf16(value).to_f64(), DType::F32),
            other => return Err(SourceError::new(format!("no constants of type {other}"))),
        };
        self.helpers.has_double |= kind == DType::F64;
        let dialect = self.dialect;
        if value.is_nan() {
            return Ok(Text::new(dialect.nan(kind).to_owned(), Strength::Unary));
        }
        if value.is_infinite() {
            let sign = if value < 0.0 { "-" } else { "" };
            return Ok(Text::number(format!("{sign}{}", dialect.infinity(kind))));
        }
        // The shortest text that reads back as the same number.
        Ok(Text::number(match kind {
            DType::F64 => format!("{value:?}"),
            _ => format!("{:?}f", value as f32),
        }))
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, e: &Expr, place: Place) -> Result<Text> {
        let dtype = a.dtype();
        let place = match place {
            // What stays a position below an operation that is not one.
            Place::Index if dtype == DType::I64 => Place::Index,
            _ => Place::Value,
        };
        let (x, y) = (self.expr_at(a, place)?, self.expr_at(b, place)?);
        if dtype.is_float() {
            return self.float_binary(op, [x, y], dtype);
        }
        if dtype.is_bool() {
            return match op {
                BinOp::Mul | BinOp::Min => Ok(Text::infix(&x, "&&", &y, Strength::And)),
                BinOp::Add | BinOp::Max => Ok(Text::infix(&x, "||", &y, Strength::Or)),
                _ => Err(SourceError::new(format!("no {op:?} of bools"))),
            };
        }
        let is_plain = dtype == DType::I64 && self.is_plain(e, place);
        self.int_binary(op, [x, y], b.as_int(), dtype, is_plain)
    }

    /// The product of floats, which no compiler joins with a sum.
    pub(super) fn product(&mut self, x: &Text, y: &Text, dtype: DType) -> Text {
        match self.dialect.product(dtype) {
            Some(function) => self.call(function, &[x.clone(), y.clone()]),
            None => Text::infix(x, "*", y, Strength::Product),
        }
    }

    /// A function of the mathematics library that gives the same bits everywhere.
    pub(super) fn math(&mut self, name: &str, dtype: DType, args: &[Text]) -> Text {
        let kind = value_type(dtype);
        self.helpers.has_double |= kind == DType::F64;
        let function = self.dialect.function(name, kind);
        self.call(&function, args)
    }

    /// Whether the text is for a GPU.
    pub fn is_gpu(&self) -> bool {
        self.dialect != Dialect::C
    }
}
