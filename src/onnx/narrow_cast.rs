//! Operators on narrow types: movement of the bytes that carry them, and conversions.
//!
//! Conversions follow ONNX's tables for `Cast`: to nearest, ties to even, once.

use reflex_graph::{Binary, Literal, Op, ScatterReduce, Unary};
use reflex_tir::DType;

use crate::context::ImportContext;
use crate::error::{Result, unsupported};
use crate::narrow::{
    Conversion, E2M1, E8M0, Format, ScaleRounding, boundary, carrier, format, numbers,
};
use crate::value::Tensor;

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
