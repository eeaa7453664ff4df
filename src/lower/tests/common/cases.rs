//! The list of cases: each operator, each attribute that changes its kernel.

#![allow(clippy::cloned_ref_to_slice_refs)]

use reflex_graph::{
    Activations, ArgReduceKind, Binary, ConvAttrs, GatherKind, Literal, NBits, Op, OutOfRange,
    PadMode, PoolAttrs, PoolKind, ReduceKind, ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest,
    RnnActivation, RnnAttrs, RnnCell, RnnDir, ScanKind, ScatterKind, ScatterReduce, Unary,
};
use reflex_tir::{DType, Expr};

use super::{Case, noise};

type List = Vec<Case>;

pub fn cases() -> List {
    let mut list = vec![];
    elementwise(&mut list);
    reductions(&mut list);
    products(&mut list);
    nbits_products(&mut list);
    convolutions(&mut list);
    pools(&mut list);
    shapes(&mut list);
    indices(&mut list);
    resizes(&mut list);
    recurrent(&mut list);
    list
}

fn add(list: &mut List, name: &str, op: Op, args: &[Literal]) {
    list.push(Case { name: format!("{name}_{}", list.len()), op, args: args.to_vec() });
}

fn cast(value: &Literal, to: DType) -> Literal {
    reflex_graph::eval_op(&Op::Cast(to), &[value], &|_| None).unwrap().remove(0)
}

fn ints(shape: &[i64], values: &[i64]) -> Literal {
    Literal::from_i64(shape.to_vec(), values)
}

fn exprs(list: &[i64]) -> Vec<Expr> {
    list.iter().map(|n| Expr::i64(*n)).collect()
}

fn elementwise(list: &mut List) {
    let x = noise(&[3, 7], 1);
    for kind in [
        Unary::Neg,
        Unary::Abs,
        Unary::Sign,
        Unary::Exp,
        Unary::Sin,
        Unary::Cos,
        Unary::Tan,
        Unary::Asin,
        Unary::Acos,
        Unary::Atan,
        Unary::Sinh,
        Unary::Cosh,
        Unary::Tanh,
        Unary::Asinh,
        Unary::Atanh,
        Unary::Erf,
        Unary::Sigmoid,
        Unary::Floor,
        Unary::Ceil,
        Unary::Round,
        Unary::IsNan,
        Unary::IsInf,
        Unary::Reciprocal,
    ] {
        add(list, "unary", Op::Unary(kind), &[x.clone()]);
    }
    let positive = Literal::from_f32(vec![4], &[0.25, 1.0, 2.0, 9.5]);
    for kind in [Unary::Log, Unary::Sqrt] {
        add(list, "unary", Op::Unary(kind), &[positive.clone()]);
    }
    add(list, "unary", Op::Unary(Unary::Acosh), &[Literal::from_f32(vec![2], &[1.0, 3.5])]);
    add(list, "half", Op::Unary(Unary::Sigmoid), &[cast(&x, DType::F16)]);
    let i = ints(&[4], &[-3, 0, 5, 7]);
    for kind in [Unary::Neg, Unary::Abs, Unary::Sign, Unary::BitNot] {
        add(list, "int_unary", Op::Unary(kind), &[i.clone()]);
    }
    add(list, "not", Op::Unary(Unary::Not), &[cast(&i, DType::BOOL)]);
    let (a, b) = (noise(&[2, 3, 5], 2), noise(&[3, 1], 3));
    for kind in [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Min,
        Binary::Max,
        Binary::Equal,
        Binary::NotEqual,
        Binary::Less,
        Binary::LessEqual,
        Binary::Greater,
        Binary::GreaterEqual,
        Binary::TruncMod,
    ] {
        add(list, "binary", Op::Binary(kind), &[a.clone(), b.clone()]);
    }
    add(list, "pow", Op::Binary(Binary::Pow), &[positive, Literal::from_f32(vec![], &[1.5])]);
    let j = ints(&[4], &[2, -3, 3, -2]);
    for kind in [
        Binary::Add,
        Binary::Mul,
        Binary::Div,
        Binary::FloorMod,
        Binary::TruncMod,
        Binary::Min,
        Binary::BitAnd,
        Binary::BitOr,
        Binary::BitXor,
    ] {
        add(list, "int_binary", Op::Binary(kind), &[i.clone(), j.clone()]);
    }
    let one = ints(&[], &[1]);
    for kind in [Binary::Shl, Binary::Shr] {
        add(list, "shift", Op::Binary(kind), &[i.clone(), one.clone()]);
    }
    let (p, q) = (cast(&i, DType::BOOL), cast(&ints(&[4], &[0, 0, 1, 1]), DType::BOOL));
    for kind in [Binary::And, Binary::Or, Binary::Xor] {
        add(list, "bool_binary", Op::Binary(kind), &[p.clone(), q.clone()]);
    }
    let cond = cast(&ints(&[3, 1], &[1, 0, 1]), DType::BOOL);
    add(list, "where", Op::Where, &[cond, a.clone(), b]);
    for to in [DType::I32, DType::BOOL, DType::F16, DType::F64, DType::U8] {
        add(list, "cast", Op::Cast(to), &[a.clone()]);
    }
}

