//! A compiled function answers as the graph evaluator does: passes, fusion, planning and bytecode
//! together, with the loop IR's evaluator instead of machine code.

mod harness;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness::{agree, f32s, i64s, tensor};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, ConvAttrs, Literal, Loop, Module, Node, Op, PoolAttrs, PoolKind, ReduceKind,
    TensorType, Unary, Value,
};
use reflex_lower::ErrorKind;
use reflex_lower::compile::{Toolchain, compile};
use reflex_lower::kernel_cache::{self, KernelCache};
use reflex_lower::pipeline::{NoObserver, Observer, Options, StageOutput, run_bytecode, run_graph};
use reflex_tir::abi::raw_signature;
use reflex_tir::codegen::{Codegen, CpuTarget, KernelTier, ObjectFile, Request, Response};
use reflex_tir::{DType, Expr};

fn f32_type(shape: Vec<Expr>) -> TensorType {
    TensorType::new(DType::F32, shape)
}

fn binary(b: &mut FuncBuilder<'_>, f: Binary, x: Value, y: Value) -> Value {
    b.emit1(Op::Binary(f), &[x, y]).unwrap()
}

fn unary(b: &mut FuncBuilder<'_>, f: Unary, x: Value) -> Value {
    b.emit1(Op::Unary(f), &[x]).unwrap()
}

/// A layer with a symbolic batch: matmul, bias, activation, residual, sum over the rows.
fn layer(module: &mut Module) {
    let mut b = FuncBuilder::new(module, "main");
    let n = Expr::var(b.sym("n"));
    let x = b.param("x", f32_type(vec![n, Expr::i64(20)]));
    let w = b.constant(f32s(&[20, 20], 1));
    let bias = b.constant(f32s(&[20], 2));
    let y = b.emit1(Op::MatMul, &[x, w]).unwrap();
    let y = binary(&mut b, Binary::Add, y, bias);
    let y = unary(&mut b, Unary::Tanh, y);
    let y = binary(&mut b, Binary::Add, y, x);
    let axes = vec![1];
    let s = b.emit1(Op::Reduce { kind: ReduceKind::Mean, axes, keep_dims: true }, &[y]).unwrap();
    let z = binary(&mut b, Binary::Sub, y, s);
    let soft = b.emit1(Op::Softmax { axis: 1, log: false }, &[z]).unwrap();
    b.finish(vec![soft, y], vec!["soft".into(), "y".into()]);
}

#[test]
fn a_layer_runs_at_every_batch() {
    let mut module = Module::default();
    layer(&mut module);
    for n in [1, 3, 8] {
        agree(&module, &[f32s(&[n, 20], 7)]);
    }
}

#[test]
fn epilogues_join_their_product() {
    let mut module = Module::default();
    layer(&mut module);
    let kernels = harness::kernels(&module);
    assert!(kernels.contains(&"fused_mat_mul_add_tanh_add".to_string()), "{kernels:?}");
}

/// A tree sum of chains of choices by the columns of `x`.
fn choices(b: &mut FuncBuilder<'_>, columns: &[Value], terms: &[usize]) -> Value {
    if let [term] = terms {
        let mut value = b.constant(f32s(&[], *term as u64));
        for n in 0..5 {
            let limit = b.constant(f32s(&[], (7 * term + n) as u64));
            let passed = binary(b, Binary::LessEqual, columns[(term + n) % columns.len()], limit);
            let other = b.constant(f32s(&[], (term + n + 1) as u64));
            value = b.emit1(Op::Where, &[passed, value, other]).unwrap();
        }
        return value;
    }
    let (low, high) = terms.split_at(terms.len() / 2);
    let (low, high) = (choices(b, columns, low), choices(b, columns, high));
    binary(b, Binary::Add, low, high)
}

