//! Elements as numbers: floats widen to f64, integers and bools to i128, so that every
//! element type has exactly two code paths and no integer can overflow before it is wrapped.

use std::ops::Range;

use half::{bf16, f16};
use reflex_tir::{DType, half_float};

use super::error::{EvalError, Result};
use super::shape::literal;
use crate::literal::Literal;

/// Decoded elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalars {
    /// Of a floating-point tensor.
    Float(Vec<f64>),
    /// Of an integer or bool tensor.
    Int(Vec<i128>),
}

/// Elements a computation over long tensors handles at a time.
pub(super) const CHUNK: usize = 4096;

/// Both kinds of scalars, for code that only adds, multiplies and compares.
pub(super) trait Scalar: Copy + PartialOrd + Send + Sync {
    const ZERO: Self;
    const ONE: Self;
    fn add(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// The larger; NaN wins.
    fn max(self, b: Self) -> Self;
    /// The smaller; NaN wins.
    fn min(self, b: Self) -> Self;
    fn wrap(v: Vec<Self>) -> Scalars;
    /// The elements, which are of this kind.
    fn unwrap(scalars: Scalars) -> Vec<Self>;
    /// The least value of an element type of this kind.
    fn lowest(dtype: DType) -> Self;
}

impl Scalar for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    fn add(self, b: f64) -> f64 {
        self + b
    }
    fn mul(self, b: f64) -> f64 {
        self * b
    }
    fn max(self, b: f64) -> f64 {
        if self > b || self.is_nan() { self } else { b }
    }
    fn min(self, b: f64) -> f64 {
        if self < b || self.is_nan() { self } else { b }
    }
    fn wrap(v: Vec<f64>) -> Scalars {
        Scalars::Float(v)
    }
    fn unwrap(scalars: Scalars) -> Vec<f64> {
        let Scalars::Float(v) = scalars else { unreachable!("a float type has floats") };
        v
    }
    fn lowest(_: DType) -> f64 {
        f64::NEG_INFINITY
    }
}

/// Values stay within 64 bits: sums and products wrap there, as every narrower type's do.
impl Scalar for i128 {
    const ZERO: i128 = 0;
    const ONE: i128 = 1;
    fn add(self, b: i128) -> i128 {
        self.wrapping_add(b)
    }
    fn mul(self, b: i128) -> i128 {
        (self as i64).wrapping_mul(b as i64) as i128
    }
    fn max(self, b: i128) -> i128 {
        Ord::max(self, b)
    }
    fn min(self, b: i128) -> i128 {
        Ord::min(self, b)
    }
    fn wrap(v: Vec<i128>) -> Scalars {
        Scalars::Int(v)
    }
    fn unwrap(scalars: Scalars) -> Vec<i128> {
        let Scalars::Int(v) = scalars else { unreachable!("an integer type has integers") };
        v
    }
    fn lowest(dtype: DType) -> i128 {
        limits(dtype).0
    }
}

/// Runs generic code on either kind: `each!(scalars, v => code over a vector)`.
macro_rules! each {
    ($scalars:expr, $v:ident => $body:expr) => {
        match $scalars {
            $crate::eval::scalar::Scalars::Float($v) => $body,
            $crate::eval::scalar::Scalars::Int($v) => $body,
        }
    };
}
pub(super) use each;

fn read<const N: usize, T>(bytes: &[u8], f: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.chunks_exact(N).map(|c| f(c.try_into().expect("exact chunk"))).collect()
}

/// The elements of `range`.
pub(super) fn decode_range(l: &Literal, range: Range<usize>) -> Result<Scalars> {
    let item = l.dtype().itemsize();
    decode_bytes(l.dtype(), &l.bytes()[range.start * item..range.end * item])
}

