//! Conversions between types, as one description that the executor applies.

use super::format::{BF16, F16, F32, F64, Format, Round, TF32};
use super::integer::{mask, sign_extend};
use super::soft;

/// A type of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// An integer of a width, signed or not.
    Integer { bits: u32, signed: bool },
    /// A floating-point number.
    Float(Format),
}

/// A conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// From what.
    pub from: Number,
    /// To what.
    pub to: Number,
    /// The rounding.
    pub round: Round,
    /// Whether a number becomes an integral one of its own format.
    pub integral: bool,
    /// Whether it saturates: to the range of an integer, or to `0..=1`.
    pub saturate: bool,
    /// Whether negative results become zero.
    pub relu: bool,
}

impl Conversion {
    /// Converts bits. Integers are sign-extended to 64 bits; the register cuts them.
    pub fn apply(&self, value: u64) -> u64 {
        match (self.from, self.to) {
            (Number::Integer { bits, signed }, Number::Integer { bits: to, signed: to_signed }) => {
                let wide = integer(value, bits, signed);
                let wide = if self.saturate { clamp(wide, to, to_signed) } else { wide };
                extend(wide as u64, to, to_signed)
            }
            (Number::Integer { bits, signed }, Number::Float(format)) => {
                let wide = integer(value, bits, signed);
                let magnitude = wide.unsigned_abs() as u64;
                soft::from_integer(format, wide < 0, magnitude, self.round)
            }
            (Number::Float(format), Number::Integer { bits, signed }) => {
                let (least, most) = range(bits, signed);
                // NaN is zero, but the highest bit where either side has 64 bits (PTX ISA, cvt).
                let of_nan = if format == F64 || bits == 64 { 1 << (bits - 1) } else { 0 };
                let whole = soft::to_integer(format, value, self.round, least, most);
                extend(whole.unwrap_or(of_nan) as u64, bits, signed)
            }
            (Number::Float(from), Number::Float(to)) => self.float(value, from, to),
        }
    }

    fn float(&self, value: u64, from: Format, to: Format) -> u64 {
        let mut bits = if self.integral {
            let whole = soft::round_to_integral(from, value, self.round);
            soft::convert(from, to, whole, Round::Nearest)
        } else if (from, to, self.round) == (F64, F32, Round::Nearest) {
            let near = f64::from_bits(value) as f32;
            if near.is_nan() { F32.nan } else { u64::from(near.to_bits()) }
        } else {
            soft::convert(from, to, value, self.round)
        };
        if self.relu && bits & to.sign_bit() != 0 && !to.is_nan(bits) {
            bits = 0;
        }
        if self.saturate {
            bits = unit(bits, to);
        }
        // TensorFloat-32 lies in the high bits of a float32.
        if to == TF32 { bits << 13 } else { bits }
    }
}

fn integer(value: u64, bits: u32, signed: bool) -> i128 {
    if signed { i128::from(sign_extend(value, bits)) } else { i128::from(value & mask(bits)) }
}

fn extend(value: u64, bits: u32, signed: bool) -> u64 {
    if signed { sign_extend(value, bits) as u64 } else { value & mask(bits) }
}

fn range(bits: u32, signed: bool) -> (i128, i128) {
    let most = if signed { mask(bits) >> 1 } else { mask(bits) };
    (if signed { -i128::from(most) - 1 } else { 0 }, i128::from(most))
}

fn clamp(value: i128, bits: u32, signed: bool) -> i128 {
    let (least, most) = range(bits, signed);
    value.clamp(least, most)
}

/// Clamps to `0..=1`; NaN is zero.
fn unit(bits: u64, format: Format) -> u64 {
    let one = soft::convert(F32, format, u64::from(1.0_f32.to_bits()), Round::Nearest);
    match bits {
        _ if format.is_nan(bits) || bits & format.sign_bit() != 0 => 0,
        _ => bits.min(one),
    }
}

/// The format of a type's name.
pub fn format_of(name: &str) -> Option<Format> {
    Some(match name {
        "f16" | "f16x2" => F16,
        "bf16" | "bf16x2" => BF16,
        "f32" => F32,
        "f64" => F64,
        _ => return None,
    })
}
