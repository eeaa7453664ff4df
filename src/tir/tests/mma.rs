//! Products of a warp on tensor cores: one meaning in all orders of threads, and as integer arithmetic on a CPU;
//! what is no product of a warp is refused.

#[path = "common/mma_kernel.rs"]
mod mma_kernel;

use mma_kernel::{mma_bits, mma_kernel};
use reflex_tir::codegen::GpuTarget;
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval, eval_threads};
use reflex_tir::lower::serialise;
use reflex_tir::script::{parse, print};
use reflex_tir::verify::{IrForm, verify, verify_gpu};
use reflex_tir::{DType, PrimFunc};

fn kernel(text: &str) -> PrimFunc {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn arguments(dtype: DType, seed: u64) -> Vec<EvalArg> {
    let tensor =
        |dtype, bytes: Vec<u8>| EvalArg::Tensor(EvalTensor { dtype, shape: vec![256], bytes });
    let halves = |seed| mma_bits(seed).0.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let sums = mma_bits(seed).1.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    vec![
        tensor(dtype, halves(seed)),
        tensor(dtype, halves(seed + 100)),
        tensor(DType::F32, sums),
        tensor(DType::F32, vec![0; 1024]),
    ]
}

/// Bits of the results, every NaN the same.
fn bits(args: &[EvalArg]) -> Vec<u32> {
    let results = args[3].tensor().to_f32();
    results.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

#[test]
fn threads_in_every_order_and_loops_have_the_same_bits() {
    for (dtype, name) in [(DType::F16, "float16"), (DType::BF16, "bfloat16")] {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            let func = kernel(&mma_kernel(name, transposed));
            assert_eq!(verify_gpu(&func, &GpuTarget::known()[0]), Ok(()), "{}", print(&func));
            assert_eq!(print(&kernel(&print(&func))), print(&func), "it is printed as it is read");
            let serial = serialise(&func);
            assert_eq!(verify(&serial, IrForm::Lowered), Ok(()), "{}", print(&serial));
            for seed in 1..6 {
                let mut args = arguments(dtype, seed);
                eval(&serial, &mut args).unwrap_or_else(|e| panic!("{e}\n{}", print(&serial)));
                let wanted = bits(&args);
                for order in ThreadOrder::ALL {
                    let mut args = arguments(dtype, seed);
                    eval_threads(&func, &mut args, order)
                        .unwrap_or_else(|e| panic!("{e}\n{}", print(&func)));
                    assert_eq!(bits(&args), wanted, "{name} {transposed:?} {seed} {order:?}");
                }
            }
        }
    }
}

#[test]
fn a_sum_is_near_that_of_float64() {
    for (dtype, name) in [(DType::F16, "float16"), (DType::BF16, "bfloat16")] {
        let func = kernel(&mma_kernel(name, [false, true]));
        let mut args = arguments(dtype, 1);
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