#[test]
fn sums_of_many_choices_are_cut_into_full_kernels() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let n = Expr::var(b.sym("n"));
    let x = b.param("x", f32_type(vec![n.clone(), 3.into()]));
    let column = |b: &mut FuncBuilder<'_>, at: i64| {
        let (begin, extent) = (vec![0.into(), at.into()], vec![n.clone(), 1.into()]);
        b.emit1(Op::Slice { begin, shape: extent, stride: vec![1, 1] }, &[x]).unwrap()
    };
    let columns = [0, 1, 2].map(|at| column(&mut b, at));
    let y = choices(&mut b, &columns, &(0..128).collect::<Vec<usize>>());
    b.finish(vec![y], vec!["y".into()]);
    // 128 times 10 operators and 127 sums: four parts of 351, one of them with the sums of all.
    assert_eq!(harness::kernels(&module).len(), 4);
    agree(&module, &[f32s(&[5, 3], 7)]);
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let mut module = Module::default();
    layer(&mut module);
    let error = harness::run(&module, &[f32s(&[3, 21], 7)]).unwrap_err();
    assert!(error.contains("param=x"), "{error}");
    let error = harness::run(&module, &[i64s(&[2, 20], &[0; 40])]).unwrap_err();
    assert!(error.contains("float32"), "{error}");
}

#[test]
fn symbolic_views_compute_their_extents() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let m = Expr::var(b.sym("m"));
    let x = b.param("x", f32_type(vec![m.clone()]));
    let z = b.param("z", f32_type(vec![m.clone() * 2]));
    let y = b.emit1(Op::Concat { axis: 0 }, &[x, z]).unwrap();
    let three = b.emit1(Op::Reshape(vec![Expr::i64(3), m]), &[y]).unwrap();
    let e = unary(&mut b, Unary::Exp, three);
    b.finish(vec![e, three, x], vec!["e".into(), "three".into(), "x".into()]);
    agree(&module, &[f32s(&[4], 1), f32s(&[8], 2)]);
    let error = harness::run(&module, &[f32s(&[4], 1), f32s(&[9], 2)]).unwrap_err();
    assert!(error.contains("param=z"), "{error}");
}

#[test]
fn a_batch_norm_disappears_into_its_convolution() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let n = Expr::var(b.sym("n"));
    let x = b.param("x", f32_type(vec![n, 3.into(), 6.into(), 6.into()]));
    let w = b.constant(f32s(&[5, 3, 3, 3], 1));
    let (scale, shift) = (b.constant(f32s(&[5, 1, 1], 2)), b.constant(f32s(&[1, 5, 1, 1], 3)));
    let attrs = ConvAttrs {
        strides: vec![1, 2],
        pads_begin: vec![1, 1],
        pads_end: vec![1, 0],
        dilations: vec![1, 1],
        groups: 1,
    };
    let y = b.emit1(Op::Conv(attrs), &[x, w]).unwrap();
    let y = binary(&mut b, Binary::Mul, y, scale);
    let y = binary(&mut b, Binary::Add, y, shift);
    let y = unary(&mut b, Unary::Sigmoid, y);
    b.finish(vec![y], vec!["y".into()]);
    assert_eq!(harness::kernels(&module), ["fused_conv_sigmoid"]);
    agree(&module, &[f32s(&[2, 3, 6, 6], 9)]);
}

#[test]
fn a_transposed_convolution_without_overlap_is_a_product() {
    for (kernel, strides) in
        [(vec![2, 2], vec![2, 2]), (vec![3, 2], vec![3, 2]), (vec![4], vec![4])]
    {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let rank = kernel.len();
        let n = Expr::var(b.sym("n"));
        let extents = [vec![n, 3.into()], vec![Expr::i64(5); rank]].concat();
        let x = b.param("x", f32_type(extents));
        let w = b.constant(f32s(&[&[3, 4], &kernel[..]].concat(), 1));
        let bias = b.constant(f32s(&[4], 2));
        let conv = ConvAttrs {
            strides,
            pads_begin: vec![0; rank],
            pads_end: vec![0; rank],
            dilations: vec![1; rank],
            groups: 1,
        };
        let op = Op::ConvTranspose { conv, output_padding: vec![0; rank] };
        let y = b.emit1(op, &[x, w, bias]).unwrap();
        let y = unary(&mut b, Unary::Tanh, y);
        b.finish(vec![y], vec!["y".into()]);
        let kernels = harness::kernels(&module);
        assert!(kernels.iter().any(|k| k.starts_with("fused_conv") || k == "conv"), "{kernels:?}");
        agree(&module, &[f32s(&[&[2, 3], &vec![5; rank][..]].concat(), 9)]);
    }
}

