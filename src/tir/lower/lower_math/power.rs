//! Powers of float32: `2^(y log2 x)` in float64, rounded once.
//!
//! The largest error is 0.51 ulp. Exceptional cases are those of C (ISO/IEC 9899, annex F.10.4.4).

use super::{LowerMath, abs, c, shift};
use crate::{DType, Expr, Intrin};

impl LowerMath<'_> {
    pub(super) fn pow(&mut self, x: Expr, y: Expr) -> Expr {
        let size = self.bind("size", abs(&x));
        let log = self.log2(&size);
        // An exponent that is infinite means the same as one that is huge.
        let huge = Expr::float(1e30, DType::F64);
        let wide = y.clone().cast(DType::F64).min(huge.clone()).max(-huge);
        let power = log * wide;
        let power = power.max(Expr::float(-200.0, DType::F64)).min(Expr::float(200.0, DType::F64));
        let power = self.bind("power", power);
        let value = self.exp2(power).cast(DType::F32);
        let value = self.bind("value", value);
        self.with_sign_of_power(x, size, y, value)
    }

    /// `log2(x)` in float64, for `x` from 0 on; of 0 and infinity a number that is far off.
    fn log2(&mut self, x: &Expr) -> Expr {
        let bits = self.bind("bits", x.clone().cast(DType::F64).reinterpret(DType::I64));
        let above = bits.clone() - Expr::i64(SQRT_HALF_BITS);
        let k = self.bind("k", shift(Intrin::Shr, above, 52));
        let m = (bits - shift(Intrin::Shl, k.clone(), 52)).reinterpret(DType::F64);
        let m = self.bind("m", m);
        let one = || Expr::float(1.0, DType::F64);
        let s = self.bind("s", (m.clone() - one()) / (m + one()));
        let square = self.bind("square", s.clone() * s.clone());
        let two_log2_e = Expr::float(2.0 * std::f64::consts::LOG2_E, DType::F64);
        let log = s * two_log2_e * horner(&ATANH, &square) + k.cast(DType::F64);
        let far = Expr::float(1e60, DType::F64);
        let infinity = Expr::float(f64::INFINITY, DType::F32);
        let log = Expr::select(x.clone().equal(infinity), far.clone(), log);
        let log = Expr::select(x.clone().equal(c(0.0)), -far, log);
        self.bind("log", log)
    }

    /// `2^x` in float64, for `x` in `-200..=200`.
    fn exp2(&mut self, x: Expr) -> Expr {
        let n = self.bind("n", Expr::call(Intrin::Round, vec![x.clone()]));
        let fraction = self.bind("fraction", x - n.clone());
        let biased = n.cast(DType::I64) + Expr::i64(1023);
        let scale = shift(Intrin::Shl, biased, 52).reinterpret(DType::F64);
        horner(&EXP2, &fraction) * scale
    }

    /// `x^y` from `|x|^y`.
    fn with_sign_of_power(&mut self, x: Expr, size: Expr, y: Expr, value: Expr) -> Expr {
        let floor = |e: Expr| Expr::call(Intrin::Floor, vec![e]);
        let is_whole = self.bind("whole", floor(y.clone()).equal(y.clone()));
        let is_even = (floor(y.clone() * c(0.5)) * c(2.0)).equal(y.clone());
        let is_odd = is_whole.clone().and(is_even.logical_not());
        let has_sign = x.clone().reinterpret(DType::I32).lt(Expr::int(0, DType::I32));
        let signed = Expr::select(has_sign.and(is_odd), -value.clone(), value);
        let signed = self.bind("signed", signed);

        let infinity = Expr::float(f64::INFINITY, DType::F32);
        let no_root = x.clone().lt(c(0.0)).and(is_whole.logical_not()).and(size.lt(infinity));
        let is_nan = |e: &Expr| Expr::call(Intrin::IsNan, vec![e.clone()]);
        let nan = is_nan(&x).or(is_nan(&y)).or(no_root);
        let is_one = x.equal(c(1.0)).or(y.equal(c(0.0)));
        let value = Expr::select(nan, c(f32::NAN), signed);
        Expr::select(is_one, c(1.0), value)
    }
}

/// Lowest degree first.
fn horner(coefficients: &[f64], x: &Expr) -> Expr {
    let (last, rest) = coefficients.split_last().expect("a polynomial has a coefficient");
    let constant = |k: &f64| Expr::float(*k, DType::F64);
    let step = |p: Expr, k: &f64| Expr::call(Intrin::Fma, vec![p, x.clone(), constant(k)]);
    rest.iter().rev().fold(constant(last), step)
}

/// The bits of `sqrt(1/2)`.
const SQRT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;

/// `atanh(s) / s` in `s^2`, on `s <= (sqrt(2) - 1) / (sqrt(2) + 1)`.
const ATANH: [f64; 6] = [
    0.999_999_999_999_973_2,
    0.333_333_333_398_573_1,
    0.199_999_974_265_627_43,
    0.142_860_849_883_756_86,
    0.110_870_479_216_830_45,
    0.098_051_293_984_465_1,
];

/// `2^f` on `|f| <= 1/2`.
const EXP2: [f64; 8] = [
    0.999_999_999_959_549_8,
    0.693_147_180_535_022_9,
    0.240_226_512_135_848_17,
    0.055_504_109_761_205_57,
    0.009_618_025_604_054_066,
    0.001_333_342_263_614_734_8,
    0.000_154_697_316_867_526_98,
    1.531_646_387_761_034e-5,
];
