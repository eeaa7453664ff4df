//! Values worked out by hand or by NumPy.

use std::sync::Arc;

use reflex_tir::{DType, Expr};

use super::{EvalValue, eval_func, eval_op};
use crate::{
    Activations, Binary, Binding, ConvAttrs, Func, FuncData, GatherKind, Literal, Loop, Module,
    NBits, Node, Op, OutOfRange, PadMode, PoolAttrs, PoolKind, ReduceKind, ResizeAttrs,
    ResizeCoord, ResizeMode, ScanKind, ScatterKind, ScatterReduce, TensorType, Type, Unary,
};

fn f32s(shape: &[i64], values: &[f32]) -> Literal {
    Literal::from_f32(shape.to_vec(), values)
}

fn i64s(shape: &[i64], values: &[i64]) -> Literal {
    Literal::from_i64(shape.to_vec(), values)
}

fn run(op: Op, args: &[&Literal]) -> Literal {
    eval_op(&op, args, &|_| None).unwrap().remove(0)
}

fn exprs(values: &[i64]) -> Vec<Expr> {
    values.iter().map(|v| Expr::i64(*v)).collect()
}

#[test]
fn long_operands_are_broadcast_in_chunks() {
    let (rows, columns) = (3, 5000);
    let x = i64s(&[rows, 1, columns], &(0..rows * columns).collect::<Vec<_>>());
    let y = i64s(&[2, 1], &[10, 20]);
    let wide = exprs(&[rows, 2, columns]);
    let [to_x, to_y] = [&x, &y].map(|l| run(Op::Broadcast(wide.clone()), &[l]));
    for f in [Binary::Add, Binary::Less] {
        let expected = run(Op::Binary(f), &[&to_x, &to_y]);
        assert_eq!(run(Op::Binary(f), &[&x, &y]), expected);
        assert_eq!(run(Op::Binary(f), &[&x, &to_y]), expected);
    }
    let empty = run(Op::Binary(Binary::Add), &[&i64s(&[0, 3], &[]), &i64s(&[3], &[1, 2, 3])]);
    assert_eq!(empty, i64s(&[0, 3], &[]));
}

#[test]
fn movement_follows_numpy() {
    let x = i64s(&[2, 3], &[0, 1, 2, 3, 4, 5]);
    assert_eq!(run(Op::Transpose(vec![1, 0]), &[&x]), i64s(&[3, 2], &[0, 3, 1, 4, 2, 5]));
    let row = i64s(&[1, 3], &[7, 8, 9]);
    assert_eq!(
        run(Op::Broadcast(exprs(&[2, 2, 3])), &[&row]),
        i64s(&[2, 2, 3], &[7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9])
    );
    assert_eq!(
        run(Op::Concat { axis: 1 }, &[&x, &i64s(&[2, 1], &[8, 9])]),
        i64s(&[2, 4], &[0, 1, 2, 8, 3, 4, 5, 9])
    );
    let (begin, extent) = (exprs(&[1, 2]), exprs(&[1, 2]));
    assert_eq!(
        run(Op::Slice { begin, shape: extent, stride: vec![1, -2] }, &[&x]),
        i64s(&[1, 2], &[5, 3])
    );
    let pad = |mode| Op::Pad { mode, before: exprs(&[2]), after: exprs(&[-1]) };
    let line = i64s(&[3], &[1, 2, 3]);
    assert_eq!(run(pad(PadMode::Constant), &[&line]), i64s(&[4], &[0, 0, 1, 2]));
    assert_eq!(run(pad(PadMode::Reflect), &[&line]), i64s(&[4], &[3, 2, 1, 2]));
    assert_eq!(run(pad(PadMode::Edge), &[&line]), i64s(&[4], &[1, 1, 1, 2]));
    assert_eq!(run(pad(PadMode::Wrap), &[&line]), i64s(&[4], &[2, 3, 1, 2]));
}

fn gather(kind: GatherKind) -> Op {
    Op::Gather { kind, out_of_range: OutOfRange::Raise }
}

