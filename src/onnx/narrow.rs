//! Element types that operators do not compute on: 8- and 4-bit floats, and integers of 4 and 2 bits.
//!
//! A tensor of such a type has it in its [`Tensor::ty`], while the graph carries one byte for each
//! element: the code of a float (uint8), the value of an integer (int8 or uint8). Data movement goes
//! on with the bytes; everything else has to convert first, and is refused by name. Inputs and
//! outputs have an 8-bit float's own type; those narrower than a byte are one element in a byte there
//! too. Files pack them.
//!
//! The formats are those of the Open Compute Project (OFP8, MX) and, `fnuz`, of Noune et al. 2022.

use std::sync::Arc;

use reflex_graph::Literal;
use reflex_runtime::dtype::code;
use reflex_tir::DType;

use crate::value::Tensor;

/// A float format of a sign, an exponent and a mantissa.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// Bits of a code.
    pub bits: u32,
    /// Those of the mantissa.
    pub mantissa: u32,
    /// Taken off the exponent.
    pub bias: i32,
    /// Code of the greatest finite number.
    pub max: i64,
    /// Code of a positive number that is too large and not saturated.
    pub overflow: i64,
    /// Code of NaN.
    pub nan: i64,
    /// NaN is the code of negative zero, which there is not (`fnuz`); or there is no NaN.
    pub unsigned_nan: bool,
    /// There is no negative zero.
    pub unsigned_zero: bool,
}

/// The treatment of numbers that a type does not have.
#[derive(Clone, Copy)]
pub(crate) struct Conversion {
    /// Numbers that are too large become the greatest one.
    pub saturate: bool,
    /// Rounding to powers of two (float8_e8m0).
    pub round: ScaleRounding,
}

/// Rounding to a power of two.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ScaleRounding {
    Up,
    Down,
    Nearest,
}

impl Conversion {
    /// ONNX's default.
    pub const DEFAULT: Conversion = Conversion { saturate: true, round: ScaleRounding::Up };
}

const fn float8(offset: u8) -> DType {
    DType::new(code::FLOAT8_E3M4 + offset, 8)
}

const E4M3FN: DType = float8(3);
const E4M3FNUZ: DType = float8(4);
const E5M2: DType = float8(5);
const E5M2FNUZ: DType = float8(6);
pub(crate) const E8M0: DType = float8(7);
pub(crate) const E2M1: DType = DType::new(code::FLOAT8_E3M4 + 10, 4);

/// The type that carries a narrow one in the graph; `None` for other types.
pub(crate) fn carrier(dtype: DType) -> Option<DType> {
    let scalar = dtype.is_scalar();
    match dtype {
        E4M3FN | E4M3FNUZ | E5M2 | E5M2FNUZ | E8M0 | E2M1 => Some(DType::U8),
        _ if scalar && dtype.is_int() && matches!(dtype.bits, 2 | 4) => Some(DType::I8),
        _ if scalar && dtype.is_uint() && matches!(dtype.bits, 2 | 4) => Some(DType::U8),
        _ => None,
    }
}

/// The type that inputs and outputs have.
pub(crate) fn boundary(dtype: DType) -> DType {
    if dtype.bits < 8 { carrier(dtype).unwrap_or(dtype) } else { dtype }
}

/// A literal as the graph carries it: one byte for each element of a narrow type.
pub(crate) fn carried(literal: Literal) -> Literal {
    let dtype = literal.dtype();
    let Some(to) = carrier(dtype) else { return literal };
    if dtype.bits == 8 {
        let bytes = literal.bytes().to_vec();
        let shape = literal.shape().to_vec();
        return Literal::new(to, shape, Arc::new(bytes)).expect("as many bytes");
    }
    let bits = usize::from(dtype.bits);
    let per_byte = 8 / bits;
    let packed = literal.bytes();
    let sign = if dtype.is_int() { 1u8 << (bits - 1) } else { 0 };
    let element = |i: usize| {
        let code = packed[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1);
        (code ^ sign).wrapping_sub(sign)
    };
    let bytes: Vec<u8> = (0..literal.count()).map(element).collect();
    Literal::new(to, literal.shape().to_vec(), Arc::new(bytes)).expect("a byte for each element")
}

