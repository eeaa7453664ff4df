//! Arithmetic.

use reflex_tir::{BinOp, DType};

use crate::dialect::value_type;
use crate::error::{Result, SourceError};
use crate::print::Printer;
use crate::print::text::{Strength, Text};

impl Printer<'_, '_> {
    /// Arithmetic of floats: 16-bit ones in float32, and rounded.
    pub(super) fn float_binary(
        &mut self,
        op: BinOp,
        [x, y]: [Text; 2],
        dtype: DType,
    ) -> Result<Text> {
        let kind = value_type(dtype);
        self.helpers.has_double |= kind == DType::F64;
        if !kind.is_float() {
            return Err(SourceError::new(format!("no {op:?} of {dtype}")));
        }
        let value = match op {
            BinOp::Add => Text::infix(&x, "+", &y, Strength::Sum),
            // GCC 12 makes `-|x|` of `0 - |x|`, which is another zero, where it reads that as one expression.
            BinOp::Sub if !self.is_gpu() && x.is_float_zero() => {
                self.helper("sub", kind, &[x, y])?
            }
            BinOp::Sub => Text::infix(&x, "-", &y, Strength::Sum),
            BinOp::Mul => self.product(&x, &y, kind),
            BinOp::Div => Text::infix(&x, "/", &y, Strength::Product),
            BinOp::Mod if self.is_gpu() => {
                return Err(SourceError::new(format!("no fmod of {dtype} on a GPU")));
            }
            BinOp::Mod => self.math("fmod", kind, &[x, y]),
            BinOp::FloorDiv => {
                let quotient = Text::infix(&x, "/", &y, Strength::Product);
                self.math("floor", kind, &[quotient])
            }
            BinOp::FloorMod => self.helper("floormod", kind, &[x, y])?,
            BinOp::Min => return self.helper("min", kind, &[x, y]),
            BinOp::Max => return self.helper("max", kind, &[x, y]),
        };
        self.round_half(value, dtype)
    }

    /// Arithmetic of integers, which wrap; of positions, which need not.
    pub(super) fn int_binary(
        &mut self,
        op: BinOp,
        [x, y]: [Text; 2],
        divisor: Option<i64>,
        dtype: DType,
        is_plain: bool,
    ) -> Result<Text> {
        let unsigned = dtype.is_uint();
        // Rounding towards negative infinity is what shifts and masks do.
        if let (Some(n), false) = (divisor.filter(|n| *n > 0 && n.count_ones() == 1), unsigned) {
            let number = |text: String| Text::primary(text);
            match op {
                BinOp::FloorDiv => {
                    let by = number(n.trailing_zeros().to_string());
                    return Ok(Text::infix(&x, ">>", &by, Strength::Shift));
                }
                BinOp::FloorMod => {
                    let mask = number((n - 1).to_string());
                    return Ok(Text::infix(&x, "&", &mask, Strength::Bits));
                }
                _ => {}
            }
        }
        let plain = match op {
            BinOp::Add => Some(("+", Strength::Sum)),
            BinOp::Sub => Some(("-", Strength::Sum)),
            BinOp::Mul => Some(("*", Strength::Product)),
            BinOp::Div => Some(("/", Strength::Product)),
            BinOp::Mod => Some(("%", Strength::Product)),
            _ => None,
        };
        if let (Some((op, strength)), true) = (plain, is_plain) {
            return Ok(Text::infix(&x, op, &y, strength));
        }
        let name = match op {
            BinOp::Add => "add",
            BinOp::Sub => "sub",
            BinOp::Mul => "mul",
            BinOp::Div => "div",
            BinOp::Mod => "mod",
            BinOp::FloorDiv if unsigned => "div",
            BinOp::FloorMod if unsigned => "mod",
            BinOp::FloorDiv => "floordiv",
            BinOp::FloorMod => "floormod",
            BinOp::Min => "min",
            BinOp::Max => "max",
        };
        self.helper(name, dtype, &[x, y])
    }
}
