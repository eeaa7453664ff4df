//! Conversions between element types, and between a value and its stored form.

use reflex_tir::DType;

use crate::dialect::value_type;
use crate::error::{Result, SourceError};
use crate::print::Printer;
use crate::print::text::{Strength, Text};

impl Printer<'_, '_> {
    /// A value of type `from` as `to`, with the meaning of a cast expression.
    pub(crate) fn cast(&mut self, value: Text, from: DType, to: DType) -> Result<Text> {
        if from == to {
            return Ok(value);
        }
        self.helpers.has_double |= from == DType::F64 || to == DType::F64;
        match (from.is_float(), to.is_float()) {
            (true, true) => self.float_to_float(value, from, to),
            (true, false) => self.float_to_int(value, from, to),
            (false, true) => {
                // Narrow floats round twice, through float32: the meaning that loop IR gives the cast.
                let word = self.dialect.word(value_type(to))?;
                self.round_half(Text::cast(word, &value), to)
            }
            (false, false) if to.is_bool() => Ok(is_nonzero(&value)),
            (false, false) => Ok(Text::cast(self.dialect.word(value_type(to))?, &value)),
        }
    }

    fn float_to_float(&mut self, value: Text, from: DType, to: DType) -> Result<Text> {
        match (from, to) {
            (DType::F64, DType::F32) => Ok(Text::cast("float", &value)),
            (DType::F64, _) => {
                let odd = self.helpers.plain("odd")?;
                let once = self.call(&odd, &[value]);
                self.round_half(once, to)
            }
            (_, DType::F64) => Ok(Text::cast("double", &value)),
            _ => self.round_half(value, to),
        }
    }

    fn float_to_int(&mut self, value: Text, from: DType, to: DType) -> Result<Text> {
        if to.is_bool() {
            return Ok(is_nonzero(&value));
        }
        let kind = value_type(from);
        if !kind.is_float() || !(to.is_int() || to.is_uint()) {
            return Err(SourceError::new(format!("no conversion from {from} to {to}")));
        }
        let function = self.helpers.saturating(kind, to)?;
        Ok(self.call(&function, &[value]))
    }

    /// Rounds a float32 to the nearest value of a 16-bit type, still as float32.
    pub(super) fn round_half(&mut self, value: Text, dtype: DType) -> Result<Text> {
        let name = match dtype {
            DType::F16 => "round_f16",
            DType::BF16 => "round_bf16",
            _ => return Ok(value),
        };
        let function = self.helpers.plain(name)?;
        Ok(self.call(&function, &[value]))
    }

    /// The form that a value has in memory.
    pub(super) fn stored(&mut self, value: Text, dtype: DType) -> Result<Text> {
        let (name, rounds, rounding) = match dtype {
            DType::F16 => ("to_f16", "rf_round_f16", "to_f16"),
            DType::BF16 => ("bits_bf16", "rf_round_bf16", "to_bf16"),
            _ => return Ok(value),
        };
        // What is rounded and widened again is only rounded.
        if let Some(exact) = value.argument_of(rounds) {
            let function = self.helpers.plain(rounding)?;
            return Ok(self.call(&function, &[exact]));
        }
        let function = self.helpers.plain(name)?;
        Ok(self.call(&function, &[value]))
    }

    /// The value of what memory holds.
    pub(super) fn loaded(&mut self, stored: Text, dtype: DType) -> Result<Text> {
        let name = match dtype {
            DType::BOOL => return Ok(is_nonzero(&stored)),
            DType::F16 => "from_f16",
            DType::BF16 => "from_bf16",
            _ => return Ok(stored),
        };
        let function = self.helpers.plain(name)?;
        Ok(self.call(&function, &[stored]))
    }

    /// The same bits as another type.
    pub(super) fn reinterpret(&mut self, value: Text, from: DType, to: DType) -> Result<Text> {
        if from.bits != to.bits || from.is_bool() || to.is_bool() {
            return Err(SourceError::new(format!("cannot reinterpret {from} as {to}")));
        }
        let bits = match from {
            DType::F32 => {
                self.helpers.plain("float")?;
                self.call("rf_bits", &[value])
            }
            DType::F64 => {
                self.helpers.plain("double")?;
                self.call("rf_double_bits", &[value])
            }
            _ => self.stored(value, from)?,
        };
        match to {
            DType::F32 => {
                self.helpers.plain("float")?;
                let bits = Text::cast(self.dialect.word(DType::U32)?, &bits);
                Ok(self.call("rf_float", &[bits]))
            }
            DType::F64 => {
                self.helpers.plain("double")?;
                let bits = Text::cast(self.dialect.word(DType::U64)?, &bits);
                Ok(self.call("rf_double", &[bits]))
            }
            DType::F16 | DType::BF16 => {
                let bits = Text::cast(self.dialect.word(DType::U16)?, &bits);
                self.loaded(bits, to)
            }
            _ => Ok(Text::cast(self.dialect.word(value_type(to))?, &bits)),
        }
    }

    /// A scalar parameter from the 64-bit word that it travels in: floats as the bits of a float64.
    pub(crate) fn value_of_word(&mut self, word: &str, dtype: DType) -> Result<Text> {
        let word = Text::primary(word);
        if dtype.is_float() {
            self.helpers.plain("double")?;
            let bits = Text::cast(self.dialect.word(DType::U64)?, &word);
            let double = self.call("rf_double", &[bits]);
            return self.cast(double, DType::F64, dtype);
        }
        self.cast(word, DType::I64, dtype)
    }
}

fn is_nonzero(value: &Text) -> Text {
    Text::infix(value, "!=", &Text::primary("0"), Strength::Equal)
}
