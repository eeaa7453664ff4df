//! Kernels of every operator by every schedule rule: text in C has the evaluator's bits.
//!
//! In a process of its own, into which no implementation of OpenCL is loaded.
//!
//! Decision: docs/decisions/0099-source-text.md

mod common;
#[path = "common/samples.rs"]
mod samples;

use common::library::Kernels;
use reflex_tir::PrimFunc;
use reflex_tir::eval::{EvalArg, EvalTensor};
use samples::{cpu, printed, samples};

#[test]
fn c_has_the_evaluators_bits() {
    same_bits(32, 0, &["-std=c11", "-O2", "-ffp-contract=off"]);
}

/// Other flags join products and sums, where the text does not say otherwise.
#[test]
fn c_has_them_with_every_optimisation() {
    same_bits(64, 1, &["-std=gnu11", "-O3", "-march=native"]);
}

fn same_bits(bytes: u32, half: usize, flags: &[&str]) {
    let samples = printed(samples(&cpu(bytes), half), |func| {
        reflex_source::c(std::slice::from_ref(func)).map(drop)
    });
    for part in samples.chunks(64) {
        let funcs: Vec<PrimFunc> = part.iter().map(|sample| sample.func.clone()).collect();
        let text = reflex_source::c(&funcs).unwrap_or_else(|e| panic!("{e}"));
        let kernels = Kernels::compile(&text, flags);
        for sample in part {
            let mut args: Vec<EvalArg> = sample.args.iter().cloned().map(EvalArg::Tensor).collect();
            kernels.run(&sample.func.name, &mut args);
            let found: Vec<EvalTensor> = args.iter().map(|a| a.tensor().clone()).collect();
            let of = std::slice::from_ref(&sample.func);
            sample.assert_same("C", &found, &reflex_source::c(of).expect("printed before"));
        }
    }
}
