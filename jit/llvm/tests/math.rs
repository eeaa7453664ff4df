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
fn largest_error(op: Intrin, exact: fn(f64) -> f64, inputs: impl Fn(u32) -> f32) -> f64 {
    let kernel = Kernel::new(&unary(op), OptLevel::O3);
    assert!(!kernel.raw_asm().contains("call"), "{op:?} is not expanded");
    let mut worst = (0.0, 0.0);
    for chunk in 0..64u32 {
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

/// Every 1021st float, of either sign, infinities and NaN among them.
fn all(i: u32) -> f32 {
    f32::from_bits(i.wrapping_mul(1021))
}

#[test]
fn errors_are_as_stated() {
    assert!(largest_error(Intrin::Exp, f64::exp, all) <= 0.9);
    assert!(largest_error(Intrin::Exp, f64::exp, |i| i as f32 * 4.6e-5 - 104.0) <= 0.9);
    assert!(largest_error(Intrin::Log, f64::ln, all) <= 0.9);
    assert!(largest_error(Intrin::Log, f64::ln, |i| 0.5 + i as f32 * 3.5e-7) <= 0.9);
    assert!(largest_error(Intrin::Tanh, f64::tanh, all) <= 1.5);
    assert!(largest_error(Intrin::Tanh, f64::tanh, |i| i as f32 * 5e-6 - 10.0) <= 1.5);
    assert!(largest_error(Intrin::Erf, libm::erf, all) <= 1.1);
    assert!(largest_error(Intrin::Erf, libm::erf, |i| i as f32 * 2e-6 - 4.2) <= 1.1);
}
