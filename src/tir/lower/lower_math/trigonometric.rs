//! Trigonometric functions of float32 and their inverses.
//!
//! | function | largest error | method |
//! |----------|---------------|--------|
//! | sin, cos | 0.9 ulp       | polynomials on `-pi/4..pi/4`, by quadrant |
//! | tan      | 1.8 ulp       | odd polynomial there, or `-1 / t` |
//! | asin     | 1.6 ulp       | odd polynomial below 0.5, else `pi/2 - 2 asin(sqrt((1 - |x|) / 2))` |
//! | acos     | 1.0 ulp       | the same |
//! | atan     | 1.3 ulp       | odd polynomial below 0.66, of `(x - 1) / (x + 1)` below 1.515, of `-1 / x` |
//!
//! Arguments are reduced exactly, however large they are: a float32 is an integer of 24 bits times a
//! power of two, so its product with 96 bits of `2 / pi`, those that matter at its exponent, has the
//! quadrant and 62 bits of what is beyond it (M. Payne and R. Hanek, *Radian Reduction for
//! Trigonometric Functions*, SIGNUM Newsletter 18, 1983).

use super::{LowerMath, abs, c, fma, horner, shift, sqrt};
use crate::{DType, Expr, Intrin};

/// An argument by quadrant: `|x| = quadrant * pi/2 + rest`.
struct Reduced {
    /// int32; 0 to 3.
    quadrant: Expr,
    /// float32; within `pi/4` of 0. Of an argument that is that small already it is the argument
    /// itself, with its sign.
    rest: Expr,
    /// The part of it that float32 cannot hold.
    low: Expr,
    /// 1, or -1 of a negative argument that is not small.
    sign: Expr,
}

/// `asin` of `x`, or of `sqrt((1 - |x|) / 2)` where `|x|` is large.
struct AsinParts {
    /// Whether `|x|` is above one half.
    is_large: Expr,
    /// The operand.
    root: Expr,
    /// Its arc sine less itself.
    low: Expr,
}

