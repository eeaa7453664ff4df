//! PTX computes what the evaluator of GPU functions computes, bit by bit: an interpreter runs it, in
//! several orders of threads, on values of every kind.

#[path = "common/gpu.rs"]
mod gpu;
#[path = "common/interpret.rs"]
mod interpret;
#[path = "../../../src/tir/tests/common/mma_kernel.rs"]
mod mma_kernel;

use gpu::{REVERSED, corpus, gpus, kernel};
use interpret::{arguments, elements, interpreted, try_interpreted};
use mma_kernel::{mma_arguments, mma_kernel, wgmma_kernel};
use reflex_llvm::nvptx::compile;
use reflex_ptx::Order;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{EvalArg, ThreadOrder, eval_threads};
use reflex_tir::script::print;

/// Without it the comparison below could compare nothing.
#[test]
fn another_instruction_gives_other_bits() {
    let func = kernel("float32", "float32", REVERSED);
    let args = arguments(&func);
    let mut code = compile(&func, &gpus()[0], OptLevel::O3).expect("code");
    let found = elements(&interpreted(&func, &code, &args, Order::Index));
    for (instruction, other) in [("add.rn.f32", "sub.rn.f32"), ("mul.rn.f32", "mul.rz.f32")] {
        assert!(code.ptx.contains(instruction), "{}", code.ptx);
        let whole = std::mem::take(&mut code.ptx);
        code.ptx = whole.replace(instruction, other);
        assert_ne!(elements(&interpreted(&func, &code, &args, Order::Index)), found, "{other}");
        code.ptx = whole;
    }
}

#[test]
fn ptx_has_the_evaluators_bits() {
    let corpus = corpus();
    assert!(corpus.len() > 200, "{}", corpus.len());
    for func in corpus {
        let args = arguments(&func);
        let mut evaluated: Vec<EvalArg> = args.iter().cloned().map(EvalArg::Tensor).collect();
        eval_threads(&func, &mut evaluated, ThreadOrder::Index)
            .unwrap_or_else(|e| panic!("{e}\n{}", print(&func)));
        let wanted = elements(evaluated.last().expect("an output").tensor());
        for gpu in gpus() {
            for opt in [OptLevel::O0, OptLevel::O3] {
                let code = compile(&func, &gpu, opt).unwrap_or_else(|e| panic!("{e}"));
                for order in [Order::Index, Order::Reverse, Order::Seeded(7)] {
                    let found = elements(&interpreted(&func, &code, &args, order));
                    assert_eq!(
                        found,
                        wanted,
                        "{} {opt:?}\n{}\n{}",
                        gpu.name,
                        print(&func),
                        code.ptx
                    );
                }
            }
        }
    }
}

#[test]
fn tensor_cores_have_the_evaluators_bits() {
    for name in ["float16", "bfloat16"] {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            let text = mma_kernel(name, transposed);
            has_the_evaluators_bits(&text, 1..6, &["mma.sync.aligned.m16n8k16"]);
            let text = wgmma_kernel(name, transposed, 24);
            has_the_evaluators_bits(&text, 2..3, &["wgmma.mma_async.sync.aligned.m64n24k16"]);
        }
    }
    // Several panels of columns.
    let text = wgmma_kernel("float16", [false, true], 136);
    has_the_evaluators_bits(&text, 3..4, &["wgmma.mma_async.sync.aligned.m64n136k16"]);
}

/// Kernels as rules schedule them and passes lower them: copies are on their way while tensor cores multiply.
#[test]
fn pipelined_products_have_the_evaluators_bits() {
    for (text, instructions) in [
        (lowered(WARPS, 0), ["mma.sync.aligned.m16n8k16", "cp.async.wait_group 2"]),
        (
            lowered(WARPGROUPS, 0),
            ["wgmma.mma_async.sync.aligned.m64n64k16", "cp.async.wait_group 4"],
        ),
        (
            lowered(WARPGROUPS, 1),
            ["wgmma.mma_async.sync.aligned.m64n64k16", "cp.async.wait_group 4"],
        ),
    ] {
        has_the_evaluators_bits(&text, 2..3, &instructions);
    }
}

