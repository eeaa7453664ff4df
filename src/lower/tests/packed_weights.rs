//! Weights of 2, 4 and 8 bits stay codes: kernels read them as such, and compute what they compute from
//! the floats that the codes stand for, bit for bit.

mod common;

use std::sync::Arc;

use common::{
    AMX_BF16, Case, assert_close, noise, run, target, tensor_type, to_literal, to_tensor, tolerance,
};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Activations, BlockQuantized, CodeMeaning, DepthAxis, FuncData, Literal, Module, NBits, Node,
    Op, TensorType, Unary,
};
use reflex_lower::packing::choose::block_packing;
use reflex_lower::packing::pack::pack;
use reflex_lower::packing::panels::Packing;
use reflex_lower::pipeline::{NoObserver, Options, run_graph};
use reflex_lower::precision::Precision;
use reflex_lower::schedule::{schedule_explained, schedule_for};
use reflex_tir::codegen::{GpuTarget, Target};
use reflex_tir::eval::{EvalArg, ThreadOrder, eval_threads};
use reflex_tir::lower::{lower_gpu, serialise};
use reflex_tir::verify::verify_gpu;
use reflex_tir::{DType, Expr};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Zeros {
    One,
    Codes,
    Numbers,
    Table,
}

/// Weights `[k, n]` of noise.
fn weights(k: usize, n: usize, block: usize, bits: usize, zeros: Zeros, dtype: DType) -> Literal {
    let blocks = k.div_ceil(block);
    let numbers = |count: usize, seed| -> Vec<f32> {
        let noise = noise(&[count as i64], seed);
        noise.bytes().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let whole = |x: &f32, count: usize| ((x + 1.0) / 2.0 * count as f32).floor();
    let bytes = n * blocks * block * bits / 8;
    let codes: Vec<u8> = numbers(bytes, 1).iter().map(|x| whole(x, 256) as u8).collect();
    let codes = Literal::new(DType::U8, vec![bytes as i64], Arc::new(codes)).unwrap();
    let meaning = match zeros {
        Zeros::One => CodeMeaning::Centred((1 << (bits - 1)) as f32),
        Zeros::Codes => {
            let zeros = numbers(n * blocks, 2);
            CodeMeaning::CentredByBlock(zeros.iter().map(|x| whole(x, 1 << bits)).collect())
        }
        Zeros::Numbers => CodeMeaning::CentredByBlock(numbers(n * blocks, 3)),
        Zeros::Table => CodeMeaning::Table(numbers(16, 4).try_into().unwrap()),
    };
    let scales = numbers(n * blocks, 5);
    let matrix =
        BlockQuantized { dtype, columns: n, depth: k, bits, block, codes, scales, meaning };
    Literal::block_quantized(Arc::new(matrix), DepthAxis::First).expect("parts that fit")
}

fn packing(case: &Case) -> Packing {
    let types: Vec<TensorType> = case.args.iter().map(tensor_type).collect();
    let constant = |n: usize| Some(case.args[n].clone());
    block_packing(&case.op, &types, &constant, Precision::F32).expect("a packing")
}

/// Codes, zero points, element types, and blocks that the depth does not fill.
fn cases() -> Vec<Case> {
    let mut list = vec![];
    let mut add = |m: i64, [k, n, block, bits]: [usize; 4], zeros, dtype| {
        let w = weights(k, n, block, bits, zeros, dtype);
        let name = format!("{m} x {k} x {n}, {bits} bits in {block}, {zeros:?}, {dtype}");
        let a = noise(&[m, k as i64], 9);
        let a = match dtype {
            DType::F32 => a,
            _ => reflex_graph::eval_op(&Op::Cast(dtype), &[&a], &|_| None).unwrap().remove(0),
        };
        list.push(Case { name, op: Op::MatMul, args: vec![a, w] });
    };
    for zeros in [Zeros::One, Zeros::Codes, Zeros::Numbers, Zeros::Table] {
        add(1, [64, 40, 32, 4], zeros, DType::F32);
        add(7, [64, 40, 32, 4], zeros, DType::F32);
        add(13, [80, 17, 16, 4], zeros, DType::F32);
        // The depth ends within a block.
        add(3, [72, 32, 32, 4], zeros, DType::F32);
    }
    for bits in [2, 8] {
        for zeros in [Zeros::One, Zeros::Codes, Zeros::Numbers] {
            add(1, [96, 70, 16, bits], zeros, DType::F32);
            add(5, [96, 33, 32, bits], zeros, DType::F32);
        }
    }
    // A block for each column, whose end is no whole word, and rows for one tile and for several; the depth in parts, which words
    // or blocks fill.
    for zeros in [Zeros::One, Zeros::Codes, Zeros::Numbers] {
        add(3, [38, 40, 40, 8], zeros, DType::F32);
        add(12, [192, 33, 192, 8], zeros, DType::F32);
        add(31, [192, 70, 192, 8], zeros, DType::F32);
        add(26, [256, 32, 32, 4], zeros, DType::F32);
    }
    add(2, [64, 40, 32, 4], Zeros::Codes, DType::F16);
    add(2, [64, 40, 32, 4], Zeros::Table, DType::BF16);
    list
}

#[test]
fn packed_codes_mean_what_their_floats_mean() {
    for case in cases() {
        let want = case.expected();
        let plain = run(&case.legalized(&[]).func, &case.args, &want);
        let packing = packing(&case);
        let packed = pack(&packing, &case.args[1..2]).expect("packs");
        let args = [case.args[0].clone(), packed];
        let kernel = case.legalized(&[packing]);
        assert_close(&case.name, &run(&kernel.func, &args, &want), &plain, 0.0);
        for bytes in [64, 32, 16] {
            let scheduled = schedule_explained(&kernel.func, &target(bytes));
            let got = run(&scheduled.func, &args, &want);
            assert_close(&case.name, &got, &plain, 0.0);
            let rules: Vec<_> = scheduled.decisions.iter().map(|d| d.rule).collect();
            assert_eq!(rules[0], "gemm", "{}: {scheduled}", case.name);
        }
    }
}

/// Rows that are rounded to int8 or int16, times codes, scales and zero points.
fn integer_cases() -> Vec<Case> {
    let mut list = vec![];
    let mut add = |shape: &[i64], [n, bits, block]: [i64; 3], zeros: bool| {
        let mut codes = NBits { bits, block, activations: Activations::Int8 };
        let blocks = (shape[shape.len() - 1] + block - 1) / block;
        let whole = |shape: &[i64], below: i64, seed| {
            let floats = noise(shape, seed);
            let floats = floats.bytes().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
            let bytes = floats.map(|x| ((x + 1.0) / 2.0 * below as f32).floor() as u8);
            let bytes = Arc::new(bytes.collect::<Vec<u8>>());
            Literal::new(DType::U8, shape.to_vec(), bytes).unwrap()
        };
        let bytes = whole(&[n, blocks, codes.bytes()], 256, 1);
        let mut args = vec![noise(shape, 9), bytes, noise(&[n, blocks], 5)];
        if zeros {
            args.push(whole(&[n, blocks], 1 << bits, 2));
        }
        for activations in [Activations::Int8, Activations::Int16] {
            let codes_in = format!("{bits} bits in {block}, zero points: {zeros}");
            let name = format!("{shape:?} x {n}, {activations:?}, {codes_in}");
            codes.activations = activations;
            list.push(Case { name, op: Op::MatMulNBits(codes), args: args.clone() });
        }
    };
    for zeros in [false, true] {
        add(&[1, 64], [40, 4, 32], zeros);
        add(&[7, 64], [40, 4, 32], zeros);
        add(&[2, 13, 80], [17, 4, 16], zeros);
        // The depth ends within a block.
        add(&[3, 72], [64, 4, 32], zeros);
        add(&[96], [70, 2, 16], zeros);
        add(&[5, 96], [33, 2, 32], zeros);
        add(&[1, 96], [70, 8, 16], zeros);
        add(&[5, 96], [33, 8, 32], zeros);
        // One block.
        add(&[2, 32], [48, 4, 32], zeros);
    }
    list
}

#[test]
fn packed_codes_times_integers_mean_what_the_operator_means() {
    for case in integer_cases() {
        let want = case.expected();
        let plain = run(&case.legalized(&[]).func, &case.args, &want);
        assert_close(&case.name, &plain, &want, 0.0);
        let packing = packing(&case);
        let packed = pack(&packing, &case.args[1..]).expect("packs");
        let args = [case.args[0].clone(), packed];
        let kernel = case.legalized(&[packing]);
        assert_close(&case.name, &run(&kernel.func, &args, &want), &want, 0.0);
        for bytes in [64, 32, 16] {
            let scheduled = schedule_explained(&kernel.func, &target(bytes));
            let got = run(&scheduled.func, &args, &want);
            assert_close(&case.name, &got, &want, 0.0);
            let text = scheduled.to_string();
            let Op::MatMulNBits(codes) = &case.op else { unreachable!("a product of codes") };
            let blocks = case.args[1].shape()[1];
            let integers = match codes.activations {
                Activations::Int8 => "sums of blocks of 8-bit integers",
                Activations::Int16 => "sums of blocks of 16-bit integers",
            };
            let joined = text.contains(integers);
            assert_eq!(joined, blocks > 1, "{}: {text}", case.name);
        }
    }
}

#[test]
fn both_sums_of_a_block_stay_in_registers() {
    let [case, ..] = &integer_cases()[..] else { unreachable!("there are cases") };
    let kernel = case.legalized(&[packing(case)]);
    let text = schedule_explained(&kernel.func, &target(64)).to_string();
    let steps = "matmul: tile of 1 rows by 3 vectors of 16 lanes, depth over v_k0, v_k0, v_k1; \
                 outer loops over (), columns inside; no threads; sums of blocks of 8-bit integers";
    assert!(text.contains(steps), "{text}");
    for step in
        ["distribute_loops r, v, l of matmul_part over 2", "unroll_and_jam matmul_part r, v"]
    {
        assert!(text.contains(step), "{step}: {text}");
    }
}

#[test]
fn one_row_streams_codes_in_vectors() {
    let w = weights(64, 64, 32, 4, Zeros::Codes, DType::F32);
    let case = Case { name: "row".into(), op: Op::MatMul, args: vec![noise(&[1, 64], 9), w] };
    let kernel = case.legalized(&[packing(&case)]);
    let text = schedule_explained(&kernel.func, &target(64)).to_string();
    let steps = "matmul: tile of 1 rows by 4 vectors of 16 lanes, depth over v_k0, v_k1, v_k2; \
                 outer loops over (), columns inside; no threads; weights of codes";
    assert!(text.contains(steps), "{text}");
    assert!(text.contains("by 4 vectors: unroll k2\n"), "each code at bits of its own: {text}");
    assert!(!text.contains("columns packed into panels"), "nothing is copied: {text}");
}

#[test]
fn many_rows_expand_panels_part_by_part() {
    let w = weights(384, 512, 384, 8, Zeros::One, DType::F32);
    let of_rows = |m: i64| {
        let case = Case {
            name: "rows".into(),
            op: Op::MatMul,
            args: vec![noise(&[m, 384], 9), w.clone()],
        };
        schedule_explained(&case.legalized(&[packing(&case)]).func, &target(64)).to_string()
    };
    let few = of_rows(12);
    assert!(few.contains("tile of 12 rows by 2 vectors"), "all rows in one tile: {few}");
    assert!(!few.contains("expanded"), "numbers are made in registers: {few}");
    let many = of_rows(64);
    for text in [
        "tile of 6 rows by 4 vectors",
        "expanded panel by panel",
        "panels of 96 steps of the depth",
    ] {
        assert!(many.contains(text), "{text}: {many}");
    }
}

/// On a GPU few rows read words of codes, 16 bytes at a time; more rows make tiles of them.
#[test]
fn gpus_read_codes() {
    let gpu = GpuTarget::known()[0].clone();
    let row = |[k, n, block, bits]: [usize; 4], zeros, m: i64| {
        let w = weights(k, n, block, bits, zeros, DType::F32);
        let name = format!("{m} x {k} x {n}, {bits} bits in {block}, {zeros:?}");
        Case { name, op: Op::MatMul, args: vec![noise(&[m, k as i64], 9), w] }
    };
    let mut list = vec![
        row([128, 40, 32, 4], Zeros::One, 1),
        row([128, 40, 32, 4], Zeros::Codes, 3),
        row([96, 70, 16, 8], Zeros::Numbers, 1),
        row([1152, 24, 32, 8], Zeros::One, 1),
        row([256, 36, 64, 2], Zeros::Codes, 2),
        row([64, 80, 32, 4], Zeros::Table, 1),
    ];
    let few = list.len();
    list.extend(cases().into_iter().step_by(3));
    for (n, case) in list.iter().enumerate() {
        let want = case.expected();
        let plain = run(&case.legalized(&[]).func, &case.args, &want);
        let packing = packing(case);
        let packed = pack(&packing, &case.args[1..2]).expect("packs");
        let args = [case.args[0].clone(), packed];
        let scheduled = schedule_for(&case.legalized(&[packing]).func, &Target::Gpu(gpu.clone()));
        let lowered = lower_gpu(&scheduled.func);
        assert_eq!(verify_gpu(&lowered, &gpu), Ok(()), "{scheduled}");
        let got = run(&serialise(&lowered), &args, &want);
        // Sums in another order, of elements of this size.
        let elements = case.args[1].to_f32().expect("floats");
        let largest = elements.iter().fold(1.0, |most: f32, x| most.max(x.abs()));
        assert_close(&case.name, &got, &plain, tolerance(&want) * f64::from(largest));
        if n < few {
            assert_eq!(scheduled.decisions[0].rule, "gemv", "{}: {scheduled}", case.name);
            let mut threads: Vec<EvalArg> =
                args.iter().chain(&want).map(|l| EvalArg::Tensor(to_tensor(l))).collect();
            eval_threads(&lowered, &mut threads, ThreadOrder::Reverse).expect("no race");
            let found = to_literal(threads[2].tensor());
            assert!(found.bytes() == got[0].bytes(), "{}", case.name);
        }
    }
}

#[test]
fn no_tile_register_takes_codes() {
    let w = weights(256, 512, 32, 4, Zeros::One, DType::F32);
    let case = Case { name: "many".into(), op: Op::MatMul, args: vec![noise(&[512, 256], 9), w] };
    let kernel = case.legalized(&[packing(&case)]);
    let mut amx = target(64);
    amx.features = AMX_BF16.map(str::to_owned).into();
    let scheduled = schedule_explained(&kernel.func, &amx);
    assert_eq!(scheduled.decisions[0].rule, "gemm", "{scheduled}");
    assert!(scheduled.to_string().contains("expanded panel by panel"), "{scheduled}");
}

/// `abs(a w)` for constant codes.
fn module(w: Literal, rows: Expr) -> Module {
    let mut module = Module::default();
    let depth = w.shape()[0];
    let mut b = FuncBuilder::new(&mut module, "main");
    let a = b.param("a", TensorType::new(w.dtype(), vec![rows, Expr::i64(depth)]));
    let w = b.constant(w);
    let product = b.emit1(Op::MatMul, &[a, w]).unwrap();
    let y = b.emit1(Op::Unary(Unary::Abs), &[product]).unwrap();
    b.finish(vec![y], vec!["y".into()]);
    module
}

#[test]
fn a_program_holds_codes_and_no_floats() {
    for (bits, zeros, most) in
        [(4, Zeros::One, 0.626), (4, Zeros::Codes, 0.642), (8, Zeros::One, 1.126)]
    {
        let w = weights(256, 512, 32, bits, zeros, DType::F32);
        let compiled = run_graph(module(w, Expr::i64(1)), &Options::new(target(64)), &NoObserver);
        let compiled = compiled.expect("compiles");
        let named = |f: &FuncData| match f {
            FuncData::Graph(f) => f.body.bindings.iter().any(|b| matches!(b.node, Node::Op { .. })),
            FuncData::Prim(_) => false,
        };
        assert!(!compiled.funcs.values().any(named), "all operators are in kernels");
        let held: Vec<&Literal> = compiled.consts.values().filter(|c| c.size() > 0).collect();
        let types: Vec<DType> = held.iter().map(|c| c.dtype()).collect();
        assert_eq!(types, [DType::U32], "{held:?}");
        let per_weight = held[0].size() as f64 / (256.0 * 512.0);
        assert!(per_weight <= most, "{per_weight} bytes a weight of {bits} bits, {zeros:?}");
    }
}
