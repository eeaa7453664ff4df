//! The register-blocked GEMM that schedules aim for: its inner loop in assembly, and
//! (ignored by default) its speed.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::time::Instant;

use common::{Kernel, check};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::{DType, Expr, ForKind, Intrin, PrimFunc, Scope, Stmt};

const F: DType = DType::F32;
const ROWS: i64 = 6;
const LANES: i64 = 16;

/// `c[6, 16 * tiles] = a[6, k] * b[k, 16 * tiles]`, all of `c` in registers.
fn micro_kernel(tiles: i64, k: i64) -> PrimFunc {
    let columns = tiles * LANES;
    let mut f = FuncBuilder::new("micro");
    let a = f.input("a", F, vec![ROWS.into(), k.into()]);
    let b = f.input("b", F, vec![k.into(), columns.into()]);
    let c = f.declare_output("c", F, vec![ROWS.into(), columns.into()]);
    let acc = f.func_mut().new_buffer("acc", F, vec![ROWS.into(), columns.into()], Scope::Local);
    let over = |f: &mut FuncBuilder, body: &dyn Fn(&FuncBuilder, Expr, Expr) -> Stmt| {
        let (i, t, v) =
            (f.func_mut().new_var("i"), f.func_mut().new_var("t"), f.func_mut().new_var("v"));
        let inner = body(f, i.into(), Expr::var(t) * LANES + v);
        let lanes = Stmt::loop_of(ForKind::Vectorized, v, LANES.into(), inner);
        let tiles = Stmt::loop_of(ForKind::Unrolled, t, tiles.into(), lanes);
        Stmt::loop_of(ForKind::Unrolled, i, ROWS.into(), tiles)
    };
    let p = f.func_mut().new_var("p");
    let zero = over(&mut f, &|_, i, j| Stmt::store(acc, vec![i, j], Expr::float(0.0, F)));
    let step = over(&mut f, &|f, i, j| {
        let at = [i.clone(), j.clone()];
        let (x, y) = (f.at(a, &[i, p.into()]), f.at(b, &[p.into(), j]));
        Stmt::store(acc, at.to_vec(), Expr::call(Intrin::Fma, vec![x, y, f.at(acc, &at)]))
    });
    let out = over(&mut f, &|f, i, j| {
        let value = f.at(acc, &[i.clone(), j.clone()]);
        Stmt::store(c, vec![i, j], value)
    });
    let body = Stmt::Seq(vec![zero, Stmt::serial(p, k.into(), step), out]);
    f.push(Stmt::Allocate { buffer: acc, body: Box::new(body) });
    f.finish()
}

fn arguments(tiles: i64, k: i64) -> Vec<EvalArg> {
    let fill = |shape: &[i64], step: f32| {
        let count = shape.iter().product::<i64>();
        let values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) * step).collect();
        EvalArg::Tensor(EvalTensor::f32(shape, &values))
    };
    let columns = tiles * LANES;
    vec![fill(&[ROWS, k], 0.01), fill(&[k, columns], 0.02), fill(&[ROWS, columns], 0.0)]
}

#[test]
fn the_micro_kernel_is_right() {
    check(&micro_kernel(4, 33), &arguments(4, 33));
}

/// The instructions of the innermost loop, the only backward jump of the kernel.
fn inner_loop(asm: &str) -> Vec<&str> {
    let lines: Vec<&str> = asm.lines().collect();
    for (end, line) in lines.iter().enumerate() {
        if let Some(target) = line.trim().strip_prefix('j').and_then(|l| l.split_once('\t')) {
            let label = format!("{}:", target.1);
            if let Some(start) = lines[..end].iter().position(|l| l.starts_with(&label)) {
                return lines[start + 1..=end].to_vec();
            }
        }
    }
    vec![]
}

#[test]
fn accumulators_stay_in_registers() {
    if CpuTarget::host().vector_bytes < 64 {
        return skip::skip("AVX-512");
    }
    let kernel = Kernel::new(&micro_kernel(4, 256), OptLevel::O3);
    let body = inner_loop(kernel.raw_asm());
    let fmas = body.iter().filter(|l| l.contains("vfmadd") && l.contains("zmm")).count();
    assert_eq!(fmas, 24, "{}", kernel.raw_asm());
    let spills = body.iter().filter(|l| l.contains("rsp") || l.contains("rbp")).count();
    assert_eq!(spills, 0, "{}", body.join("\n"));
    println!("{} instructions, compiled in {} us", body.len(), kernel.object.micros);
}

/// `cargo test --release -p reflex-llvm --test matmul -- --ignored --nocapture`
#[test]
#[ignore = "measures speed"]
fn speed() {
    for (tiles, k) in [(4, 256), (4, 512), (2, 256)] {
        let kernel = Kernel::new(&micro_kernel(tiles, k), OptLevel::O3);
        let mut args = arguments(tiles, k);
        let [a, b, c] = &mut args[..] else { unreachable!() };
        let pointer = |t: &mut EvalArg| match t {
            EvalArg::Tensor(t) => t.bytes.as_mut_ptr(),
            EvalArg::Scalar(_) => unreachable!(),
        };
        let (a, b, c) = (pointer(a), pointer(b), pointer(c));
        // SAFETY: the raw entry of three buffers without symbols.
        let raw: extern "C" fn(*mut u8, *mut u8, *mut u8) -> i32 =
            unsafe { std::mem::transmute(kernel.raw()) };
        let mut best = f64::INFINITY;
        for _ in 0..200 {
            let start = Instant::now();
            for _ in 0..100 {
                assert_eq!(raw(a, b, c), 0);
            }
            best = best.min(start.elapsed().as_secs_f64() / 100.0);
        }
        let flops = (2 * ROWS * tiles * LANES * k) as f64;
        let body = inner_loop(kernel.raw_asm());
        println!(
            "6x{} k={k}: {:.1} GFLOP/s, {} instructions in the loop",
            tiles * LANES,
            flops / best / 1e9,
            body.len()
        );
    }
}

/// `cargo test --release -p reflex-llvm --test matmul compile_time -- --ignored --nocapture`
#[test]
#[ignore = "measures time"]
fn compile_time() {
    let target = CpuTarget::host();
    let mut copy = FuncBuilder::new("copy");
    let x = copy.input("x", F, vec![64.into()]);
    copy.output("copy", "y", F, vec![64.into()], |f, i| f.at(x, i));
    let copy = reflex_tir::lower::lower(&copy.finish());
    for (name, func) in [("copy", copy), ("6x64", micro_kernel(4, 256))] {
        for opt in [OptLevel::O0, OptLevel::O3] {
            let best =
                (0..10).map(|_| reflex_llvm::compile(&func, &target, opt).unwrap().micros).min();
            println!("{name} {opt:?}: {} us", best.unwrap());
        }
    }
}