fn reductions(list: &mut List) {
    let x = noise(&[2, 3, 37], 4);
    for kind in
        [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min, ReduceKind::Prod]
    {
        for (axes, keep_dims) in
            [(vec![2], false), (vec![1], true), (vec![0, 2], false), (vec![0, 1, 2], true)]
        {
            add(list, "reduce", Op::Reduce { kind, axes, keep_dims }, &[x.clone()]);
        }
    }
    let op = Op::Reduce { kind: ReduceKind::Sum, axes: vec![], keep_dims: false };
    add(list, "reduce_none", op, &[x.clone()]);
    let op = Op::Reduce { kind: ReduceKind::Mean, axes: vec![2], keep_dims: false };
    add(list, "reduce_half", op, &[cast(&x, DType::F16)]);
    let op = Op::Reduce { kind: ReduceKind::Sum, axes: vec![0], keep_dims: false };
    add(list, "reduce_int", op, &[ints(&[2, 3], &[1, 2, 3, 4, 5, 6])]);
    let ties = Literal::from_f32(vec![2, 4], &[1.0, 5.0, 5.0, -1.0, 4.0, 2.0, 4.0, 0.0]);
    for kind in [ArgReduceKind::Max, ArgReduceKind::Min] {
        for (axis, keep_dims, select_last) in
            [(1, true, false), (1, false, true), (0, false, false)]
        {
            let op = Op::ArgReduce { kind, axis, keep_dims, select_last };
            add(list, "arg", op.clone(), &[noise(&[3, 19], 5)]);
            add(list, "arg_ties", op, &[ties.clone()]);
        }
    }
    for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
        for (kind, name) in [(ScanKind::Sum, "cumsum"), (ScanKind::Prod, "cumprod")] {
            let op = Op::Scan { kind, axis: 1, exclusive, reverse };
            add(list, name, op, &[noise(&[2, 5, 3], 6)]);
        }
    }
    add(list, "bitcast", Op::Bitcast(DType::I32), &[noise(&[3, 5], 6)]);
    add(list, "bitcast", Op::Bitcast(DType::F64), &[ints(&[3], &[0, 1, 0x3ff0_0000_0000_0000])]);
    for (axis, log) in [(2, false), (1, false), (2, true), (0, true)] {
        add(list, "softmax", Op::Softmax { axis, log }, &[x.clone()]);
    }
    let op = Op::LayerNorm { axis: 2, epsilon: 1e-5 };
    add(list, "norm", op.clone(), &[x.clone(), noise(&[37], 7), noise(&[37], 8)]);
    add(list, "norm", op, &[x.clone(), noise(&[37], 7)]);
    let op = Op::LayerNorm { axis: 1, epsilon: 1e-2 };
    add(list, "norm", op, &[x, noise(&[3, 37], 9), noise(&[3, 37], 10)]);
}