impl LowerMath<'_> {
    pub(super) fn sin(&mut self, x: Expr) -> Expr {
        let reduced = self.reduce(&x);
        let (sin, cos) = self.sin_and_cos(&reduced);
        let Reduced { quadrant, sign, .. } = reduced;
        let value = Expr::select(bit(&quadrant, 1), cos, sin);
        let value = Expr::select(bit(&quadrant, 2), -value.clone(), value);
        value * sign
    }

    pub(super) fn cos(&mut self, x: Expr) -> Expr {
        let reduced = self.reduce(&x);
        let (sin, cos) = self.sin_and_cos(&reduced);
        let quadrant = reduced.quadrant;
        let next = self.bind("next", quadrant.clone() + Expr::int(1, DType::I32));
        let value = Expr::select(bit(&quadrant, 1), sin, cos);
        Expr::select(bit(&next, 2), -value.clone(), value)
    }

    pub(super) fn tan(&mut self, x: Expr) -> Expr {
        let Reduced { quadrant, rest, low, sign } = self.reduce(&x);
        let square = self.bind("square", rest.clone() * rest.clone());
        let tan = rest.clone() + fma(horner(&TAN, &square) * square, rest, low);
        let tan = self.bind("tan", tan);
        Expr::select(bit(&quadrant, 1), c(-1.0) / tan.clone(), tan) * sign
    }

    fn sin_and_cos(&mut self, reduced: &Reduced) -> (Expr, Expr) {
        let Reduced { rest, low, .. } = reduced;
        let square = self.bind("square", rest.clone() * rest.clone());
        let cubic = horner(&SIN, &square) * square.clone();
        let sin = rest.clone() + fma(cubic, rest.clone(), low.clone());
        // 1 - x^2 / 2 in two parts.
        let half = self.bind("half", square.clone() * c(0.5));
        let high = self.bind("high", c(1.0) - half.clone());
        let lost = (c(1.0) - high.clone()) - half - rest.clone() * low.clone();
        let cos = high + fma(horner(&COS, &square), square.clone() * square, lost);
        (self.bind("sin", sin), self.bind("cos", cos))
    }

    fn reduce(&mut self, x: &Expr) -> Reduced {
        let size = self.bind("size", abs(x));
        let bits = self.bind("bits", size.clone().reinterpret(DType::I32).cast(DType::I64));
        let one = i(1 << 23);
        let significand = and(bits.clone(), i((1 << 23) - 1)) + one;
        let significand = self.bind("significand", significand);
        // Smaller arguments are taken as they are.
        let exponent = shift(Intrin::Shr, bits, 23).max(i(126));
        // The first of the 96 bits among those of TWO_OVER_PI.
        let first = self.bind("first", exponent - i(88 + 32));
        let word = self.bind("word", shift(Intrin::Shr, first.clone(), 5));
        let offset = self.bind("offset", and(first, i(31)));
        let high = self.two_words(&word, 0);
        let low = self.two_words(&word, 2);
        let carried = by(Intrin::Shr, low.clone(), i(64) - offset.clone());
        let carried = and(carried, by(Intrin::Shl, i(1), offset.clone()) - i(1));
        let high = or(by(Intrin::Shl, high, offset.clone()), carried);
        let low = by(Intrin::Shl, low, offset);
        let low = and(shift(Intrin::Shr, low, 32), i(0xffff_ffff));
        // In units of 2^-62 quadrants, modulo four quadrants.
        let product = significand.clone() * high + shift(Intrin::Shr, significand * low, 32);
        let rounded = self.bind("rounded", product + i(1 << 61));
        let quadrant = and(shift(Intrin::Shr, rounded.clone(), 62), i(3)).cast(DType::I32);
        let rest = and(rounded, i((1 << 62) - 1)) - i(1 << 61);
        let unit = std::f64::consts::FRAC_PI_2 / 2f64.powi(62);
        let rest = rest.cast(DType::F64) * Expr::float(unit, DType::F64);
        let rest = self.bind("rest", rest);
        self.by_quadrant(x, size, quadrant, rest)
    }

    fn by_quadrant(&mut self, x: &Expr, size: Expr, quadrant: Expr, rest: Expr) -> Reduced {
        let high = self.bind("high", rest.clone().cast(DType::F32));
        let low = (rest - high.clone().cast(DType::F64)).cast(DType::F32);
        let is_small = size.clone().lt(c(std::f32::consts::FRAC_PI_4));
        let is_small = self.bind("small", is_small);
        // No angle belongs to an infinity or NaN.
        let infinity = Expr::float(f64::INFINITY, DType::F32);
        let rest = Expr::select(size.lt(infinity), high, x.clone() - x.clone());
        let rest = Expr::select(is_small.clone(), x.clone(), rest);
        let quadrant = Expr::select(is_small.clone(), Expr::int(0, DType::I32), quadrant);
        let is_negative = x.clone().lt(c(0.0)).and(is_small.clone().logical_not());
        Reduced {
            quadrant: self.bind("quadrant", quadrant),
            rest: self.bind("rest", rest),
            low: self.bind("low", Expr::select(is_small, c(0.0), low)),
            sign: Expr::select(is_negative, c(-1.0), c(1.0)),
        }
    }

    /// 64 bits of `TWO_OVER_PI` from a word on; `word` is at most 4.
    fn two_words(&mut self, word: &Expr, further: usize) -> Expr {
        let pair = |at: usize| {
            let (high, low) = (TWO_OVER_PI[at + further], TWO_OVER_PI[at + further + 1]);
            i((u64::from(high) << 32 | u64::from(low)).cast_signed())
        };
        let choose =
            |rest: Expr, at: usize| Expr::select(word.clone().equal(i(at as i64)), pair(at), rest);
        let value = (1..=4).fold(pair(0), choose);
        self.bind("words", value)
    }

    pub(super) fn asin(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", abs(&x));
        let AsinParts { is_large, root, low } = self.asin_parts(&x, &size);
        let two = |e: &Expr| e.clone() + e.clone();
        let large = (c(PI_2_HIGH) - two(&root)) - (two(&low) - c(PI_2_LOW));
        let large = self.bind("large", large);
        let signed = Expr::select(x.lt(c(0.0)), -large.clone(), large);
        Expr::select(is_large, signed, root + low)
    }

    pub(super) fn acos(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", abs(&x));
        let AsinParts { is_large, root, low } = self.asin_parts(&x, &size);
        let p = self.bind("p", root + low);
        let two_p = self.bind("two_p", p.clone() + p.clone());
        let below = c(2.0 * PI_2_HIGH) - (two_p.clone() - c(2.0 * PI_2_LOW));
        let large = Expr::select(x.lt(c(0.0)), below, two_p);
        let small = c(PI_2_HIGH) - (p - c(PI_2_LOW));
        Expr::select(is_large, large, small)
    }

    fn asin_parts(&mut self, x: &Expr, size: &Expr) -> AsinParts {
        let is_large = self.bind("large", size.clone().gt(c(0.5)));
        let rest = (c(1.0) - size.clone()) * c(0.5);
        let square = Expr::select(is_large.clone(), rest, size.clone() * size.clone());
        let square = self.bind("square", square);
        let root = Expr::select(is_large.clone(), sqrt(square.clone()), x.clone());
        let root = self.bind("root", root);
        // What the square root has lost.
        let error = fma(-root.clone(), root.clone(), square.clone()) * c(0.5);
        let error = error / root.clone().max(c(f32::MIN_POSITIVE));
        let error = Expr::select(is_large.clone(), error, c(0.0));
        let low = fma(horner(&ASIN, &square) * square, root.clone(), error);
        AsinParts { is_large, root, low: self.bind("low", low) }
    }

    pub(super) fn atan(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", abs(&x));
        let is_high = self.bind("high", size.clone().gt(c(1.515)));
        let is_middle = self.bind("middle", size.clone().gt(c(0.66)));
        let by_parts = |high: Expr, middle: Expr, low: Expr| {
            let rest = Expr::select(is_middle.clone(), middle, low);
            Expr::select(is_high.clone(), high, rest)
        };
        let quotient = (size.clone() - c(1.0)) / (size.clone() + c(1.0));
        let t = by_parts(c(-1.0) / size.clone(), quotient, size);
        let t = self.bind("t", t);
        let square = self.bind("square", t.clone() * t.clone());
        let p = fma(horner(&ATAN, &square) * square, t.clone(), t);
        let low = by_parts(c(PI_2_LOW), c(PI_2_LOW * 0.5), c(0.0));
        let high = by_parts(c(PI_2_HIGH), c(PI_2_HIGH * 0.5), c(0.0));
        let angle = self.bind("angle", high + (p + low));
        let is_negative = x.clone().reinterpret(DType::I32).lt(Expr::int(0, DType::I32));
        Expr::select(is_negative, -angle.clone(), angle)
    }
}

