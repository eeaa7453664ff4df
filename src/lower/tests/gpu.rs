//! Kernels by GPU schedules: blocks and threads in every order, and the same ones serialised, compute
//! what the naive kernels do.

mod common;

use common::{Case, assert_close, cases, noise, to_literal, to_tensor, tolerance};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{ConvAttrs, FuncData, Literal, Module, Op, ReduceKind, TensorType};
use reflex_lower::legalize::Legalized;
use reflex_lower::pipeline::{
    DeviceTarget, NoObserver, Options, WithoutCode, lower_for_gpu, run_graph,
};
use reflex_lower::precision::Precision;
use reflex_lower::schedule::{Decision, Scheduled, schedule_for};
use reflex_tir::codegen::{CpuTarget, GpuTarget, Target};
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval, eval_threads};
use reflex_tir::lower::{lower_gpu, serialise};
use reflex_tir::verify::verify_gpu;
use reflex_tir::{DType, Expr, PrimFunc, script};

fn gpu() -> GpuTarget {
    GpuTarget::known()[0].clone()
}

/// Whether a rule kept the order of every sum.
fn exact(scheduled: &Scheduled) -> bool {
    scheduled.decisions.iter().all(|d| !REASSOCIATED.contains(&d.rule))
}

/// The rules that do not.
const REASSOCIATED: [&str; 7] = [
    "rows",
    "row reduction",
    "split reduction",
    "gemv",
    "gemm, split-k",
    "gemm, tensor cores",
    "gemm, warp-specialised",
];

/// Runs a kernel by loops, or by threads in an order.
fn run(
    func: &PrimFunc,
    inputs: &[Literal],
    outs: &[Literal],
    order: Option<ThreadOrder>,
) -> Vec<Literal> {
    let mut args: Vec<EvalArg> = inputs.iter().map(|l| EvalArg::Tensor(to_tensor(l))).collect();
    args.extend(outs.iter().map(|l| EvalArg::Tensor(EvalTensor::zeros(l.dtype(), l.shape()))));
    let done = match order {
        Some(order) => eval_threads(func, &mut args, order),
        None => eval(func, &mut args),
    };
    done.unwrap_or_else(|e| panic!("{e}\n{}", script::print(func)));
    args[inputs.len()..].iter().map(|a| to_literal(a.tensor())).collect()
}

fn check(case: &Case, kernel: &Legalized, orders: &[ThreadOrder]) -> Scheduled {
    let all: Vec<_> = orders.iter().copied().map(Some).chain([None]).collect();
    let scheduled = check_on(&gpu(), case, kernel, &all);
    if scheduled.decisions.iter().any(|d| d.rule == "gemm, tensor cores") {
        // Warpgroups multiply there, where extents are not known.
        check_on(&GpuTarget::known()[1], case, kernel, &[Some(ThreadOrder::Reverse)]);
    }
    scheduled
}

/// Runs a kernel by threads in some orders, or by loops: all have the same bits, near those of the naive kernel.
fn check_on(
    gpu: &GpuTarget,
    case: &Case,
    kernel: &Legalized,
    orders: &[Option<ThreadOrder>],
) -> Scheduled {
    let want = case.expected();
    let inputs: Vec<Literal> = kernel.inputs.iter().map(|n| case.args[*n].clone()).collect();
    let naive = run(&reflex_tir::lower::lower(&kernel.func), &inputs, &want, None);
    let scheduled = schedule_for(&kernel.func, &Target::Gpu(gpu.clone()));
    let lowered = lower_gpu(&scheduled.func);
    let text = || format!("{}: {scheduled}\n{}", case.name, script::print(&lowered));
    assert_eq!(verify_gpu(&lowered, gpu), Ok(()), "{}", text());
    let allowed = if exact(&scheduled) { 0.0 } else { tolerance(&want) };
    let serial = serialise(&lowered);
    let result = |order: &Option<ThreadOrder>| match order {
        Some(_) => run(&lowered, &inputs, &want, *order),
        None => run(&serial, &inputs, &want, None),
    };
    let results: Vec<Vec<Literal>> = orders.iter().map(result).collect();
    for result in &results {
        assert_close(&case.name, result, &naive, allowed);
        let bits = |list: &[Literal]| list.iter().map(|l| l.bytes().to_vec()).collect::<Vec<_>>();
        assert!(bits(result) == bits(&results[0]), "{}", text());
    }
    scheduled
}

