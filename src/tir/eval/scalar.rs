//! Scalar values and what every operation on them means.
//!
//! Each float type computes in itself: f32 in f32, f64 in f64, f16 and bf16 by widening to
//! f32, one operation, and rounding back. Transcendental functions are computed in f64 and
//! rounded, so that they are the best reference at hand; generated code is compared with them
//! within a tolerance and with everything else exactly.

use half::{bf16, f16};
use reflex_runtime::dtype::code;

use super::error::EvalErrorKind;
use crate::{BinOp, CmpOp, DType, Intrin, Sign, half_float};

/// A scalar. Integers are kept sign- or zero-extended by their own type (u64 by bit pattern).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Integer or bool.
    Int(i64),
    /// binary16
    F16(f16),
    /// bfloat16
    Bf16(bf16),
    /// binary32
    F32(f32),
    /// binary64
    F64(f64),
}

type Answer = Result<Scalar, EvalErrorKind>;

impl Scalar {
    /// `x` converted to the float type `dtype` with one rounding.
    pub fn float(x: f64, dtype: DType) -> Answer {
        Ok(match dtype {
            DType::F32 => Scalar::F32(x as f32),
            DType::F64 => Scalar::F64(x),
            DType::F16 => Scalar::F16(half_float::f64_to_f16(x)),
            DType::BF16 => Scalar::Bf16(half_float::f64_to_bf16(x)),
            _ => return Err(EvalErrorKind::Type(format!("{dtype} is not evaluated"))),
        })
    }

    /// `x` wrapped to the integer type `dtype`.
    pub fn int(x: i64, dtype: DType) -> Answer {
        Ok(Scalar::Int(wrap(x, dtype)?))
    }

    /// The integer, or a type error.
    pub fn as_int(self) -> Result<i64, EvalErrorKind> {
        match self {
            Scalar::Int(x) => Ok(x),
            other => Err(EvalErrorKind::Type(format!("expected an integer, found {other:?}"))),
        }
    }

    /// The value as f64; exact for all but 64-bit integers.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Int(x) => x as f64,
            Scalar::F16(x) => x.to_f64(),
            Scalar::Bf16(x) => x.to_f64(),
            Scalar::F32(x) => x as f64,
            Scalar::F64(x) => x,
        }
    }

    /// Reads one element; `bytes` is exactly one item.
    pub fn read(bytes: &[u8], dtype: DType) -> Answer {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        Scalar::from_bits(u64::from_le_bytes(raw), dtype)
    }

    /// Writes one element; `bytes` is exactly one item of the value's type.
    pub fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bits().to_le_bytes()[..bytes.len()]);
    }

    fn bits(self) -> u64 {
        match self {
            Scalar::Int(x) => x as u64,
            Scalar::F16(x) => u64::from(x.to_bits()),
            Scalar::Bf16(x) => u64::from(x.to_bits()),
            Scalar::F32(x) => u64::from(x.to_bits()),
            Scalar::F64(x) => x.to_bits(),
        }
    }

    fn from_bits(bits: u64, dtype: DType) -> Answer {
        Ok(match dtype {
            DType::F32 => Scalar::F32(f32::from_bits(bits as u32)),
            DType::F64 => Scalar::F64(f64::from_bits(bits)),
            DType::F16 => Scalar::F16(f16::from_bits(bits as u16)),
            DType::BF16 => Scalar::Bf16(bf16::from_bits(bits as u16)),
            DType::BOOL => Scalar::Int(i64::from(bits as u8 != 0)),
            _ => return Scalar::int(bits as i64, dtype),
        })
    }
}

fn wrap(x: i64, dtype: DType) -> Result<i64, EvalErrorKind> {
    Ok(match dtype {
        DType::BOOL => i64::from(x != 0),
        DType::I8 => i64::from(x as i8),
        DType::I16 => i64::from(x as i16),
        DType::I32 => i64::from(x as i32),
        DType::I64 | DType::U64 => x,
        DType::U8 => i64::from(x as u8),
        // An 8-bit float is its code, which is only moved.
        _ if dtype.is_float8() => i64::from(x as u8),
        DType::U16 => i64::from(x as u16),
        DType::U32 => i64::from(x as u32),
        _ => return Err(EvalErrorKind::Type(format!("{dtype} is not evaluated"))),
    })
}

