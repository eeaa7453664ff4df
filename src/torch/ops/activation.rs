//! Functions of one tensor, element by element, and softmax.

use reflex_graph::{Binary, Op, Unary, Value};
use reflex_tir::{DType, Expr};

use super::arithmetic::truncated;
use super::table::{Results, Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("_log_softmax", |cx, call| softmax(cx, call, true)),
    ("_softmax", |cx, call| softmax(cx, call, false)),
    ("abs", |cx, call| same(cx, call, Unary::Abs)),
    ("acos", |cx, call| float(cx, call, Unary::Acos)),
    ("acosh", |cx, call| float(cx, call, Unary::Acosh)),
    ("asin", |cx, call| float(cx, call, Unary::Asin)),
    ("asinh", |cx, call| float(cx, call, Unary::Asinh)),
    ("atan", |cx, call| float(cx, call, Unary::Atan)),
    ("atanh", |cx, call| float(cx, call, Unary::Atanh)),
    ("bitwise_not", |cx, call| {
        let x = call.tensor("self")?;
        let f = if cx.dtype(x) == DType::BOOL { Unary::Not } else { Unary::BitNot };
        one(cx.unary(f, x)?)
    }),
    ("ceil", |cx, call| whole(cx, call, Unary::Ceil)),
    ("celu", |cx, call| {
        let alpha = call.float("alpha", 1.0)?;
        one(elu(cx, call.tensor("self")?, alpha, 1.0, 1.0 / alpha)?)
    }),
    ("cos", |cx, call| float(cx, call, Unary::Cos)),
    ("cosh", |cx, call| float(cx, call, Unary::Cosh)),
    ("elu", |cx, call| {
        let (alpha, scale) = (call.float("alpha", 1.0)?, call.float("scale", 1.0)?);
        one(elu(cx, call.tensor("self")?, alpha, scale, call.float("input_scale", 1.0)?)?)
    }),
    ("erf", |cx, call| float(cx, call, Unary::Erf)),
    ("erfc", |cx, call| {
        wide(cx, call, |cx, x| {
            let erf = cx.unary(Unary::Erf, x)?;
            let minus = cx.unary(Unary::Neg, erf)?;
            cx.binary_num(Binary::Add, minus, 1.0)
        })
    }),
    ("exp", |cx, call| float(cx, call, Unary::Exp)),
    ("exp2", |cx, call| {
        wide(cx, call, |cx, x| {
            let scaled = cx.binary_num(Binary::Mul, x, std::f64::consts::LN_2)?;
            cx.unary(Unary::Exp, scaled)
        })
    }),
    ("expm1", |cx, call| {
        wide(cx, call, |cx, x| {
            let exp = cx.unary(Unary::Exp, x)?;
            cx.binary_num(Binary::Sub, exp, 1.0)
        })
    }),
    ("floor", |cx, call| whole(cx, call, Unary::Floor)),
    ("frac", |cx, call| {
        let x = call.tensor("self")?;
        let whole = truncated(cx, x)?;
        one(cx.sub(x, whole)?)
    }),
    ("gelu", gelu),
    ("glu", glu),
    ("hardshrink", |cx, call| {
        let lambda = call.float("lambd", 0.5)?;
        let x = call.tensor("self")?;
        let size = cx.unary(Unary::Abs, x)?;
        let small = cx.binary_num(Binary::LessEqual, size, lambda)?;
        let zero = cx.num(0.0, cx.dtype(x))?;
        one(cx.choose(small, zero, x)?)
    }),
    ("hardsigmoid", |cx, call| wide(cx, call, hard_sigmoid)),
    ("hardswish", |cx, call| {
        wide(cx, call, |cx, x| {
            let gate = hard_sigmoid(cx, x)?;
            cx.mul(x, gate)
        })
    }),
    ("hardtanh", |cx, call| {
        let (low, high) = (call.float("min_val", -1.0)?, call.float("max_val", 1.0)?);
        one(clamped(cx, call.tensor("self")?, low, high)?)
    }),
    ("isfinite", |cx, call| {
        let odd = not_finite(cx, call)?;
        one(cx.unary(Unary::Not, odd)?)
    }),
    ("isinf", |cx, call| {
        let x = call.tensor("self")?;
        one(cx.unary(Unary::IsInf, x)?)
    }),
    ("isnan", |cx, call| {
        let x = call.tensor("self")?;
        one(cx.unary(Unary::IsNan, x)?)
    }),
    ("leaky_relu", |cx, call| {
        let slope = call.float("negative_slope", 0.01)?;
        let x = call.tensor("self")?;
        let small = cx.binary_num(Binary::Mul, x, slope)?;
        let positive = cx.binary_num(Binary::Greater, x, 0.0)?;
        one(cx.choose(positive, x, small)?)
    }),
    ("log", |cx, call| float(cx, call, Unary::Log)),
    ("log10", |cx, call| logarithm(cx, call, std::f64::consts::LOG10_E)),
    ("log1p", |cx, call| {
        wide(cx, call, |cx, x| {
            let more = cx.binary_num(Binary::Add, x, 1.0)?;
            cx.unary(Unary::Log, more)
        })
    }),
    ("log2", |cx, call| logarithm(cx, call, std::f64::consts::LOG2_E)),
    ("log_sigmoid", |cx, call| {
        wide(cx, call, |cx, x| {
            let minus = cx.unary(Unary::Neg, x)?;
            let soft = soft_plus(cx, minus)?;
            cx.unary(Unary::Neg, soft)
        })
    }),
    ("log_softmax", |cx, call| softmax(cx, call, true)),
    ("logical_not", |cx, call| {
        let x = cx.cast(call.tensor("self")?, DType::BOOL)?;
        one(cx.unary(Unary::Not, x)?)
    }),
    ("mish", |cx, call| {
        wide(cx, call, |cx, x| {
            let soft = soft_plus(cx, x)?;
            let gate = cx.unary(Unary::Tanh, soft)?;
            cx.mul(x, gate)
        })
    }),
    ("neg", |cx, call| same(cx, call, Unary::Neg)),
    ("prelu", prelu),
    ("_prelu_kernel", |cx, call| {
        let [x, slope] = [call.tensor("self")?, call.tensor("weight")?];
        one(sloped(cx, x, slope)?)
    }),
    ("reciprocal", |cx, call| float(cx, call, Unary::Reciprocal)),
    ("relu", |cx, call| {
        let x = call.tensor("self")?;
        one(cx.binary_num(Binary::Max, x, 0.0)?)
    }),
    ("relu6", |cx, call| one(clamped(cx, call.tensor("self")?, 0.0, 6.0)?)),
    ("round", round),
    ("rsqrt", |cx, call| {
        wide(cx, call, |cx, x| {
            let root = cx.unary(Unary::Sqrt, x)?;
            cx.unary(Unary::Reciprocal, root)
        })
    }),
    ("selu", |cx, call| {
        let (alpha, scale) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
        one(elu(cx, call.tensor("self")?, alpha, scale, 1.0)?)
    }),
    ("sgn", |cx, call| same(cx, call, Unary::Sign)),
    ("sigmoid", |cx, call| float(cx, call, Unary::Sigmoid)),
    ("sign", |cx, call| same(cx, call, Unary::Sign)),
    ("silu", |cx, call| {
        wide(cx, call, |cx, x| {
            let gate = cx.unary(Unary::Sigmoid, x)?;
            cx.mul(x, gate)
        })
    }),
    ("sin", |cx, call| float(cx, call, Unary::Sin)),
    ("sinh", |cx, call| float(cx, call, Unary::Sinh)),
    ("softmax", |cx, call| softmax(cx, call, false)),
    ("softplus", softplus),
    ("softshrink", |cx, call| {
        let lambda = call.float("lambd", 0.5)?;
        let x = call.tensor("self")?;
        let inside = clamped(cx, x, -lambda, lambda)?;
        one(cx.sub(x, inside)?)
    }),
    ("sqrt", |cx, call| float(cx, call, Unary::Sqrt)),
    ("square", |cx, call| {
        let x = call.tensor("self")?;
        one(cx.mul(x, x)?)
    }),
    ("tan", |cx, call| float(cx, call, Unary::Tan)),
    ("tanh", |cx, call| float(cx, call, Unary::Tanh)),
    ("threshold", |cx, call| {
        let x = call.tensor("self")?;
        let value = call.float("value", 0.0)?;
        let above = cx.binary_num(Binary::Greater, x, call.float("threshold", 0.0)?)?;
        let value = cx.num(value, cx.dtype(x))?;
        one(cx.choose(above, x, value)?)
    }),
    ("trunc", |cx, call| {
        let x = call.tensor("self")?;
        one(if cx.dtype(x).is_float() { truncated(cx, x)? } else { x })
    }),
];

