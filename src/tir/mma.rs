//! Matrix multiply-accumulate of a warp or a warpgroup: the tensor cores of a GPU (`ldmatrix` and `mma.sync`,
//! `wgmma`).
//!
//! A warp adds the product of a 16 x 16 matrix and a 16 x 16 matrix, both of 16-bit floats in shared
//! memory, to a 16 x 16 matrix of float32 that its threads keep, eight elements each; a warpgroup, of four warps, adds
//! that of a 64 x 16 and a 16 x `n` matrix. The meaning is
//! that of one thread: it reads the rows and columns that its elements need. So schedules, barriers and
//! races are those of any other statement; only [`verify_gpu`](crate::verify::verify_gpu) asks that
//! all threads of the warp or warpgroup come, with the same operands.
//!
//! Operands of a warpgroup lie in panels: rows of [`PANEL`] elements, 128 bytes, whose eight vectors of 16 bytes
//! change places ([`swizzled`]), so that eight rows of a column are in different banks.
//!
//! Sources: NVIDIA, "Parallel Thread Execution ISA", version 8.0, for the fragments of `m16n8k16` and `wgmma`, and the swizzling of
//! 128 bytes; MMA-Sim (arXiv 2511.10909) for the sum.
//!
//! Decisions: docs/decisions/0082-tensor-cores.md, docs/decisions/0085-warpgroups.md

use reflex_runtime::dtype::DType;
use serde::{Deserialize, Serialize};

use crate::thread::WARP;

/// Steps of a product; rows and columns of one of a warp.
pub const SIDE: i64 = 16;
/// Elements in a row of a panel.
pub const PANEL: i64 = 64;
/// Elements of 16 bytes, the vectors that a panel's row is made of.
pub const VECTOR: i64 = 8;

/// The threads that multiply together, and the shape of their product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Team {
    /// 32 threads: 16 rows, 16 columns.
    Warp,
    /// 128 threads: 64 rows, and so many columns.
    Warpgroup {
        /// A multiple of 8 up to 256.
        columns: i64,
    },
}

impl Team {
    /// Threads.
    pub fn threads(self) -> i64 {
        match self {
            Team::Warp => WARP,
            Team::Warpgroup { .. } => 4 * WARP,
        }
    }

    /// Rows of the product.
    pub fn rows(self) -> i64 {
        self.threads() / WARP * SIDE
    }

    /// Columns of the product.
    pub fn columns(self) -> i64 {
        match self {
            Team::Warp => SIDE,
            Team::Warpgroup { columns } => columns,
        }
    }

    /// Elements of the sum that a thread keeps.
    pub fn each(self) -> i64 {
        self.rows() * self.columns() / self.threads()
    }
}

/// Where a panel keeps the element at a row-major position: its vector is that of the position, xor its row
/// modulo eight.
pub fn swizzled(position: i64) -> i64 {
    position ^ (position.div_euclid(PANEL).rem_euclid(VECTOR) * VECTOR)
}

/// Fraction bits that the aligned terms of a sum keep, on Hopper.
pub const FRACTION: i32 = 25;
/// The exponent that a zero takes part with.
pub const ZERO_EXPONENT: i32 = -126;

/// Row and column of the `n`-th element that a thread keeps, from its first one ([`Team::origin`]).
pub fn element(n: i64) -> (i64, i64) {
    (n / 2 % 2 * 8, n / 4 * 8 + n % 2)
}

/// A 16-bit type of float, as a tensor core reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    /// Bits of the fraction.
    pub fraction: i32,
    /// The number that is added to exponents.
    pub bias: i32,
}

impl Half {
    /// The form of a type, if tensor cores multiply it.
    pub fn of(dtype: DType) -> Option<Half> {
        match dtype {
            DType::F16 => Some(Half { fraction: 10, bias: 15 }),
            DType::BF16 => Some(Half { fraction: 7, bias: 127 }),
            _ => None,
        }
    }

    /// Significand and exponent; the significand's point is behind `fraction` bits.
    fn parts(self, bits: u16) -> (i64, i32) {
        let field = i32::from(bits & 0x7fff) >> self.fraction;
        let fraction = i64::from(bits) & ((1 << self.fraction) - 1);
        let significand = if field == 0 { fraction } else { fraction | 1 << self.fraction };
        let exponent = if significand == 0 { ZERO_EXPONENT } else { field.max(1) - self.bias };
        (if bits >> 15 == 1 { -significand } else { significand }, exponent)
    }