#[test]
fn a_transposed_convolution_is_a_convolution_by_phases() {
    let cases = [
        (vec![4, 4], vec![2, 2], vec![1, 1], vec![1, 1], vec![0, 0]),
        (vec![4, 6], vec![2, 3], vec![0, 2], vec![1, 0], vec![1, 2]),
        (vec![2, 2], vec![2, 2], vec![0, 1], vec![1, 0], vec![0, 0]),
        (vec![4, 2], vec![2, 1], vec![3, 1], vec![0, 0], vec![0, 0]),
        (vec![16], vec![8], vec![4], vec![4], vec![0]),
        (vec![9], vec![3], vec![1], vec![2], vec![1]),
    ];
    for (kernel, strides, pads_begin, pads_end, output_padding) in cases {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let rank = kernel.len();
        // The extents are symbols too.
        let n = Expr::var(b.sym("n"));
        let mut extents = vec![n, 3.into()];
        extents.extend((0..rank).map(|d| Expr::var(b.sym(format!("d{d}")))));
        let x = b.param("x", f32_type(extents));
        let w = b.constant(f32s(&[&[3, 4], &kernel[..]].concat(), 1));
        let bias = b.constant(f32s(&[4], 2));
        let dilations = vec![1; rank];
        let conv = ConvAttrs { strides, pads_begin, pads_end, dilations, groups: 1 };
        let op = Op::ConvTranspose { conv, output_padding };
        let y = b.emit1(op.clone(), &[x, w, bias]).unwrap();
        let y = unary(&mut b, Unary::Tanh, y);
        b.finish(vec![y], vec!["y".into()]);
        let kernels = harness::kernels(&module);
        assert!(kernels.iter().all(|k| !k.contains("conv_transpose")), "{op:?}: {kernels:?}");
        for extent in [5, 2] {
            agree(&module, &[f32s(&[&[2, 3], &vec![extent; rank][..]].concat(), 9)]);
        }
    }
}

#[test]
fn maxima_over_large_windows_are_taken_axis_by_axis() {
    let cases = [
        (vec![5, 5], vec![1, 1], vec![2, 2], vec![1, 1], false, 2),
        (vec![13, 13], vec![1, 1], vec![6, 6], vec![1, 1], false, 2),
        (vec![7, 9], vec![1, 2], vec![0, 3], vec![2, 1], true, 2),
        (vec![5, 4, 5], vec![1, 1, 1], vec![1, 0, 2], vec![1, 1, 1], false, 3),
        (vec![3, 3], vec![1, 1], vec![1, 1], vec![1, 1], false, 1),
        (vec![5, 1], vec![1, 1], vec![2, 0], vec![1, 1], false, 1),
        (vec![5, 5], vec![5, 5], vec![0, 0], vec![1, 1], false, 1),
    ];
    for (kernel, strides, pads, dilations, ceil, kernels) in cases {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let rank = kernel.len();
        let extents = (0..rank).map(|d| Expr::var(b.sym(format!("d{d}")))).collect::<Vec<_>>();
        let x = b.param("x", f32_type([vec![1.into(), 3.into()], extents].concat()));
        let kind = PoolKind::Max { indices: false };
        let (pads_begin, pads_end) = (pads.clone(), pads);
        let attrs = PoolAttrs { kind, kernel, strides, pads_begin, pads_end, dilations, ceil };
        let y = b.emit1(Op::Pool(attrs.clone()), &[x]).unwrap();
        b.finish(vec![y], vec!["y".into()]);
        let made = harness::kernels(&module);
        let pools = made.iter().filter(|kernel| kernel.starts_with("pool")).count();
        assert_eq!(pools, kernels, "{attrs:?}: {made:?}");
        for extent in [15, 18] {
            let mut shape = vec![1, 3];
            shape.extend((0..rank as i64).map(|d| extent + d));
            agree(&module, &[f32s(&shape, 9)]);
        }
    }
}