fn products(list: &mut List) {
    for (a, b) in [
        (vec![5, 7], vec![7, 9]),
        (vec![1, 33], vec![33, 70]),
        (vec![13, 20], vec![20, 64]),
        (vec![2, 3, 4, 6], vec![2, 3, 6, 18]),
        (vec![2, 3, 4, 6], vec![6, 18]),
        (vec![4, 6], vec![3, 6, 5]),
        (vec![2, 1, 4, 6], vec![3, 6, 17]),
        (vec![6], vec![6, 5]),
        (vec![4, 6], vec![6]),
        (vec![6], vec![6]),
        (vec![30, 16], vec![16, 100]),
    ] {
        add(list, "matmul", Op::MatMul, &[noise(&a, 11), noise(&b, 12)]);
    }
    let half = [noise(&[3, 5], 13), noise(&[5, 4], 14)].map(|l| cast(&l, DType::F16));
    add(list, "matmul_half", Op::MatMul, &half);
    let int = [ints(&[2, 2], &[1, 2, 3, 4]), ints(&[2, 2], &[5, -6, 7, 8])];
    add(list, "matmul_int", Op::MatMul, &int);
    for (a, b) in [
        (vec![5, 8], vec![8, 9]),
        (vec![1, 33], vec![33, 70]),
        (vec![13, 22], vec![22, 64]),
        (vec![2, 3, 4, 6], vec![2, 3, 6, 18]),
        (vec![2, 1, 4, 6], vec![3, 6, 17]),
        (vec![6], vec![6, 5]),
    ] {
        for (of_a, of_b) in [(DType::U8, DType::I8), (DType::I8, DType::U8), (DType::I8, DType::I8)]
        {
            add(list, "matmul_integer", Op::MatMulInteger, &[bytes(&a, of_a), bytes(&b, of_b)]);
        }
    }
}

fn nbits_products(list: &mut List) {
    for (x, n, [bits, block], zeros) in [
        (vec![1, 64], 40, [4, 32], false),
        (vec![5, 64], 40, [4, 32], true),
        (vec![2, 3, 72], 17, [4, 16], true),
        (vec![7, 96], 33, [2, 16], true),
        (vec![13, 80], 64, [8, 16], false),
        (vec![3, 80], 5, [8, 16], true),
        (vec![32], 18, [4, 32], false),
    ] {
        let mut codes = NBits { bits, block, activations: Activations::Int8 };
        let blocks = (x[x.len() - 1] + block - 1) / block;
        let mut args = vec![
            noise(&x, 23),
            bytes(&[n, blocks, codes.bytes()], DType::U8),
            noise(&[n, blocks], 24),
        ];
        if zeros {
            args.push(below(&[n, blocks], 1 << bits));
        }
        for activations in [Activations::Int8, Activations::Int16] {
            codes.activations = activations;
            add(list, "nbits", Op::MatMulNBits(codes), &args);
        }
    }
}

/// Codes below a number.
fn below(shape: &[i64], most: i64) -> Literal {
    let any = bytes(shape, DType::U8);
    let bytes = any.bytes().iter().map(|b| (i64::from(*b) % most) as u8);
    let bytes = std::sync::Arc::new(bytes.collect::<Vec<u8>>());
    Literal::new(DType::U8, shape.to_vec(), bytes).expect("as many bytes")
}

/// 8-bit integers of both signs, or the same bits unsigned.
fn bytes(shape: &[i64], dtype: DType) -> Literal {
    let count: i64 = shape.iter().product();
    let bytes: Vec<u8> = (0..count).map(|n| (n * 89 + n * n * 7 + 131) as u8).collect();
    Literal::new(dtype, shape.to_vec(), std::sync::Arc::new(bytes)).expect("as many bytes")
}

fn geometry(s: [i64; 2], pads: [i64; 4], d: [i64; 2], groups: i64) -> ConvAttrs {
    ConvAttrs {
        strides: s.to_vec(),
        pads_begin: pads[..2].to_vec(),
        pads_end: pads[2..].to_vec(),
        dilations: d.to_vec(),
        groups,
    }
}