    /// The value.
    fn value(self, bits: u16) -> f64 {
        match self.fraction {
            10 => half::f16::from_bits(bits).to_f64(),
            _ => half::bf16::from_bits(bits).to_f64(),
        }
    }
}

/// `sum` and the products of pairs, as one instruction of Hopper's tensor cores adds them: in fixed
/// point, aligned to the largest exponent, truncated to [`FRACTION`] bits behind it, then rounded
/// towards zero.
pub fn dot(half: Half, sum: f32, pairs: &[(u16, u16)]) -> f32 {
    let exact = |bits: u16| half.value(bits);
    let products = pairs.iter().map(|(a, b)| exact(*a) * exact(*b));
    let plain = products.fold(f64::from(sum), |sum, product| sum + product);
    if !sum.is_finite()
        || pairs.iter().any(|(a, b)| !(exact(*a).is_finite() && exact(*b).is_finite()))
    {
        // Infinities and NaN follow the rules of a sum in any order.
        return plain as f32;
    }
    let bits = sum.to_bits();
    let field = (bits >> 23 & 0xff) as i32;
    let fraction = i64::from(bits & 0x7f_ffff) | if field == 0 { 0 } else { 1 << 23 };
    let exponent = if fraction == 0 { ZERO_EXPONENT } else { field.max(1) - 127 };
    let signed = if sum.is_sign_negative() { -fraction } else { fraction };
    let mut terms = vec![(signed, 23, exponent)];
    for (a, b) in pairs {
        let ((x, e), (y, f)) = (half.parts(*a), half.parts(*b));
        terms.push((x * y, 2 * half.fraction, e + f));
    }
    let largest = terms.iter().map(|(_, _, exponent)| *exponent).max().unwrap_or(ZERO_EXPONENT);
    let aligned = terms.iter().map(|(significand, fraction, exponent)| {
        let shift = FRACTION + exponent - largest - fraction;
        let magnitude = significand.abs();
        let magnitude = match shift {
            0.. => magnitude << shift,
            -62..0 => magnitude >> -shift,
            _ => 0,
        };
        magnitude * significand.signum()
    });
    let total: i64 = aligned.sum();
    // Both fit a float64.
    towards_zero(total as f64 * f64::from_bits(((largest - FRACTION + 1023) as u64) << 52))
}

/// The nearest float32 that is not larger; infinity from 2^128 on.
fn towards_zero(x: f64) -> f32 {
    let near = x as f32;
    let above = f64::from(near).abs() > x.abs() && x.abs() < 2_f64.powi(128);
    if above { f32::from_bits(near.to_bits() - 1) } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bf16(values: &[(f32, f32)]) -> Vec<(u16, u16)> {
        let bits = |x: f32| half::bf16::from_f32(x).to_bits();
        values.iter().map(|(a, b)| (bits(*a), bits(*b))).collect()
    }

    fn dot_bf16(sum: f32, values: &[(f32, f32)]) -> f32 {
        dot(Half::of(DType::BF16).unwrap(), sum, &bf16(values))
    }

    #[test]
    fn what_lies_below_25_bits_of_the_largest_is_lost() {
        let tiny = 2_f32.powi(-26);
        assert_eq!(dot_bf16(1.0, &[(tiny, 1.0); 16]), 1.0, "each alone is below");
        let tiny = 2_f32.powi(-25);
        assert_eq!(dot_bf16(1.0, &[(tiny, 1.0); 16]), 1.0 + 16.0 * tiny);
    }

    #[test]
    fn results_are_rounded_towards_zero() {
        let ulp = 2_f32.powi(-23);
        assert_eq!(dot_bf16(1.0, &[(ulp * 0.75, 1.0)]), 1.0);
        assert_eq!(dot_bf16(-1.0, &[(ulp * -0.75, 1.0)]), -1.0);
        assert_eq!(dot_bf16(f32::MAX, &[(2_f32.powi(102), 1.0)]), f32::MAX);
        assert_eq!(dot_bf16(f32::MAX, &[(2_f32.powi(120), 1.0)]), f32::INFINITY);
    }

    #[test]
    fn zeros_and_infinities() {
        assert_eq!(dot_bf16(0.0, &[(0.0, -1.0); 16]).to_bits(), 0);
        assert_eq!(dot_bf16(1.0, &[(f32::INFINITY, 2.0)]), f32::INFINITY);
        assert!(dot_bf16(1.0, &[(f32::INFINITY, 0.0)]).is_nan());
        assert!(dot_bf16(1.0, &[(f32::INFINITY, 1.0), (f32::NEG_INFINITY, 1.0)]).is_nan());
    }
}