#[test]
fn symbolic_extents_have_schedules_too() {
    let mut seen = 0;
    // A recurrent layer launches its stages for each step, which takes the evaluator seconds.
    for case in cases().into_iter().filter(|case| !case.name.starts_with("rnn")) {
        let Some(kernel) = case.symbolic(&case.expected()) else { continue };
        let scheduled = check(&case, &kernel, &[ThreadOrder::Reverse]);
        let of_stage = |d: &Decision| d.rule == "one thread" && d.stage != "loops";
        assert!(!scheduled.decisions.iter().any(of_stage), "{}: {scheduled}", case.name);
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
}

/// The rules that took the stages of an operator.
fn rules(op: Op, args: Vec<Literal>) -> Vec<&'static str> {
    let case = Case { name: "case".into(), op, args };
    let rules = |s: Scheduled| s.decisions.iter().map(|d| d.rule).collect::<Vec<_>>();
    let taken = rules(check(&case, &case.legalized(&[]), &ThreadOrder::ALL));
    if let Some(kernel) = case.symbolic(&case.expected()) {
        check(&case, &kernel, &[ThreadOrder::Reverse]);
    }
    taken
}

#[test]
fn rows_are_reduced_by_blocks() {
    for (rows, n) in [(3, 64), (1, 65), (5, 300), (2, 1000)] {
        for kind in [ReduceKind::Sum, ReduceKind::Max] {
            let op = Op::Reduce { kind, axes: vec![1], keep_dims: false };
            assert_eq!(rules(op, vec![noise(&[rows, n], 3)]), ["row reduction"], "{rows}, {n}");
        }
        let all = Op::Reduce { kind: ReduceKind::Sum, axes: vec![0, 1], keep_dims: false };
        assert_eq!(rules(all, vec![noise(&[rows, n], 3)]), ["row reduction"]);
        let columns = Op::Reduce { kind: ReduceKind::Sum, axes: vec![0], keep_dims: false };
        assert!(!rules(columns, vec![noise(&[n, rows + 1], 3)]).contains(&"row reduction"));
    }
}

#[test]
fn stages_of_rows_share_a_launch() {
    for (rows_, n) in [(3, 40), (2, 256), (2, 300), (1, 512)] {
        let taken = rules(Op::Softmax { axis: 1, log: false }, vec![noise(&[rows_, n], 3)]);
        assert!(taken.iter().all(|rule| *rule == "rows"), "{rows_}, {n}: {taken:?}");
    }
}

#[test]
fn long_reductions_to_few_results_are_split() {
    let product =
        |m: i64, n: i64, k: i64| rules(Op::MatMul, vec![noise(&[m, k], 3), noise(&[k, n], 4)]);
    assert_eq!(product(1, 30, 128), ["split reduction"]);
    assert_eq!(product(3, 33, 70), ["split reduction"]);
    assert_eq!(product(33, 40, 130), ["gemm, split-k"]);
    let columns = Op::Reduce { kind: ReduceKind::Max, axes: vec![0], keep_dims: false };
    assert_eq!(rules(columns, vec![noise(&[100, 50], 3)]), ["split reduction"]);
}

#[test]
fn few_rows_read_weights_once() {
    let types = [DType::F32, DType::F16, DType::BF16];
    let taken = |args: [Literal; 2], dtype| {
        let typed = |values: Literal| match dtype {
            DType::F32 => values,
            dtype => halves(&values, dtype),
        };
        let case = Case { name: "case".into(), op: Op::MatMul, args: args.map(typed).to_vec() };
        check(&case, &case.legalized(&[]), &ThreadOrder::ALL).decisions[0].rule
    };
    // Weights contiguous along columns, and along steps: whole vectors, tails, several rows, and parts.
    for (n, [rows, columns, steps]) in
        [[1, 64, 128], [3, 65, 66], [8, 40, 112], [1, 16, 2100]].into_iter().enumerate()
    {
        let dtype = types[n % types.len()];
        let args = [noise(&[rows, steps], 3), noise(&[steps, columns], 4)];
        assert_eq!(taken(args, dtype), "gemv", "{rows}, {columns}, {steps}");
        let dtype = types[(n + 1) % types.len()];
        let args = [noise(&[columns, steps], 3), noise(&[steps, rows], 4)];
        assert_eq!(taken(args, dtype), "gemv", "{rows}, {columns}, {steps}");
    }
    let args = [noise(&[3, 1, 70], 3), noise(&[3, 70, 64], 4)];
    assert_eq!(taken(args, DType::F32), "gemv", "a batch");
}

