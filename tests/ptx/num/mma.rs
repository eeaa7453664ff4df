//! The sum of a tensor core: products and accumulator in fixed point, aligned to the largest
//! exponent.
//!
//! The behaviour is that of MMA-Sim (arXiv 2511.10909), which was measured bit by bit on devices.

use super::format::{Exact, F32, Format, Round, Value};

/// The summation of a generation of tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Fraction bits that alignment keeps.
    pub bits: i32,
    /// Products that one sum takes.
    pub products: usize,
}

/// Ampere: eight products a sum.
pub const AMPERE: Model = Model { bits: 24, products: 8 };
/// Hopper: all products of an instruction in one sum.
pub const HOPPER: Model = Model { bits: 25, products: 16 };

/// The exponent that zero takes part with.
const ZERO_EXPONENT: i32 = -126;

/// `sum + a[0] * b[0] + a[1] * b[1] + ..` as the tensor core makes it, in bits of float32.
pub fn dot(model: Model, format: Format, a: &[u64], b: &[u64], sum: u64) -> u64 {
    let pairs = a.chunks(model.products).zip(b.chunks(model.products));
    pairs.fold(sum, |sum, (a, b)| one_sum(model.bits, format, a, b, sum))
}

/// A significand with `fraction` bits behind its point, and its exponent.
struct Term {
    negative: bool,
    significand: u64,
    fraction: i32,
    exponent: i32,
}

fn one_sum(bits: i32, format: Format, a: &[u64], b: &[u64], sum: u64) -> u64 {
    let mut terms = Vec::with_capacity(17);
    // Infinities and NaN follow the rules of a sum in any order.
    let (mut infinity, mut nan) = ([false; 2], false);
    match F32.decode(sum) {
        Value::Nan => nan = true,
        Value::Infinity(negative) => infinity[usize::from(negative)] = true,
        Value::Finite(exact) => terms.push(term(exact, F32)),
    }
    for (&a, &b) in a.iter().zip(b) {
        match (format.decode(a), format.decode(b)) {
            (Value::Nan, _) | (_, Value::Nan) => nan = true,
            (Value::Infinity(s), Value::Infinity(t)) => infinity[usize::from(s != t)] = true,
            (Value::Infinity(s), Value::Finite(x)) | (Value::Finite(x), Value::Infinity(s)) => {
                nan |= x.mantissa == 0;
                infinity[usize::from(s != x.negative)] = true;
            }
            (Value::Finite(x), Value::Finite(y)) => {
                let (x, y) = (term(x, format), term(y, format));
                terms.push(Term {
                    negative: x.negative != y.negative,
                    significand: x.significand * y.significand,
                    fraction: x.fraction + y.fraction,
                    exponent: x.exponent + y.exponent,
                });
            }
        }
    }
    match (nan, infinity) {
        (true, _) | (_, [true, true]) => F32.nan,
        (_, [true, _]) => F32.infinity(),
        (_, [_, true]) => F32.infinity() | F32.sign_bit(),
        _ => aligned(bits, &terms),
    }
}

fn term(exact: Exact, format: Format) -> Term {
    let fraction = format.fraction as i32;
    let exponent = if exact.mantissa == 0 { ZERO_EXPONENT } else { exact.exponent + fraction };
    Term { negative: exact.negative, significand: exact.mantissa as u64, fraction, exponent }
}

fn aligned(bits: i32, terms: &[Term]) -> u64 {
    let largest = terms.iter().map(|term| term.exponent).max().unwrap_or(ZERO_EXPONENT);
    let total: i128 = terms.iter().map(|term| fixed(term, bits + term.exponent - largest)).sum();
    let exact =
        Exact { negative: total < 0, mantissa: total.unsigned_abs(), exponent: largest - bits };
    let rounded = F32.encode(exact, Round::Zero);
    // Only the rounding is towards zero; what is too large is infinite.
    let top = exact.exponent + 127 - exact.mantissa.leading_zeros() as i32;
    if exact.mantissa != 0 && top > 127 { rounded + 1 } else { rounded }
}

/// The term as an integer in units of `2^-bits`, truncated.
fn fixed(term: &Term, bits: i32) -> i128 {
    let shift = bits - term.fraction;
    let wide = i128::from(term.significand);
    let magnitude = match shift {
        0.. => wide << shift,
        -63..0 => wide >> -shift,
        _ => 0,
    };
    if term.negative { -magnitude } else { magnitude }
}
