//! LLVM gets no licence to change results: it neither contracts, reassociates nor assumes away
//! NaN, infinities or signs of zero, at any level of optimisation.

mod common;

use common::{Kernel, check};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::script::parse;
use reflex_tir::{DType, Expr, For, ForKind, PrimFunc, Stmt};
use std::collections::BTreeMap;

/// `y[i] = value(a[i], b[i], c[i])` in a vectorized loop of 16.
fn kernel(value: impl Fn(Expr, Expr, Expr) -> Expr) -> PrimFunc {
    let mut f = FuncBuilder::new("kernel");
    let inputs = ["a", "b", "c"].map(|name| f.input(name, DType::F32, vec![16.into()]));
    let y = f.declare_output("y", DType::F32, vec![16.into()]);
    let i = f.func_mut().new_var("i");
    let [a, b, c] = inputs.map(|buffer| f.at(buffer, &[i.into()]));
    let body = Stmt::store(y, vec![i.into()], value(a, b, c));
    f.push(Stmt::For(Box::new(For {
        var: i,
        min: 0.into(),
        extent: 16.into(),
        kind: ForKind::Vectorized,
        annotations: BTreeMap::new(),
        body,
    })));
    f.finish()
}

/// Holds the optimised machine code to as many instructions of each kind.
#[track_caller]
fn holds(func: &PrimFunc, counts: &[(&str, bool)]) {
    let kernel = Kernel::new(func, OptLevel::O3);
    for (instruction, present) in counts {
        let found = kernel.raw_asm().contains(instruction);
        assert_eq!(found, *present, "{instruction} in\n{}", kernel.raw_asm());
    }
}

fn float(value: f64) -> Expr {
    Expr::float(value, DType::F32)
}

#[test]
fn a_product_and_a_sum_are_not_contracted() {
    holds(&kernel(|a, b, c| a * b + c), &[("vmulps", true), ("vaddps", true), ("vfm", false)]);
}

#[test]
fn a_division_does_not_become_a_reciprocal() {
    // 1/3 is not exact; with a licence LLVM multiplies by it.
    holds(&kernel(|a, _, _| a / float(3.0)), &[("vdivps", true), ("vmulps", false)]);
}

#[test]
fn sums_are_not_reassociated() {
    // (a + 1) - 1 is not a; a + b - b is not a.
    holds(&kernel(|a, _, _| a + float(1.0) - float(1.0)), &[("vaddps", true)]);
    let kernel = Kernel::new(&kernel(|a, b, _| a + b.clone() - b), OptLevel::O3);
    assert!(kernel.raw_asm().contains("vsubps"), "{}", kernel.raw_asm());
}

#[test]
fn nan_infinity_and_the_sign_of_zero_are_kept() {
    // a - a is NaN for an infinite a; a * 0 has a's sign; -0 + 0 is +0.
    holds(&kernel(|a, _, _| a.clone() - a), &[("vsubps", true)]);
    holds(&kernel(|a, _, _| a * float(0.0)), &[("vmulps", true)]);
    holds(&kernel(|a, _, _| a + float(0.0)), &[("vaddps", true)]);
}

/// The maximum of `|x|` and a 0 that LLVM finds: written as a choice for NaN and one for the rest, its InstCombine makes
/// `x > 0 ? |x| : 0` of it (19.1.7).
#[test]
fn extrema_of_magnitudes_and_constants_that_llvm_finds() {
    let values =
        [-3.0, 3.0, -0.0, 0.0, f32::NAN, -f32::NAN, f32::INFINITY, -f32::INFINITY, -1e-40, 1e-40];
    let mut x = EvalTensor::zeros(DType::F32, &[16]);
    x.bytes = (0..16).flat_map(|at| values[at % values.len()].to_le_bytes()).collect();
    let args = [EvalArg::Tensor(x), EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[16]))];
    for limit in ["0.0", "-0.0", "1.0", "-1.0"] {
        for magnitude in ["T.fabs(x[i])", "T.float32(0.0) - T.fabs(x[i])", "x[i]"] {
            for operands in [format!("{magnitude}, limit[0]"), format!("limit[0], {magnitude}")] {
                for extremum in ["T.max", "T.min"] {
                    let text = format!(
                        "# from tvm.script import tirx as T\n\n@T.prim_func(s_tir=True)\n\
                         def kernel(x: T.Buffer((16,), \"float32\"), y: T.Buffer((16,), \"float32\")):\n    \
                             limit = T.alloc_local((1,))\n    \
                             limit[0] = T.float32({limit})\n    \
                             for i in T.vectorized(16):\n        \
                                 y[i] = {extremum}({operands})\n"
                    );
                    let func = parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
                    check(&func, &args);
                }
            }
        }
    }
}