/// A float format by its type.
pub(crate) fn format(dtype: DType) -> Option<Format> {
    let signed = |mantissa, bias, max, overflow, nan| Format {
        bits: 8,
        mantissa,
        bias,
        max,
        overflow,
        nan,
        unsigned_nan: false,
        unsigned_zero: false,
    };
    let fnuz = |mantissa, bias| Format {
        unsigned_nan: true,
        unsigned_zero: true,
        ..signed(mantissa, bias, 0x7f, 0x80, 0x80)
    };
    match dtype {
        E4M3FN => Some(signed(3, 7, 0x7e, 0x7f, 0x7f)),
        E5M2 => Some(signed(2, 15, 0x7b, 0x7c, 0x7e)),
        E4M3FNUZ => Some(fnuz(3, 8)),
        E5M2FNUZ => Some(fnuz(2, 16)),
        // NaN becomes negative zero, as in ONNX's cases.
        E2M1 => Some(Format { bits: 4, unsigned_nan: true, ..signed(1, 1, 7, 7, 8) }),
        _ => None,
    }
}

/// The number of each code.
pub(crate) fn numbers(dtype: DType) -> Option<Vec<f32>> {
    if dtype == E8M0 {
        let power = |code: i32| if code == 255 { f32::NAN } else { 2f64.powi(code - 127) as f32 };
        return Some((0..256).map(power).collect());
    }
    let f = format(dtype)?;
    let number = |code: i64| {
        let magnitude = code & ((1 << (f.bits - 1)) - 1);
        let sign = if code == magnitude { 1.0 } else { -1.0 };
        let (exponent, mantissa) = (magnitude >> f.mantissa, magnitude & ((1 << f.mantissa) - 1));
        if magnitude > f.max {
            let infinite = dtype == E5M2 && mantissa == 0;
            return if infinite { sign * f32::INFINITY } else { f32::NAN };
        }
        if f.unsigned_zero && code == f.nan {
            return f32::NAN;
        }
        let part = mantissa as f64 / f64::from(1u32 << f.mantissa);
        let (significand, power) = match exponent {
            0 => (part, 1 - f.bias),
            _ => (1.0 + part, exponent as i32 - f.bias),
        };
        sign * (significand * 2f64.powi(power)) as f32
    };
    Some((0..1 << f.bits).map(number).collect())
}

impl Tensor {
    /// The same tensor with another element type in its own type alone.
    pub(crate) fn tagged(self, dtype: DType) -> Tensor {
        let mut tensor = self;
        tensor.ty.dtype = dtype;
        tensor
    }

    /// A constant of any type that a file has.
    pub fn constant(literal: Literal) -> Tensor {
        let dtype = literal.dtype();
        Tensor::literal(carried(literal)).tagged(dtype)
    }

    /// The tensor of the bytes that carry it.
    pub(crate) fn untagged(&self) -> Tensor {
        self.clone().tagged(carrier(self.dtype()).unwrap_or(self.dtype()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_numbers_of_their_formats() {
        let number = |dtype: DType, code: usize| numbers(dtype).unwrap()[code];
        assert_eq!(number(E4M3FN, 0x7e), 448.0);
        assert!(number(E4M3FN, 0xff).is_nan());
        assert_eq!(number(E5M2, 0xfc), f32::NEG_INFINITY);
        assert_eq!(number(E5M2, 0x01), 2f32.powi(-16));
        assert_eq!(number(E4M3FNUZ, 0x7f), 240.0);
        assert!(number(E5M2FNUZ, 0x80).is_nan());
        assert_eq!(number(E8M0, 0), 2f32.powi(-127));
        assert_eq!(numbers(E2M1).unwrap()[..8], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(number(E2M1, 0xf), -6.0);
    }

    #[test]
    fn packed_elements_get_a_byte_each() {
        let int4 = DType::new(code::INT, 4);
        let packed = Literal::new(int4, vec![3], Arc::new(vec![0x8f, 0x07])).unwrap();
        assert_eq!(carried(packed).bytes(), [0xff, 0xf8, 0x07]);
        let uint2 = DType::new(code::UINT, 2);
        let packed = Literal::new(uint2, vec![5], Arc::new(vec![0b11_10_01_00, 0b10])).unwrap();
        assert_eq!(carried(packed).bytes(), [0, 1, 2, 3, 2]);
    }
}
