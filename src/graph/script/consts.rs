//! Constants in place: `R.const(value, dtype)`.

use std::sync::Arc;

use reflex_tir::{DType, Expr, half_float};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::{Ranged, TextSize};

use super::args::{Args, elements, float, int};
use super::parser::FuncParser;
use super::source::Result;
use crate::{Literal, Op, Value};

/// One element as it is written.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
    Bool(bool),
}

impl FuncParser<'_, '_> {
    pub(super) fn constant(&mut self, call: &ast::ExprCall) -> Result<Value> {
        let args = Args::bind(self.source, call, &["value", "dtype"])?;
        let value = args.need("value")?;
        let (mut shape, mut numbers) = (vec![], vec![]);
        self.numbers(value, 0, &mut shape, &mut numbers)?;
        // NumPy's defaults as TVM narrows them.
        let default = match numbers.first() {
            Some(Number::Int(_)) => DType::I32,
            Some(Number::Bool(_)) => DType::BOOL,
            Some(Number::Float(_)) | None => DType::F32,
        };
        let dtype = args.dtype("dtype")?.unwrap_or(default);
        let mut bytes = vec![];
        for number in numbers {
            if !push(dtype, number, &mut bytes) {
                let text = self.source.shown(value);
                return Err(self.source.refuse(value.start(), format!("`{text}` as {dtype}")));
            }
        }
        match Literal::new(dtype, shape, Arc::new(bytes)) {
            Some(literal) => Ok(self.b.constant(literal)),
            None => Err(self.source.expected("rows of equal length", value)),
        }
    }

    fn numbers(
        &self,
        e: &Py,
        depth: usize,
        shape: &mut Vec<i64>,
        out: &mut Vec<Number>,
    ) -> Result<()> {
        let Some(list) = elements(e) else {
            if depth != shape.len() {
                return Err(self.source.expected("a list", e));
            }
            out.push(match e {
                Py::BooleanLiteral(b) => Number::Bool(b.value),
                Py::NumberLiteral(ast::ExprNumberLiteral {
                    value: ast::Number::Int(i), ..
                }) => {
                    let value = i.as_i64().map(i128::from).or(i.as_u64().map(i128::from));
                    Number::Int(value.ok_or_else(|| self.source.expected("an integer", e))?)
                }
                _ => match int(self.source, e) {
                    Ok(value) => Number::Int(i128::from(value)),
                    Err(_) => Number::Float(float(self.source, e)?),
                },
            });
            return Ok(());
        };
        let count = list.len() as i64;
        match shape.get(depth) {
            None if out.is_empty() => shape.push(count),
            Some(known) if *known == count => {}
            _ => return Err(self.source.expected("rows of equal length", e)),
        }
        list.iter().try_for_each(|e| self.numbers(e, depth + 1, shape, out))
    }

    /// A scalar constant of any type.
    pub(super) fn number(&mut self, at: TextSize, dtype: DType, value: f64) -> Result<Value> {
        let number = match dtype {
            DType::BOOL => Number::Bool(value != 0.0),
            _ if value.trunc() == value && !dtype.is_float() => Number::Int(value as i128),
            _ => Number::Float(value),
        };
        let mut bytes = vec![];
        let literal = push(dtype, number, &mut bytes)
            .then(|| Literal::new(dtype, vec![], Arc::new(bytes)))
            .flatten();
        match literal {
            Some(literal) => Ok(self.b.constant(literal)),
            None => Err(self.source.refuse(at, format!("{value} is not a value of {dtype}"))),
        }
    }

    /// A tensor filled with one number.
    pub(super) fn filled(
        &mut self,
        at: TextSize,
        dtype: DType,
        value: f64,
        shape: Vec<Expr>,
    ) -> Result<Value> {
        let value = self.number(at, dtype, value)?;
        self.emit_value(at, Op::Broadcast(shape), &[value])
    }
}

/// Appends the bytes of one element; false when the type cannot hold it.
pub(crate) fn push(dtype: DType, number: Number, out: &mut Vec<u8>) -> bool {
    let as_float = match number {
        Number::Int(i) => i as f64,
        Number::Float(x) => x,
        Number::Bool(b) => f64::from(u8::from(b)),
    };
    match dtype {
        DType::F64 => out.extend(as_float.to_le_bytes()),
        DType::F32 => out.extend((as_float as f32).to_le_bytes()),
        DType::F16 => out.extend(half_float::f64_to_f16(as_float).to_le_bytes()),
        DType::BF16 => out.extend(half_float::f64_to_bf16(as_float).to_le_bytes()),
        DType::BOOL => out.push(u8::from(as_float != 0.0)),
        _ => {
            let value = match number {
                Number::Int(i) => i,
                Number::Bool(b) => i128::from(b),
                Number::Float(_) => return false,
            };
            macro_rules! fit {
                ($($dtype:ident $t:ty;)*) => { match dtype {
                    $(DType::$dtype => <$t>::try_from(value).map(|v| out.extend(v.to_le_bytes())),)*
                    _ => return false,
                } }
            }
            let fits = fit! {
                I8 i8; I16 i16; I32 i32; I64 i64; U8 u8; U16 u16; U32 u32; U64 u64;
            };
            return fits.is_ok();
        }
    }
    true
}