#[test]
fn branches_join_values_of_both_sides() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let ty = f32_type(vec![Expr::i64(4)]);
    let x = b.param("x", ty.clone());
    let flag = b.param("flag", TensorType::new(DType::BOOL, vec![]));
    let before = unary(&mut b, Unary::Exp, x);
    b.open();
    let t = binary(&mut b, Binary::Add, before, x);
    let then = b.close(vec![t, before]);
    b.open();
    let e = unary(&mut b, Unary::Neg, before);
    let otherwise = b.close(vec![x, e]);
    let outs = b.bind(Node::If { cond: flag, then, otherwise }, vec![ty.clone(), ty]);
    let y = binary(&mut b, Binary::Mul, outs[0], outs[1]);
    b.finish(vec![y, outs[0]], vec!["y".into(), "first".into()]);
    for flag in [0u8, 1] {
        let flag = tensor(DType::BOOL, &[], vec![flag]);
        agree(&module, &[f32s(&[4], 3), flag]);
    }
}

/// `while i < trips and x[0] < limit { x = x + x; y, z = z, y; scan x }`
fn looping() -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let one = f32_type(vec![Expr::i64(2)]);
    let x = b.param("x", one.clone());
    let z = b.param("z", one.clone());
    let trips = b.param("trips", TensorType::new(DType::I64, vec![]));
    let limit = b.constant(Literal::from_f32(vec![], &[100.0]));
    let count = Expr::var(b.sym("count"));
    let iter = b.body_param("i", TensorType::new(DType::I64, vec![]));
    let cond_in = b.body_param("c", TensorType::new(DType::BOOL, vec![]));
    let carried: Vec<Value> =
        ["x", "y", "z"].map(|n| b.body_param(n, one.clone())).into_iter().collect();
    b.open();
    let next = binary(&mut b, Binary::Add, carried[0], carried[0]);
    let shifted = b.emit1(Op::Cast(DType::F32), &[iter]).unwrap();
    let scan = binary(&mut b, Binary::Add, next, shifted);
    let first = Op::Slice { begin: vec![0.into()], shape: vec![1.into()], stride: vec![1] };
    let first = b.emit1(first, &[next]).unwrap();
    let first = b.emit1(Op::Reshape(vec![]), &[first]).unwrap();
    let go = binary(&mut b, Binary::Less, first, limit);
    let body = b.close(vec![go, next, carried[2], carried[1], scan]);
    let node = Node::Loop(Box::new(Loop {
        max_trips: Some(trips),
        cond: None,
        init: vec![x, x, z],
        iter,
        cond_in,
        carried,
        body,
    }));
    let types = vec![one.clone(), one.clone(), one, f32_type(vec![count, Expr::i64(2)])];
    let outs = b.bind(node, types);
    let sum = Op::Reduce { kind: ReduceKind::Sum, axes: vec![0], keep_dims: false };
    let sum = b.emit1(sum, &[outs[3]]).unwrap();
    let mut results = outs;
    results.push(sum);
    let names = (0..results.len()).map(|n| format!("r{n}")).collect();
    b.finish(results, names);
    module
}

#[test]
fn loops_carry_swap_count_and_stack() {
    let module = looping();
    for trips in [0, 1, 2, 5, 50] {
        let x = Literal::from_f32(vec![2], &[1.5, -2.0]);
        let z = Literal::from_f32(vec![2], &[7.0, 8.0]);
        agree(&module, &[x, z, i64s(&[], &[trips])]);
    }
}

