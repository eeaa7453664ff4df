//! Element types that operators do not compute on: 8- and 4-bit floats, and integers of 4 and 2 bits.
//!
//! A tensor of such a type has it in its [`Tensor::ty`], while the graph carries one byte for each
//! element: the code of a float (uint8), the value of an integer (int8 or uint8). Data movement goes
//! on with the bytes; everything else has to convert first, and is refused by name. Inputs and
//! outputs have an 8-bit float's own type; those narrower than a byte are one element in a byte there
//! too. Files pack them.
//!
//! Conversions follow ONNX's tables for `Cast`: to nearest, ties to even, once. The formats are
//! those of the Open Compute Project (OFP8, MX) and, `fnuz`, of Noune et al. 2022.

use std::sync::Arc;

use reflex_graph::{Binary, Literal, Op, ScatterReduce, Unary};
use reflex_runtime::dtype::code;
use reflex_tir::DType;

use crate::context::ImportContext;
use crate::error::{Result, unsupported};
use crate::value::Tensor;

/// A float format of a sign, an exponent and a mantissa.
#[derive(Clone, Copy)]
struct Format {
    bits: u32,
    mantissa: u32,
    bias: i32,
    /// Code of the greatest finite number.
    max: i64,
    /// Code of a positive number that is too large and not saturated.
    overflow: i64,
    /// Code of NaN.
    nan: i64,
    /// NaN is the code of negative zero, which there is not (`fnuz`); or there is no NaN.
    unsigned_nan: bool,
    /// There is no negative zero.
    unsigned_zero: bool,
}

