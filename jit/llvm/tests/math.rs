//! Accuracy of the functions that `lower_math` expands, against float64.

mod common;

use common::Kernel;
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::{DType, Expr, ForKind, Intrin, PrimFunc, Stmt, lower};

const N: usize = 1 << 16;

/// `y[i] = op(x[i])` in vectors of 16.
fn unary(op: Intrin) -> PrimFunc {
    let mut f = FuncBuilder::new("unary");
    let x = f.input("x", DType::F32, vec![(N as i64).into()]);
    let y = f.declare_output("y", DType::F32, vec![(N as i64).into()]);
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = Expr::var(o) * 16 + i;
    let value = Expr::call(op, vec![f.at(x, std::slice::from_ref(&at))]);
    let body = Stmt::store(y, vec![at], value);
    let lanes = Stmt::loop_of(ForKind::Vectorized, i, 16.into(), body);
    f.push(Stmt::serial(o, ((N / 16) as i64).into(), lanes));
    lower::lower(&f.finish())
}

/// Largest error in units of the last place of the result, over finite results.
fn largest_error(op: Intrin, exact: fn(f64) -> f64, inputs: fn(u32) -> f32) -> f64 {
    let kernel = Kernel::new(&unary(op), OptLevel::O3);
    assert!(!kernel.raw_asm().contains("call"), "{op:?} is not expanded");
    let mut worst = (0.0, 0.0);
    for chunk in 0..16u32 {
        let x: Vec<f32> = (0..N as u32).map(|i| inputs(chunk * N as u32 + i)).collect();
        let mut args = [
            EvalArg::Tensor(EvalTensor::f32(&[N as i64], &x)),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[N as i64])),
        ];
        kernel.run(&mut args).unwrap();
        for (x, y) in x.iter().zip(args[1].tensor().to_f32()) {
            let want = exact(f64::from(*x));
            let rounded = want as f32;
            if rounded.is_nan() || rounded.is_infinite() || y.is_infinite() {
                let same = rounded == y || rounded.is_nan() && y.is_nan();
                let edge = want.abs() > f64::from(f32::MAX) * 0.999_999_8;
                assert!(same || edge, "{op:?}({x:e}) = {y:e}, not {rounded:e}");
                continue;
            }
            let ulp = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
            let error = (f64::from(y) - want).abs() / ulp;
            if error > worst.0 {
                worst = (error, *x);
            }
        }
    }
    println!("{op:?}: {} ulp at {:e}", worst.0, worst.1);
    worst.0
}

/// Every 4093rd float, of either sign, infinities and NaN among them.
fn all(i: u32) -> f32 {
    f32::from_bits(i.wrapping_mul(4093))
}

/// A function, what it is exactly, the inputs, and the error that `lower_math` states.
type Row = (Intrin, fn(f64) -> f64, fn(u32) -> f32, f64);

#[test]
fn errors_are_as_stated() {
    let rows: [Row; 30] = [
        (Intrin::Exp, f64::exp, all, 0.9),
        (Intrin::Exp, f64::exp, |i| i as f32 * 0.000184 - 104.0, 0.9),
        (Intrin::Log, f64::ln, all, 0.9),
        (Intrin::Log, f64::ln, |i| 0.5 + i as f32 * 1.4e-6, 0.9),
        (Intrin::Tanh, f64::tanh, all, 1.5),
        (Intrin::Tanh, f64::tanh, |i| i as f32 * 2e-5 - 10.0, 1.5),
        (Intrin::Erf, libm::erf, all, 1.1),
        (Intrin::Erf, libm::erf, |i| i as f32 * 8e-6 - 4.2, 1.1),
        (Intrin::Sin, f64::sin, all, 0.9),
        (Intrin::Sin, f64::sin, |i| i as f32 * 2e-5 - 10.0, 0.9),
        (Intrin::Cos, f64::cos, all, 0.9),
        (Intrin::Cos, f64::cos, |i| i as f32 * 2e-5 - 10.0, 0.9),
        (Intrin::Tan, f64::tan, all, 1.8),
        (Intrin::Tan, f64::tan, |i| i as f32 * 2e-5 - 10.0, 1.8),
        (Intrin::Asin, f64::asin, all, 1.6),
        (Intrin::Asin, f64::asin, |i| i as f32 * 2e-6 - 1.05, 1.6),
        (Intrin::Acos, f64::acos, all, 1.0),
        (Intrin::Acos, f64::acos, |i| i as f32 * 2e-6 - 1.05, 1.0),
        (Intrin::Atan, f64::atan, all, 1.3),
        (Intrin::Atan, f64::atan, |i| i as f32 * 2e-5 - 10.0, 1.3),
        (Intrin::Sinh, f64::sinh, all, 1.6),
        (Intrin::Sinh, f64::sinh, |i| i as f32 * 0.000184 - 97.0, 1.6),
        (Intrin::Cosh, f64::cosh, all, 1.4),
        (Intrin::Cosh, f64::cosh, |i| i as f32 * 0.000184 - 97.0, 1.4),
        (Intrin::Asinh, libm::asinh, all, 2.2),
        (Intrin::Asinh, libm::asinh, |i| i as f32 * 2e-6 - 1.05, 2.2),
        (Intrin::Acosh, libm::acosh, all, 2.0),
        (Intrin::Acosh, libm::acosh, |i| 0.9 + i as f32 * 2e-6, 2.0),
        (Intrin::Atanh, libm::atanh, all, 1.4),
        (Intrin::Atanh, libm::atanh, |i| i as f32 * 2e-6 - 1.05, 1.4),
    ];
    let beyond: Vec<String> = rows
        .into_iter()
        .map(|(op, exact, inputs, stated)| (op, largest_error(op, exact, inputs), stated))
        .filter(|(_, error, stated)| error > stated)
        .map(|(op, error, stated)| format!("{op:?}: {error} ulp, not {stated}"))
        .collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
}

