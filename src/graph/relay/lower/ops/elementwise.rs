//! Operators that work element by element.

use reflex_tir::DType;

use super::attrs::OpCall;
use crate::relay::lower::func::{FuncLowerer, Term};

use crate::relay::source::Result;
use crate::{Binary, Op, Unary, Value};

/// Functions of one tensor.
const UNARY: [(&str, Unary); 26] = [
    ("negative", Unary::Neg),
    ("abs", Unary::Abs),
    ("sign", Unary::Sign),
    ("exp", Unary::Exp),
    ("log", Unary::Log),
    ("sqrt", Unary::Sqrt),
    ("sin", Unary::Sin),
    ("cos", Unary::Cos),
    ("tan", Unary::Tan),
    ("asin", Unary::Asin),
    ("acos", Unary::Acos),
    ("atan", Unary::Atan),
    ("sinh", Unary::Sinh),
    ("cosh", Unary::Cosh),
    ("tanh", Unary::Tanh),
    ("asinh", Unary::Asinh),
    ("acosh", Unary::Acosh),
    ("atanh", Unary::Atanh),
    ("erf", Unary::Erf),
    ("sigmoid", Unary::Sigmoid),
    ("floor", Unary::Floor),
    ("ceil", Unary::Ceil),
    ("isnan", Unary::IsNan),
    ("isinf", Unary::IsInf),
    ("logical_not", Unary::Not),
    ("bitwise_not", Unary::BitNot),
];

/// Functions of two tensors, with broadcasting.
const BINARY: [(&str, Binary); 24] = [
    ("add", Binary::Add),
    ("subtract", Binary::Sub),
    ("multiply", Binary::Mul),
    ("divide", Binary::Div),
    ("floor_mod", Binary::FloorMod),
    ("mod", Binary::TruncMod),
    ("trunc_mod", Binary::TruncMod),
    ("power", Binary::Pow),
    ("minimum", Binary::Min),
    ("maximum", Binary::Max),
    ("equal", Binary::Equal),
    ("not_equal", Binary::NotEqual),
    ("less", Binary::Less),
    ("less_equal", Binary::LessEqual),
    ("greater", Binary::Greater),
    ("greater_equal", Binary::GreaterEqual),
    ("logical_and", Binary::And),
    ("logical_or", Binary::Or),
    ("logical_xor", Binary::Xor),
    ("bitwise_and", Binary::BitAnd),
    ("bitwise_or", Binary::BitOr),
    ("bitwise_xor", Binary::BitXor),
    ("left_shift", Binary::Shl),
    ("right_shift", Binary::Shr),
];

impl FuncLowerer<'_, '_, '_> {
    pub(super) fn elementwise(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        if let Some((_, f)) = UNARY.iter().find(|(name, _)| *name == call.name) {
            let [x] = self.operands(call)?;
            return self.emit_term(call, Op::Unary(*f), &[x]);
        }
        if let Some((_, f)) = BINARY.iter().find(|(name, _)| *name == call.name) {
            let [a, b] = self.operands(call)?;
            return self.emit_term(call, Op::Binary(*f), &[a, b]);
        }
        let value = match call.name {
            "rsqrt" => {
                let [x] = self.operands(call)?;
                let root = self.unary(call, Unary::Sqrt, x)?;
                self.unary(call, Unary::Reciprocal, root)?
            }
            "log2" | "log10" => {
                let [x] = self.operands(call)?;
                let base: f64 = if call.name == "log2" { 2.0 } else { 10.0 };
                let log = self.unary(call, Unary::Log, x)?;
                self.with_number(call, Binary::Mul, log, 1.0 / base.ln())?
            }
            "copy" | "annotation.stop_fusion" | "stop_fusion" => {
                let [x] = self.operands(call)?;
                x
            }
            "cast" => {
                let [x] = self.operands(call)?;
                let dtype = call.dtype("dtype")?.ok_or_else(|| call.refuse("needs `dtype`"))?;
                self.cast(call, x, dtype)?
            }
            "cast_like" => {
                let [x, like] = self.operands(call)?;
                let dtype = self.b.tensor(like).dtype;
                self.cast(call, x, dtype)?
            }
            "clip" => {
                let [x] = self.operands(call)?;
                let low = call.float("a_min", f64::NEG_INFINITY)?;
                let high = call.float("a_max", f64::INFINITY)?;
                let raised = self.with_number(call, Binary::Max, x, low)?;
                self.with_number(call, Binary::Min, raised, high)?
            }
            "floor_divide" | "trunc_divide" => self.divide(call)?,
            "where" => {
                let [cond, a, b] = self.operands(call)?;
                let cond = match self.b.tensor(cond).dtype {
                    DType::BOOL => cond,
                    _ => self.cast(call, cond, DType::BOOL)?,
                };
                self.emit(call, Op::Where, &[cond, a, b])?
            }
            _ => return Ok(None),
        };
        Ok(Some(self.term(value)))
    }

    pub(super) fn cast(&mut self, call: &OpCall<'_>, x: Value, dtype: DType) -> Result<Value> {
        match self.b.tensor(x).dtype == dtype {
            true => Ok(x),
            false => self.emit(call, Op::Cast(dtype), &[x]),
        }
    }

    /// Quotients rounded down, or towards zero.
    fn divide(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [a, b] = self.operands(call)?;
        let float = self.b.tensor(a).dtype.is_float();
        match (call.name == "floor_divide", float) {
            (true, true) => {
                let quotient = self.binary(call, Binary::Div, a, b)?;
                self.unary(call, Unary::Floor, quotient)
            }
            (true, false) => {
                let rest = self.binary(call, Binary::FloorMod, a, b)?;
                let whole = self.binary(call, Binary::Sub, a, rest)?;
                self.binary(call, Binary::Div, whole, b)
            }
            (false, false) => self.binary(call, Binary::Div, a, b),
            (false, true) => Err(call.refuse("floating-point numbers are not supported")),
        }
    }
}
