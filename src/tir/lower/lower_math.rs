//! Transcendental functions of float32 (and 16-bit floats, through float32) as arithmetic that
//! vectorizes: one rounding per written operation, explicit fused multiply-adds, no tables.
//!
//! | function | largest error | method |
//! |----------|---------------|--------|
//! | exp      | 0.9 ulp       | `2^n * p(r)`, `x = n ln2 + r`, `ln2` in two parts |
//! | log      | 0.9 ulp       | `x = 2^k m`, `m` in `sqrt(1/2)..sqrt(2)`, polynomial in `m - 1` |
//! | tanh     | 1.5 ulp       | odd polynomial below 0.55, else `1 - 2 / (e^2x + 1)` |
//! | erf      | 1.1 ulp       | odd polynomial below 0.921875, else `1 - e^q(x)` |
//!
//! Those of `trigonometric`, `hyperbolic` and `power` say the same of themselves.
//!
//! Reductions are the classical ones of Cody and Waite (*Software Manual for the Elementary
//! Functions*, 1980); the polynomials are this project's own minimax fits (Lawson's iteration
//! on Chebyshev nodes). Subnormal results, infinities, NaN and signed zeros are as in C.
//! float64 stays calls of the C library.
//!
//! Values used more than once become [`Stmt::Let`]s in front of the statement. An operand
//! under `if_then_else` is guarded by its condition there, so that no load is moved out of it.

mod hyperbolic;
mod power;
mod trigonometric;

use crate::{BinOp, DType, Expr, ExprKind, Intrin, PrimFunc, Stmt, Var, VarData};

/// Expands the functions of `func`.
pub fn lower_math(func: &PrimFunc) -> PrimFunc {
    expand(func, Expansion::Functions)
}

/// Expands [`Intrin::DotBf16`] and [`Intrin::PairBf16`], for CPUs without AVX512_BF16. The results
/// are the same bits.
pub fn lower_bf16_dots(func: &PrimFunc) -> PrimFunc {
    expand(func, Expansion::Bf16Dots)
}

/// The intrinsics that an expansion replaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expansion {
    Functions,
    Bf16Dots,
}

fn expand(func: &PrimFunc, kind: Expansion) -> PrimFunc {
    let mut expanded = func.without_body();
    expanded.body = stmt(&mut expanded, &func.body, kind);
    expanded
}

fn stmt(func: &mut PrimFunc, s: &Stmt, kind: Expansion) -> Stmt {
    let mut pass = LowerMath { func, kind, lets: vec![], guards: vec![] };
    let own = match s {
        Stmt::Store { value, .. } | Stmt::Let { value, .. } => Some(pass.expr(value)),
        Stmt::If { cond, .. } => Some(pass.expr(cond)),
        // Evaluated again in every iteration: nothing can move in front.
        Stmt::While { .. } => None,
        Stmt::For(_)
        | Stmt::Block(_)
        | Stmt::Allocate { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_)
        | Stmt::Seq(_) => None,
    };
    let lets = pass.lets;
    let mut below = |s: &Stmt| stmt(func, s, kind);
    let own = match (s, own) {
        (Stmt::Store { buffer, indices, .. }, Some(value)) => {
            Stmt::store(*buffer, indices.clone(), value)
        }
        (Stmt::Let { var, body, .. }, Some(value)) => {
            Stmt::Let { var: *var, value, body: Box::new(below(body)) }
        }
        (Stmt::If { then, otherwise, .. }, Some(cond)) => {
            let (then, otherwise) = (below(then), otherwise.as_ref().map(|s| Box::new(below(s))));
            Stmt::If { cond, then: Box::new(then), otherwise }
        }
        _ => s.map_children(&mut below),
    };
    lets.into_iter().rev().fold(own, |body, (var, value)| Stmt::Let {
        var,
        value,
        body: Box::new(body),
    })
}

struct LowerMath<'f> {
    func: &'f mut PrimFunc,
    kind: Expansion,
    lets: Vec<(Var, Expr)>,
    /// Conditions under which the current expression is evaluated.
    guards: Vec<Expr>,
}