fn convolutions(list: &mut List) {
    for (x, w, attrs) in [
        (vec![1, 3, 6, 21], vec![5, 3, 3, 3], geometry([1, 1], [1; 4], [1, 1], 1)),
        (vec![2, 3, 9, 8], vec![4, 3, 3, 2], geometry([2, 1], [0, 1, 1, 0], [1, 2], 1)),
        (vec![1, 5, 4, 6], vec![14, 5, 1, 1], geometry([1, 1], [0; 4], [1, 1], 1)),
        (vec![1, 6, 1, 1], vec![35, 6, 1, 1], geometry([1, 1], [0; 4], [1, 1], 1)),
        (vec![1, 3, 8, 40], vec![13, 3, 3, 3], geometry([2, 2], [1; 4], [1, 1], 1)),
        (vec![1, 4, 7, 7], vec![4, 1, 3, 3], geometry([1, 1], [1; 4], [1, 1], 4)),
        (vec![1, 4, 9, 36], vec![4, 1, 3, 3], geometry([2, 2], [1; 4], [1, 1], 4)),
        (vec![1, 4, 5, 5], vec![6, 2, 3, 3], geometry([1, 1], [1; 4], [1, 1], 2)),
        (vec![1, 48, 3, 20], vec![24, 16, 1, 1], geometry([1, 1], [0; 4], [1, 1], 3)),
        (vec![2, 32, 5, 7], vec![10, 16, 3, 3], geometry([2, 1], [1; 4], [1, 1], 2)),
        (vec![1, 4, 9, 9], vec![6, 4, 3, 3], geometry([1, 1], [2; 4], [2, 2], 1)),
        (vec![1, 3, 40, 1], vec![13, 3, 5, 1], geometry([1, 1], [0; 4], [1, 1], 1)),
        (vec![1, 2, 5, 70], vec![3, 2, 1, 3], geometry([1, 1], [0, 1, 0, 1], [1, 1], 1)),
        // The positions of an image are a vector, of 16 lanes to 4.
        (vec![4, 5, 4, 4], vec![48, 5, 1, 1], geometry([1, 1], [0; 4], [1, 1], 1)),
        (vec![4, 5, 1, 16], vec![40, 5, 1, 3], geometry([1, 1], [0, 1, 0, 1], [1, 1], 1)),
        (vec![3, 5, 2, 4], vec![40, 5, 1, 1], geometry([1, 1], [0; 4], [1, 1], 1)),
        (vec![6, 5, 2, 2], vec![40, 5, 1, 1], geometry([1, 1], [0; 4], [1, 1], 1)),
    ] {
        let bias = noise(&[w[0]], 17);
        let args = [noise(&x, 15), noise(&w, 16), bias];
        add(list, "conv", Op::Conv(attrs.clone()), &args);
        add(list, "conv", Op::Conv(attrs), &args[..2]);
    }
    let one = ConvAttrs {
        strides: vec![2],
        pads_begin: vec![1],
        pads_end: vec![2],
        dilations: vec![1],
        groups: 1,
    };
    let apart = ConvAttrs { strides: vec![16], ..one.clone() };
    // Few positions, in a batch of one and of two.
    let few = ConvAttrs { strides: vec![1], dilations: vec![2], ..one.clone() };
    for (images, attrs) in [(1, &few), (2, &few), (1, &one), (2, &one)] {
        let args = [noise(&[images, 3, 7], 18), noise(&[37, 3, 3], 19), noise(&[37], 20)];
        add(list, "conv1d", Op::Conv(attrs.clone()), &args);
        add(list, "conv1d", Op::Conv(attrs.clone()), &args[..2]);
    }
    add(list, "conv1d", Op::Conv(one), &[noise(&[2, 3, 40], 18), noise(&[5, 3, 4], 19)]);
    let args = [noise(&[2, 1, 120], 18), noise(&[20, 1, 32], 19), noise(&[20], 20)];
    add(list, "conv1d", Op::Conv(apart), &args);
    for (x, w, attrs) in [
        (vec![1, 3, 6, 21], vec![5, 3, 3, 3], geometry([1, 1], [1; 4], [1, 1], 1)),
        (vec![2, 8, 9, 8], vec![4, 8, 3, 2], geometry([2, 1], [0, 1, 1, 0], [1, 2], 1)),
        (vec![1, 5, 4, 6], vec![14, 5, 1, 1], geometry([1, 1], [0; 4], [1, 1], 1)),
        (vec![1, 4, 9, 36], vec![4, 1, 3, 3], geometry([2, 2], [1; 4], [1, 1], 4)),
        (vec![1, 6, 5, 5], vec![6, 3, 3, 3], geometry([1, 1], [1; 4], [1, 1], 2)),
        (vec![1, 32, 3, 20], vec![24, 16, 1, 1], geometry([1, 1], [0; 4], [1, 1], 2)),
    ] {
        let args = [bytes(&x, DType::U8), bytes(&w, DType::I8)];
        add(list, "conv_integer", Op::ConvInteger(attrs), &args);
    }
    for (attrs, output_padding) in [
        (geometry([1, 1], [0; 4], [1, 1], 1), vec![0, 0]),
        (geometry([2, 2], [1; 4], [1, 1], 1), vec![1, 0]),
        (geometry([2, 1], [0, 1, 1, 0], [1, 2], 2), vec![0, 0]),
    ] {
        let w = [4, 3, 3, 2];
        let conv = attrs;
        let args = [noise(&[1, 4, 5, 4], 20), noise(&w, 21), noise(&[3 * conv.groups], 22)];
        add(list, "conv_transpose", Op::ConvTranspose { conv, output_padding }, &args);
    }
}

