//! Loops that are split into a producer and consumers compute what the evaluator of the sequential loop computes, bit by
//! bit, in several orders of warps; the interpreter finds each mistake in their protocol.

#[path = "common/gpu.rs"]
mod gpu;
#[path = "common/interpret.rs"]
mod interpret;
#[path = "../../../src/tir/tests/common/mma_kernel.rs"]
mod mma_kernel;

use gpu::gpus;
use interpret::{elements, interpreted, try_interpreted};
use mma_kernel::{cluster_kernel, mma_arguments, pipelined_kernel};
use reflex_llvm::nvptx::compile;
use reflex_ptx::Order;
use reflex_tir::PrimFunc;
use reflex_tir::codegen::{DeviceCode, GpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval_threads};

/// As rules schedule it and passes lower it.
const LOWERED: &str =
    include_str!("../../../tests/filetests/lower/gpu_warp_specialised_lowered.py");
const ORDERS: [Order; 4] = [Order::Index, Order::Reverse, Order::Seeded(3), Order::Seeded(8)];

fn hopper() -> GpuTarget {
    gpus().into_iter().find(|gpu| gpu.name == "cuda:sm_90a").expect("it is known")
}

fn parse(text: &str) -> PrimFunc {
    reflex_tir::script::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn code(func: &PrimFunc, opt: OptLevel) -> DeviceCode {
    compile(func, &hopper(), opt).unwrap_or_else(|e| panic!("{e}"))
}

fn evaluated(func: &PrimFunc, args: &[EvalTensor]) -> Vec<u64> {
    let mut evaluated: Vec<EvalArg> = args.iter().cloned().map(EvalArg::Tensor).collect();
    eval_threads(func, &mut evaluated, ThreadOrder::Index).unwrap_or_else(|e| panic!("{e}"));
    let found = elements(evaluated.last().expect("a result").tensor());
    assert!(found.iter().filter(|bits| **bits != u64::MAX).count() > found.len() / 2, "numbers");
    found
}

#[test]
fn both_parts_together_have_the_evaluators_bits() {
    for (dtype, transposed, stages) in [
        ("bfloat16", [false, true], 2),
        ("float16", [false, false], 3),
        ("bfloat16", [true, false], 4),
        ("float16", [true, true], 2),
    ] {
        let func = parse(&pipelined_kernel(dtype, transposed, stages));
        let args = mma_arguments(&func, 1);
        let wanted = evaluated(&func, &args);
        for opt in [OptLevel::O0, OptLevel::O3] {
            let code = code(&func, opt);
            for order in ORDERS {
                let found = elements(&interpreted(&func, &code, &args, order));
                assert_eq!(found, wanted, "{dtype} {transposed:?} {opt:?} {order:?}\n{}", code.ptx);
            }
        }
    }
}

/// Of the tiles of a cluster that has several for each block, in its order; some of them lie beyond the ends.
#[test]
fn scheduled_tiles_have_the_evaluators_bits() {
    let text = &LOWERED[LOWERED.find("@T.prim_func").expect("a kernel")..];
    let grid = "T.thread_binding(T.int64(66), thread=\"blockIdx.x\")";
    assert!(text.contains(grid) && text.contains("(T.int64(13) - bx)"), "{text}");
    let one = grid.replace("66", "1");
    let text = text.replace(grid, &one);
    let text = text.replace("- bx)", "- T.int64(13))").replace("= bx +", "= T.int64(13) +");
    let func = parse(&text);
    let args = mma_arguments(&func, 1);
    let wanted = evaluated(&func, &args);
    assert!(
        wanted.iter().filter(|bits| **bits != 0).count() > 2 * 128 * 256,
        "a tile of each block and a part"
    );
    let code = code(&func, OptLevel::O3);
    for instruction in [
        "wgmma.wait_group.sync.aligned 4;",
        "setmaxnreg.inc.sync.aligned.u32 232;",
        ".multicast::cluster",
    ] {
        assert!(code.ptx.contains(instruction), "{}", code.ptx);
    }
    let found = elements(&interpreted(&func, &code, &args, Order::Seeded(1)));
    let other = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
    assert_eq!(other, None, "{}", code.ptx);
}

/// Blocks of a cluster copy halves of the columns' tile for each other.
#[test]
fn clusters_have_the_evaluators_bits() {
    for (dtype, transposed, stages) in [
        ("bfloat16", [false, false], 2),
        ("float16", [true, true], 3),
        ("bfloat16", [true, false], 4),
    ] {
        let func = parse(&cluster_kernel(dtype, transposed, stages));
        let args = mma_arguments(&func, 1);
        let wanted = evaluated(&func, &args);
        for opt in [OptLevel::O0, OptLevel::O3] {
            let code = code(&func, opt);
            for part in [".reqnctapercluster 2, 1, 1\n", ".multicast::cluster ", "%clusterid.x"] {
                assert!(code.ptx.contains(part), "{part}: {}", code.ptx);
            }
            for order in ORDERS {
                let found = elements(&interpreted(&func, &code, &args, order));
                assert_eq!(found, wanted, "{dtype} {transposed:?} {opt:?} {order:?}\n{}", code.ptx);
            }
        }
    }
}

/// Each mistake in the protocol of a cluster is a fault, or gives another result.
#[test]
fn mistakes_between_blocks_of_a_cluster_are_found() {
    let func = parse(&cluster_kernel("bfloat16", [false, true], 2));
    let args = mma_arguments(&func, 1);
    let good = code(&func, OptLevel::O3);
    let wanted = evaluated(&func, &args);
    assert!(try_interpreted(&func, &good, &args, Order::Index).is_ok());
    let (begin, end) =
        good.ptx.split_at(good.ptx.rfind("barrier.cluster.arrive").expect("at the end"));
    let last = end
        .replace("barrier.cluster.arrive.release;", "")
        .replace("barrier.cluster.wait.acquire;", "");
    let first = begin.replace("barrier.cluster.arrive.release;", "bar.sync 0;");
    let first = first.replace("barrier.cluster.wait.acquire;", "");
    for (what, ptx) in [
        ("a block ends while others use its memory", format!("{begin}{last}")),
        ("barrier objects of others are not there yet", format!("{first}{end}")),
        ("a copy to one block alone", good.ptx.replace("], 3;", "], 1;")),
        ("a stage is empty when one block has said so", {
            good.ptx.replace("mapa.shared::cluster.u32 there, ", "mov.b32 there, ")
        }),
        ("both blocks copy the same half", good.ptx.replace("%cluster_ctaid.x", "%ctaid.y")),
        (
            "no order between blocks",
            good.ptx.replace("barrier.cluster.arrive.release", "barrier.cluster.arrive.relaxed"),
        ),
        ("clusters of one block", good.ptx.replace(".reqnctapercluster 2", ".reqnctapercluster 1")),
    ] {
        assert_ne!(ptx, good.ptx, "{what}");
        // An operand less.
        let ptx = match what {
            "a stage is empty when one block has said so" => without_last_of_moves(&ptx),
            _ => ptx,
        };
        let code = DeviceCode { ptx, ..good.clone() };
        let mut found = false;
        for order in ORDERS {
            let result = try_interpreted(&func, &code, &args, order);
            found |= result.is_err() || elements(&result.expect("no fault")) != wanted;
        }
        assert!(found, "{what}");
    }
}

/// `mov` instead of `mapa`, whose last operand it does not have.
fn without_last_of_moves(ptx: &str) -> String {
    let line = |line: &str| match line.contains("mov.b32 there, ") {
        true => format!("{};\n", line.rsplit_once(',').map_or(line, |(kept, _)| kept)),
        false => format!("{line}\n"),
    };
    ptx.lines().map(line).collect()
}

/// Each mistake in the protocol is a fault, or gives another result.
#[test]
fn mistakes_in_the_protocol_are_found() {
    let func = parse(&pipelined_kernel("bfloat16", [false, true], 2));
    let args = mma_arguments(&func, 1);
    let good = code(&func, OptLevel::O3);
    let wanted = evaluated(&func, &args);
    let bytes = (128 + 64) * 64 * 2;
    let expects = format!(", {bytes};");
    for (what, from, to) in [
        ("the producer waits for the other phase", "xor.b32", "or.b32"),
        ("fewer bytes are expected", expects.as_str(), ", 16384;"),
        (
            "nobody says that bytes come",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, ",
            "mbarrier.arrive.shared::cta.b64 _, ",
        ),
        (
            "no arrival at an empty stage",
            "@p mbarrier.arrive.shared::cta.b64 _",
            "@!p mbarrier.arrive.shared::cta.b64 _",
        ),
        (
            "products are not waited for before their stage is empty",
            "wgmma.wait_group.sync.aligned 4;",
            "wgmma.wait_group.sync.aligned 8;",
        ),
        (
            "results are not waited for",
            "wgmma.wait_group.sync.aligned 0;",
            "wgmma.wait_group.sync.aligned 4;",
        ),
        ("barrier objects are not there yet", "bar.sync \t0;", ""),
        ("no swizzling", "Bytes128", "None"),
        ("a box of more rows", "128", "136"),
    ] {
        let mut code = good.clone();
        let mut change = |map: &mut reflex_ptx::TensorMap| match what {
            "no swizzling" => map.swizzle = reflex_ptx::Swizzle::None,
            "a box of more rows" => map.extents[1] += 8,
            _ => {}
        };
        if !["no swizzling", "a box of more rows"].contains(&what) {
            assert!(code.ptx.contains(from), "{what}: {}", code.ptx);
            code.ptx = code.ptx.replace(from, to);
        }
        let mut found = false;
        for order in ORDERS {
            let result = interpret::try_with_maps(&func, &code, &args, order, &mut change);
            found |= result.is_err() || elements(&result.expect("no fault").0) != wanted;
        }
        assert!(found, "{what}");
    }
    assert!(try_interpreted(&func, &good, &args, Order::Index).is_ok());
}