/// `z[i] = pow(x[i], y[i])` in vectors of 16.
fn powers(count: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("powers");
    let [x, y] = ["x", "y"].map(|name| f.input(name, DType::F32, vec![count.into()]));
    let z = f.declare_output("z", DType::F32, vec![count.into()]);
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = [Expr::var(o) * 16 + i];
    let value = Expr::call(Intrin::Pow, vec![f.at(x, &at), f.at(y, &at)]);
    let body = Stmt::store(z, at.to_vec(), value);
    let lanes = Stmt::loop_of(ForKind::Vectorized, i, 16.into(), body);
    f.push(Stmt::serial(o, (count / 16).into(), lanes));
    lower::lower(&f.finish())
}

/// Bases and exponents: every pair of special values, then pairs from all over.
fn pairs() -> Vec<(f32, f32)> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.3,
        -0.3,
        2.5,
        1e-40,
        -1e-40,
        1e30,
        -1e30,
        16_777_215.0,
        16_777_217.0,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1.000_000_1,
        0.999_999_94,
        127.0,
        -149.0,
    ];
    let mut pairs: Vec<(f32, f32)> =
        special.iter().flat_map(|x| special.iter().map(|y| (*x, *y))).collect();
    for i in 0..200_000_u32 {
        let x = f32::from_bits(i.wrapping_mul(21_407) & 0x7fff_ffff);
        let spread = (i % 1999) as f32 / 1000.0 - 1.0;
        pairs.push((x, spread * 88.0 / x.ln().abs().max(0.1)));
        pairs.push((x, (i % 33) as f32 - 16.0));
    }
    pairs
}

#[test]
fn powers_are_rounded_once_and_exceptional_as_in_c() {
    let pairs = pairs();
    let count = pairs.len() / 16 * 16;
    let kernel = Kernel::new(&powers(count as i64), OptLevel::O3);
    assert!(!kernel.raw_asm().contains("call"), "it is not expanded");
    let column = |of: fn(&(f32, f32)) -> f32| {
        let values: Vec<f32> = pairs[..count].iter().map(of).collect();
        EvalArg::Tensor(EvalTensor::f32(&[count as i64], &values))
    };
    let z = EvalTensor::zeros(DType::F32, &[count as i64]);
    let mut args = [column(|(x, _)| *x), column(|(_, y)| *y), EvalArg::Tensor(z)];
    kernel.run(&mut args).unwrap();
    let mut worst = 0.0_f64;
    for ((x, y), z) in pairs.iter().zip(args[2].tensor().to_f32()) {
        let want = f64::from(*x).powf(f64::from(*y));
        let rounded = want as f32;
        if rounded.is_nan() || rounded.is_infinite() || rounded == 0.0 {
            let same = rounded.to_bits() == z.to_bits() || rounded.is_nan() && z.is_nan();
            assert!(same, "pow({x:e}, {y:e}) = {z:e}, not {rounded:e}");
            continue;
        }
        let ulp = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
        worst = worst.max((f64::from(z) - want).abs() / ulp);
    }
    println!("Pow: {worst} ulp");
    assert!(worst <= 0.51, "{worst}");
}
