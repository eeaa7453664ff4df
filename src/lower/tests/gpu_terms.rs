//! Contractions of float32 by split-bf16 on a GPU: where the rule applies. What they compute is in the workspace's
//! `tests/gpu_terms.rs` and in `jit/llvm/tests/ptx_runs.rs`: the evaluator takes minutes.

mod common;

use common::{Case, noise};
use reflex_graph::Op;
use reflex_lower::precision::SPLIT_BF16_ATTR;
use reflex_lower::schedule::{Scheduled, schedule_for};
use reflex_tir::codegen::{GpuTarget, Target};

fn hopper() -> GpuTarget {
    GpuTarget::known()[1].clone()
}

/// The kernel of a product, with so many products of terms.
fn scheduled(case: &Case, products: &str, gpu: &GpuTarget) -> Scheduled {
    let mut func = case.legalized(&[]).func;
    func.attrs.insert(SPLIT_BF16_ATTR.to_owned(), products.to_owned());
    schedule_for(&func, &Target::Gpu(gpu.clone()))
}

#[test]
fn the_precision_and_the_gpu_decide() {
    let case = |k| Case {
        name: "matmul".into(),
        op: Op::MatMul,
        args: vec![noise(&[2, 64, k], 3), noise(&[2, k, 64], 4)],
    };
    let rules = |case: &Case, products: &str, gpu: &GpuTarget| -> Vec<&str> {
        scheduled(case, products, gpu).decisions.iter().map(|d| d.rule).collect()
    };
    let large = case(512);
    assert_eq!(rules(&large, "6", &hopper()), ["gemm, terms"]);
    assert_eq!(rules(&large, "6", &GpuTarget::known()[0]), ["gemm"]);
    assert_eq!(rules(&case(128), "6", &hopper()), ["gemm"], "short sums");
    let plain = schedule_for(&large.legalized(&[]).func, &Target::Gpu(hopper()));
    assert_eq!(plain.decisions[0].rule, "gemm", "precision f32");
}
