//! Intrinsic functions.

use reflex_tir::{DType, Expr, Intrin};

use crate::dialect::value_type;
use crate::error::{Result, SourceError};
use crate::print::Printer;
use crate::print::text::{Strength, Text};

/// The functions of the mathematics library, which differ from machine to machine in their last bits.
fn library_function(op: Intrin) -> Option<&'static str> {
    Some(match op {
        Intrin::Exp => "exp",
        Intrin::Log => "log",
        Intrin::Sin => "sin",
        Intrin::Cos => "cos",
        Intrin::Tan => "tan",
        Intrin::Asin => "asin",
        Intrin::Acos => "acos",
        Intrin::Atan => "atan",
        Intrin::Sinh => "sinh",
        Intrin::Cosh => "cosh",
        Intrin::Tanh => "tanh",
        Intrin::Asinh => "asinh",
        Intrin::Acosh => "acosh",
        Intrin::Atanh => "atanh",
        Intrin::Erf => "erf",
        Intrin::Pow => "pow",
        _ => return None,
    })
}

impl Printer<'_, '_> {
    /// A call other than `if_then_else`.
    pub(super) fn intrinsic(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> Result<Text> {
        let mut values = vec![];
        for arg in args {
            values.push(self.expr(arg)?);
        }
        let from = args.first().map_or(dtype, Expr::dtype);
        match op {
            Intrin::Reinterpret => self.reinterpret(values.swap_remove(0), from, dtype),
            Intrin::Prefetch => Ok(values.swap_remove(0)),
            Intrin::BitAnd => Ok(Text::infix(&values[0], "&", &values[1], Strength::Bits)),
            Intrin::BitOr => Ok(Text::infix(&values[0], "|", &values[1], Strength::Bits)),
            Intrin::BitXor => Ok(Text::infix(&values[0], "^", &values[1], Strength::Bits)),
            Intrin::BitNot if dtype.is_bool() => Ok(Text::prefix("!", &values[0])),
            Intrin::BitNot => {
                let word = self.dialect.word(value_type(dtype))?;
                Ok(Text::cast(word, &Text::prefix("~", &values[0])))
            }
            Intrin::Shl | Intrin::Shr if !(dtype.is_int() || dtype.is_uint()) => {
                Err(SourceError::new(format!("no {op:?} of {dtype}")))
            }
            Intrin::Shl => self.helper("shl", dtype, &values),
            Intrin::Shr => self.helper("shr", dtype, &values),
            Intrin::DotI8 { a, b } => {
                let function = self.helpers.dot_i8(a, b)?;
                Ok(self.call(&function, &values))
            }
            Intrin::DotI16 => {
                let function = self.helpers.plain("dot_s16s16")?;
                Ok(self.call(&function, &values))
            }
            Intrin::Pack4x8 => {
                let function = self.helpers.plain("pack_4x8")?;
                Ok(self.call(&function, &values))
            }
            Intrin::PairBf16 => self.pair_bf16(values, from),
            Intrin::DotBf16 => Err(SourceError::new("dot_bf16 is still there: it was not lowered")),
            Intrin::IsNan | Intrin::IsInf if !from.is_float() => Ok(Text::primary("false")),
            Intrin::IsNan => self.helper("isnan", value_type(from), &values),
            Intrin::IsInf => self.helper("isinf", value_type(from), &values),
            _ if dtype.is_float() => self.float_call(op, values, dtype),
            _ => self.int_call(op, values, dtype),
        }
    }

    /// Two bfloat16 in a word. Float32 are rounded, and subnormal ones count as zero first.
    fn pair_bf16(&mut self, values: Vec<Text>, from: DType) -> Result<Text> {
        let mut halves = vec![];
        for value in values {
            halves.push(match from {
                DType::BF16 => self.stored(value, from)?,
                _ => {
                    let [normal, rounded] =
                        [self.helpers.plain("normal")?, self.helpers.plain("to_bf16")?];
                    let value = self.call(&normal, &[value]);
                    self.call(&rounded, &[value])
                }
            });
        }
        let function = self.helpers.plain("pair_bf16")?;
        Ok(self.call(&function, &halves))
    }

    fn float_call(&mut self, op: Intrin, args: Vec<Text>, dtype: DType) -> Result<Text> {
        let kind = value_type(dtype);
        if !kind.is_float() {
            return Err(SourceError::new(format!("no {op:?} of {dtype}")));
        }
        let exact = match op {
            Intrin::Floor => Some("floor"),
            Intrin::Ceil => Some("ceil"),
            Intrin::Trunc => Some("trunc"),
            // Ties go to even numbers, as rounding is to nearest.
            Intrin::Round => Some("rint"),
            Intrin::Abs => Some("fabs"),
            _ => None,
        };
        if let Some(name) = exact {
            return Ok(self.math(name, kind, &args));
        }
        let value = match (op, library_function(op)) {
            (Intrin::Fma, _) => self.math("fma", kind, &args),
            (Intrin::Sqrt, _) => self.math("sqrt", kind, &args),
            (_, Some(name)) if self.is_gpu() => {
                return Err(SourceError::new(format!(
                    "no {name} of {dtype} on a GPU, whose mathematics library gives other bits; compute it in float32"
                )));
            }
            (_, Some(name)) => self.math(name, kind, &args),
            _ => return Err(SourceError::new(format!("no {op:?} of {dtype}"))),
        };
        self.round_half(value, dtype)
    }

    fn int_call(&mut self, op: Intrin, mut args: Vec<Text>, dtype: DType) -> Result<Text> {
        match op {
            Intrin::Floor | Intrin::Ceil | Intrin::Trunc | Intrin::Round => Ok(args.swap_remove(0)),
            Intrin::Abs if dtype.is_int() => self.helper("abs", dtype, &args),
            Intrin::Abs => Ok(args.swap_remove(0)),
            Intrin::Fma => {
                let product = self.helper("mul", dtype, &args[..2])?;
                self.helper("add", dtype, &[product, args.swap_remove(2)])
            }
            _ => Err(SourceError::new(format!("no {op:?} of {dtype}"))),
        }
    }
}