/// How a conversion treats numbers that the type does not have.
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
const E8M0: DType = float8(7);
const E2M1: DType = DType::new(code::FLOAT8_E3M4 + 10, 4);

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
fn format(dtype: DType) -> Option<Format> {
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
fn numbers(dtype: DType) -> Option<Vec<f32>> {
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
    fn tagged(self, dtype: DType) -> Tensor {
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
    fn untagged(&self) -> Tensor {
        self.clone().tagged(carrier(self.dtype()).unwrap_or(self.dtype()))
    }
}

/// The operands of `op` whose elements it moves; `None` if it does more.
fn moved(op: &Op, count: usize) -> Option<Vec<usize>> {
    match op {
        Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Broadcast(_)
        | Op::Slice { .. }
        | Op::Concat { .. }
        | Op::Pad { .. } => Some((0..count).collect()),
        Op::Gather { .. } => Some(vec![0]),
        Op::Scatter { reduce: ScatterReduce::Replace, .. } => Some(vec![0, 2]),
        Op::Where => Some(vec![1, 2]),
        _ => None,
    }
}

impl ImportContext<'_> {
    /// An operator some of whose operands have narrow types.
    pub(crate) fn narrow_ops(&mut self, op: Op, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        let narrow = |x: &&Tensor| carrier(x.dtype()).is_some();
        let dtype = args.iter().find(|x| narrow(x)).map_or(DType::U8, |x| x.dtype());
        let refused = || unsupported(format!("arithmetic on {dtype}; it is moved and converted"));
        let data = moved(&op, args.len()).ok_or_else(refused)?;
        let fits = |(i, x): (usize, &&Tensor)| data.contains(&i) == (x.dtype() == dtype);
        if !args.iter().enumerate().all(fits) {
            return Err(refused());
        }
        let bytes: Vec<Tensor> = args.iter().map(|x| x.untagged()).collect();
        let results = self.ops(op, &bytes.iter().collect::<Vec<_>>())?;
        Ok(results.into_iter().map(|y| y.tagged(dtype)).collect())
    }

    /// A parameter of a narrow type, which has the type of inputs.
    pub(crate) fn narrow_input(&mut self, x: &Tensor, dtype: DType) -> Result<Tensor> {
        let to = carrier(dtype).unwrap_or(dtype);
        if x.dtype() == to {
            return Ok(x.clone().tagged(dtype));
        }
        let value = self.value(x)?;
        let bytes = self.b.emit1(Op::Bitcast(to), &[value])?;
        Ok(self.tensor_of(bytes).tagged(dtype))
    }

    /// A tensor of a narrow type as an output.
    pub(crate) fn narrow_output(&mut self, x: &Tensor) -> Result<Tensor> {
        let to = boundary(x.dtype());
        let bytes = x.untagged();
        if bytes.dtype() == to {
            return Ok(bytes);
        }
        let value = self.value(&bytes)?;
        let own = self.b.emit1(Op::Bitcast(to), &[value])?;
        Ok(self.tensor_of(own))
    }

    /// Conversion between types one of which at least is narrow.
    pub(crate) fn narrow_cast(&mut self, x: &Tensor, to: DType, how: Conversion) -> Result<Tensor> {
        if x.dtype() == to {
            return Ok(x.clone());
        }
        let wide = match (carrier(x.dtype()), numbers(x.dtype())) {
            (Some(_), Some(numbers)) => {
                let table =
                    Tensor::literal(Literal::from_f32(vec![numbers.len() as i64], &numbers));
                let codes = self.cast(&x.untagged(), DType::I32)?;
                self.take(&table, &codes, 0)?
            }
            _ => x.untagged(),
        };
        let Some(carrier) = carrier(to) else { return self.cast(&wide, to) };
        let codes = if let Some(format) = format(to) {
            let wide = self.encodable(&wide)?;
            self.encoded(&wide, &format, how.saturate || to == E2M1)?
        } else if to == E8M0 {
            let wide = self.cast(&wide, DType::F32)?;
            self.exponents(&wide, how)?
        } else {
            self.wrapped(&wide, to)?
        };
        Ok(self.cast(&codes, carrier)?.tagged(to))
    }

    /// A float type that holds every value: one rounding is left to do.
    fn encodable(&mut self, x: &Tensor) -> Result<Tensor> {
        let dtype = x.dtype();
        let exact = dtype.bits < 32 || dtype == DType::F32;
        self.cast(x, if exact { DType::F32 } else { DType::F64 })
    }

    /// The codes of a float format, int32 or int64.
    fn encoded(&mut self, x: &Tensor, f: &Format, saturate: bool) -> Result<Tensor> {
        let (word, mantissa, bias) = match x.dtype() {
            DType::F64 => (DType::I64, 52, 1023),
            _ => (DType::I32, 23, 127),
        };
        let zero = self.num(0.0, word)?;
        let bits = self.op(Op::Bitcast(word), &[x])?;
        let negative = self.binary(Binary::Less, &bits, &zero)?;
        let size = self.unary(Unary::Abs, x)?;
        let bits = self.op(Op::Bitcast(word), &[&size])?;
        // A normal number: round at the last bit kept, by adding half of it less one and its parity.
        let shift = mantissa - f.mantissa;
        let last = self.shifted(Binary::Shr, &bits, shift)?;
        let one = self.num(1.0, word)?;
        let odd = self.binary(Binary::BitAnd, &last, &one)?;
        let up = self.binary_num(Binary::Add, &bits, 2f64.powi(shift as i32 - 1) - 1.0)?;
        let up = self.add(&up, &odd)?;
        let normal = self.shifted(Binary::Shr, &up, shift)?;
        let rebased = f64::from(bias - f.bias) * f64::from(1u32 << f.mantissa);
        let normal = self.binary_num(Binary::Sub, &normal, rebased)?;
        // A subnormal one: added to a number whose last bit is its unit, it is rounded there.
        let unit = 1 - f.bias - f.mantissa as i32;
        let base = self.num(2f64.powi(unit + mantissa as i32), x.dtype())?;
        let sum = self.add(&size, &base)?;
        let (sum, base) =
            (self.op(Op::Bitcast(word), &[&sum])?, self.op(Op::Bitcast(word), &[&base])?);
        let subnormal = self.sub(&sum, &base)?;
        let least = self.num(2f64.powi(1 - f.bias), x.dtype())?;
        let small = self.binary(Binary::Less, &size, &least)?;
        let mut codes = self.choose(&small, &subnormal, &normal)?;
        let max = self.num(f.max as f64, word)?;
        let over = self.binary(Binary::Greater, &codes, &max)?;
        let most = self.num(if saturate { f.max } else { f.overflow } as f64, word)?;
        codes = self.choose(&over, &most, &codes)?;
        let nan = self.unary(Unary::IsNan, x)?;
        let nan_code = self.num(f.nan as f64, word)?;
        if !f.unsigned_nan {
            codes = self.choose(&nan, &nan_code, &codes)?;
        }
        codes = self.signed(f, &codes, &negative)?;
        if f.unsigned_nan { self.choose(&nan, &nan_code, &codes) } else { Ok(codes) }
    }

    /// Codes with the sign put in.
    fn signed(&mut self, f: &Format, codes: &Tensor, negative: &Tensor) -> Result<Tensor> {
        let sign = f64::from(1u32 << (f.bits - 1));
        let minus = self.binary_num(Binary::Add, codes, sign)?;
        let mut flip = negative.clone();
        if f.unsigned_zero {
            let zero = self.num(0.0, codes.dtype())?;
            let above = self.binary(Binary::Greater, codes, &zero)?;
            let bound = self.num(sign, codes.dtype())?;
            let below = self.binary(Binary::Less, codes, &bound)?;
            let has_sign = self.binary(Binary::And, &above, &below)?;
            flip = self.binary(Binary::And, &flip, &has_sign)?;
        }
        self.choose(&flip, &minus, codes)
    }

    fn shifted(&mut self, f: Binary, x: &Tensor, by: u32) -> Result<Tensor> {
        self.binary_num(f, x, f64::from(by))
    }

    /// The codes of powers of two: biased exponents, rounded.
    fn exponents(&mut self, x: &Tensor, how: Conversion) -> Result<Tensor> {
        let bits = self.op(Op::Bitcast(DType::I32), &[x])?;
        let mask = |cx: &mut Self, x: &Tensor, mask: f64| cx.binary_num(Binary::BitAnd, x, mask);
        let exponent = self.shifted(Binary::Shr, &bits, 23)?;
        let exponent = mask(self, &exponent, 255.0)?;
        let zero = self.num(0.0, DType::I32)?;
        let up = match how.round {
            ScaleRounding::Down => None,
            ScaleRounding::Up => {
                let fraction = mask(self, &bits, f64::from(0x7f_ffff))?;
                Some(self.binary(Binary::Greater, &fraction, &zero)?)
            }
            ScaleRounding::Nearest => {
                let half = mask(self, &bits, f64::from(0x40_0000))?;
                let half = self.binary(Binary::Greater, &half, &zero)?;
                let rest = mask(self, &bits, f64::from(0x3f_ffff))?;
                let rest = self.add(&rest, &exponent)?;
                let more = self.binary(Binary::Greater, &rest, &zero)?;
                Some(self.binary(Binary::And, &half, &more)?)
            }
        };
        let Some(up) = up else { return Ok(exponent) };
        // Saturated, the greatest power stays; NaN and infinities have the last code already.
        let end = self.num(if how.saturate { 254.0 } else { 255.0 }, DType::I32)?;
        let below = self.binary(Binary::Less, &exponent, &end)?;
        let up = self.binary(Binary::And, &up, &below)?;
        let up = self.cast(&up, DType::I32)?;
        self.add(&exponent, &up)
    }

    /// Integers cut to the bits of a type.
    fn wrapped(&mut self, x: &Tensor, to: DType) -> Result<Tensor> {
        let whole = self.cast(x, DType::I32)?;
        let low = self.binary_num(Binary::BitAnd, &whole, f64::from((1u32 << to.bits) - 1))?;
        if to.is_uint() {
            return Ok(low);
        }
        let sign = f64::from(1u32 << (to.bits - 1));
        let flipped = self.binary_num(Binary::BitXor, &low, sign)?;
        self.binary_num(Binary::Sub, &flipped, sign)
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