/// A function whose result has the type of its operand.
fn same(cx: &mut ImportContext, call: &Call, f: Unary) -> Results {
    let x = call.tensor("self")?;
    one(cx.unary(f, x)?)
}

/// A tensor as floats: integers become float32.
pub(super) fn as_float(cx: &mut ImportContext, x: Value) -> Result<Value> {
    if cx.dtype(x).is_float() { Ok(x) } else { cx.cast(x, DType::F32) }
}

/// A function of floats.
fn float(cx: &mut ImportContext, call: &Call, f: Unary) -> Results {
    wide(cx, call, |cx, x| cx.unary(f, x))
}

/// A function of floats that is computed in float32 at least.
fn wide(
    cx: &mut ImportContext,
    call: &Call,
    compute: impl FnOnce(&mut ImportContext, Value) -> Result<Value>,
) -> Results {
    let x = as_float(cx, call.tensor("self")?)?;
    one(cx.widened(x, compute)?)
}

/// A function that leaves integers as they are.
fn whole(cx: &mut ImportContext, call: &Call, f: Unary) -> Results {
    let x = call.tensor("self")?;
    one(if cx.dtype(x).is_float() { cx.unary(f, x)? } else { x })
}

fn not_finite(cx: &mut ImportContext, call: &Call) -> Result<Value> {
    let x = call.tensor("self")?;
    let (nan, infinite) = (cx.unary(Unary::IsNan, x)?, cx.unary(Unary::IsInf, x)?);
    cx.binary(Binary::Or, nan, infinite)
}