#[test]
fn elements_become_extents() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", f32_type(vec![]));
    let shape = b.param("shape", TensorType::new(DType::I64, vec![Expr::i64(2)]));
    let dims = b.match_shape(shape, "d");
    let y = b.emit1(Op::Broadcast(dims.clone()), &[x]).unwrap();
    let y = unary(&mut b, Unary::Exp, y);
    let rows = b.emit1(Op::Iota { count: dims[0].clone() + 1 }, &[]).unwrap();
    b.finish(vec![y, rows], vec!["y".into(), "rows".into()]);
    let x = Literal::from_f32(vec![], &[0.5]);
    agree(&module, &[x.clone(), i64s(&[2], &[3, 2])]);
    agree(&module, &[x.clone(), i64s(&[2], &[0, 5])]);
    let error = harness::run(&module, &[x, i64s(&[2], &[-1, 5])]).unwrap_err();
    assert!(!error.is_empty());
}

#[test]
fn constants_and_parameters_may_be_results() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", f32_type(vec![Expr::i64(2)]));
    let c = b.constant(f32s(&[3], 1));
    b.finish(vec![c, x, x], vec!["c".into(), "x".into(), "x2".into()]);
    agree(&module, &[f32s(&[2], 5)]);
}

#[test]
fn heavy_work_is_not_repeated() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", f32_type(vec![Expr::i64(8), Expr::i64(1)]));
    let y = b.param("y", f32_type(vec![Expr::i64(8), Expr::i64(9)]));
    let e = unary(&mut b, Unary::Exp, x);
    let z = binary(&mut b, Binary::Mul, e, y);
    b.finish(vec![z], vec!["z".into()]);
    assert_eq!(harness::kernels(&module), ["exp", "mul"]);
    agree(&module, &[f32s(&[8, 1], 1), f32s(&[8, 9], 2)]);
}

#[test]
fn the_arena_is_smaller_than_what_lives_in_it() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", f32_type(vec![Expr::i64(64), Expr::i64(64)]));
    let mut y = x;
    for n in 0..6 {
        let w = b.constant(f32s(&[64, 64], n));
        y = b.emit1(Op::MatMul, &[y, w]).unwrap();
    }
    b.finish(vec![y], vec!["y".into()]);
    // Five inner results of 16 KiB, two of which live at a time.
    assert_eq!(harness::storages(&module), [2 * 16384]);
    agree(&module, &[f32s(&[64, 64], 9)]);
}

#[test]
fn a_view_of_another_size_is_an_error() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let n = Expr::var(b.sym("n"));
    let x = b.param("x", f32_type(vec![n.clone()]));
    let pairs = vec![n.floordiv(2), Expr::i64(2)];
    let y = b.emit1(Op::Reshape(pairs), &[x]).unwrap();
    let y = unary(&mut b, Unary::Exp, y);
    b.finish(vec![y], vec!["y".into()]);
    agree(&module, &[f32s(&[6], 1)]);
    let error = harness::run(&module, &[f32s(&[7], 1)]).unwrap_err();
    assert!(error.contains("reshape"), "{error}");
}

#[test]
fn functions_call_each_other_and_tuples_hold_values() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "halves");
    let n = Expr::var(b.sym("n"));
    let x = b.param("x", f32_type(vec![n.clone()]));
    let (e, s) = (unary(&mut b, Unary::Exp, x), unary(&mut b, Unary::Sin, x));
    let callee = b.finish(vec![e, s], vec!["e".into(), "s".into()]);
    let mut b = FuncBuilder::new(&mut module, "main");
    let m = Expr::var(b.sym("m"));
    let x = b.param("x", f32_type(vec![m.clone()]));
    let double = binary(&mut b, Binary::Add, x, x);
    let ty = f32_type(vec![m]);
    let node = Node::CallFunc { func: callee, args: vec![double] };
    let halves = b.bind(node, vec![ty.clone(), ty.clone()]);
    let sum = binary(&mut b, Binary::Mul, halves[0], halves[1]);
    b.finish(vec![sum, double], vec!["sum".into(), "double".into()]);
    agree(&module, &[f32s(&[5], 1)]);
}