#[test]
fn out_of_bounds_is_an_error() {
    let x = i64s(&[3], &[1, 2, 3]);
    let slice = Op::Slice { begin: exprs(&[2]), shape: exprs(&[2]), stride: vec![1] };
    assert!(eval_op(&slice, &[&x], &|_| None).is_err());
    for (index, clamped) in [(3, 3), (-4, 1)] {
        let (kind, at) = (GatherKind::Axis(0), i64s(&[1], &[index]));
        let error = eval_op(&gather(kind.clone()), &[&x, &at], &|_| None).unwrap_err();
        let message = format!("index {index} is out of range for an axis of 3");
        assert_eq!(error.to_string(), message);
        let clamp = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
        assert_eq!(run(clamp, &[&x, &at]), i64s(&[1], &[clamped]));
    }
    assert!(eval_op(&Op::Iota { count: Expr::i64(-1) }, &[], &|_| None).is_err());
    assert!(eval_op(&Op::MatMul, &[&x], &|_| None).is_err());
}

#[test]
fn rows_are_rounded_to_int8_block_by_block() {
    let codes = NBits { bits: 8, block: 4, activations: Activations::Int8 };
    let bytes = |shape: &[i64], bytes: &[u8]| {
        Literal::new(DType::U8, shape.to_vec(), Arc::new(bytes.to_vec())).unwrap()
    };
    // In the first block 1 stands for 1: 127 * 2 - 1 * 0 + 0 + 2 * 1; in the second for 0.5.
    let x = f32s(&[1, 6], &[127.0, -1.0, 0.4, 2.0, 63.5, -1.25]);
    let w = bytes(&[1, 2, 4], &[130, 128, 0, 129, 128, 131, 9, 9]);
    let y = run(Op::MatMulNBits(codes), &[&x, &w, &f32s(&[1, 2], &[0.5, 10.0])]);
    // -1.25 is -2.5 steps of 0.5, rounded to the even one.
    assert_eq!(y, f32s(&[1, 1], &[128.0 - 2.0 * 3.0 * 5.0]));
    let zeros = bytes(&[1, 2], &[128, 127]);
    let y = run(Op::MatMulNBits(codes), &[&x, &w, &f32s(&[1, 2], &[0.5, 10.0]), &zeros]);
    assert_eq!(y, f32s(&[1, 1], &[128.0 + (127.0 * 1.0 - 2.0 * 4.0) * 5.0]));
    // Zeros stay zero, and what is no number reaches the sum.
    let scales = f32s(&[1, 1], &[1.0]);
    let one = bytes(&[1, 1, 4], &[1, 2, 3, 4]);
    let of = |x: &[f32]| run(Op::MatMulNBits(codes), &[&f32s(&[1, 4], x), &one, &scales]);
    assert_eq!(of(&[0.0; 4]), f32s(&[1, 1], &[0.0]));
    let y = of(&[1.0, f32::NAN, 2.0, 3.0]);
    assert!(f32::from_le_bytes(y.bytes().try_into().unwrap()).is_nan());
    assert!(eval_op(&Op::MatMulNBits(codes), &[&x, &one, &scales], &|_| None).is_err());
}

#[test]
fn rows_are_rounded_to_int16_block_by_block() {
    let codes = NBits { bits: 8, block: 4, activations: Activations::Int16 };
    let bytes = Literal::new(DType::U8, vec![1, 1, 4], Arc::new([129u8, 130, 118, 128])).unwrap();
    let scales = f32s(&[1, 1], &[0.5]);
    // 1 stands for 1. Rounded to int8, the second and the third would be 0 and 1 times 258.
    let x = f32s(&[1, 4], &[32767.0, -128.6, 128.5, 7.0]);
    let y = run(Op::MatMulNBits(codes), &[&x, &bytes, &scales]);
    assert_eq!(y, f32s(&[1, 1], &[(32767 - 2 * 129 - 10 * 128) as f32 / 2.0]));
}

#[test]
fn integers_wrap_and_divide_as_their_type_does() {
    let byte = |v: u8| Literal::new(DType::U8, vec![], Arc::new([v])).unwrap();
    assert_eq!(run(Op::Binary(Binary::Add), &[&byte(250), &byte(9)]).bytes(), [3]);
    let (a, b) = (i64s(&[2], &[-7, 7]), i64s(&[2], &[2, -2]));
    assert_eq!(run(Op::Binary(Binary::Div), &[&a, &b]), i64s(&[2], &[-3, -3]));
    assert_eq!(run(Op::Binary(Binary::FloorMod), &[&a, &b]), i64s(&[2], &[1, -1]));
    assert_eq!(run(Op::Binary(Binary::TruncMod), &[&a, &b]), i64s(&[2], &[-1, 1]));
    let big = i64s(&[1], &[i64::MAX]);
    assert_eq!(run(Op::Binary(Binary::Mul), &[&big, &big]), i64s(&[1], &[1]));
    let cast = run(Op::Cast(DType::I64), &[&f32s(&[3], &[-1.9, f32::NAN, 1e30])]);
    assert_eq!(cast, i64s(&[3], &[-1, 0, i64::MAX]));
}

