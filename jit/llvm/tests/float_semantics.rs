//! LLVM gets no licence to change results: it neither contracts, reassociates nor assumes away
//! NaN, infinities or signs of zero, at any level of optimisation.

mod common;

use common::Kernel;
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::OptLevel;
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