impl LowerMath<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        let ExprKind::Call { op, args, dtype } = e.kind() else {
            return e.map_children(&mut |e| self.expr(e));
        };
        if *op == Intrin::IfThenElse {
            let cond = self.expr(&args[0]);
            let a = self.guarded(cond.clone(), &args[1]);
            let b = self.guarded(cond.clone().logical_not(), &args[2]);
            return Expr::if_then_else(cond, a, b);
        }
        if (self.kind, *op) == (Expansion::Bf16Dots, Intrin::DotBf16) {
            let operands = [0, 1, 2].map(|n| self.expr(&args[n]));
            return self.dot_bf16(operands);
        }
        if (self.kind, *op) == (Expansion::Bf16Dots, Intrin::PairBf16) {
            let [low, high] = [0, 1].map(|n| {
                let x = self.expr(&args[n]);
                let half = match x.dtype() {
                    DType::BF16 => x,
                    _ => {
                        let x = self.bind_guarded("x", x);
                        self.without_subnormal(x).cast(DType::BF16)
                    }
                };
                half.reinterpret(DType::U16).cast(DType::U32)
            });
            let high = shift(Intrin::Shl, high, 16);
            return Expr::call(Intrin::BitOr, vec![low, high]);
        }
        if self.kind == Expansion::Bf16Dots
            || ![DType::F32, DType::F16, DType::BF16].contains(dtype)
        {
            return e.map_children(&mut |e| self.expr(e));
        }
        let expand: fn(&mut Self, Expr) -> Expr = match op {
            Intrin::Exp => LowerMath::exp,
            Intrin::Log => LowerMath::log,
            Intrin::Tanh => LowerMath::tanh,
            Intrin::Erf => LowerMath::erf,
            Intrin::Sin => LowerMath::sin,
            Intrin::Cos => LowerMath::cos,
            Intrin::Tan => LowerMath::tan,
            Intrin::Asin => LowerMath::asin,
            Intrin::Acos => LowerMath::acos,
            Intrin::Atan => LowerMath::atan,
            Intrin::Sinh => LowerMath::sinh,
            Intrin::Cosh => LowerMath::cosh,
            Intrin::Asinh => LowerMath::asinh,
            Intrin::Acosh => LowerMath::acosh,
            Intrin::Atanh => LowerMath::atanh,
            Intrin::Pow => {
                let [x, y] = [0, 1].map(|n| {
                    let operand = self.expr(&args[n]).cast(DType::F32);
                    self.bind_guarded("x", operand)
                });
                return self.pow(x, y).cast(*dtype);
            }
            _ => return e.map_children(&mut |e| self.expr(e)),
        };
        let operand = self.expr(&args[0]).cast(DType::F32);
        let x = self.bind_guarded("x", operand);
        expand(self, x).cast(*dtype)
    }

    /// Names an operand, evaluated only where its guards hold.
    fn bind_guarded(&mut self, name: &str, operand: Expr) -> Expr {
        let zero = Expr::constant(0.0, operand.dtype());
        let operand = match may_fault(&operand) {
            true => self.guards.iter().rev().fold(operand, |value, guard| {
                Expr::if_then_else(guard.clone(), value, zero.clone())
            }),
            false => operand,
        };
        self.bind(name, operand)
    }

    fn guarded(&mut self, cond: Expr, e: &Expr) -> Expr {
        self.guards.push(cond);
        let e = self.expr(e);
        self.guards.pop();
        e
    }

    /// Names a value.
    fn bind(&mut self, name: &str, value: Expr) -> Expr {
        let dtype = value.dtype();
        let var = self.func.vars.push(VarData { name: name.into(), dtype });
        self.lets.push((var, value));
        Expr::new(ExprKind::Var { var, dtype })
    }

    fn dot_bf16(&mut self, [a, b, sum]: [Expr; 3]) -> Expr {
        let [a, b] = [("a", a), ("b", b)].map(|(name, e)| self.bind_guarded(name, e));
        let sum = self.bind_guarded("sum", sum);
        let mut sum = self.without_subnormal(sum);
        let high = |pair: &Expr| {
            let mask = Expr::int(0xffff_0000, DType::U32);
            Expr::call(Intrin::BitAnd, vec![pair.clone(), mask])
        };
        let low = |pair: &Expr| shift(Intrin::Shl, pair.clone(), 16);
        for half in [&high as &dyn Fn(&Expr) -> Expr, &low] {
            let [a, b] = [&a, &b].map(|pair| {
                let wide = self.bind("half", half(pair).reinterpret(DType::F32));
                self.without_subnormal(wide)
            });
            sum = self.fma_without_subnormals(a, b, sum);
        }
        sum
    }

    /// Zero with the sign of `x` where that is subnormal.
    fn without_subnormal(&mut self, x: Expr) -> Expr {
        let size = Expr::call(Intrin::Abs, vec![x.clone()]);
        let subnormal = size.lt(c(f32::MIN_POSITIVE));
        self.bind("normal", Expr::select(subnormal, x.clone() * c(0.0), x))
    }

    /// A fused multiply-add that gives no subnormal numbers: what is below the normal ones once
    /// rounded to 24 bits is zero. Computed once more at a scale where these are all normal.
    fn fma_without_subnormals(&mut self, a: Expr, b: Expr, sum: Expr) -> Expr {
        let scale = 18_446_744_073_709_551_616.0;
        let scaled = fma(a.clone() * c(scale), b.clone(), sum.clone() * c(scale));
        let scaled = Expr::call(Intrin::Abs, vec![scaled]);
        let sum = self.bind("sum", fma(a, b, sum));
        let size = Expr::call(Intrin::Abs, vec![sum.clone()]);
        let least = size.le(c(f32::MIN_POSITIVE));
        let tiny = least.and(scaled.lt(c(f32::MIN_POSITIVE * scale)));
        self.bind("sum", Expr::select(tiny, sum.clone() * c(0.0), sum))
    }

    fn exp(&mut self, x: Expr) -> Expr {
        // Beyond these ends the result is 0 or infinite; NaN passes. It is 0 from -104 on already, but as a product that
        // underflows, which takes an Intel Xeon 50 times as long. At -176 both powers of two are 0, exactly.
        let x = self.bind("x", x.max(c(-176.0)).min(c(89.0)));
        let (p, n) = self.exp_parts(x);
        // Scaled in two steps: 2^n alone may be subnormal or infinite where the product is not.
        let half = self.bind("half", shift(Intrin::Shr, n.clone(), 1));
        p * power_of_two(half.clone()) * power_of_two(n - half)
    }

    /// [`LowerMath::exp`] for results far from the ends of the range.
    fn exp_inside(&mut self, x: Expr) -> Expr {
        let (p, n) = self.exp_parts(x);
        p * power_of_two(n)
    }

    /// `e^x = p * 2^n`
    fn exp_parts(&mut self, x: Expr) -> (Expr, Expr) {
        // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
        let t = self.bind("t", fma(x.clone(), c(LOG2_E), c(ROUNDER)));
        let n = self.bind("n", t.clone() - c(ROUNDER));
        let r = fma(n.clone(), c(-LN2_LOW), fma(n, c(-LN2_HIGH), x));
        let r = self.bind("r", r);
        let bits = Expr::int(i64::from(ROUNDER.to_bits()), DType::I32);
        let n = self.bind("n", t.reinterpret(DType::I32) - bits);
        (horner(&EXP, &r), n)
    }

    fn log(&mut self, x: Expr) -> Expr {
        let subnormal = self.bind("subnormal", x.clone().lt(c(f32::MIN_POSITIVE)));
        let scaled = Expr::select(subnormal.clone(), x.clone() * c(8_388_608.0), x.clone());
        let bits = self.bind("bits", scaled.reinterpret(DType::I32));
        let above = bits.clone() - Expr::int(SQRT_HALF_BITS, DType::I32);
        let k = self.bind("k", shift(Intrin::Shr, above, 23));
        let m = bits - shift(Intrin::Shl, k.clone(), 23);
        let f = self.bind("f", m.reinterpret(DType::F32) - c(1.0));
        let k = k.cast(DType::F32) - Expr::select(subnormal, c(23.0), c(0.0));
        let k = self.bind("k", k);
        let square = self.bind("square", f.clone() * f.clone());
        let cubic = horner(&LOG, &f) * f.clone() * square.clone();
        let low = fma(k.clone(), c(LN2_LOW), cubic);
        let sum = f + fma(c(-0.5), square, low);
        let finite = fma(k, c(LN2_HIGH), sum);
        let infinity = Expr::float(f64::INFINITY, DType::F32);
        let not_positive = Expr::select(x.clone().equal(c(0.0)), c(f32::NEG_INFINITY), c(f32::NAN));
        let large = Expr::select(x.clone().lt(infinity), finite, x.clone());
        Expr::select(x.gt(c(0.0)), large, not_positive)
    }

    fn tanh(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", Expr::call(Intrin::Abs, vec![x.clone()]));
        let square = self.bind("square", x.clone() * x.clone());
        let small = fma(horner(&TANH, &square) * square, x.clone(), x.clone());
        let e = self.exp_inside_of(size.clone().min(c(10.0)) * c(2.0));
        let large = c(1.0) - c(2.0) / (e + c(1.0));
        self.choose(x, size, 0.55, small, large)
    }

    fn erf(&mut self, x: Expr) -> Expr {
        let size = self.bind("size", Expr::call(Intrin::Abs, vec![x.clone()]));
        let square = self.bind("square", x.clone() * x.clone());
        let small = fma(horner(&ERF_SMALL, &square), x.clone(), x.clone());
        let t = self.bind("t", size.clone().min(c(4.0)));
        let e = self.exp_inside_of(horner(&ERF_LARGE, &t));
        let large = c(1.0) - e;
        self.choose(x, size, 0.921875, small, large)
    }

    fn exp_inside_of(&mut self, x: Expr) -> Expr {
        let x = self.bind("x", x);
        self.exp_inside(x)
    }

    /// `small` below `limit`, else `large` with the sign of `x`.
    fn choose(&mut self, x: Expr, size: Expr, limit: f32, small: Expr, large: Expr) -> Expr {
        let large = self.bind("large", large);
        let signed = Expr::select(x.lt(c(0.0)), -large.clone(), large);
        Expr::select(size.lt(c(limit)), small, signed)
    }
}

