//! Hyperbolic functions of float32 and their inverses.
//!
//! | function | largest error | method |
//! |----------|---------------|--------|
//! | sinh     | 1.6 ulp       | odd polynomial below 1, else `e/2 - 1/(2e)`, `e = e^|x|` |
//! | cosh     | 1.4 ulp       | `e/2 + 1/(2e)` |
//! | asinh    | 2.2 ulp       | odd polynomial below 0.75, else `log(|x| + sqrt(x^2 + 1))` |
//! | acosh    | 2.0 ulp       | `sqrt(2z) p(z)` for `z = x - 1` below 0.5, else `log(x + sqrt(x^2 - 1))` |
//! | atanh    | 1.4 ulp       | odd polynomial below 0.5, else `log((1 + |x|) / (1 - |x|)) / 2` |

use super::{LowerMath, abs, c, fma, horner, power_of_two, shift, sqrt};
use crate::{DType, Expr, Intrin};

/// Where the square of `x` may be infinite, and 1 is nothing beside it.
const SQUARE_LIMIT: f32 = 1e18;

impl LowerMath<'_> {
    pub(super) fn sinh(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", abs(&x));
        let square = self.bind("square", x.clone() * x.clone());
        let small = fma(horner(&SINH, &square) * square, x.clone(), x.clone());
        let half = self.half_exp(size.clone());
        let large = half.clone() - c(0.25) / half;
        self.choose(x, size, 1.0, small, large)
    }

    pub(super) fn cosh(&mut self, x: Expr) -> Expr {
        let half = self.half_exp(abs(&x));
        half.clone() + c(0.25) / half
    }

    /// `e^x / 2` for `x` from 0 on, which is finite a little further than `e^x`.
    fn half_exp(&mut self, x: Expr) -> Expr {
        let x = self.bind("x", x.min(c(91.0)));
        let (p, n) = self.exp_parts(x);
        let low = self.bind("low", shift(Intrin::Shr, n.clone(), 1));
        let high = n - low.clone() - Expr::int(1, DType::I32);
        self.bind("half", p * power_of_two(low) * power_of_two(high))
    }

    pub(super) fn asinh(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", abs(&x));
        let square = self.bind("square", x.clone() * x.clone());
        let small = fma(horner(&ASINH, &square) * square, x.clone(), x.clone());
        let large = self.log_of_sum(size.clone(), 1.0);
        self.choose(x, size, 0.75, small, large)
    }

    pub(super) fn acosh(&mut self, x: Expr) -> Expr {
        let z = self.bind("z", x.clone() - c(1.0));
        let near = sqrt(z.clone() * c(2.0)) * horner(&ACOSH, &z);
        let far = self.log_of_sum(x, -1.0);
        Expr::select(z.lt(c(0.5)), near, far)
    }

    /// `log(x + sqrt(x^2 + one))`
    fn log_of_sum(&mut self, x: Expr, one: f32) -> Expr {
        let is_huge = self.bind("huge", x.clone().gt(c(SQUARE_LIMIT)));
        let root = sqrt(fma(x.clone(), x.clone(), c(one)));
        let sum = self.bind("sum", Expr::select(is_huge.clone(), x.clone(), x + root));
        self.log(sum) + Expr::select(is_huge, c(std::f32::consts::LN_2), c(0.0))
    }

    pub(super) fn atanh(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", abs(&x));
        let square = self.bind("square", x.clone() * x.clone());
        let small = fma(horner(&ATANH, &square) * square, x.clone(), x.clone());
        let quotient = (c(1.0) + size.clone()) / (c(1.0) - size.clone());
        let quotient = self.bind("quotient", quotient);
        let large = self.log(quotient) * c(0.5);
        self.choose(x, size, 0.5, small, large)
    }
}

/// `(sinh(x) / x - 1) / x^2` in `x^2`, on `x <= 1`.
const SINH: [f32; 4] = [0.166_666_67, 0.008_333_311, 0.000_198_426_35, 2.783_925_8e-6];

/// `(asinh(x) / x - 1) / x^2` in `x^2`, on `x <= 0.75`.
const ASINH: [f32; 7] = [
    -0.166_666_57,
    0.074_995_26,
    -0.044_565_51,
    0.029_772_362,
    -0.019_707_803,
    0.010_460_598,
    -0.002_986_670_5,
];

/// `acosh(1 + z) / sqrt(2z)` on `z <= 0.5`.
const ACOSH: [f32; 7] = [
    1.0,
    -0.083_333_33,
    0.018_749_768,
    -0.005_577_012_4,
    0.001_877_101_7,
    -0.000_626_558_5,
    0.000_144_642_04,
];

/// `(atanh(x) / x - 1) / x^2` in `x^2`, on `x <= 0.5`.
const ATANH: [f32; 7] = [
    0.333_333_37,
    0.199_996_23,
    0.142_977_4,
    0.109_306_81,
    0.105_146_006,
    0.017_310_701,
    0.184_671_24,
];
