//! GPU functions: blocks and threads in any order give what loops give, and faults of hand-written
//! kernels are found.

mod common;

use arbtest::arbitrary::{Result, Unstructured};
use common::{any_func, property};
use reflex_tir::codegen::GpuTarget;
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval, eval_threads};
use reflex_tir::lower::{lower_gpu, serialise_threads};
use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::script::{parse, print};
use reflex_tir::thread::ThreadAxis;
use reflex_tir::verify::{IrForm, verify, verify_gpu};
use reflex_tir::{DType, IterKind, PrimFunc, Var};

fn gpu() -> GpuTarget {
    GpuTarget::known()[0].clone()
}

/// A kernel of one block of `threads` around `body`, from `x` to `y` of 64 elements.
fn kernel(threads: i64, body: &str) -> PrimFunc {
    let lines: String = body.lines().map(|line| format!("            {line}\n")).collect();
    let text = format!(
        "@T.prim_func(s_tir=True)
def kernel(x: T.Buffer((T.int64(64),), \"float32\"), y: T.Buffer((T.int64(64),), \"float32\")):
    for b in T.thread_binding(T.int64(2), thread=\"blockIdx.x\"):
        s = T.alloc_shared((T.int64(64),))
        for t in T.thread_binding(T.int64({threads}), thread=\"threadIdx.x\"):
{lines}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn arguments() -> Vec<EvalArg> {
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let y = EvalTensor::zeros(DType::F32, &[64]);
    vec![EvalArg::Tensor(EvalTensor::f32(&[64], &x)), EvalArg::Tensor(y)]
}

/// The fault that an evaluation in each order finds, which is the same, without the function.
fn fault(func: &PrimFunc) -> String {
    let faults = ThreadOrder::ALL.map(|order| {
        let failed = eval_threads(func, &mut arguments(), order).expect_err("a planted fault");
        failed.reason.to_string()
    });
    faults[0].clone()
}

fn runs(func: &PrimFunc) -> Vec<f32> {
    assert_eq!(verify_gpu(func, &gpu()), Ok(()), "{}", print(func));
    let mut results = ThreadOrder::ALL.map(|order| {
        let mut args = arguments();
        eval_threads(func, &mut args, order).unwrap_or_else(|e| panic!("{e}\n{}", print(func)));
        args[1].tensor().to_f32()
    });
    let mut args = arguments();
    let serial = serialise_threads(func);
    assert_eq!(verify(&serial, IrForm::Lowered), Ok(()), "{}", print(&serial));
    eval(&serial, &mut args).unwrap_or_else(|e| panic!("{e}\n{}", print(&serial)));
    for result in &results {
        assert_eq!(*result, args[1].tensor().to_f32(), "{}", print(&serial));
    }
    std::mem::take(&mut results[0])
}

const REVERSED: &str = "s[t] = x[b * T.int64(32) + t]
T.tvm_storage_sync(\"shared\")
y[b * T.int64(32) + t] = s[T.int64(31) - t]";

#[test]
fn threads_exchange_by_shared_memory() {
    let y = runs(&kernel(32, REVERSED));
    assert_eq!(y[..3], [31.0, 30.0, 29.0]);
    assert_eq!(y[32..35], [63.0, 62.0, 61.0]);
}

#[test]
fn what_a_thread_keeps_crosses_barriers() {
    let y = runs(&kernel(
        32,
        "a = T.alloc_local((T.int64(2),))
a[T.int64(0)] = x[t]
a[T.int64(1)] = T.float32(0.0)
for k in range(T.int64(3)):
    s[t] = a[T.int64(0)]
    T.tvm_storage_sync(\"shared\")
    r: T.let[T.float32] = s[(t + k) % T.int64(32)]
    T.tvm_storage_sync(\"shared\")
    a[T.int64(1)] = a[T.int64(1)] + r
y[b * T.int64(32) + t] = a[T.int64(1)]",
    ));
    assert_eq!(y[..3], [3.0, 6.0, 9.0]);
    assert_eq!(y[31], 31.0 + 0.0 + 1.0);
}

#[test]
fn a_missing_barrier_is_a_race() {
    let text = REVERSED.replace("T.tvm_storage_sync(\"shared\")\n", "");
    let found = kernel(32, &text);
    assert_eq!(verify_gpu(&found, &gpu()), Ok(()), "only a run shows it");
    let mut args = arguments();
    let order = ThreadOrder::Reverse;
    let why = eval_threads(&found, &mut args, order).unwrap_err().reason.to_string();
    // The last thread of the last block runs first: nothing has written what it reads.
    assert_eq!(why, "undefined: `s`[0] is read before written");
    let twice = "s[t] = x[t]
s[T.int64(31) - t] = x[t]
y[b * T.int64(32) + t] = s[t]";
    let why = fault(&kernel(32, twice));
    assert!(why.starts_with("race on `s`"), "{why}");
    let by_index = eval_threads(&kernel(32, twice), &mut arguments(), ThreadOrder::Index);
    assert_eq!(
        by_index.unwrap_err().reason.to_string(),
        "race on `s`[16]: written by thread [15] of block [0] in the store to `s`, \
         written by thread [16] of block [0] in the store to `s`, with no barrier between"
    );
}

#[test]
fn a_read_races_with_a_later_write() {
    let why = fault(&kernel(
        32,
        "s[t] = x[t]
T.tvm_storage_sync(\"shared\")
y[b * T.int64(32) + t] = s[T.int64(31) - t]
s[t] = T.float32(0.0)",
    ));
    assert!(why.starts_with("race on `s`"), "{why}");
    let looped = "for k in range(T.int64(2)):
    s[t] = x[t] + T.float32(1.0)
    T.tvm_storage_sync(\"shared\")
    y[b * T.int64(32) + t] = s[T.int64(31) - t]";
    let why = fault(&kernel(32, looped));
    assert!(why.starts_with("race on `s`"), "the next iteration writes: {why}");
}

#[test]
fn blocks_of_one_launch_share_no_results() {
    let why = fault(&kernel(32, "y[t] = x[t]"));
    assert!(why.starts_with("race on `y`"), "{why}");
    assert!(why.contains("of block [0]") && why.contains("of block [1]"), "{why}");
}

#[test]
fn a_barrier_that_some_threads_miss_is_found() {
    let parted = kernel(
        32,
        "if t < T.int64(7):
    s[t] = x[t]
    T.tvm_storage_sync(\"shared\")
y[b * T.int64(32) + t] = x[t]",
    );
    let faults = verify_gpu(&parted, &gpu()).unwrap_err();
    assert!(faults[0].what.contains("a barrier in an `if` that differs"), "{faults:?}");
    let why = fault(&parted);
    assert!(why.starts_with("barrier: what decides whether a barrier is reached is"), "{why}");
    let longer = kernel(
        32,
        "for k in range(t):
    T.tvm_storage_sync(\"shared\")
y[b * T.int64(32) + t] = x[t]",
    );
    assert!(fault(&longer).contains("thread [1] of block"), "{}", fault(&longer));
}

#[test]
fn unwritten_memory_is_found() {
    let shared = "y[b * T.int64(32) + t] = s[t]";
    assert!(fault(&kernel(32, shared)).ends_with("is read before written"));
    let local = "a = T.alloc_local((T.int64(2),))
a[T.int64(0)] = x[t]
T.tvm_storage_sync(\"shared\")
y[b * T.int64(32) + t] = a[T.int64(1)]";
    assert_eq!(fault(&kernel(32, local)), "undefined: `a`[1] is read before written");
}

#[test]
fn a_warp_waits_for_itself_alone() {
    let body = |n: i64| {
        format!(
            "s[t] = x[t]
T.tvm_storage_sync(\"warp\")
y[b * T.int64(32) + t % T.int64(32)] = s[T.int64({n}) - t]"
        )
    };
    let y = runs(&kernel(32, &body(31)));
    assert_eq!(y[..2], [31.0, 30.0]);
    let across = body(63).replace("y[b * T.int64(32) + t % T.int64(32)]", "y[t]");
    let across = kernel(64, &across);
    let index = eval_threads(&across, &mut arguments(), ThreadOrder::Index).unwrap_err();
    assert!(index.reason.to_string().contains("read before written"), "{index}");
}

#[test]
fn limits_are_checked() {
    let faults = |func: &PrimFunc| {
        let all = verify_gpu(func, &gpu()).unwrap_err();
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let wide = kernel(2048, "y[T.int64(0)] = x[T.int64(0)]");
    assert_eq!(faults(&wide), "launch `b`: 2048 threads in a block, of at most 1024");
    let text = print(&kernel(32, REVERSED));
    let large =
        parse(&text.replace("alloc_shared((T.int64(64),))", "alloc_shared((T.int64(65536),))"));
    let most = "launch `b`: 262144 bytes of shared memory, of at most 166912";
    assert_eq!(faults(&large.unwrap()), most);
    let twice = text.replace("thread=\"blockIdx.x\"", "thread=\"threadIdx.x\"");
    assert!(faults(&parse(&twice).unwrap()).contains("`t` is bound to threadIdx.x inside"));
    let host = "@T.prim_func(s_tir=True)
def f(x: T.Buffer((T.int64(4),), \"float32\"), y: T.Buffer((T.int64(4),), \"float32\")):
    for i in range(T.int64(4)):
        y[i] = x[i]
";
    let text = faults(&parse(host).unwrap());
    assert!(text.contains("the host reads `x`") && text.contains("the host writes `y`"), "{text}");
}

/// Binds the loops of a block: some of those that choose a result fused and split, or one thread.
fn bind(u: &mut Unstructured<'_>, s: &mut Schedule, block: &str) -> Result<()> {
    let before = s.clone();
    let factor = u.int_in_range(1..=9)?;
    let wide = u.int_in_range(1..=3)?;
    if grid(s, block, wide, factor).is_err() {
        *s = before;
        let one = s.add_unit_loop(block, 0).and_then(|inner| {
            s.bind(inner, ThreadAxis::ThreadX)?;
            let outer = s.add_unit_loop(block, 0)?;
            s.bind(outer, ThreadAxis::BlockX)
        });
        one.unwrap_or_else(|e| panic!("{e}\n{}", print(s.func())));
    }
    Ok(())
}

fn grid(
    s: &mut Schedule,
    block: &str,
    wide: usize,
    factor: i64,
) -> std::result::Result<(), ScheduleError> {
    let spatial =
        s.get_block(block)?.iters.iter().take_while(|i| i.kind == IterKind::Spatial).count();
    let loops: Vec<Var> = s.get_loops(block)?.into_iter().take(spatial.min(wide)).collect();
    let fused = s.fuse_all(&loops)?;
    s.bind_grid(fused, factor).map(|_| ())
}

#[test]
fn any_binding_means_what_loops_mean() {
    property(96, |u| {
        let func = any_func(u)?;
        let mut s = Schedule::new(func.clone());
        for block in s.blocks() {
            bind(u, &mut s, &block)?;
        }
        let lowered = lower_gpu(s.func());
        let what = || format!("{}\n{}", print(&func), print(&lowered));
        assert_eq!(verify_gpu(&lowered, &gpu()), Ok(()), "{}", what());
        let serial = serialise_threads(&lowered);
        assert_eq!(verify(&serial, IrForm::Lowered), Ok(()), "{}", print(&serial));
        let symbol = u.int_in_range(0..=9)?;
        let args = reflex_tir::fuzzgen::arguments(u, &func, symbol)?;
        let run = |f: &PrimFunc, order: Option<ThreadOrder>| {
            let mut args = args.clone();
            let done = match order {
                Some(order) => eval_threads(f, &mut args, order),
                None => eval(f, &mut args),
            };
            done.map(|()| args).map_err(|e| e.reason.to_string())
        };
        let want = run(&reflex_tir::lower::lower(&func), None);
        for order in ThreadOrder::ALL {
            assert!(run(&lowered, Some(order)) == want, "{order:?}\n{}", what());
        }
        assert!(run(&serial, None) == want, "{}", print(&serial));
        Ok(())
    });
}