/// Applies a float function in the arithmetic of the operands' type.
macro_rules! in_own_type { ($values:expr, |$($x:ident),+| $body:expr) => {
    match $values {
        ($(Scalar::F32($x),)+) => Ok(Scalar::F32($body)),
        ($(Scalar::F64($x),)+) => Ok(Scalar::F64($body)),
        ($(Scalar::F16($x),)+) => {
            $(let $x = $x.to_f32();)+
            Ok(Scalar::F16(f16::from_f32($body)))
        }
        ($(Scalar::Bf16($x),)+) => {
            $(let $x = $x.to_f32();)+
            Ok(Scalar::Bf16(bf16::from_f32($body)))
        }
        other => Err(EvalErrorKind::Type(format!("float operands expected, found {other:?}"))),
    }
} }

/// `a op b` in type `dtype`.
pub fn binary(op: BinOp, a: Scalar, b: Scalar, dtype: DType) -> Answer {
    if let (Scalar::Int(x), Scalar::Int(y)) = (a, b) {
        return int_binary(op, x, y, dtype);
    }
    match op {
        BinOp::Add => in_own_type!((a, b,), |x, y| x + y),
        BinOp::Sub => in_own_type!((a, b,), |x, y| x - y),
        BinOp::Mul => in_own_type!((a, b,), |x, y| x * y),
        BinOp::Div => in_own_type!((a, b,), |x, y| x / y),
        BinOp::Mod => in_own_type!((a, b,), |x, y| x % y),
        BinOp::FloorDiv => in_own_type!((a, b,), |x, y| (x / y).floor()),
        // `x - floor(x / y) * y`, each step rounded, as the lowered form computes it.
        BinOp::FloorMod => in_own_type!((a, b,), |x, y| x - (x / y).floor() * y),
        // A choice returns the operand itself, NaN payload included.
        BinOp::Min => choose(a, b, CmpOp::Lt),
        BinOp::Max => choose(a, b, CmpOp::Gt),
    }
}

/// `if a op b or a is NaN { a } else { b }`
fn choose(a: Scalar, b: Scalar, op: CmpOp) -> Answer {
    let (x, y) = (a.as_f64(), b.as_f64());
    Ok(if op.holds(&x, &y) || x.is_nan() { a } else { b })
}

fn int_binary(op: BinOp, x: i64, y: i64, dtype: DType) -> Answer {
    let unsigned = dtype == DType::U64;
    let divides = matches!(op, BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod);
    if divides && y == 0 {
        return Err(EvalErrorKind::Arithmetic("integer division by zero".into()));
    }
    let (ux, uy) = (x as u64, y as u64);
    let value = match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div | BinOp::FloorDiv if unsigned => (ux / uy) as i64,
        BinOp::Mod | BinOp::FloorMod if unsigned => (ux % uy) as i64,
        BinOp::Min if unsigned => ux.min(uy) as i64,
        BinOp::Max if unsigned => ux.max(uy) as i64,
        BinOp::Div => x.wrapping_div(y),
        BinOp::Mod => x.wrapping_rem(y),
        BinOp::FloorDiv => {
            let (q, r) = (x.wrapping_div(y), x.wrapping_rem(y));
            if r != 0 && (r < 0) != (y < 0) { q - 1 } else { q }
        }
        BinOp::FloorMod => {
            let r = x.wrapping_rem(y);
            if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
        }
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
    };
    Scalar::int(value, dtype)
}

/// `a op b` for operands of type `dtype`.
pub fn compare(op: CmpOp, a: Scalar, b: Scalar, dtype: DType) -> bool {
    match (a, b) {
        (Scalar::Int(x), Scalar::Int(y)) if dtype == DType::U64 => {
            op.holds(&(x as u64), &(y as u64))
        }
        (Scalar::Int(x), Scalar::Int(y)) => op.holds(&x, &y),
        _ => op.holds(&a.as_f64(), &b.as_f64()),
    }
}

/// Conversion from `from` to `to` as [`crate::ExprKind::Cast`] defines it.
pub fn cast(value: Scalar, from: DType, to: DType) -> Answer {
    match value {
        Scalar::Int(x) if to.is_float() => {
            // Narrow floats round twice, through f32, as the lowered form does.
            let single = if from == DType::U64 { x as u64 as f32 } else { x as f32 };
            let double = if from == DType::U64 { x as u64 as f64 } else { x as f64 };
            Scalar::float(if to == DType::F64 { double } else { f64::from(single) }, to)
        }
        Scalar::Int(x) => Scalar::int(x, to),
        _ if to.is_float() => Scalar::float(value.as_f64(), to),
        _ => float_to_int(value.as_f64(), to),
    }
}

