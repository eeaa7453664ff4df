//! The same results from code for CPUs without AVX-512, and without anything.

mod common;
#[path = "../../../src/tir/tests/common/mod.rs"]
mod tir;

use common::check_for;
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::fuzzgen::{arguments, loops_of, steps};
use reflex_tir::lower;
use reflex_tir::schedule::Schedule;
use reflex_tir::{BinOp, DType, Expr, ForKind, Intrin, PrimFunc, Stmt};
use tir::{any_func, property};

/// The host without the features whose names `drop` accepts.
fn without(drop: fn(&str) -> bool, vector_bytes: u32) -> CpuTarget {
    let mut target = CpuTarget::host();
    target.features.retain(|f| !drop(f));
    target.vector_bytes = vector_bytes;
    target
}

fn targets() -> [CpuTarget; 2] {
    [without(|f| f.starts_with("avx512"), 32), without(|_| true, 16)]
}

#[test]
fn random_schedules() {
    let targets = targets();
    property(40, |u| {
        let mut s = Schedule::new(any_func(u)?);
        steps(u, &mut s, 6)?;
        for i in loops_of(s.func()) {
            if u.ratio(1, 2)? {
                let _ = s.vectorize(i);
            }
        }
        let args = arguments(u, s.func(), 5)?;
        let lowered = lower::lower(s.func());
        check_for(&lowered, &args, &targets[u.int_in_range(0..=1)?]);
        Ok(())
    });
}

/// One vector loop with a guard, a gather, a fused multiply-add and roundings.
fn mixed(dtype: DType) -> PrimFunc {
    let mut f = FuncBuilder::new("mixed");
    let x = f.input("x", dtype, vec![40.into()]);
    let y = f.declare_output("y", dtype, vec![20.into()]);
    let i = f.func_mut().new_var("i");
    let (a, b) = (f.at(x, &[Expr::var(i) * 2]), f.at(x, &[Expr::i64(19) - i]));
    let fused = Expr::call(Intrin::Fma, vec![a.clone(), b.clone(), a.clone()]);
    let rounded = Expr::call(Intrin::Round, vec![fused.clone()]) + fused;
    let value = rounded.max(b) + Expr::call(Intrin::Floor, vec![a.cast(DType::F32)]).cast(dtype);
    let store = Stmt::store(y, vec![i.into()], value);
    let guarded = Stmt::If { cond: Expr::var(i).lt(18), then: Box::new(store), otherwise: None };
    f.push(Stmt::loop_of(ForKind::Vectorized, i, 20.into(), guarded));
    f.finish()
}

#[test]
fn masks_gathers_and_roundings() {
    for (at, target) in targets().iter().enumerate() {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
            if dtype == DType::F16 && at == 1 {
                continue;
            }
            let values: Vec<f64> = (0..40).map(|i| f64::from(i) * 0.37 - 5.0).collect();
            let args = [
                EvalArg::Tensor(EvalTensor::from_f64(dtype, &[40], &values).unwrap()),
                EvalArg::Tensor(EvalTensor::zeros(dtype, &[20])),
            ];
            check_for(&mixed(dtype), &args, target);
        }
    }
}

#[test]
fn float16_without_its_instructions_is_refused() {
    let [_, bare] = targets();
    let error = reflex_llvm::compile(&mixed(DType::F16), &bare, OptLevel::O3).unwrap_err();
    assert_eq!(error.to_string(), "float16 needs a CPU with F16C or NEON");
}

/// The extrema of vectors that fill a register: one instruction, and a choice of the first operand where it is NaN.
#[test]
fn extrema_of_registers() {
    let [avx, sse] = targets();
    let values = [-0.0, 0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-40, -3.0];
    let tensor = |each: usize| {
        let mut x = EvalTensor::zeros(DType::F32, &[64]);
        x.bytes = (0..64).flat_map(|at| values[at / each % 8].to_le_bytes()).collect();
        EvalArg::Tensor(x)
    };
    let args = [tensor(1), tensor(8), tensor(1)];
    for (target, width) in [(CpuTarget::host(), 0), (avx, 32), (sse, 16)] {
        let lanes = i64::from(target.vector_bytes) / 4;
        for (op, name) in [(BinOp::Max, "max"), (BinOp::Min, "min")] {
            let mut f = FuncBuilder::new("kernel");
            let [a, b] = ["a", "b"].map(|name| f.input(name, DType::F32, vec![64.into()]));
            f.output("extrema", "y", DType::F32, vec![64.into()], |f, i| {
                Expr::binary(op, f.at(a, i), f.at(b, i))
            });
            let mut s = Schedule::new(f.finish());
            let all = s.get_loops("extrema").unwrap()[0];
            let (_, lane) = s.split(all, lanes).unwrap();
            s.vectorize(lane).unwrap();
            let func = lower::lower(s.func());
            check_for(&func, &args, &target);
            let asm =
                reflex_llvm::compile_with_asm(&func, &target, OptLevel::O3).unwrap().asm.unwrap();
            assert!(width == 0 || asm.contains(&format!("{name}ps")), "{asm}");
        }
    }
}
