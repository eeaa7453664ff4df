//! Unary, binary, select and cast, in chunks so that long tensors stay in cache.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use reflex_tir::DType;

use super::error::{EvalError, Result};
use super::movement::{broadcast, broadcast_range};
use super::scalar::{CHUNK, Scalar, Scalars, decode_bytes, decode_range, encode};
use super::shape::{computed, count, literal};
use crate::literal::Literal;
use crate::op::{Binary, Unary};
use crate::strides::{broadcast_strides, walk_rows};

/// NumPy's broadcast shape.
pub(super) fn broadcast_shape(a: &[i64], b: &[i64]) -> Result<Vec<i64>> {
    let rank = a.len().max(b.len());
    let dim = |s: &[i64], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |j| s[j]);
    (0..rank)
        .map(|i| match (dim(a, i), dim(b, i)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(EvalError::new(format!("{a:?} and {b:?} do not broadcast"))),
        })
        .collect()
}

fn expanded<'a>(x: &'a Literal, shape: &[i64]) -> Result<Cow<'a, Literal>> {
    Ok(if x.shape() == shape { Cow::Borrowed(x) } else { Cow::Owned(broadcast(x, shape)?) })
}

/// The elements `range` of `x` broadcast to `shape`, which it fits.
fn decode_broadcast(x: &Literal, shape: &[i64], range: Range<usize>) -> Result<Scalars> {
    if x.shape() == shape {
        return decode_range(x, range);
    }
    decode_bytes(x.dtype(), &broadcast_range(x, shape, range)?)
}

fn chunks(total: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..total).step_by(CHUNK).map(move |at| at..(at + CHUNK).min(total))
}

pub(super) fn unary(f: Unary, x: &Literal) -> Result<Literal> {
    let out_type = match f {
        Unary::IsNan | Unary::IsInf => DType::BOOL,
        _ => x.dtype(),
    };
    let mut out = Vec::with_capacity(x.count() * out_type.itemsize());
    for range in chunks(x.count()) {
        let y = match decode_range(x, range)? {
            Scalars::Float(v) if out_type == DType::BOOL => {
                let test = if f == Unary::IsNan { f64::is_nan } else { f64::is_infinite };
                Scalars::Int(v.into_iter().map(|v| test(v) as i128).collect())
            }
            Scalars::Float(mut v) => {
                let f = unary_float(f)?;
                v.iter_mut().for_each(|v| *v = f(*v));
                Scalars::Float(v)
            }
            Scalars::Int(mut v) => {
                for v in &mut v {
                    *v = unary_int(f, *v, x.dtype())?;
                }
                Scalars::Int(v)
            }
        };
        encode(&y, out_type, &mut out)?;
    }
    literal(out_type, x.shape().to_vec(), out)
}

fn unary_float(f: Unary) -> Result<fn(f64) -> f64> {
    Ok(match f {
        Unary::Neg => |v| -v,
        Unary::Abs => f64::abs,
        Unary::Sign => |v| {
            if v > 0.0 {
                1.0
            } else if v < 0.0 {
                -1.0
            } else {
                v
            }
        },
        Unary::Exp => f64::exp,
        Unary::Log => f64::ln,
        Unary::Sqrt => f64::sqrt,
        Unary::Reciprocal => f64::recip,
        Unary::Sin => f64::sin,
        Unary::Cos => f64::cos,
        Unary::Tan => f64::tan,
        Unary::Asin => f64::asin,
        Unary::Acos => f64::acos,
        Unary::Atan => f64::atan,
        Unary::Sinh => f64::sinh,
        Unary::Cosh => f64::cosh,
        Unary::Tanh => f64::tanh,
        Unary::Asinh => f64::asinh,
        Unary::Acosh => f64::acosh,
        Unary::Atanh => f64::atanh,
        Unary::Erf => libm::erf,
        Unary::Sigmoid => |v| 1.0 / (1.0 + (-v).exp()),
        Unary::Floor => f64::floor,
        Unary::Ceil => f64::ceil,
        Unary::Round => f64::round_ties_even,
        Unary::IsNan | Unary::IsInf | Unary::Not | Unary::BitNot => {
            return Err(EvalError::new(format!("{f:?} of a float tensor")));
        }
    })
}

fn unary_int(f: Unary, v: i128, dtype: DType) -> Result<i128> {
    Ok(match f {
        Unary::Neg => -v,
        Unary::Abs => v.abs(),
        Unary::Sign => v.signum(),
        Unary::Floor | Unary::Ceil | Unary::Round => v,
        Unary::IsNan | Unary::IsInf => 0,
        Unary::Not if dtype == DType::BOOL => 1 - v,
        Unary::BitNot if dtype != DType::BOOL => !v,
        _ => return Err(EvalError::new(format!("{f:?} of a {dtype} tensor"))),
    })
}