/// The elements that are all of `b`.
pub(super) fn decode_bytes(dtype: DType, b: &[u8]) -> Result<Scalars> {
    Ok(match dtype {
        DType::F32 => Scalars::Float(read(b, |c| f32::from_le_bytes(c) as f64)),
        DType::F64 => Scalars::Float(read(b, f64::from_le_bytes)),
        DType::F16 => Scalars::Float(read(b, |c| f16::from_le_bytes(c).to_f64())),
        DType::BF16 => Scalars::Float(read(b, |c| bf16::from_le_bytes(c).to_f64())),
        DType::I64 => Scalars::Int(read(b, |c| i64::from_le_bytes(c) as i128)),
        DType::I32 => Scalars::Int(read(b, |c| i32::from_le_bytes(c) as i128)),
        DType::I16 => Scalars::Int(read(b, |c| i16::from_le_bytes(c) as i128)),
        DType::I8 => Scalars::Int(read(b, |c: [u8; 1]| c[0] as i8 as i128)),
        DType::U64 => Scalars::Int(read(b, |c| u64::from_le_bytes(c) as i128)),
        DType::U32 => Scalars::Int(read(b, |c| u32::from_le_bytes(c) as i128)),
        DType::U16 => Scalars::Int(read(b, |c| u16::from_le_bytes(c) as i128)),
        DType::U8 => Scalars::Int(read(b, |c: [u8; 1]| c[0] as i128)),
        DType::BOOL => Scalars::Int(read(b, |c: [u8; 1]| (c[0] != 0) as i128)),
        other => return Err(EvalError::new(format!("arithmetic on {other} is not supported"))),
    })
}

/// Every element.
pub(super) fn decode(l: &Literal) -> Result<Scalars> {
    decode_range(l, 0..l.count())
}

/// Every element of a floating-point tensor.
pub(super) fn floats(l: &Literal) -> Result<Vec<f64>> {
    match decode(l)? {
        Scalars::Float(v) => Ok(v),
        Scalars::Int(_) => Err(EvalError::new(format!("a float tensor is needed, got {l:?}"))),
    }
}

/// Every element of an index tensor.
pub(super) fn ints(l: &Literal) -> Result<Vec<i64>> {
    match decode(l)? {
        Scalars::Int(v) => Ok(v.into_iter().map(|v| v as i64).collect()),
        Scalars::Float(_) => Err(EvalError::new(format!("an integer tensor is needed, got {l:?}"))),
    }
}

/// Appends the elements as `dtype`: floats round, integers wrap, bool is `!= 0`.
pub(super) fn encode(scalars: &Scalars, dtype: DType, out: &mut Vec<u8>) -> Result<()> {
    macro_rules! put {
        ($v:expr, $f:expr) => {
            out.extend($v.iter().flat_map(|v| $f(*v).to_le_bytes()))
        };
    }
    match (scalars, dtype) {
        (Scalars::Float(v), DType::F32) => put!(v, |v| v as f32),
        (Scalars::Float(v), DType::F64) => put!(v, |v: f64| v),
        (Scalars::Float(v), DType::F16) => put!(v, half_float::f64_to_f16),
        (Scalars::Float(v), DType::BF16) => put!(v, half_float::f64_to_bf16),
        (Scalars::Int(v), DType::I64 | DType::U64) => put!(v, |v| v as i64),
        (Scalars::Int(v), DType::I32 | DType::U32) => put!(v, |v| v as i32),
        (Scalars::Int(v), DType::I16 | DType::U16) => put!(v, |v| v as i16),
        (Scalars::Int(v), DType::I8 | DType::U8) => put!(v, |v| v as i8),
        (Scalars::Int(v), DType::BOOL) => put!(v, |v| (v != 0) as u8),
        _ => return Err(EvalError::new(format!("a computed value cannot be stored as {dtype}"))),
    }
    Ok(())
}

/// A tensor of these elements.
pub(super) fn tensor(dtype: DType, shape: Vec<i64>, scalars: &Scalars) -> Result<Literal> {
    let mut bytes = vec![];
    encode(scalars, dtype, &mut bytes)?;
    literal(dtype, shape, bytes)
}

/// The least and the greatest value of a type, where reductions start.
pub(super) fn limits(dtype: DType) -> (i128, i128) {
    let bits = u32::from(dtype.bits);
    match dtype {
        DType::BOOL => (0, 1),
        _ if dtype.is_uint() => (0, (1i128 << bits) - 1),
        _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    }
}
