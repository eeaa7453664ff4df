//! The evaluator's own ground: small functions with answers worked out by hand.

use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::eval::{self, EvalArg, EvalErrorKind, EvalTensor, Scalar, eval_expr};
use reflex_tir::script::{parse, print};
use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{DType, Expr, IndexCheck, Intrin, Stmt};

fn matmul(m: Expr, n: Expr, k: Expr) -> reflex_tir::PrimFunc {
    let mut f = FuncBuilder::new("matmul");
    let a = f.input("a", DType::F32, vec![m.clone(), k.clone()]);
    let b = f.input("b", DType::F32, vec![k.clone(), n.clone()]);
    let reducer = Reducer { init: Expr::float(0.0, DType::F32), combine: &|x, y| x + y };
    f.reduce_output("matmul", "c", DType::F32, vec![m, n], &[k], reducer, |f, i, r| {
        f.at(a, &[i[0].clone(), r[0].clone()]) * f.at(b, &[r[0].clone(), i[1].clone()])
    });
    f.finish()
}

#[test]
fn reduction_initialises_once_per_element() {
    let mut args = [
        EvalArg::Tensor(EvalTensor::f32(&[1, 2], &[1.0, 2.0])),
        EvalArg::Tensor(EvalTensor::f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0])),
        EvalArg::Tensor(EvalTensor::f32(&[1, 2], &[9.0, 9.0])),
    ];
    eval::eval(&matmul(1.into(), 2.into(), 2.into()), &mut args).unwrap();
    assert_eq!(args[2].tensor().to_f32(), [7.0, 10.0]);
}

#[test]
fn symbols_are_bound_and_checked() {
    let mut f = FuncBuilder::new("f");
    let n = f.symbol("n");
    let x = f.input("x", DType::F32, vec![n.clone()]);
    f.output("c", "y", DType::F32, vec![n.clone() * 2], |f, i| {
        f.at(x, &[i[0].clone().floordiv(2)])
    });
    let func = f.finish();
    let run = |n: usize, m: usize| {
        let mut args = [
            EvalArg::Tensor(EvalTensor::f32(&[n as i64], &vec![1.0; n])),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[m as i64])),
        ];
        eval::eval(&func, &mut args)
    };
    assert!(run(3, 6).is_ok());
    let error = run(3, 5).unwrap_err();
    assert!(matches!(error.reason, EvalErrorKind::Argument(_)), "{error}");
    assert!(error.to_string().contains("`y`"), "{error}");
}

#[test]
fn out_of_bounds_names_the_buffer_and_arguments_survive() {
    let mut f = FuncBuilder::new("f");
    let x = f.input("x", DType::F32, vec![2.into()]);
    f.output("c", "y", DType::F32, vec![2.into()], |f, i| f.at(x, &[i[0].clone() + 1]));
    let mut args = [
        EvalArg::Tensor(EvalTensor::f32(&[2], &[1.0, 2.0])),
        EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[2])),
    ];
    let error = eval::eval(&f.finish(), &mut args).unwrap_err();
    assert_eq!(error.to_string(), "evaluating `f`: out of bounds: buffer `x` of shape [2] at [2]");
    assert_eq!(args[0].tensor().to_f32(), [1.0, 2.0]);
    assert_eq!(args[1].tensor().to_f32(), [2.0, 0.0]);
}

#[test]
fn endless_loops_run_out_of_fuel() {
    let mut f = FuncBuilder::new("f");
    f.push(Stmt::While { cond: Expr::bool(true), body: Box::new(Stmt::nop()) });
    let error = eval::eval_with_fuel(&f.finish(), &mut [], 100).unwrap_err();
    assert_eq!(error.reason, EvalErrorKind::Fuel);
}

fn value(e: Expr) -> Scalar {
    eval_expr(&e, &|_| None).unwrap()
}

#[test]
fn choices_of_nan_and_zeros_follow_the_contract() {
    let f = |x: f64| Expr::float(x, DType::F32);
    let nan = f64::NAN;
    assert!(matches!(value(f(nan).max(f(1.0))), Scalar::F32(x) if x.is_nan()));
    // The second operand is returned when no comparison holds.
    assert!(matches!(value(f(1.0).max(f(nan))), Scalar::F32(x) if x.is_nan()));
    assert!(matches!(value(f(0.0).max(f(-0.0))), Scalar::F32(x) if x.is_sign_negative()));
    assert!(matches!(value(f(-0.0).min(f(0.0))), Scalar::F32(x) if x.is_sign_positive()));
}