pub(super) fn binary(f: Binary, a: &Literal, b: &Literal) -> Result<Literal> {
    if a.dtype() != b.dtype() {
        return Err(EvalError::new(format!("{f:?} of {a:?} and {b:?}: element types differ")));
    }
    let shape = broadcast_shape(a.shape(), b.shape())?;
    let total = count(&shape)?;
    if a.dtype() == DType::F32
        && let Some(each) = arithmetic_of_f32(f)
    {
        return computed(DType::F32, shape, [a, b], each);
    }
    let out_type = if is_comparison(f) { DType::BOOL } else { a.dtype() };
    let mut out = Vec::with_capacity(total * out_type.itemsize());
    for range in chunks(total) {
        let x = decode_broadcast(a, &shape, range.clone())?;
        let y = match (x, decode_broadcast(b, &shape, range)?) {
            (Scalars::Float(x), Scalars::Float(y)) if is_comparison(f) => {
                Scalars::Int(x.iter().zip(&y).map(|(x, y)| compare(f, x, y) as i128).collect())
            }
            (Scalars::Int(x), Scalars::Int(y)) if is_comparison(f) => {
                Scalars::Int(x.iter().zip(&y).map(|(x, y)| compare(f, x, y) as i128).collect())
            }
            (Scalars::Float(mut x), Scalars::Float(y)) => {
                let f = binary_float(f)?;
                x.iter_mut().zip(y).for_each(|(x, y)| *x = f(*x, y));
                Scalars::Float(x)
            }
            (Scalars::Int(mut x), Scalars::Int(y)) => {
                for (x, y) in x.iter_mut().zip(y) {
                    *x = binary_int(f, *x, y, out_type)?;
                }
                Scalars::Int(x)
            }
            _ => unreachable!("the element types are equal"),
        };
        encode(&y, out_type, &mut out)?;
    }
    literal(out_type, shape, out)
}

/// The bytes of two tensors of float32, combined after both are broadcast to a shape that they fit.
type EachF32 = fn([&Literal; 2], &[i64]) -> Vec<u8>;

/// Operators whose float32 result is the float64 one of the same operands, rounded: float64 has more than twice the bits
/// (Figueroa, "When is double rounding innocuous?", 1995). Scales and biases of all weights are folded by them, so each
/// has a loop of its own, which the compiler turns into vectors.
fn arithmetic_of_f32(f: Binary) -> Option<EachF32> {
    Some(match f {
        Binary::Add => |operands, shape| each_f32(|a, b| a + b, operands, shape),
        Binary::Sub => |operands, shape| each_f32(|a, b| a - b, operands, shape),
        Binary::Mul => |operands, shape| each_f32(|a, b| a * b, operands, shape),
        Binary::Div => |operands, shape| each_f32(|a, b| a / b, operands, shape),
        _ => return None,
    })
}

/// The bytes of `f` of two tensors of float32, broadcast to a shape that they fit.
fn each_f32(f: impl Fn(f32, f32) -> f32, operands: [&Literal; 2], shape: &[i64]) -> Vec<u8> {
    let strides = operands.map(|x| broadcast_strides(x.shape(), shape.len()));
    let [a, b] = operands.map(|x| x.bytes().as_chunks::<4>().0);
    let f =
        |a: &[u8; 4], b: &[u8; 4]| f(f32::from_le_bytes(*a), f32::from_le_bytes(*b)).to_le_bytes();
    let total: i64 = shape.iter().product();
    let mut out = vec![0; total as usize * size_of::<f32>()];
    let mut rest = out.as_chunks_mut::<4>().0;
    walk_rows(shape, strides.each_ref().map(Vec::as_slice), |at, steps, row| {
        let (to, behind) = std::mem::take(&mut rest).split_at_mut(row);
        rest = behind;
        let [i, j] = at.map(|at| at as usize);
        match steps {
            [1, 1] => {
                to.iter_mut().zip(&a[i..]).zip(&b[j..]).for_each(|((to, a), b)| *to = f(a, b))
            }
            [1, 0] => to.iter_mut().zip(&a[i..]).for_each(|(to, a)| *to = f(a, &b[j])),
            [s, t] => to.iter_mut().enumerate().for_each(|(n, to)| {
                *to = f(&a[i + n * s as usize], &b[j + n * t as usize]);
            }),
        }
    });
    out
}