fn pools(list: &mut List) {
    let kinds = [
        PoolKind::Max { indices: false },
        PoolKind::Max { indices: true },
        PoolKind::Average { count_pads: false },
        PoolKind::Average { count_pads: true },
        PoolKind::Lp(2),
        PoolKind::Lp(3),
    ];
    for kind in kinds {
        for (kernel, strides, pads, dilations, ceil) in [
            ([3, 3], [2, 2], [1, 1], [1, 1], false),
            ([2, 2], [2, 2], [0, 0], [1, 1], true),
            ([2, 3], [1, 1], [0, 1], [2, 1], false),
        ] {
            let attrs = PoolAttrs {
                kind,
                kernel: kernel.to_vec(),
                strides: strides.to_vec(),
                pads_begin: pads.to_vec(),
                pads_end: pads.to_vec(),
                dilations: dilations.to_vec(),
                ceil,
            };
            add(list, "pool", Op::Pool(attrs), &[noise(&[1, 2, 7, 9], 23)]);
        }
    }
}

fn shapes(list: &mut List) {
    let x = noise(&[2, 3, 4], 24);
    add(list, "reshape", Op::Reshape(exprs(&[6, 2, 2])), &[x.clone()]);
    add(list, "transpose", Op::Transpose(vec![2, 0, 1]), &[x.clone()]);
    add(list, "transpose", Op::Transpose(vec![1, 0]), &[noise(&[33, 20], 24)]);
    add(list, "broadcast", Op::Broadcast(exprs(&[5, 2, 3, 4])), &[x.clone()]);
    add(list, "broadcast", Op::Broadcast(exprs(&[2, 6])), &[noise(&[2, 1], 25)]);
    let parts = [noise(&[2, 3, 4], 26), noise(&[2, 1, 4], 27), noise(&[2, 2, 4], 28)];
    add(list, "concat", Op::Concat { axis: 1 }, &parts);
    let op =
        Op::Slice { begin: exprs(&[1, 2, 3]), shape: exprs(&[1, 2, 2]), stride: vec![1, -2, -1] };
    add(list, "slice", op, &[x.clone()]);
    for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap] {
        let op = Op::Pad { mode, before: exprs(&[0, 2, 1]), after: exprs(&[1, -1, 2]) };
        add(list, "pad", op, &[x.clone(), Literal::from_f32(vec![], &[7.5])]);
    }
    add(list, "iota", Op::Iota { count: 9.into() }, &[]);
    add(list, "dims", Op::Dims { values: exprs(&[4, 7, -1]), scalar: false }, &[]);
    add(list, "dims", Op::Dims { values: exprs(&[4]), scalar: true }, &[]);
}