#[test]
fn casts_saturate_and_wrap() {
    let f = |x: f64| Expr::float(x, DType::F32);
    assert_eq!(value(f(300.0).cast(DType::I8)), Scalar::Int(127));
    assert_eq!(value(f(f64::NAN).cast(DType::I32)), Scalar::Int(0));
    assert_eq!(value(f(-1.0).cast(DType::U8)), Scalar::Int(0));
    assert_eq!(value(Expr::i64(300).cast(DType::U8)), Scalar::Int(44));
    assert_eq!(value(f(f64::NAN).cast(DType::BOOL)), Scalar::Int(1));
    assert_eq!(value(Expr::int(-1, DType::U64).cast(DType::F64)), Scalar::F64(u64::MAX as f64));
}

#[test]
fn narrow_floats_round_after_each_operation() {
    let f = |x: f64| Expr::float(x, DType::F16);
    // 2048 + 1 is not an f16; adding 1 twice loses both.
    assert_eq!(value(f(2048.0) + f(1.0) + f(1.0)).as_f64(), 2048.0);
    let fused = Expr::call(Intrin::Fma, vec![f(1.0 + 1.0 / 1024.0), f(1.0), f(2048.0)]);
    assert_eq!(value(fused).as_f64(), 2050.0);
}

#[test]
fn integers_divide_as_documented() {
    let pairs = [(7, 2), (-7, 2), (7, -2), (-7, -2)];
    for (x, y) in pairs {
        // Through a narrow type, which constructors do not fold.
        let (a, b) = (Expr::int(x, DType::I32), Expr::int(y, DType::I32));
        assert_eq!(value(a.clone() / b.clone()), Scalar::Int(x / y));
        let floor = (x as f64 / y as f64).floor() as i64;
        assert_eq!(value(a.clone().floordiv(b.clone())), Scalar::Int(floor));
        assert_eq!(value(a.floormod(b)), Scalar::Int(x - floor * y));
    }
}

/// `y[i] = x[at[i]]` with a check of the indices.
fn checked_gather() -> reflex_tir::PrimFunc {
    let mut f = FuncBuilder::new("checked");
    let n = f.symbol("n");
    let x = f.input("x", DType::F32, vec![n.clone()]);
    let at = f.input("at", DType::I64, vec![2.into()]);
    f.output("gather", "y", DType::F32, vec![2.into()], |f, i| {
        let index = f.at(at, i);
        let wrapped = Expr::select(index.clone().lt(0), index.clone() + n.clone(), index);
        f.at(x, &[wrapped])
    });
    let check = IndexCheck { buffer: at, bounds: vec![n], node: "rows \"a\"\\b".into() };
    f.func_mut().checks.push(check);
    f.finish()
}

#[test]
fn checked_indices_name_node_index_and_bound() {
    let run = |index: i64| {
        let mut args = [
            EvalArg::Tensor(EvalTensor::f32(&[3], &[1.0, 2.0, 3.0])),
            EvalArg::Tensor(EvalTensor::i64(&[2], &[0, index])),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[2])),
        ];
        eval::eval(&checked_gather(), &mut args).map(|()| args[2].tensor().to_f32())
    };
    assert_eq!(run(-1).unwrap(), [1.0, 3.0]);
    for index in [3, -4, i64::MIN] {
        let message =
            format!("node `rows \"a\"\\b`: index {index} is out of range for an axis of 3");
        assert_eq!(run(index).unwrap_err().reason, EvalErrorKind::Index(message));
    }
}

#[test]
fn checks_are_printed_read_and_verified() {
    let func = checked_gather();
    let text = print(&func);
    assert!(text.contains(r#"T.check_indices(at, [n], "rows \"a\"\\b")"#), "{text}");
    assert_eq!(parse(&text).unwrap().checks, func.checks);
    let mut floats = func.clone();
    floats.checks[0].buffer = func.buffer_params().next().expect("x");
    let mut unbounded = func.clone();
    unbounded.checks[0].bounds.clear();
    let mut output = func.clone();
    output.checks[0].buffer = func.buffer_params().last().expect("y");
    let wrong = [(floats, "neither int32"), (unbounded, "no bound"), (output, "are no input")];
    for (func, fault) in wrong {
        let faults = verify(&func, IrForm::Scheduled).unwrap_err();
        assert!(faults[0].to_string().contains(fault), "{}", faults[0]);
    }
}