fn clamped(cx: &mut ImportContext, x: Value, low: f64, high: f64) -> Result<Value> {
    let up = cx.binary_num(Binary::Max, x, low)?;
    cx.binary_num(Binary::Min, up, high)
}

fn hard_sigmoid(cx: &mut ImportContext, x: Value) -> Result<Value> {
    let moved = cx.binary_num(Binary::Add, x, 3.0)?;
    let inside = clamped(cx, moved, 0.0, 6.0)?;
    cx.binary_num(Binary::Div, inside, 6.0)
}

fn logarithm(cx: &mut ImportContext, call: &Call, factor: f64) -> Results {
    wide(cx, call, |cx, x| {
        let log = cx.unary(Unary::Log, x)?;
        cx.binary_num(Binary::Mul, log, factor)
    })
}

/// `scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))`
fn elu(
    cx: &mut ImportContext,
    x: Value,
    alpha: f64,
    scale: f64,
    input_scale: f64,
) -> Result<Value> {
    cx.widened(x, |cx, x| {
        // What is positive would overflow for nothing.
        let low = cx.binary_num(Binary::Min, x, 0.0)?;
        let inner = cx.binary_num(Binary::Mul, low, input_scale)?;
        let exp = cx.unary(Unary::Exp, inner)?;
        let less = cx.binary_num(Binary::Sub, exp, 1.0)?;
        let negative = cx.binary_num(Binary::Mul, less, alpha)?;
        let positive = cx.binary_num(Binary::Greater, x, 0.0)?;
        let y = cx.choose(positive, x, negative)?;
        cx.binary_num(Binary::Mul, y, scale)
    })
}