/// Whether evaluating `e` outside its guards could do more than give a useless value.
fn may_fault(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| {
        found |= match e.kind() {
            ExprKind::Load { .. } => true,
            ExprKind::Binary { op, a, .. } => {
                let divides = [BinOp::Div, BinOp::Mod, BinOp::FloorDiv, BinOp::FloorMod];
                divides.contains(op) && !a.dtype().is_float()
            }
            _ => false,
        }
    });
    found
}

fn c(value: f32) -> Expr {
    Expr::float(f64::from(value), DType::F32)
}

fn abs(x: &Expr) -> Expr {
    Expr::call(Intrin::Abs, vec![x.clone()])
}

fn sqrt(x: Expr) -> Expr {
    Expr::call(Intrin::Sqrt, vec![x])
}

fn fma(a: Expr, b: Expr, c: Expr) -> Expr {
    Expr::call(Intrin::Fma, vec![a, b, c])
}

fn shift(op: Intrin, value: Expr, by: i64) -> Expr {
    let amount = Expr::int(by, value.dtype());
    Expr::call(op, vec![value, amount])
}

/// `2^n` for an int32 `n` in `-126..=127`.
fn power_of_two(n: Expr) -> Expr {
    let biased = n + Expr::int(127, DType::I32);
    shift(Intrin::Shl, biased, 23).reinterpret(DType::F32)
}