#[test]
fn nan_wins_extremes() {
    let a = f32s(&[2], &[f32::NAN, 1.0]);
    let b = f32s(&[2], &[1.0, f32::NAN]);
    for f in [Binary::Min, Binary::Max] {
        let y = run(Op::Binary(f), &[&a, &b]);
        assert_eq!(run(Op::Unary(Unary::IsNan), &[&y]).bytes(), [1, 1]);
    }
}

/// Elements are decoded piece by piece: rows and columns of several pieces, and ends within one.
#[test]
fn reductions_of_many_elements() {
    let (rows, columns) = (3, 5000);
    let values: Vec<i64> = (0..rows * columns).map(|i| i % 97 - 40).collect();
    let x = i64s(&[rows, columns], &values);
    let sum = |axis| Op::Reduce { kind: ReduceKind::Sum, axes: vec![axis], keep_dims: false };
    let of_rows: Vec<i64> = values.chunks(columns as usize).map(|row| row.iter().sum()).collect();
    assert_eq!(run(sum(1), &[&x]), i64s(&[rows], &of_rows));
    let column = |c: i64| (0..rows).map(|r| values[(r * columns + c) as usize]).sum();
    let of_columns: Vec<i64> = (0..columns).map(column).collect();
    assert_eq!(run(sum(0), &[&x]), i64s(&[columns], &of_columns));
}

#[test]
fn reductions_orderings_and_softmax() {
    let x = f32s(&[2, 3], &[1.0, 5.0, 3.0, 4.0, 2.0, 6.0]);
    let sum = Op::Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: false };
    assert_eq!(run(sum, &[&x]), f32s(&[2], &[9.0, 12.0]));
    let mean = Op::Reduce { kind: ReduceKind::Mean, axes: vec![0], keep_dims: true };
    assert_eq!(run(mean, &[&x]), f32s(&[1, 3], &[2.5, 3.5, 4.5]));
    let top = Op::TopK { axis: 1, k: Expr::i64(2), largest: true };
    let top = eval_op(&top, &[&x], &|_| None).unwrap();
    assert_eq!(top[0], f32s(&[2, 2], &[5.0, 3.0, 6.0, 4.0]));
    assert_eq!(top[1], i64s(&[2, 2], &[1, 2, 2, 0]));
    // NaN is the largest value: an order that sorting many elements can rely on.
    let mixed: Vec<f32> = (0..40).map(|i| if i % 3 == 0 { f32::NAN } else { i as f32 }).collect();
    let top = Op::TopK { axis: 0, k: Expr::i64(40), largest: true };
    let top = eval_op(&top, &[&f32s(&[40], &mixed)], &|_| None).unwrap();
    let order: Vec<i64> =
        (0..40).filter(|i| i % 3 == 0).chain((0..40).rev().filter(|i| i % 3 != 0)).collect();
    assert_eq!(top[1], i64s(&[40], &order));
    let cumsum = Op::Scan { kind: ScanKind::Sum, axis: 1, exclusive: true, reverse: true };
    assert_eq!(run(cumsum, &[&x]), f32s(&[2, 3], &[8.0, 3.0, 0.0, 8.0, 6.0, 0.0]));
    let cumprod = Op::Scan { kind: ScanKind::Prod, axis: 1, exclusive: false, reverse: false };
    let y = run(cumprod, &[&f32s(&[1, 3], &[2.0, 3.0, 4.0])]);
    assert_eq!(y, f32s(&[1, 3], &[2.0, 6.0, 24.0]));
    let bits = run(Op::Bitcast(DType::I32), &[&f32s(&[2], &[1.0, -2.0])]);
    assert_eq!(bits.to_i64(), Some(vec![0x3f80_0000, -0x4000_0000]));
    let soft = run(Op::Softmax { axis: 0, log: false }, &[&f32s(&[2, 1], &[0.0, 0.0])]);
    assert_eq!(soft, f32s(&[2, 1], &[0.5, 0.5]));
}