#[test]
fn columns_enough_for_a_thread_each_keep_the_order_of_sums() {
    let args = vec![noise(&[108, 1, 33], 3), noise(&[108, 33, 129], 4)];
    let case = Case { name: "columns".into(), op: Op::MatMul, args };
    let orders = [Some(ThreadOrder::Reverse)];
    let scheduled = check_on(&gpu(), &case, &case.legalized(&[]), &orders);
    assert_eq!(scheduled.decisions[0].rule, "gemv, in order");
}

#[test]
fn contractions_are_tiled() {
    for (batch, m, n, k) in [(1, 64, 64, 16), (1, 70, 33, 20), (2, 32, 40, 17)] {
        let args = vec![noise(&[batch, m, k], 3), noise(&[batch, k, n], 4)];
        assert_eq!(rules(Op::MatMul, args), ["gemm"], "{m}, {n}, {k}");
    }
    let geometry = ConvAttrs {
        strides: vec![1, 1],
        pads_begin: vec![1, 1],
        pads_end: vec![1, 1],
        dilations: vec![1, 1],
        groups: 1,
    };
    let args = vec![noise(&[1, 3, 7, 9], 3), noise(&[33, 3, 3, 3], 4)];
    assert!(rules(Op::Conv(geometry), args).contains(&"gemm"));
}

#[test]
fn contractions_of_halves_run_on_tensor_cores() {
    for (dtype, [batch, m, n, k]) in [(DType::F16, [1, 70, 33, 20]), (DType::BF16, [2, 32, 40, 80])]
    {
        let args = [&[batch, m, k][..], &[batch, k, n]]
            .map(|shape| halves(&noise(shape, m as u64), dtype));
        assert_eq!(rules(Op::MatMul, args.to_vec()), ["gemm, tensor cores"], "{dtype}");
    }
    let geometry = ConvAttrs {
        strides: vec![2, 1],
        pads_begin: vec![1, 1],
        pads_end: vec![1, 1],
        dilations: vec![1, 1],
        groups: 1,
    };
    let args =
        [&[1, 3, 7, 9][..], &[17, 3, 3, 3]].map(|shape| halves(&noise(shape, 3), DType::F16));
    assert!(rules(Op::Conv(geometry), args.to_vec()).contains(&"gemm, tensor cores"));
}

#[test]
fn precision_bf16_rounds_operands_for_tensor_cores() {
    let kernel = kernel_of(Precision::Bf16, "").unwrap();
    let lowered = lower_for_gpu(&kernel, &gpu());
    assert!(script::print(&lowered).contains("T.tile_mma"), "{}", script::print(&lowered));
    assert_eq!(verify_gpu(&lowered, &gpu()), Ok(()));
    let inputs = [noise(&[40, 24], 1), noise(&[24, 48], 2)];
    let outs = [noise(&[40, 48], 3)];
    let rounded = inputs.each_ref().map(|values| {
        let bits = halves(values, DType::BF16);
        let numbers = bits.bytes().as_chunks::<2>().0.iter().map(|b| half::bf16::from_le_bytes(*b));
        Literal::from_f32(values.shape().to_vec(), &numbers.map(f32::from).collect::<Vec<_>>())
    });
    let float32 = kernel_of(Precision::F32, "").unwrap();
    let exact = run(&serialise(&lower_for_gpu(&float32, &gpu())), &rounded, &outs, None);
    let found = run(&serialise(&lowered), &inputs, &outs, None);
    assert_close("bf16", &found, &exact, 2e-5);
    let other = run(&lowered, &inputs, &outs, Some(ThreadOrder::Reverse));
    assert!(found[0].bytes() == other[0].bytes());
}

/// The values in a type of 16 bits.
fn halves(values: &Literal, dtype: DType) -> Literal {
    let numbers = values.bytes().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
    let bits = |x: f32| match dtype {
        DType::F16 => half::f16::from_f32(x).to_bits(),
        _ => half::bf16::from_f32(x).to_bits(),
    };
    let bytes: Vec<u8> = numbers.flat_map(|x| bits(x).to_le_bytes()).collect();
    Literal::new(dtype, values.shape().to_vec(), std::sync::Arc::new(bytes)).expect("it fits")
}