/// A value that a loop reads from outside outlives every iteration, though its last use is early.
#[test]
fn a_loop_keeps_what_it_reads_from_outside() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let ty = f32_type(vec![Expr::i64(32), Expr::i64(32)]);
    let x = b.param("x", ty.clone());
    let trips = b.param("trips", TensorType::new(DType::I64, vec![]));
    let outside = unary(&mut b, Unary::Tanh, x);
    let iter = b.body_param("i", TensorType::new(DType::I64, vec![]));
    let cond_in = b.body_param("c", TensorType::new(DType::BOOL, vec![]));
    let carried = b.body_param("acc", ty.clone());
    b.open();
    let first = b.emit1(Op::MatMul, &[outside, carried]).unwrap();
    let second = b.emit1(Op::MatMul, &[first, first]).unwrap();
    let third = b.emit1(Op::Softmax { axis: 1, log: false }, &[second]).unwrap();
    let body = b.close(vec![cond_in, third]);
    let node = Node::Loop(Box::new(Loop {
        max_trips: Some(trips),
        cond: None,
        init: vec![x],
        iter,
        cond_in,
        carried: vec![carried],
        body,
    }));
    let y = b.bind(node, vec![ty]);
    b.finish(y, vec!["y".into()]);
    agree(&module, &[f32s(&[32, 32], 1), i64s(&[], &[3])]);
}

/// Counts kernel passes, and gives objects without code.
#[derive(Default)]
struct Counting {
    passes: AtomicUsize,
}

impl Observer for Counting {
    fn after(&self, _: &str, _: Duration, result: StageOutput<'_>) {
        let kernel = matches!(result, StageOutput::Kernel(_));
        self.passes.fetch_add(usize::from(kernel), Ordering::Relaxed);
    }
}

impl Codegen for Counting {
    fn compile(&self, request: &Request) -> Response {
        let object = |f| ObjectFile {
            signature: raw_signature(f),
            tier: KernelTier::Optimised,
            elf: vec![1],
            asm: None,
            micros: 0,
        };
        Response::Objects(request.funcs.iter().map(object).collect())
    }
}

#[test]
fn kernels_found_in_the_cache_are_not_scheduled_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = KernelCache::new(dir.path(), Some("none"), kernel_cache::DEFAULT_LIMIT);
    let compiled = |n: u64| {
        let mut module = Module::default();
        layer(&mut module);
        let mut options = Options::new(CpuTarget::host());
        options.cpus[0].target.l2_bytes += n;
        let tools = Counting::default();
        let work = Toolchain {
            codegen: &tools,
            cache: Some(&cache),
            preferred: None,
            observer: &tools,
            progress: &|_| {},
        };
        let report = compile(module, &options, &work).unwrap().report;
        (report.cached, report.generated.len(), tools.passes.into_inner() > 0)
    };
    let (cached, count, scheduled) = compiled(0);
    assert!(cached == 0 && count > 0 && scheduled);
    assert_eq!(compiled(0), (count, 0, false));
    assert_eq!(compiled(1), (0, count, true), "another target");
}

/// Scripts and nodes may call the VM's functions as TVM's own passes do; what the verifier refuses of that is theirs.
#[test]
fn a_program_that_calls_builtins_wrongly_is_refused() {
    let compiled = |call: &str| {
        let text = format!(
            "from tvm.script import ir as I\nfrom tvm.script import relax as R\n\n@I.ir_module\nclass Module:\n    \
             @R.function(pure=False)\n    def main(x: R.Tensor((2,), \"float32\")) -> R.Any:\n        y: R.Any = {call}\n        return y\n"
        );
        let module = reflex_graph::script::parse(&text, "module.py").unwrap();
        let module = run_graph(module, &Options::new(CpuTarget::host()), &NoObserver).unwrap();
        run_bytecode(module, &NoObserver)
    };
    let wrong = "R.call_packed(\"vm.builtin.check_tensor_info\", ty_args=(R.Any,))";
    let error = compiled(wrong).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let expected = "calls of the program: `vm.builtin.check_tensor_info` does not take 0 arguments";
    assert_eq!(error.to_string(), expected);
    compiled("R.call_packed(\"vm.builtin.copy\", x, ty_args=(R.Any,))").unwrap();
}
