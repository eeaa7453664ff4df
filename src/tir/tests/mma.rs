//! Products of a warp and of a warpgroup on tensor cores: one meaning in all orders of threads, and as integer arithmetic on a CPU;
//! what is no product of a warp is refused.

#[path = "common/mma_kernel.rs"]
mod mma_kernel;

use mma_kernel::{mma_arguments, mma_kernel, wgmma_kernel};
use reflex_tir::PrimFunc;
use reflex_tir::codegen::GpuTarget;
use reflex_tir::eval::{EvalArg, ThreadOrder, eval, eval_threads};
use reflex_tir::lower::serialise;
use reflex_tir::script::{parse, print};
use reflex_tir::verify::{IrForm, verify, verify_gpu};

fn kernel(text: &str) -> PrimFunc {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Bits of the results, every NaN the same.
fn bits(args: &[EvalArg]) -> Vec<u32> {
    let results = args[3].tensor().to_f32();
    results.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

fn arguments(func: &PrimFunc, seed: u64) -> Vec<EvalArg> {
    mma_arguments(func, seed).into_iter().map(EvalArg::Tensor).collect()
}

/// Threads in all orders, and the CPU's loops, have the same bits.
fn has_one_meaning(text: &str, seeds: std::ops::Range<u64>) {
    let func = kernel(text);
    assert_eq!(verify_gpu(&func, &GpuTarget::known()[1]), Ok(()), "{}", print(&func));
    assert_eq!(print(&kernel(&print(&func))), print(&func), "it is printed as it is read");
    let serial = serialise(&func);
    assert_eq!(verify(&serial, IrForm::Lowered), Ok(()), "{}", print(&serial));
    for seed in seeds {
        let mut args = arguments(&func, seed);
        eval(&serial, &mut args).unwrap_or_else(|e| panic!("{e}\n{}", print(&serial)));
        let wanted = bits(&args);
        for order in ThreadOrder::ALL {
            let mut args = arguments(&func, seed);
            eval_threads(&func, &mut args, order)
                .unwrap_or_else(|e| panic!("{e}\n{}", print(&func)));
            assert_eq!(bits(&args), wanted, "{seed} {order:?}\n{text}");
        }
    }
}

const BOTH: [bool; 2] = [false, true];

#[test]
fn threads_in_every_order_and_loops_have_the_same_bits() {
    for name in ["float16", "bfloat16"] {
        for (a, b) in BOTH.into_iter().flat_map(|a| BOTH.map(|b| (a, b))) {
            has_one_meaning(&mma_kernel(name, [a, b]), 1..6);
        }
    }
    for (name, transposed) in [("float16", [false, true]), ("bfloat16", [true, false])] {
        has_one_meaning(&wgmma_kernel(name, transposed, 24), 2..3);
    }
}

#[test]
fn a_sum_is_near_that_of_float64() {
    for name in ["float16", "bfloat16"] {
        let func = kernel(&mma_kernel(name, [false, true]));
        let mut args = arguments(&func, 1);
        eval_threads(&func, &mut args, ThreadOrder::Index).unwrap();
        let list = |n: usize| args[n].tensor().to_f32();
        let (x, w, z, y) = (list(0), list(1), list(2), list(3));
        for i in 0..16 {
            for j in 0..16 {
                let products = (0..16).map(|k| f64::from(x[i * 16 + k]) * f64::from(w[k * 16 + j]));
                let want = products.sum::<f64>() + f64::from(z[i * 16 + j]);
                let error = (f64::from(y[i * 16 + j]) - want).abs();
                assert!(error < 1e-5, "{name} {i} {j}: {want}, {error}");
            }
        }
    }
}

#[test]
fn what_is_no_product_of_a_warp_is_refused() {
    let text = mma_kernel("float16", [false, false]);
    let line = "            T.tile_mma(acc[0], s[0], 24, False, u[0], 24, False, t)\n";
    assert!(text.contains(line), "{text}");
    let call = line.trim();
    for (other, why) in [
        (
            format!("            if t < T.int64(16):\n                {call}\n"),
            "that differs between threads",
        ),
        (line.replace("s[0]", "s[t]"), "operands of a product that differ in a warp"),
        (line.replace("s[0]", "x[0]"), "not in shared memory"),
        (line.replace(", t)", ", t + T.int64(1))"), "not those along threadIdx.x"),
        (line.replace("acc[0]", "acc[t]"), "a sum of a warp at a place that differs"),
    ] {
        let func = kernel(&text.replace(line, &other));
        let faults = verify_gpu(&func, &GpuTarget::known()[0]).expect_err(why);
        assert!(faults.iter().any(|f| f.to_string().contains(why)), "{why}: {faults:?}");
    }
    // Types and the sum's place are looked at where a text is read.
    for (from, to, why) in [
        ("u[0]", "z[0]", "multiply two float16 or two bfloat16"),
        ("acc[0]", "y[0]", "the sum of tensor cores is a thread's own"),
    ] {
        let fault = parse(&text.replace(line, &line.replace(from, to))).expect_err(why);
        assert!(fault.to_string().contains(why), "{fault}");
    }
    let wide = text.replace("T.thread_binding(T.int64(32)", "T.thread_binding(T.int64(64)");
    let faults = verify_gpu(&kernel(&wide), &GpuTarget::known()[0]).expect_err("two warps");
    assert!(faults.iter().any(|f| f.to_string().contains("threadIdx.x")), "{faults:?}");
}

#[test]
fn a_warpgroup_adds_products_of_panels() {
    for transposed in BOTH.into_iter().flat_map(|a| BOTH.map(|b| [a, b])) {
        // Two panels of columns and a part of a third.
        let columns = 136;
        let func = kernel(&wgmma_kernel("float16", transposed, columns));
        let mut args = arguments(&func, 1);
        eval_threads(&func, &mut args, ThreadOrder::Index).unwrap();
        let list = |n: usize| args[n].tensor().to_f32();
        let (x, w, z, y) = (list(0), list(1), list(2), list(3));
        let at = |transposed: bool, width: usize, row: usize, step: usize| match transposed {
            false => row * 64 + step,
            true => step * width + row,
        };
        for (i, j) in (0..64).flat_map(|i| (0..columns as usize).map(move |j| (i, j))) {
            let product = |k: usize| {
                let (a, b) = (x[at(transposed[0], 64, i, k)], w[at(transposed[1], 192, j, k)]);
                f64::from(a) * f64::from(b)
            };
            let sum = i * columns as usize + j;
            let want = (0..64).map(product).sum::<f64>() + f64::from(z[sum]);
            let error = (f64::from(y[sum]) - want).abs();
            assert!(error < 1e-4, "{transposed:?} {i} {j}: {want}, {error}");
        }
    }
}

#[test]
fn what_is_no_product_of_a_warpgroup_is_refused() {
    let text = wgmma_kernel("float16", [false, true], 64);
    let faults = |text: &str, gpu: usize| {
        let faults = verify_gpu(&kernel(text), &GpuTarget::known()[gpu]).expect_err(text);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert!(faults(&text, 0).contains("a warpgroup, which cuda:sm_80 does not have"));
    let narrow = text.replace("T.thread_binding(T.int64(128)", "T.thread_binding(T.int64(32)");
    assert!(faults(&narrow, 1).contains("not those along threadIdx.x, 128"));
    let odd = text.replace("T.tile_wgmma(64,", "T.tile_wgmma(60,");
    let fault = parse(&odd).expect_err("60 columns").to_string();
    assert!(fault.contains("8, 16, .. or 256 columns, not 60"), "{fault}");
}