/// `log(1 + exp(x))`, without overflow.
fn soft_plus(cx: &mut ImportContext, x: Value) -> Result<Value> {
    let size = cx.unary(Unary::Abs, x)?;
    let minus = cx.unary(Unary::Neg, size)?;
    let exp = cx.unary(Unary::Exp, minus)?;
    let more = cx.binary_num(Binary::Add, exp, 1.0)?;
    let log = cx.unary(Unary::Log, more)?;
    let high = cx.binary_num(Binary::Max, x, 0.0)?;
    cx.add(high, log)
}

fn softplus(cx: &mut ImportContext, call: &Call) -> Results {
    let (beta, threshold) = (call.float("beta", 1.0)?, call.float("threshold", 20.0)?);
    wide(cx, call, |cx, x| {
        let scaled = cx.binary_num(Binary::Mul, x, beta)?;
        let soft = soft_plus(cx, scaled)?;
        let soft = cx.binary_num(Binary::Div, soft, beta)?;
        let linear = cx.binary_num(Binary::Greater, scaled, threshold)?;
        cx.choose(linear, x, soft)
    })
}

fn gelu(cx: &mut ImportContext, call: &Call) -> Results {
    let approximate = call.text("approximate", "none")?.to_owned();
    wide(cx, call, |cx, x| {
        let half = cx.binary_num(Binary::Mul, x, 0.5)?;
        let gate = match approximate.as_str() {
            "none" => {
                let scaled = cx.binary_num(Binary::Mul, x, std::f64::consts::FRAC_1_SQRT_2)?;
                cx.unary(Unary::Erf, scaled)?
            }
            "tanh" => {
                let square = cx.mul(x, x)?;
                let cube = cx.mul(square, x)?;
                let small = cx.binary_num(Binary::Mul, cube, 0.044715)?;
                let sum = cx.add(x, small)?;
                let factor = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
                let inner = cx.binary_num(Binary::Mul, sum, factor)?;
                cx.unary(Unary::Tanh, inner)?
            }
            other => return Err(invalid(format!("approximate `{other}`"))),
        };
        let gate = cx.binary_num(Binary::Add, gate, 1.0)?;
        cx.mul(half, gate)
    })
}

fn glu(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", -1, cx.rank(x))?;
    let half = cx.dim(x, at)?.floordiv(2);
    let first = cx.slice(x, at, &Expr::i64(0), &half)?;
    let second = cx.slice(x, at, &half, &half)?;
    let gate = cx.unary(Unary::Sigmoid, second)?;
    one(cx.mul(first, gate)?)
}

fn sloped(cx: &mut ImportContext, x: Value, slope: Value) -> Result<Value> {
    let small = cx.mul(x, slope)?;
    let positive = cx.binary_num(Binary::Greater, x, 0.0)?;
    cx.choose(positive, x, small)
}

fn prelu(cx: &mut ImportContext, call: &Call) -> Results {
    let [x, slope] = [call.tensor("self")?, call.tensor("weight")?];
    let single = cx.dim(slope, 0).ok().and_then(|n| n.as_int()) == Some(1) || cx.rank(slope) == 0;
    let slope = match single {
        true => cx.reshape(slope, &[])?,
        false => cx.along(slope, 1.min(cx.rank(x).saturating_sub(1)), cx.rank(x))?,
    };
    one(sloped(cx, x, slope)?)
}

fn round(cx: &mut ImportContext, call: &Call) -> Results {
    if call.int("decimals", 0)? != 0 {
        return Err(unsupported("rounding to decimals"));
    }
    whole(cx, call, Unary::Round)
}

fn softmax(cx: &mut ImportContext, call: &Call, log: bool) -> Results {
    let x = call.tensor("self")?;
    let own = cx.dtype(x);
    let wanted = call.dtype("dtype")?;
    let wanted = match call.flag("half_to_float", false)? {
        true => Some(DType::F32),
        false => wanted,
    };
    let dtype = wanted.unwrap_or(own);
    let wide = match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    };
    let x = cx.cast(x, wide)?;
    let rank = cx.rank(x);
    let at = axis(call.int("dim", -1)?, rank)?;
    if rank == 0 {
        return one(cx.num(if log { 0.0 } else { 1.0 }, dtype)?);
    }
    let y = cx.op(Op::Softmax { axis: at, log }, &[x])?;
    one(cx.cast(y, dtype)?)
}