/// Whether the result is bool whatever the operands are.
pub(super) fn is_comparison(f: Binary) -> bool {
    use Binary::*;
    matches!(f, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
}

fn compare<T: PartialOrd>(f: Binary, a: &T, b: &T) -> bool {
    match f {
        Binary::Equal => a == b,
        Binary::NotEqual => a != b,
        Binary::Less => a < b,
        Binary::LessEqual => a <= b,
        Binary::Greater => a > b,
        Binary::GreaterEqual => a >= b,
        _ => unreachable!("is_comparison holds"),
    }
}

fn binary_float(f: Binary) -> Result<fn(f64, f64) -> f64> {
    Ok(match f {
        Binary::Add => |a, b| a + b,
        Binary::Sub => |a, b| a - b,
        Binary::Mul => |a, b| a * b,
        Binary::Div => |a, b| a / b,
        Binary::FloorMod => |a, b| {
            let r = a % b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
        },
        Binary::TruncMod => |a, b| a % b,
        Binary::Pow => f64::powf,
        Binary::Min => <f64 as Scalar>::min,
        Binary::Max => <f64 as Scalar>::max,
        _ => return Err(EvalError::new(format!("{f:?} of float tensors"))),
    })
}

fn binary_int(f: Binary, a: i128, b: i128, dtype: DType) -> Result<i128> {
    let bits = i128::from(dtype.bits);
    let logical = dtype == DType::BOOL;
    Ok(match f {
        Binary::And | Binary::BitAnd if logical || f == Binary::BitAnd => a & b,
        Binary::Or | Binary::BitOr if logical || f == Binary::BitOr => a | b,
        Binary::Xor | Binary::BitXor if logical || f == Binary::BitXor => a ^ b,
        Binary::Min => Scalar::min(a, b),
        Binary::Max => Scalar::max(a, b),
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.mul(b),
        Binary::Div | Binary::FloorMod | Binary::TruncMod if b == 0 => {
            return Err(EvalError::new(format!("{f:?} of a {dtype} tensor by zero")));
        }
        Binary::Div => a / b,
        Binary::TruncMod => a % b,
        Binary::FloorMod => {
            let r = a % b;
            if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
        }
        Binary::Pow => int_pow(a, b),
        Binary::Shl => {
            if (0..bits).contains(&b) {
                a << b
            } else {
                0
            }
        }
        Binary::Shr => a >> if (0..bits).contains(&b) { b } else { 127 },
        _ => return Err(EvalError::new(format!("{f:?} of {dtype} tensors"))),
    })
}

/// Wraps at 64 bits; a negative exponent gives the truncated reciprocal power.
fn int_pow(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.mul(square);
        }
        square = square.mul(square);
        left >>= 1;
    }
    result
}

pub(super) fn select(cond: &Literal, a: &Literal, b: &Literal) -> Result<Literal> {
    if cond.dtype() != DType::BOOL || a.dtype() != b.dtype() {
        return Err(EvalError::new(format!("where of {cond:?}, {a:?} and {b:?}")));
    }
    let shape = broadcast_shape(cond.shape(), &broadcast_shape(a.shape(), b.shape())?)?;
    count(&shape)?;
    let (cond, a, b) = (expanded(cond, &shape)?, expanded(a, &shape)?, expanded(b, &shape)?);
    let item = a.dtype().itemsize();
    let mut out = Vec::with_capacity(a.bytes().len());
    let sides = a.bytes().chunks_exact(item).zip(b.bytes().chunks_exact(item));
    for (c, (x, y)) in cond.bytes().iter().zip(sides) {
        out.extend_from_slice(if *c != 0 { x } else { y });
    }
    literal(a.dtype(), shape, out)
}

/// The same bits as another type of the same width.
pub(super) fn bitcast(x: &Literal, to: DType) -> Result<Literal> {
    let mut bytes = x.bytes().to_vec();
    if to == DType::BOOL {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    let cast = Literal::new(to, x.shape().to_vec(), Arc::new(bytes));
    cast.ok_or_else(|| EvalError::new(format!("the bits of {x:?} as {to}")))
}

pub(super) fn cast(x: &Literal, to: DType) -> Result<Literal> {
    if x.dtype() == to {
        return Ok(x.clone());
    }
    // Weights of a byte are many, and float32 has each of their values.
    let of_byte: Option<fn(&u8) -> f32> = match x.dtype() {
        DType::I8 => Some(|b| f32::from(b.cast_signed())),
        DType::U8 => Some(|b| f32::from(*b)),
        _ => None,
    };
    if let Some(of_byte) = of_byte.filter(|_| to == DType::F32) {
        let mut out = vec![0; x.count() * 4];
        let (to_each, _) = out.as_chunks_mut::<4>();
        to_each.iter_mut().zip(x.bytes()).for_each(|(to, b)| *to = of_byte(b).to_le_bytes());
        return literal(to, x.shape().to_vec(), out);
    }
    let mut out = Vec::with_capacity(x.count() * to.itemsize());
    for range in chunks(x.count()) {
        let y = match decode_range(x, range)? {
            Scalars::Float(v) if to.is_float() => Scalars::Float(v),
            Scalars::Float(v) if to == DType::BOOL => {
                Scalars::Int(v.into_iter().map(|v| (v != 0.0) as i128).collect())
            }
            Scalars::Float(v) => {
                let (least, most) = super::scalar::limits(to);
                // `as` truncates, saturates and sends NaN to 0.
                Scalars::Int(v.into_iter().map(|v| (v as i128).clamp(least, most)).collect())
            }
            // One rounding straight from the integer.
            Scalars::Int(v) if to == DType::F32 => {
                Scalars::Float(v.into_iter().map(|v| v as f32 as f64).collect())
            }
            Scalars::Int(v) if to.is_float() => {
                Scalars::Float(v.into_iter().map(|v| v as f64).collect())
            }
            Scalars::Int(v) => Scalars::Int(v),
        };
        encode(&y, to, &mut out)?;
    }
    literal(to, x.shape().to_vec(), out)
}