fn indices(list: &mut List) {
    for mode in [OutOfRange::Raise, OutOfRange::Clamp] {
        gathers(list, mode);
        scatters(list, mode);
    }
    let ties = Literal::from_f32(vec![2, 6], &[1., 3., 3., -2., 0., 3., 5., 5., 4., 9., 9., 1.]);
    for (largest, k) in [(true, 3), (false, 3), (true, 6), (false, 1)] {
        add(list, "topk", Op::TopK { axis: 1, k: k.into(), largest }, &[ties.clone()]);
    }
    // Deeper heaps, with equal values and NaN.
    let repeated = Literal::from_f32(
        vec![2, 41],
        &(0..82).map(|i| if i == 7 { f32::NAN } else { (i * 37 % 29) as f32 }).collect::<Vec<_>>(),
    );
    for (largest, k) in [(true, 20), (false, 20), (true, 41), (false, 40)] {
        add(list, "topk", Op::TopK { axis: 1, k: k.into(), largest }, &[repeated.clone()]);
    }
    let op = Op::TopK { axis: 0, k: 17.into(), largest: true };
    add(list, "topk", op, &[noise(&[19, 3], 33)]);
}

fn gathers(list: &mut List, out_of_range: OutOfRange) {
    let gather = |kind| Op::Gather { kind, out_of_range };
    let x = noise(&[3, 4, 5], 29);
    let at = ints(&[2, 2], &[0, -1, 2, 1]);
    for axis in 0..3 {
        add(list, "gather", gather(GatherKind::Axis(axis)), &[x.clone(), at.clone()]);
    }
    let at = ints(&[3, 2, 5], &(0..30).map(|i| i % 8 - 4).collect::<Vec<_>>());
    add(list, "gather_elements", gather(GatherKind::Elements(1)), &[x.clone(), at]);
    let at = ints(&[2, 2], &[0, 1, -1, 3]);
    let op = gather(GatherKind::Nd { batch_dims: 0 });
    add(list, "gather_nd", op, &[x.clone(), at]);
    let at = ints(&[3, 2, 1], &[0, 1, -1, 3, 2, 2]);
    let op = gather(GatherKind::Nd { batch_dims: 1 });
    add(list, "gather_nd", op, &[x.clone(), at]);
    // Codes, in a table of bytes and in one of rows.
    let table = cast(&noise(&[256], 31), DType::F16);
    let tables = [bytes(&[256], DType::I8), table, noise(&[256, 3], 37)];
    for codes in [DType::U8, DType::I8].map(|dtype| bytes(&[5, 70], dtype)) {
        for table in &tables {
            let op = gather(GatherKind::Axis(0));
            add(list, "gather_codes", op, &[table.clone(), codes.clone()]);
        }
    }
    if out_of_range == OutOfRange::Clamp {
        let at = ints(&[2, 2], &[9, -9, 3, -4]);
        add(list, "gather", gather(GatherKind::Axis(0)), &[x.clone(), at.clone()]);
        let nd = gather(GatherKind::Nd { batch_dims: 0 });
        add(list, "gather_nd", nd, &[x.clone(), at]);
    }
}

fn scatters(list: &mut List, out_of_range: OutOfRange) {
    let x = noise(&[3, 4, 5], 29);
    for reduce in [
        ScatterReduce::Replace,
        ScatterReduce::Add,
        ScatterReduce::Mul,
        ScatterReduce::Max,
        ScatterReduce::Min,
    ] {
        let kind = ScatterKind::Elements(1);
        let at = ints(&[2, 2, 2], &[0, 1, -1, 2, 3, 0, 1, 0]);
        let op = Op::Scatter { kind, reduce, out_of_range };
        add(list, "scatter", op, &[x.clone(), at, noise(&[2, 2, 2], 30)]);
        let op = Op::Scatter { kind: ScatterKind::Nd, reduce, out_of_range };
        let at = ints(&[2, 2], &[0, 1, -1, 3]);
        add(list, "scatter_nd", op, &[x.clone(), at, noise(&[2, 5], 31)]);
    }
    let op = Op::TopK { axis: 0, k: 2.into(), largest: true };
    add(list, "topk", op, &[noise(&[4, 3], 32)]);
}