fn i(value: i64) -> Expr {
    Expr::i64(value)
}

fn and(a: Expr, b: Expr) -> Expr {
    Expr::call(Intrin::BitAnd, vec![a, b])
}

fn or(a: Expr, b: Expr) -> Expr {
    Expr::call(Intrin::BitOr, vec![a, b])
}

/// A shift by an amount that is computed.
fn by(op: Intrin, value: Expr, amount: Expr) -> Expr {
    Expr::call(op, vec![value, amount])
}

/// Whether an int32 has a bit.
fn bit(value: &Expr, bit: i64) -> Expr {
    let zero = Expr::int(0, DType::I32);
    and(value.clone(), Expr::int(bit, DType::I32)).equal(zero).logical_not()
}

/// 32 zero bits, then the fraction bits of `2 / pi`.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

/// `pi / 2` as a float32, and what is left.
const PI_2_HIGH: f32 = std::f32::consts::FRAC_PI_2;
const PI_2_LOW: f32 = -4.371_139e-8;

/// `(sin(x) / x - 1) / x^2` in `x^2`, on `x <= pi/4`.
const SIN: [f32; 4] = [-0.166_666_67, 0.008_333_38, -0.000_198_535_11, 2.837_514e-6];

/// `(cos(x) - 1 + x^2 / 2) / x^4` in `x^2`, on `x <= pi/4`.
const COS: [f32; 4] = [0.041_666_668, -0.001_388_898_2, 2.482_298_4e-5, -2.897_731e-7];

/// `(tan(x) / x - 1) / x^2` in `x^2`, on `x <= pi/4`.
const TAN: [f32; 7] = [
    0.333_333_52,
    0.133_325_83,
    0.054_068_647,
    0.021_238_657,
    0.010_945_348,
    -4.584_754_4e-5,
    0.004_441_62,
];

/// `(asin(x) / x - 1) / x^2` in `x^2`, on `x <= 1/2`.
const ASIN: [f32; 6] =
    [0.166_666_6, 0.075_005_21, 0.044_513_635, 0.031_836_055, 0.014_329_189, 0.037_673_127];

/// `(atan(x) / x - 1) / x^2` in `x^2`, on `x <= 0.66`.
const ATAN: [f32; 8] = [
    -0.333_333_3,
    0.199_998_59,
    -0.142_822_6,
    0.110_698_34,
    -0.088_125_266,
    0.065_569_32,
    -0.037_698_75,
    0.011_482_956,
];
