//! Loops whose tiles are copied as boxes: one meaning in all orders of threads and as loops of a CPU, and what cannot be
//! split into copies and products is refused.

#[path = "common/mma_kernel.rs"]
mod mma_kernel;

use mma_kernel::{cluster_kernel, mma_arguments, pipelined_kernel};
use reflex_tir::PrimFunc;
use reflex_tir::box_copy::BoxCopy;
use reflex_tir::codegen::GpuTarget;
use reflex_tir::eval::{EvalArg, ThreadOrder, eval_threads};
use reflex_tir::launch::Launch;
use reflex_tir::lower::{lower_boxes, serialise};
use reflex_tir::pipeline::Pipeline;
use reflex_tir::script::{parse, print};
use reflex_tir::verify::{IrForm, verify, verify_gpu};

fn kernel(text: &str) -> PrimFunc {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn bits(func: &PrimFunc, run: impl FnOnce(&mut [EvalArg])) -> Vec<u32> {
    let mut args: Vec<EvalArg> = mma_arguments(func, 1).into_iter().map(EvalArg::Tensor).collect();
    run(&mut args);
    let results = args[2].tensor().to_f32();
    results.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

/// The result of float64 arithmetic, of the same arguments without special values.
fn product(func: &PrimFunc, [a, b]: [bool; 2]) -> (Vec<f32>, Vec<f64>) {
    let mut args: Vec<EvalArg> = mma_arguments(func, 1).into_iter().map(EvalArg::Tensor).collect();
    eval_threads(func, &mut args, ThreadOrder::Index).unwrap();
    let [x, w, y] = [0, 1, 2].map(|n| args[n].tensor().to_f32());
    let (n, k) = (8, 136);
    let m = y.len() / (2 * n);
    let at = |transposed: bool, side: usize, i: usize, s: usize| {
        if transposed { s * side + i } else { i * k + s }
    };
    let mut want = vec![];
    for matrix in 0..2 {
        for i in 0..m {
            for j in 0..n {
                let term = |s: usize| {
                    let (x, w) =
                        (x[matrix * m * k + at(a, m, i, s)], w[matrix * n * k + at(b, n, j, s)]);
                    f64::from(x) * f64::from(w)
                };
                want.push((0..k).map(term).sum());
            }
        }
    }
    (y, want)
}

#[test]
fn threads_in_every_order_and_loops_have_the_same_bits() {
    let hopper = &GpuTarget::known()[1];
    for (dtype, a, b, text) in [
        ("float16", false, true, pipelined_kernel as fn(&str, [bool; 2], usize) -> String),
        ("bfloat16", true, false, pipelined_kernel),
        ("float16", true, true, cluster_kernel),
    ] {
        let text = text(dtype, [a, b], 3);
        let func = kernel(&text);
        assert_eq!(verify_gpu(&func, hopper), Ok(()), "{text}");
        assert_eq!(print(&kernel(&print(&func))), print(&func), "it is printed as it is read");
        let serial = serialise(&func);
        assert_eq!(verify(&serial, IrForm::Lowered), Ok(()), "{}", print(&serial));
        let loops = lower_boxes(&func);
        let want = bits(&func, |args| eval_threads(&loops, args, ThreadOrder::Reverse).unwrap());
        let orders = if a { &ThreadOrder::ALL[..1] } else { &ThreadOrder::ALL[..] };
        for order in orders.iter().copied() {
            let found = bits(&func, |args| eval_threads(&func, args, order).unwrap());
            assert_eq!(found, want, "{order:?}\n{text}");
        }
        let (found, want) = product(&func, [a, b]);
        let near = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() < 1e-3;
        assert!(found.iter().zip(&want).all(near), "{text}");
    }
    assert!(
        verify_gpu(&kernel(&pipelined_kernel("float16", [true, true], 3)), &GpuTarget::known()[0])
            .is_err()
    );
}

/// Blocks of a cluster copy parts of what is the same for all of them, and do the same iterations.
#[test]
fn clusters_share_what_is_the_same() {
    let text = cluster_kernel("float16", [false, true], 3);
    let of = |text: &str| {
        let func = kernel(text);
        let launch = Launch::all(&func).remove(0);
        Pipeline::of(&func, &launch).map(|p| p.expect("a pipeline"))
    };
    let found = of(&text).expect("it may be split");
    assert_eq!((found.cluster, found.multicast.len(), found.maps.len()), (2, 1, 2), "{text}");
    let rows = |map: &BoxCopy| map.dims[1].count;
    assert_eq!(
        found.maps.iter().map(rows).collect::<Vec<_>>(),
        [128, 32],
        "of the own rows, and a half"
    );
    assert!(verify_gpu(&kernel(&text), &GpuTarget::known()[0]).is_err(), "before Hopper");
    // What depends on the block by a variable is the block's own.
    let columns = "1, 0, 64, 136, 8, k * 64, 64";
    assert!(text.contains(columns), "{text}");
    let own = text.replace(columns, "1, cx * 8, 64, 136, 8, k * 64, 64");
    assert_eq!(of(&own).expect("it may be split").multicast, []);
    for (from, to, why) in [
        ("T.serial(T.int64(3)", "T.serial(3 + cx", "differs between blocks of a cluster"),
        (
            "T.thread_binding(T.int64(2), thread=\"cluster",
            "T.thread_binding(T.int64(9), thread=\"cluster",
            "other than 1 to 8",
        ),
    ] {
        assert!(text.contains(from), "{from}\n{text}");
        let error = of(&text.replace(from, to)).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn loops_that_cannot_be_split_are_refused() {
    let text = pipelined_kernel("float16", [true, true], 3);
    let copies = "                    if ty < 1 and tx < 1:\n";
    let products = "                    for kk in T.unroll(T.int64(4)):\n";
    for (from, to, why) in [
        (
            "annotations={\"reflex.pipeline_stages\": 3}",
            "annotations={}",
            "outside of a pipelined loop",
        ),
        ("pipeline_stages\": 3", "pipeline_stages\": 1", "2 to 16 stages"),
        ("pipeline_stages\": 3", "pipeline_stages\": 16", "bytes of shared memory"),
        ("ty < 1 and tx < 1", "k < 2 and tx < 1", "under a condition"),
        ("ty < 1 and tx < 1", "ty < 1 and tx > 0", "under a condition"),
        ("u[0], w, 8, 1", "u[64], w, 8, 1", "do not fill `u`"),
        ("s[4096], x", "s[0], x", "do not fill `s`"),
        ("s[4096], x", "s[4104], x", "not constant"),
        ("1, 64, 64, 136", "1, tx, 64, 136", "differs in a block"),
        ("104, 1, 64, 64, 136", "104 + k, 1, 64, 64, 136", "differs between iterations"),
        ("104, 1, 64, 64, 136", "104, 2, 64, 64, 136", "rows are not 64 neighbours"),
        ("k * 64, 64, 2", "k * 64, 512, 2", "512 elements along a dimension"),
        (copies, &format!("                    acc[0] = acc[1]\n{copies}"), "does more than copy"),
        (
            products,
            &format!("                    y[0, 0, 0] = acc[1]\n{products}"),
            "does more than copy",
        ),
        (
            "                for n in T.unroll(T.int64(8)):\n                    if",
            "                acc[0] = T.Cast(\"float32\", s[0, 0])\n                for n in T.unroll(T.int64(8)):\n                    if",
            "outside of pipelined loops",
        ),
        (
            "                for n in T.unroll(T.int64(8)):\n                    if",
            "                acc[0] = y[0, 0, 0]\n                for n in T.unroll(T.int64(8)):\n                    if",
            "results that are read",
        ),
        (
            "        u = T.alloc_shared",
            "        v = T.alloc_shared((T.int64(64),))\n        u = T.alloc_shared",
            "shared memory that is no tile",
        ),
    ] {
        assert!(text.contains(from), "{from}\n{text}");
        let changed = text.replace(from, to);
        let found = match parse(&changed) {
            Ok(func) => {
                let faults = verify_gpu(&func, &GpuTarget::known()[1]).expect_err(why);
                faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
            }
            Err(error) => error.to_string(),
        };
        assert!(found.contains(why), "{why}: {found}\n{changed}");
    }
}