fn resizes(list: &mut List) {
    let x = noise(&[1, 2, 4, 5], 33);
    let modes = [
        ResizeMode::Nearest(ResizeNearest::RoundPreferFloor),
        ResizeMode::Nearest(ResizeNearest::Ceil),
        ResizeMode::Nearest(ResizeNearest::Floor),
        ResizeMode::Nearest(ResizeNearest::RoundPreferCeil),
        ResizeMode::Linear,
        ResizeMode::Cubic { coefficient: -0.75, exclude_outside: false },
        ResizeMode::Cubic { coefficient: -0.5, exclude_outside: true },
    ];
    let coords = [
        ResizeCoord::HalfPixel,
        ResizeCoord::PytorchHalfPixel,
        ResizeCoord::AlignCorners,
        ResizeCoord::Asymmetric,
    ];
    for mode in modes {
        for coord in coords {
            let shape = exprs(&[1, 2, 8, 3]);
            let attrs = ResizeAttrs { mode, coord, shape, scales: None };
            add(list, "resize", Op::Resize(attrs), &[x.clone()]);
        }
    }
    let attrs = ResizeAttrs {
        mode: ResizeMode::Linear,
        coord: ResizeCoord::HalfPixel,
        shape: exprs(&[1, 2, 8, 7]),
        scales: Some(vec![1.0, 1.0, 2.0, 1.5]),
    };
    add(list, "resize", Op::Resize(attrs), &[x]);
}

fn recurrent(list: &mut List) {
    let cells = [
        RnnCell::Rnn,
        RnnCell::Lstm,
        RnnCell::Gru { linear_before_reset: false },
        RnnCell::Gru { linear_before_reset: true },
    ];
    for cell in cells {
        for dir in [RnnDir::Forward, RnnDir::Reverse, RnnDir::Both] {
            let dirs = if dir == RnnDir::Both { 2 } else { 1 };
            let (gates, acts) = match cell {
                RnnCell::Rnn => (1, vec![RnnActivation::Tanh]),
                RnnCell::Lstm => {
                    (4, vec![RnnActivation::Sigmoid, RnnActivation::Tanh, RnnActivation::Tanh])
                }
                RnnCell::Gru { .. } => (3, vec![RnnActivation::Sigmoid, RnnActivation::Tanh]),
            };
            let attrs = RnnAttrs {
                cell,
                dir,
                hidden: 18,
                activations: acts.repeat(dirs),
                clip: (dirs == 2).then_some(0.4),
            };
            let d = dirs as i64;
            let mut args = vec![
                noise(&[3, 2, 7], 34),
                noise(&[d, gates * 18, 7], 35),
                noise(&[d, gates * 18, 18], 36),
                noise(&[d, 2 * gates * 18], 37),
                noise(&[d, 2, 18], 38),
            ];
            if cell == RnnCell::Lstm {
                args.push(noise(&[d, 2, 18], 39));
            }
            add(list, "rnn", Op::Rnn(attrs), &args);
        }
    }
    // Enough steps of both directions for threads.
    use RnnActivation::{Sigmoid, Tanh};
    let activations = [Sigmoid, Tanh, Tanh].repeat(2);
    let (cell, dir) = (RnnCell::Lstm, RnnDir::Both);
    let attrs = RnnAttrs { cell, dir, hidden: 40, activations, clip: None };
    let args = [
        noise(&[6, 2, 7], 40),
        noise(&[2, 160, 7], 41),
        noise(&[2, 160, 40], 42),
        noise(&[2, 320], 43),
        noise(&[2, 2, 40], 44),
        noise(&[2, 2, 40], 45),
    ];
    add(list, "rnn", Op::Rnn(attrs), &args);
}