#[test]
fn products_and_convolutions() {
    let a = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let v = f32s(&[2], &[1.0, -1.0]);
    assert_eq!(run(Op::MatMul, &[&a, &v]), f32s(&[2], &[-1.0, -1.0]));
    assert_eq!(run(Op::MatMul, &[&v, &a]), f32s(&[2], &[-2.0, -2.0]));
    let conv = ConvAttrs {
        strides: vec![2],
        pads_begin: vec![1],
        pads_end: vec![0],
        dilations: vec![1],
        groups: 1,
    };
    let x = f32s(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let w = f32s(&[1, 1, 2], &[10.0, 1.0]);
    let bias = f32s(&[1], &[0.5]);
    let y = run(Op::Conv(conv.clone()), &[&x, &w, &bias]);
    assert_eq!(y, f32s(&[1, 1, 2], &[1.5, 23.5]));
    let up = Op::ConvTranspose { conv, output_padding: vec![0] };
    let y = run(up, &[&f32s(&[1, 1, 2], &[1.0, 2.0]), &w]);
    assert_eq!(y, f32s(&[1, 1, 3], &[1.0, 20.0, 2.0]));
}

#[test]
fn pooling_counts_what_it_says() {
    let attrs = |kind, ceil| PoolAttrs {
        kind,
        kernel: vec![2],
        strides: vec![2],
        pads_begin: vec![1],
        pads_end: vec![0],
        dilations: vec![1],
        ceil,
    };
    let x = f32s(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let max = Op::Pool(attrs(PoolKind::Max { indices: true }, true));
    let y = eval_op(&max, &[&x], &|_| None).unwrap();
    assert_eq!(y[0], f32s(&[1, 1, 3], &[1.0, 3.0, 4.0]));
    assert_eq!(y[1], i64s(&[1, 1, 3], &[0, 2, 3]));
    let mean = run(Op::Pool(attrs(PoolKind::Average { count_pads: true }, false)), &[&x]);
    assert_eq!(mean, f32s(&[1, 1, 2], &[0.5, 2.5]));
}

#[test]
fn gathers_scatters_and_resize() {
    let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let nd = gather(GatherKind::Nd { batch_dims: 0 });
    assert_eq!(run(nd, &[&x, &i64s(&[1, 2], &[-1, 0])]), f32s(&[1], &[3.0]));
    let elements = gather(GatherKind::Elements(1));
    assert_eq!(run(elements, &[&x, &i64s(&[2, 1], &[1, 0])]), f32s(&[2, 1], &[2.0, 3.0]));
    let add = Op::Scatter {
        kind: ScatterKind::Nd,
        reduce: ScatterReduce::Add,
        out_of_range: OutOfRange::Raise,
    };
    let y = run(add, &[&x, &i64s(&[2, 1], &[1, 1]), &x]);
    assert_eq!(y, f32s(&[2, 2], &[1.0, 2.0, 7.0, 10.0]));
    let attrs = ResizeAttrs {
        mode: ResizeMode::Linear,
        coord: ResizeCoord::HalfPixel,
        shape: exprs(&[4]),
        scales: None,
    };
    let y = run(Op::Resize(attrs), &[&f32s(&[2], &[0.0, 1.0])]);
    assert_eq!(y, f32s(&[4], &[0.0, 0.25, 0.75, 1.0]));
}

/// `for i in 0..trips { x = x + x; scan x }`
fn doubling_loop() -> (Module, crate::FuncId) {
    let mut f = Func::new("main");
    let scalar = |d| Type::Tensor(TensorType::new(d, vec![]));
    let one = Type::Tensor(TensorType::new(DType::F32, vec![Expr::i64(1)]));
    let n = f.new_sym("n");
    let x = f.new_value("x", one.clone());
    let trips = f.new_value("trips", scalar(DType::I64));
    let iter = f.new_value("i", scalar(DType::I64));
    let cond_in = f.new_value("c", scalar(DType::BOOL));
    let carried = f.new_value("x1", one.clone());
    let next = f.new_value("x2", one.clone());
    let last = f.new_value("y", one);
    let scan = Type::Tensor(TensorType::new(DType::F32, vec![n.into(), Expr::i64(1)]));
    let scan = f.new_value("ys", scan);
    let body = crate::Body {
        bindings: vec![Binding {
            outputs: vec![next],
            node: Node::Op { op: Op::Binary(Binary::Add), args: vec![carried, carried] },
            source: String::new(),
        }],
        results: vec![cond_in, next, next],
    };
    let node = Node::Loop(Box::new(Loop {
        max_trips: Some(trips),
        cond: None,
        init: vec![x],
        iter,
        cond_in,
        carried: vec![carried],
        body,
    }));
    f.params = vec![x, trips];
    f.body.bindings = vec![Binding { outputs: vec![last, scan], node, source: "loop".into() }];
    f.body.results = vec![last, scan];
    let mut module = Module::default();
    let id = module.funcs.push(FuncData::Graph(f));
    (module, id)
}

#[test]
fn a_loop_carries_and_stacks() {
    let (module, main) = doubling_loop();
    let run = |trips: i64| {
        let args = [f32s(&[1], &[1.5]), i64s(&[], &[trips])].map(EvalValue::Tensor);
        eval_func(&module, main, &args).unwrap()
    };
    let y = run(3);
    assert_eq!(y[0], EvalValue::Tensor(f32s(&[1], &[12.0])));
    assert_eq!(y[1], EvalValue::Tensor(f32s(&[3, 1], &[3.0, 6.0, 12.0])));
    assert_eq!(run(0)[1], EvalValue::Tensor(f32s(&[0, 1], &[])));
}

#[test]
fn a_wrong_declared_type_is_an_error() {
    let (mut module, main) = doubling_loop();
    let FuncData::Graph(f) = &mut module.funcs[main] else { unreachable!() };
    let y = f.body.results[0];
    f.values[y].ty = Type::Tensor(TensorType::new(DType::F32, vec![Expr::i64(2)]));
    let args = [f32s(&[1], &[1.5]), i64s(&[], &[1])].map(EvalValue::Tensor);
    let message = eval_func(&module, main, &args).unwrap_err().to_string();
    assert!(message.contains("declared float32[2]"), "{message}");
}

#[test]
fn arithmetic_of_float32_is_that_of_float64_rounded() {
    let special = [0.0, -0.0, 1.0, 0.1, 3.0e38, -2.5e-45, 1.1e-38, f32::INFINITY, f32::NAN, -7.0];
    let values = |shape: &[i64], step: usize| {
        let count = shape.iter().product::<i64>() as usize;
        let list: Vec<f32> =
            (0..count).map(|n| special[n * step % 10] * (n as f32 + 1.0)).collect();
        Literal::from_f32(shape.to_vec(), &list)
    };
    type Operator = (Binary, fn(f64, f64) -> f64);
    let operators: [Operator; 4] = [
        (Binary::Add, |a, b| a + b),
        (Binary::Sub, |a, b| a - b),
        (Binary::Mul, |a, b| a * b),
        (Binary::Div, |a, b| a / b),
    ];
    let shapes: [[&[i64]; 2]; 7] = [
        [&[4, 3, 5], &[4, 1, 1]],
        [&[3, 1], &[1, 5]],
        [&[2, 3, 4, 5], &[3, 1, 1]],
        [&[1, 4, 1], &[6, 4, 7]],
        [&[], &[7]],
        [&[9, 11], &[9, 11]],
        [&[2, 0], &[1]],
    ];
    for ([a, b], (operator, exact)) in shapes.iter().flat_map(|s| operators.map(|f| (*s, f))) {
        let (x, y) = (values(a, 3), values(b, 7));
        let got = run(Op::Binary(operator), &[&x, &y]);
        let wide = |l: &Literal| run(Op::Broadcast(exprs(got.shape())), &[l]).to_f32().unwrap();
        let pairs = wide(&x).into_iter().zip(wide(&y));
        let want = pairs.map(|(a, b)| exact(f64::from(a), f64::from(b)) as f32);
        for (got, want) in got.to_f32().unwrap().into_iter().zip(want) {
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(same, "{operator:?} of {a:?} and {b:?}: {got:e}, not {want:e}");
        }
    }
}