#[test]
fn transposes_go_through_shared_memory() {
    for (shape, axes) in [
        (vec![32, 64], vec![1, 0]),
        (vec![40, 70], vec![1, 0]),
        (vec![2, 33, 17], vec![0, 2, 1]),
        (vec![17, 3, 40], vec![2, 1, 0]),
    ] {
        assert_eq!(rules(Op::Transpose(axes), vec![noise(&shape, 3)]), ["transpose"]);
    }
}

#[test]
fn every_operator_has_a_gpu_schedule_that_keeps_its_meaning() {
    let (mut stages, mut single) = (0, vec![]);
    for case in cases() {
        let scheduled = check(&case, &case.legalized(&[]), &ThreadOrder::ALL);
        stages += scheduled.decisions.len();
        let one = scheduled.decisions.iter().filter(|d| d.rule == "one thread");
        single.extend(one.map(|d| format!("{}: {:?}", case.name, d.refused)));
    }
    assert!(stages > 300, "{stages}");
    assert!(single.len() < stages / 20, "{} of {stages} by one thread: {single:#?}", single.len());
}

/// The only kernel of a module of one matmul, through the graph passes with the traces of a text.
fn scheduled_by(traces: &str) -> Result<PrimFunc, String> {
    kernel_of(Precision::F32, traces)
}

/// The same in a precision.
fn kernel_of(precision: Precision, traces: &str) -> Result<PrimFunc, String> {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let of = |shape: [i64; 2]| TensorType::new(DType::F32, shape.map(Expr::i64).to_vec());
    let (x, w) = (b.param("x", of([40, 24])), b.param("w", of([24, 48])));
    let y = b.emit1(Op::MatMul, &[x, w]).unwrap();
    b.finish(vec![y], vec!["y".into()]);
    let mut options = Options::new(CpuTarget::host());
    options.device = Some(DeviceTarget { gpu: gpu(), without_code: WithoutCode::Refuse });
    options.precision = precision;
    if !traces.is_empty() {
        options.pipeline.add_traces(traces)?;
    }
    let module = run_graph(module, &options, &NoObserver).map_err(|e| e.to_string())?;
    let kernels = module.funcs.into_iter().filter_map(|(_, func)| match func {
        FuncData::Prim(kernel) => Some(kernel),
        FuncData::Graph(_) => None,
    });
    Ok(kernels.last().expect("a kernel"))
}

#[test]
fn traces_bind_threads_and_are_checked_as_rules_are() {
    let head = "def mat_mul(sch):\n  b = sch.get_block('matmul')\n  i, j, k = sch.get_loops(b)\n";
    let tiled = format!(
        "{head}  i0, i1 = sch.split(i, [None, 8])\n  j0, j1 = sch.split(j, [None, 16])\n  \
         sch.reorder(i0, j0, i1, j1, k)\n  sch.bind(i0, 'blockIdx.y')\n  sch.bind(j0, 'blockIdx.x')\n  \
         sch.bind(i1, 'threadIdx.y')\n  sch.bind(j1, 'threadIdx.x')\n"
    );
    let inputs = [noise(&[40, 24], 1), noise(&[24, 48], 2)];
    let outs = [noise(&[40, 48], 3)];
    let naive = scheduled_by("def mat_mul(sch): pass");
    let refused = naive.expect_err("no thread");
    assert!(refused.contains("the schedule of mat_mul, on "), "{refused}");
    let kernel = scheduled_by(&tiled).unwrap();
    let lowered = lower_for_gpu(&kernel, &gpu());
    assert!(
        script::print(&lowered).contains("thread=\"threadIdx.x\""),
        "{}",
        script::print(&lowered)
    );
    let want = run(&serialise(&lowered), &inputs, &outs, None);
    for order in [ThreadOrder::Index, ThreadOrder::Reverse] {
        let seen = run(&lowered, &inputs, &outs, Some(order));
        assert!(seen[0].bytes() == want[0].bytes());
    }
    let many = format!("{head}  ij = sch.fuse(i, j)\n  sch.bind(ij, 'threadIdx.x')\n");
    let refused = scheduled_by(&many).expect_err("too many threads");
    assert!(refused.contains("the schedule of mat_mul, on "), "{refused}");
}