fn float_to_int(x: f64, to: DType) -> Answer {
    Ok(Scalar::Int(match to {
        DType::BOOL => i64::from(x != 0.0),
        DType::I8 => i64::from(x as i8),
        DType::I16 => i64::from(x as i16),
        DType::I32 => i64::from(x as i32),
        DType::I64 => x as i64,
        DType::U8 => i64::from(x as u8),
        DType::U16 => i64::from(x as u16),
        DType::U32 => i64::from(x as u32),
        DType::U64 => x as u64 as i64,
        _ => return Err(EvalErrorKind::Type(format!("{to} is not evaluated"))),
    }))
}

/// An intrinsic on evaluated operands of type `from`; `to` is the result's type.
/// [`Intrin::IfThenElse`] is lazy and therefore not handled here.
pub fn intrinsic(op: Intrin, args: &[Scalar], from: DType, to: DType) -> Answer {
    match (op, args) {
        (Intrin::Fma, [a, b, c]) => in_own_type!((*a, *b, *c,), |x, y, z| x.mul_add(y, z)),
        (Intrin::DotBf16, [Scalar::Int(a), Scalar::Int(b), Scalar::F32(c)]) => {
            Ok(Scalar::F32(dot_bf16(*a as u32, *b as u32, *c)))
        }
        (Intrin::PairBf16, [Scalar::F32(low), Scalar::F32(high)]) => {
            let [low, high] =
                [*low, *high].map(|x| bf16::from_f32(without_subnormals(x)).to_bits());
            Scalar::int(i64::from(u32::from(high) << 16 | u32::from(low)), to)
        }
        (Intrin::PairBf16, [Scalar::Bf16(low), Scalar::Bf16(high)]) => {
            Scalar::int(i64::from(u32::from(high.to_bits()) << 16 | u32::from(low.to_bits())), to)
        }
        (Intrin::DotI8 { a, b }, [Scalar::Int(x), Scalar::Int(y), Scalar::Int(sum)]) => {
            Scalar::int(i64::from(dot_i8((*x as u32, a), (*y as u32, b), *sum as i32)), to)
        }
        (Intrin::DotI16, [Scalar::Int(x), Scalar::Int(y), Scalar::Int(sum)]) => {
            Scalar::int(i64::from(dot_i16(*x as u32, *y as u32, *sum as i32)), to)
        }
        (Intrin::Pack4x8, [Scalar::Int(a), Scalar::Int(b), Scalar::Int(c), Scalar::Int(d)]) => {
            let word = u32::from_le_bytes([a, b, c, d].map(|x| *x as u8));
            Scalar::int(i64::from(word), to)
        }
        (Intrin::Prefetch, [x, _]) => Ok(*x),
        (Intrin::Abs, [Scalar::Int(x)]) => Scalar::int(x.wrapping_abs(), to),
        (Intrin::Abs, [a]) => in_own_type!((*a,), |x| x.abs()),
        (Intrin::IsNan, [a]) => Ok(Scalar::Int(i64::from(a.as_f64().is_nan()))),
        (Intrin::IsInf, [a]) => Ok(Scalar::Int(i64::from(a.as_f64().is_infinite()))),
        (Intrin::Reinterpret, [a]) if from.bits == to.bits => Scalar::from_bits(a.bits(), to),
        (Intrin::Pow, [a, b]) => Scalar::float(libm::pow(a.as_f64(), b.as_f64()), to),
        (Intrin::BitNot, [Scalar::Int(x)]) => match to.code {
            code::BOOL => Ok(Scalar::Int(1 - x)),
            _ => Scalar::int(!x, to),
        },
        (_, [Scalar::Int(x), Scalar::Int(y)]) => bits(op, *x, *y, to),
        (_, [a]) if to.is_float() => {
            let f =
                unary(op).ok_or_else(|| EvalErrorKind::Type(format!("{op:?} of one operand")))?;
            Scalar::float(f(a.as_f64()), to)
        }
        _ => Err(EvalErrorKind::Type(format!("{op:?} of {args:?}"))),
    }
}

/// The meaning of [`Intrin::DotI8`].
pub(super) fn dot_i8(a: (u32, Sign), b: (u32, Sign), sum: i32) -> i32 {
    let integers = |(word, sign): (u32, Sign)| {
        word.to_le_bytes().map(|byte| match sign {
            Sign::Unsigned => i32::from(byte),
            Sign::Signed => i32::from(byte as i8),
        })
    };
    let products = integers(a).into_iter().zip(integers(b)).map(|(x, y)| x * y);
    products.fold(sum, i32::wrapping_add)
}

/// The meaning of [`Intrin::DotI16`].
fn dot_i16(a: u32, b: u32, sum: i32) -> i32 {
    let products = [0, 16].map(|by| i32::from((a >> by) as i16) * i32::from((b >> by) as i16));
    products.into_iter().fold(sum, i32::wrapping_add)
}