/// Products of float32 by terms; where operands are infinite or tiny, sums in float32.
#[test]
fn products_of_terms_have_the_evaluators_bits() {
    let instructions = ["wgmma.mma_async.sync.aligned.m64n64k16", "cvt.rn.bf16x2.f32"];
    has_the_evaluators_bits(&lowered(TERMS, 0), 1..2, &instructions);
    has_the_evaluators_bits(&lowered(TERMS, 1), 2..3, &instructions);
}

const TERMS: &str = include_str!("../../../tests/filetests/lower/gpu_terms_lowered.py");
const WARPS: &str = include_str!("../../../tests/filetests/lower/gpu_tensor_core_lowered.py");
const WARPGROUPS: &str = include_str!("../../../tests/filetests/lower/gpu_wgmma_lowered.py");

/// The kernel in a file; of warpgroups, whose blocks are many, the first block alone, or the `last` one, which is not
/// whole.
fn lowered(file: &str, last: i64) -> String {
    let mut text = file[file.find("@T.prim_func").expect("a kernel")..].to_owned();
    for (extent, axis, name) in
        [(11, "blockIdx.y", "by"), (6, "blockIdx.y", "by"), (13, "blockIdx.x", "bx")]
    {
        let of = |n| format!("T.thread_binding(T.int64({n}), thread=\"{axis}\")");
        if text.contains(&of(extent)) {
            let first = format!("T.int64({}) *", last * (extent - 1));
            text = text.replace(&of(extent), &of(1)).replace(&format!("{name} *"), &first);
        }
    }
    text
}

/// The interpreter sees it where threads do not wait long enough.
#[test]
fn products_and_copies_that_nobody_waits_for_are_found() {
    let hopper = &gpus()[1];
    for (file, from, to) in [
        (WARPGROUPS, "cp.async.wait_group 4", "cp.async.wait_group 5"),
        (WARPGROUPS, "fence.proxy.async.shared::cta;", ""),
        (WARPGROUPS, "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 4;"),
        (WARPGROUPS, "bar.sync \t0;", ""),
        (WARPS, "cp.async.wait_group 2", "cp.async.wait_group 3"),
        (WARPS, "bar.sync \t0;", ""),
    ] {
        let func = reflex_tir::script::parse(&lowered(file, 0)).expect("it was printed");
        let args = mma_arguments(&func, 2);
        let mut code = compile(&func, hopper, OptLevel::O3).expect("code");
        let wanted = elements(&interpreted(&func, &code, &args, Order::Seeded(3)));
        assert!(code.ptx.contains(from), "{from}: {}", code.ptx);
        code.ptx = code.ptx.replace(from, to);
        let found = try_interpreted(&func, &code, &args, Order::Seeded(3));
        assert!(found.is_err() || elements(&found.expect("no fault")) != wanted, "{from}");
    }
}

/// The code of a product, in which some instructions are, has the evaluator's bits.
fn has_the_evaluators_bits(text: &str, seeds: std::ops::Range<u64>, instructions: &[&str]) {
    let hopper = gpus().into_iter().find(|gpu| gpu.name == "cuda:sm_90a").expect("it is known");
    let func = reflex_tir::script::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for seed in seeds {
        let args = mma_arguments(&func, seed);
        let mut evaluated: Vec<EvalArg> = args.iter().cloned().map(EvalArg::Tensor).collect();
        eval_threads(&func, &mut evaluated, ThreadOrder::Index)
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        let wanted = elements(evaluated.last().expect("a result").tensor());
        for opt in [OptLevel::O0, OptLevel::O3] {
            let code = compile(&func, &hopper, opt).unwrap_or_else(|e| panic!("{e}"));
            let there = instructions.iter().all(|instruction| code.ptx.contains(instruction));
            assert!(there, "{}", code.ptx);
            let found = elements(&interpreted(&func, &code, &args, Order::Reverse));
            assert_eq!(found, wanted, "{seed} {opt:?}\n{text}\n{}", code.ptx);
        }
    }
}
