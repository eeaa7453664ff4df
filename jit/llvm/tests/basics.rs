//! The smallest kernels, through both entries.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use common::{Kernel, check};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::{DType, Expr, For, ForKind, PrimFunc, Stmt};
use std::collections::BTreeMap;

fn add1(kind: ForKind) -> PrimFunc {
    let mut f = FuncBuilder::new("add1");
    let x = f.input("x", DType::F32, vec![16.into()]);
    let y = f.declare_output("y", DType::F32, vec![16.into()]);
    let i = f.func_mut().new_var("i");
    let value = f.at(x, &[i.into()]) + Expr::float(1.0, DType::F32);
    f.push(Stmt::For(Box::new(For {
        var: i,
        min: 0.into(),
        extent: 16.into(),
        kind,
        annotations: BTreeMap::new(),
        body: Stmt::store(y, vec![i.into()], value),
    })));
    f.finish()
}

#[test]
fn add1_in_every_loop_kind() {
    let x: Vec<f32> = (0..16).map(|i| i as f32 * 0.5).collect();
    for kind in [ForKind::Serial, ForKind::Vectorized, ForKind::Unrolled, ForKind::Parallel] {
        let args = [
            EvalArg::Tensor(EvalTensor::f32(&[16], &x)),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[16])),
        ];
        let out = check(&add1(kind), &args);
        assert_eq!(out[1].tensor().to_f32()[4], 3.0);
    }
}

#[test]
fn vector_loops_use_the_widest_registers() {
    if !reflex_tir::codegen::CpuTarget::host().features.contains("avx512f") {
        return skip::skip("AVX-512");
    }
    let kernel = Kernel::new(&add1(ForKind::Vectorized), OptLevel::O3);
    assert!(kernel.raw_asm().contains("zmm"), "{}", kernel.raw_asm());
    println!("{} us\n{}", kernel.object.micros, kernel.raw_asm());
}

#[test]
fn strided_loads_skip_what_is_between() {
    for (stride, bound) in [(2, 16), (3, 16), (4, 16), (2, 5), (3, 1)] {
        // The input ends with the last element read: a wider load would leave it.
        let extent = (bound - 1) * stride + 1;
        let mut f = FuncBuilder::new("strided");
        let x = f.input("x", DType::F32, vec![extent.into()]);
        let y = f.declare_output("y", DType::F32, vec![bound.into()]);
        let i = f.func_mut().new_var("i");
        let value = f.at(x, &[Expr::var(i) * stride]);
        let store = Stmt::store(y, vec![i.into()], value);
        let guarded =
            Stmt::If { cond: Expr::var(i).lt(bound), then: Box::new(store), otherwise: None };
        f.push(Stmt::loop_of(ForKind::Vectorized, i, 16.into(), guarded));
        let x: Vec<f32> = (0..extent).map(|i| i as f32).collect();
        let args = [
            EvalArg::Tensor(EvalTensor::f32(&[extent], &x)),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[bound])),
        ];
        let out = check(&f.finish(), &args);
        let last = out[1].tensor().to_f32()[bound as usize - 1];
        assert_eq!(last, ((bound - 1) * stride) as f32);
    }
}

#[test]
fn wide_vector_loops_run_in_chunks() {
    for extent in [256, 257, 336, 1000] {
        let mut f = FuncBuilder::new("wide");
        let x = f.input("x", DType::F32, vec![extent.into()]);
        let y = f.declare_output("y", DType::F32, vec![extent.into()]);
        let i = f.func_mut().new_var("i");
        let value = f.at(x, &[i.into()]) * Expr::float(3.0, DType::F32);
        let store = Stmt::store(y, vec![i.into()], value);
        f.push(Stmt::loop_of(ForKind::Vectorized, i, extent.into(), store));
        let x: Vec<f32> = (0..extent).map(|i| i as f32).collect();
        let args = [
            EvalArg::Tensor(EvalTensor::f32(&[extent], &x)),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[extent])),
        ];
        check(&f.finish(), &args);
    }
}

/// A workspace whose number of elements overflows is refused, not made small.
#[test]
fn workspaces_do_not_overflow() {
    let mut f = FuncBuilder::new("outer");
    let (n, m) = (f.symbol("n"), f.symbol("m"));
    f.input("x", DType::F32, vec![n.clone(), 0.into()]);
    f.input("y", DType::F32, vec![m.clone(), 0.into()]);
    let one = Expr::float(1.0, DType::F32);
    let t = f.stage("t", "t", DType::F32, vec![n, m], |_, _| one.clone());
    f.output("z", "z", DType::F32, vec![1.into()], |f, i| f.at(t, &[i[0].clone(), 0.into()]));
    let lowered = reflex_tir::lower::lower(&f.finish());
    let run = |n: i64, m: i64| {
        let mut args = [
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[n, 0])),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[m, 0])),
            EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[1])),
        ];
        Kernel::new(&lowered, OptLevel::O3).run(&mut args)
    };
    run(3, 5).unwrap();
    assert_eq!(run(1 << 40, 1 << 40).unwrap_err(), format!("a workspace of {} bytes", u64::MAX));
    assert_eq!(run(1 << 32, 1 << 30).unwrap_err(), format!("a workspace of {} bytes", u64::MAX));
}