/// The meaning of [`Intrin::DotBf16`].
fn dot_bf16(a: u32, b: u32, c: f32) -> f32 {
    let first = fma_without_subnormals(high(a), high(b), without_subnormals(c));
    fma_without_subnormals(low(a), low(b), first)
}

/// The meaning of [`crate::tile::TileOp::DotBf16`] for one element: its sum before, and the pairs of
/// its row and column.
pub fn dot_tile(sum: f32, pairs: &[(u32, u32)]) -> f32 {
    let chain = |half: fn(u32) -> f32| {
        pairs.iter().fold(0.0, |sum, (a, b)| fma_without_subnormals(half(*a), half(*b), sum))
    };
    let both = without_subnormals(chain(low) + chain(high));
    without_subnormals(without_subnormals(sum) + both)
}

/// The upper half of a VNNI pair; a subnormal one counts as zero.
fn high(pair: u32) -> f32 {
    without_subnormals(f32::from_bits(pair & 0xffff_0000))
}

/// The lower half.
fn low(pair: u32) -> f32 {
    without_subnormals(f32::from_bits(pair << 16))
}

fn without_subnormals(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0_f32.copysign(x) } else { x }
}

/// `a * b + c` for operands that are not subnormal, zero where its 24 bits, rounded as if the
/// exponent had no end, lie below the smallest normal number.
fn fma_without_subnormals(a: f32, b: f32, c: f32) -> f32 {
    let sum = a.mul_add(b, c);
    if sum.abs() != f32::MIN_POSITIVE {
        return without_subnormals(sum);
    }
    // It may have been rounded up as a subnormal number. Then the product is so small that
    // neither it nor `c` overflows here.
    let scale = 2_f32.powi(64);
    let scaled = (a * scale).mul_add(b, c * scale);
    if scaled.abs() < f32::MIN_POSITIVE * scale { 0_f32.copysign(sum) } else { sum }
}

fn bits(op: Intrin, x: i64, y: i64, to: DType) -> Answer {
    let value = match op {
        Intrin::BitAnd => x & y,
        Intrin::BitOr => x | y,
        Intrin::BitXor => x ^ y,
        Intrin::Shl | Intrin::Shr if !(0..i64::from(to.bits)).contains(&y) => {
            return Err(EvalErrorKind::Arithmetic(format!("shift of {to} by {y}")));
        }
        Intrin::Shl => x << y,
        // Values are extended by their own type, so only u64 needs the logical shift.
        Intrin::Shr if to == DType::U64 => ((x as u64) >> y) as i64,
        Intrin::Shr => x >> y,
        _ => return Err(EvalErrorKind::Type(format!("{op:?} of two integers"))),
    };
    Scalar::int(value, to)
}

/// The functions of one float operand. For the exact ones (sqrt, rounding) going through f64
/// and back gives the correctly rounded result of the narrower type.
fn unary(op: Intrin) -> Option<fn(f64) -> f64> {
    Some(match op {
        Intrin::Exp => libm::exp,
        Intrin::Log => libm::log,
        Intrin::Sqrt => f64::sqrt,
        Intrin::Sin => libm::sin,
        Intrin::Cos => libm::cos,
        Intrin::Tan => libm::tan,
        Intrin::Asin => libm::asin,
        Intrin::Acos => libm::acos,
        Intrin::Atan => libm::atan,
        Intrin::Sinh => libm::sinh,
        Intrin::Cosh => libm::cosh,
        Intrin::Tanh => libm::tanh,
        Intrin::Asinh => libm::asinh,
        Intrin::Acosh => libm::acosh,
        Intrin::Atanh => libm::atanh,
        Intrin::Erf => libm::erf,
        Intrin::Floor => f64::floor,
        Intrin::Ceil => f64::ceil,
        Intrin::Trunc => f64::trunc,
        Intrin::Round => f64::round_ties_even,
        Intrin::IfThenElse
        | Intrin::Fma
        | Intrin::DotBf16
        | Intrin::PairBf16
        | Intrin::DotI8 { .. }
        | Intrin::DotI16
        | Intrin::Pack4x8
        | Intrin::Prefetch
        | Intrin::Pow
        | Intrin::Abs
        | Intrin::IsNan
        | Intrin::IsInf
        | Intrin::Shl
        | Intrin::Shr
        | Intrin::BitAnd
        | Intrin::BitOr
        | Intrin::BitXor
        | Intrin::BitNot
        | Intrin::Reinterpret => return None,
    })
}