/// Lowest degree first.
fn horner(coefficients: &[f32], x: &Expr) -> Expr {
    let (last, rest) = coefficients.split_last().expect("a polynomial has a coefficient");
    rest.iter().rev().fold(c(*last), |p, k| fma(p, x.clone(), c(*k)))
}

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// `ln 2` with 12 trailing zero bits, so that `n * LN2_HIGH` is exact, and what is left.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;
const ROUNDER: f32 = 12_582_912.0;
const SQRT_HALF_BITS: i64 = 0x3f35_04f3;

/// `e^r` on `|r| <= ln2 / 2`.
const EXP: [f32; 7] =
    [1.0, 1.0, 0.499_999_94, 0.166_665_2, 0.041_668_393, 0.008_368_781, 0.001_381_446_5];

/// `(log(1 + f) - f + f^2 / 2) / f^3` on `sqrt(1/2) - 1 ..= sqrt(2) - 1`.
const LOG: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_021_2,
    -0.166_679_96,
    0.142_195_51,
    -0.124_055_915,
    0.118_881_75,
    -0.116_756_41,
    0.067_466_01,
];

/// `(tanh(x) / x - 1) / x^2` in `x^2`, on `x <= 0.55`.
const TANH: [f32; 5] = [-0.333_333_17, 0.133_325_74, -0.053_850_766, 0.021_064_084, -0.006_261_901];

/// `erf(x) / x - 1` in `x^2`, on `x <= 0.921875`.
const ERF_SMALL: [f32; 7] = [
    0.128_379_17,
    -0.376_126_35,
    0.112_836_91,
    -0.026_859_143,
    0.005_200_400_5,
    -0.000_813_555_2,
    8.339_934e-5,
];

/// `log(1 - erf(x))` on `0.921875..=4`.
const ERF_LARGE: [f32; 9] = [
    0.000_161_329_6,
    -1.129_439,
    -0.633_532_35,
    -0.108_026_154,
    0.024_906_276,
    -0.004_058_853_7,
    0.000_398_305_48,
    -1.457_806e-5,
    -5.028_416e-7,
];
