//! Products of bfloat16 pairs: how far they are from float32's, that schedules keep their bits,
//! and that the pipeline chooses them where it is told to.

mod common;
mod harness;

use common::{Case, assert_close, cases, noise, run, tensor_type};
use harness::run_with;
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, ConvAttrs, FuncData, Literal, Module, Op, PoolAttrs, PoolKind, TensorType,
};
use reflex_lower::legalize::Legalized;
use reflex_lower::packing::choose::packings;
use reflex_lower::packing::pack::pack;
use reflex_lower::pipeline::{NoObserver, Options, run_graph};
use reflex_lower::precision::Precision;
use reflex_lower::schedule::schedule_explained;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::level::Level;
use reflex_tir::{DType, ExprKind, Intrin, PrimFunc, Stmt};

fn dots(func: &PrimFunc) -> usize {
    let mut count = 0;
    func.body.visit_exprs(&mut |e| {
        e.visit(&mut |e| {
            count += usize::from(matches!(e.kind(), ExprKind::Call { op: Intrin::DotBf16, .. }));
        });
    });
    count
}

/// The case's kernel in bf16, with its weights packed where `packed`, and its arguments.
fn rounded(case: &Case, packed: bool) -> (Legalized, Vec<Literal>) {
    let types: Vec<TensorType> = case.args.iter().map(tensor_type).collect();
    let list = match packed {
        true => packings(&case.op, &types, &|_| true, Precision::Bf16),
        false => vec![],
    };
    let mut args = case.args.clone();
    for packing in &list {
        args[packing.operand] =
            pack(packing, std::slice::from_ref(&case.args[packing.operand])).unwrap();
    }
    let kernel = case.legalized_in(&list, Precision::Bf16);
    let inputs = kernel.inputs.iter().map(|n| args[*n].clone()).collect();
    (kernel, inputs)
}

/// The cases with VNNI-packed contractions, with and without packed weights.
fn products() -> Vec<(Case, bool)> {
    let all = || {
        let known = cases().into_iter().filter(|c| matches!(c.op, Op::MatMul | Op::Conv(_)));
        known.chain(between_tensors())
    };
    let both = all().map(|c| (c, true)).chain(all().map(|c| (c, false)));
    both.filter(|(case, packed)| dots(&rounded(case, *packed).0.func) > 0).collect()
}

/// Matmuls with depths that are odd, short rows, and rows that are vectors.
fn between_tensors() -> impl Iterator<Item = Case> {
    let extents = [(1, 2, 16, 16), (2, 9, 17, 40), (3, 33, 35, 19), (1, 5, 64, 70)];
    extents.into_iter().map(|(batch, m, k, n)| Case {
        name: format!("matmul {batch}x{m}x{k}x{n}"),
        op: Op::MatMul,
        args: vec![noise(&[batch, m, k], 1), noise(&[batch, k, n], 2)],
    })
}

fn floats(l: &Literal) -> Vec<f64> {
    let words = l.bytes().as_chunks().0.iter();
    words.map(|word| f64::from(f32::from_le_bytes(*word))).collect()
}

fn sizes(l: &Literal) -> Literal {
    let values: Vec<f32> = floats(l).iter().map(|v| v.abs() as f32).collect();
    Literal::from_f32(l.shape().to_vec(), &values)
}

#[test]
fn errors_are_those_of_two_roundings() {
    let products = products();
    assert!(products.len() > 25, "{}", products.len());
    for (case, packed) in products {
        let want = case.expected();
        let sizes = Case {
            name: case.name.clone(),
            op: case.op.clone(),
            args: case.args.iter().map(sizes).collect(),
        };
        let (kernel, inputs) = rounded(&case, packed);
        let got = run(&kernel.func, &inputs, &want);
        let (got, want, size) = (floats(&got[0]), floats(&want[0]), floats(&sizes.expected()[0]));
        // Each operand is rounded to 8 bits: by 2^-8 of it at most, the product by about twice
        // that.
        let bound = 1.01 / 128.0;
        for (n, ((got, want), size)) in got.iter().zip(want).zip(size).enumerate() {
            let near = (got - want).abs() <= bound * size;
            assert!(near, "{} {packed} [{n}]: {got} for {want}, {size} in all", case.name);
        }
    }
}

#[test]
fn schedules_keep_every_bit() {
    for (case, packed) in products() {
        let (kernel, inputs) = rounded(&case, packed);
        let want = case.expected();
        let naive = run(&kernel.func, &inputs, &want);
        for vector_bytes in [64, 32, 16] {
            let target = CpuTarget { vector_bytes, ..Level::V4.target() };
            let scheduled = schedule_explained(&kernel.func, &target);
            let got = run(&scheduled.func, &inputs, &want);
            let name = format!("{} {packed} {vector_bytes}: {scheduled}", case.name);
            assert_close(&name, &got, &naive, 0.0);
        }
    }
}

/// A CPU with AMX.
fn with_tiles() -> CpuTarget {
    let mut target = Level::V4.target();
    target.features.extend(["avx512bf16", "amx-tile", "amx-bf16"].map(str::to_owned));
    target
}

/// Contractions that fill AMX tiles: remaining rows, one depth of half a tile, columns in several
/// panels, convolutions, feature maps in which rows are positions.
fn large() -> impl Iterator<Item = Case> {
    let extents = [(1, 37, 64, 70), (2, 40, 48, 32), (1, 64, 96, 33), (3, 16, 80, 48)];
    let matmuls = extents.into_iter().map(|(batch, m, k, n)| Case {
        name: format!("matmul {batch}x{m}x{k}x{n}"),
        op: Op::MatMul,
        args: vec![noise(&[batch, m, k], 1), noise(&[batch, k, n], 2)],
    });
    let packed = [(37, 64, 70), (80, 32, 40)].into_iter().map(|(m, k, n)| Case {
        name: format!("matmul {m}x{k}x{n}"),
        op: Op::MatMul,
        args: vec![noise(&[m, k], 3), noise(&[k, n], 4)],
    });
    matmuls.chain(packed)
}

#[test]
fn matrix_registers_reassociate_sums_and_no_more() {
    let mut tiles = 0;
    let both = large().map(|c| (c, true)).chain(large().map(|c| (c, false)));
    for (case, packed) in both.chain(products()) {
        let (kernel, inputs) = rounded(&case, packed);
        let scheduled = schedule_explained(&kernel.func, &with_tiles());
        let before = tiles;
        scheduled.func.body.visit(&mut |s| tiles += usize::from(matches!(s, Stmt::Tile(_))));
        // Rows of columns that are no multiple of a register's need the filling of panels.
        let (weights, columns) = (case.args[1].shape(), case.args[1].shape().last());
        let panels = packed && weights.len() == 2;
        if large().any(|c| c.name == case.name) && (panels || columns.is_some_and(|n| n % 16 == 0))
        {
            let used = scheduled.to_string().contains("VNNI-packed bfloat16 on AMX tiles");
            assert!(used, "{} {packed}: {scheduled}", case.name);
        }
        if tiles == before {
            continue;
        }
        let want = case.expected();
        let naive = run(&kernel.func, &inputs, &want);
        let got = run(&scheduled.func, &inputs, &want);
        let sizes = Case {
            name: case.name.clone(),
            op: case.op.clone(),
            args: case.args.iter().map(sizes).collect(),
        };
        let (got, naive, size) = (floats(&got[0]), floats(&naive[0]), floats(&sizes.expected()[0]));
        for (n, ((got, want), size)) in got.iter().zip(naive).zip(size).enumerate() {
            // As many roundings as terms, of sums that are no larger.
            let near = (got - want).abs() <= size * 1e-5;
            assert!(near, "{} {packed} [{n}]: {got} for {want}: {scheduled}", case.name);
        }
    }
    assert!(tiles > 100, "{tiles}");
}

#[test]
fn products_of_pairs_take_the_macro_kernel() {
    let grouped = |case: &Case| matches!(&case.op, Op::Conv(attrs) if attrs.groups > 1);
    assert_eq!(products().iter().filter(|(case, _)| grouped(case)).count(), 4);
    for (case, packed) in products() {
        let (kernel, _) = rounded(&case, packed);
        let scheduled = schedule_explained(&kernel.func, &Level::V4.target());
        let rule = scheduled.decisions.iter().any(|d| d.rule == "gemm");
        let rule = rule && scheduled.to_string().contains("dot products of VNNI-packed bfloat16");
        assert!(rule, "{} {packed}: {scheduled}", case.name);
    }
}

/// A CPU with the instruction, whatever machine the test runs on.
fn options() -> Options {
    let mut target = Level::V4.target();
    target.features.insert("avx512bf16".to_owned());
    Options { precision: Precision::Bf16, ..Options::new(target) }
}

fn attrs(side: i64, stride: i64, groups: i64) -> ConvAttrs {
    ConvAttrs {
        strides: vec![stride; 2],
        pads_begin: vec![side / 2; 2],
        pads_end: vec![side / 2; 2],
        dilations: vec![1; 2],
        groups,
    }
}

/// A network whose feature maps are blocked but for the first: kernels with strides, depthwise,
/// pointwise; then a matmul with weights.
fn network(channels: i64) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = [1, 3, 15, 17].map(reflex_tir::Expr::i64).to_vec();
    let mut x = b.param("x", TensorType::new(DType::F32, shape));
    let layers = [
        (attrs(3, 2, 1), [channels, 3, 3, 3]),
        (attrs(1, 1, 1), [channels, channels, 1, 1]),
        (attrs(3, 1, channels), [channels, 1, 3, 3]),
        (attrs(3, 2, 1), [48, channels, 3, 3]),
        (attrs(1, 1, 1), [20, 48, 1, 1]),
    ];
    for (n, (attrs, shape)) in layers.into_iter().enumerate() {
        let w = b.constant(small(&noise(&shape, 20 + n as u64)));
        x = b.emit1(Op::Conv(attrs), &[x, w]).unwrap();
    }
    let rows = b.emit1(Op::Transpose(vec![0, 2, 3, 1]), &[x]).unwrap();
    let w = b.constant(small(&noise(&[20, 33], 30)));
    let y = b.emit1(Op::MatMul, &[rows, w]).unwrap();
    b.finish(vec![y], vec!["y".into()]);
    module
}

/// Divided so that contractions of that depth stay about as large as their operands.
fn small(l: &Literal) -> Literal {
    let depth = match l.shape() {
        [depth, _] => *depth,
        [_, rest @ ..] => rest.iter().product(),
        [] => 1,
    };
    let scale = (depth as f64).sqrt();
    let values: Vec<f32> = floats(l).iter().map(|v| (v / scale) as f32).collect();
    Literal::from_f32(l.shape().to_vec(), &values)
}

#[test]
fn networks_in_blocks_stay_near_float32() {
    for channels in [32, 24, 40] {
        let module = network(channels);
        let x = [noise(&[1, 3, 15, 17], 40)];
        let got = floats(&run_with(&options(), &module, &x).unwrap()[0]);
        let f32 = Options { precision: Precision::F32, ..options() };
        let want = floats(&run_with(&f32, &module, &x).unwrap()[0]);
        let error: f64 = got.iter().zip(&want).map(|(g, w)| (g - w).powi(2)).sum();
        let size: f64 = want.iter().map(|w| w.powi(2)).sum();
        let error = (error / size).sqrt();
        // Five roundings of both operands, by 2^-9 on average at most, but some.
        assert!(error > 1e-4 && error < 1e-2, "{channels}: {error:e}");
        let compiled = run_graph(module, &options(), &NoObserver).unwrap();
        let kernels = compiled.funcs.values().filter_map(|f| match f {
            FuncData::Prim(f) => Some(dots(f)),
            FuncData::Graph(_) => None,
        });
        // All but the convolution of each channel alone.
        assert_eq!(kernels.filter(|n| *n > 0).count(), 5, "{channels}");
    }
}

/// Convolutions with and without padding, strides and blocks that are no multiple of a vector, each
/// after a rectifier; the last but one result is also added to. With `kept`, every intermediate is
/// a result, so that none is stored rounded.
fn chain(channels: i64, kept: bool) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = [1, 3, 19, 23].map(reflex_tir::Expr::i64).to_vec();
    let mut x = b.param("x", TensorType::new(DType::F32, shape));
    let zero = b.constant(Literal::from_f32(vec![1], &[0.0]));
    let layers = [
        (attrs(3, 2, 1), [channels, 3, 3, 3]),
        (attrs(1, 1, 1), [channels, channels, 1, 1]),
        (attrs(1, 2, 1), [48, channels, 1, 1]),
        (attrs(3, 2, 1), [channels, 48, 3, 3]),
        (attrs(3, 1, channels), [channels, 1, 3, 3]),
        (attrs(1, 1, 1), [channels, channels, 1, 1]),
    ];
    let mut results = vec![];
    for (n, (attrs, shape)) in layers.into_iter().enumerate() {
        let w = b.constant(small(&noise(&shape, 50 + n as u64)));
        let sum = b.emit1(Op::Conv(attrs), &[x, w]).unwrap();
        x = b.emit1(Op::Binary(Binary::Max), &[sum, zero]).unwrap();
        results.push(x);
    }
    let last = results.pop().expect("layers");
    let y = b.emit1(Op::Binary(Binary::Add), &[last, last]).unwrap();
    results.insert(0, y);
    results.truncate(if kept { 6 } else { 1 });
    let names = (0..results.len()).map(|n| format!("y{n}")).collect();
    b.finish(results, names);
    module
}

#[test]
fn tensors_that_only_convolutions_read_are_stored_rounded_and_no_bit_changes() {
    let with_tiles = || {
        let mut options = options();
        let features = &mut options.cpus[0].target.features;
        features.extend(["amx-tile", "amx-bf16"].map(str::to_owned));
        options
    };
    for channels in [32, 24, 64] {
        let kernels = |kept| {
            let compiled = run_graph(chain(channels, kept), &options(), &NoObserver).unwrap();
            let prim = |f: FuncData| match f {
                FuncData::Prim(f) => Some(f),
                FuncData::Graph(_) => None,
            };
            compiled.funcs.into_iter().filter_map(|(_, f)| prim(f)).collect::<Vec<_>>()
        };
        let stores = |f: &&PrimFunc| {
            let last = f.buffer_params().last().expect("an output");
            f.buffers[last].dtype == DType::BF16
        };
        let rounded = |kept| kernels(kept).iter().filter(stores).count();
        // All that the four dense convolutions read but for the first one's feature map.
        assert_eq!((rounded(false), rounded(true)), (4, 0), "{channels}");
        // Without padding the VNNI pairs are in memory; AMX loads them from there.
        let read_in_place = |options: &Options| {
            let of = |f: &PrimFunc| schedule_explained(f, &options.cpus[0].target).steps;
            let step = |s: &String| s == "pairs: inlined into its readers";
            kernels(false).iter().filter(|f| of(f).iter().any(step)).count()
        };
        assert_eq!((read_in_place(&options()), read_in_place(&with_tiles())), (3, 0), "{channels}");
        // Where there are enough results, the pairs of two blocks fill AMX tiles, whatever the
        // kernel.
        let whole = |f: &&PrimFunc| {
            let steps = schedule_explained(f, &with_tiles().cpus[0].target).steps;
            steps.iter().any(|s| s == "conv: VNNI pairs of two blocks interleaved")
        };
        let whole = kernels(false).iter().filter(whole).count();
        assert_eq!(whole, if channels == 64 { 2 } else { 0 }, "{channels}");
        let x = [noise(&[1, 3, 19, 23], 60)];
        let of = |options: &Options, kept| {
            floats(&run_with(options, &chain(channels, kept), &x).unwrap()[0])
        };
        let want = of(&options(), true);
        assert_eq!(of(&options(), false), want, "{channels}");
        let size = want.iter().fold(0.0_f64, |most, w| most.max(w.abs()));
        for (got, want) in of(&with_tiles(), false).iter().zip(want) {
            assert!((got - want).abs() <= 2e-6 * size, "{channels}: {got} {want}");
        }
    }
}

/// A convolution, max pooling, and two convolutions of one feature map concatenated for two more.
/// With `kept`, every intermediate is a result.
fn fire(channels: i64, kept: bool) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = [1, 3, 19, 23].map(reflex_tir::Expr::i64).to_vec();
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let zero = b.constant(Literal::from_f32(vec![1], &[0.0]));
    let mut results = vec![];
    let mut conv = |b: &mut FuncBuilder<'_>, x, attrs: ConvAttrs, shape: [i64; 4]| {
        let w = b.constant(small(&noise(&shape, 80 + results.len() as u64)));
        let y = b.emit1(Op::Conv(attrs), &[x, w]).unwrap();
        let y = b.emit1(Op::Binary(Binary::Max), &[y, zero]).unwrap();
        results.push(y);
        y
    };
    let image = conv(&mut b, x, attrs(3, 2, 1), [channels, 3, 3, 3]);
    let pool = PoolAttrs {
        kind: PoolKind::Max { indices: false },
        kernel: vec![3, 3],
        strides: vec![2, 1],
        pads_begin: vec![1, 0],
        pads_end: vec![0, 1],
        dilations: vec![1, 1],
        ceil: false,
    };
    let pooled = b.emit1(Op::Pool(pool), &[image]).unwrap();
    let narrow = conv(&mut b, pooled, attrs(1, 1, 1), [16, channels, 1, 1]);
    let left = conv(&mut b, narrow, attrs(1, 1, 1), [channels, 16, 1, 1]);
    let right = conv(&mut b, narrow, attrs(3, 1, 1), [channels, 16, 3, 3]);
    let both = b.emit1(Op::Concat { axis: 1 }, &[left, right]).unwrap();
    let last = conv(&mut b, both, attrs(1, 1, 1), [16, 2 * channels, 1, 1]);
    results.extend([pooled, both]);
    let results = if kept { results } else { vec![last] };
    let names = (0..results.len()).map(|n| format!("y{n}")).collect();
    b.finish(results, names);
    module
}

#[test]
fn what_only_chooses_elements_passes_rounded_ones_on_and_no_bit_changes() {
    for channels in [32, 24] {
        let stored = |kept| {
            let compiled = run_graph(fire(channels, kept), &options(), &NoObserver).unwrap();
            let rounded = |f: &FuncData| match f {
                FuncData::Prim(f) => {
                    let last = f.buffer_params().last().expect("an output");
                    f.buffers[last].dtype == DType::BF16
                }
                FuncData::Graph(_) => false,
            };
            compiled.funcs.values().filter(|f| rounded(f)).count()
        };
        // Of the convolutions all but the last; the pool and what joins the two.
        assert_eq!((stored(false), stored(true)), (6, 0), "{channels}");
        let x = [noise(&[1, 3, 19, 23], 90)];
        let of = |kept| run_with(&options(), &fire(channels, kept), &x).unwrap();
        assert_eq!(floats(&of(false)[0]), floats(&of(true)[4]), "{channels}");
    }
}

#[test]
fn cpus_without_the_instruction_are_refused_by_name() {
    let options = Options { precision: Precision::Bf16, ..Options::new(Level::V4.target()) };
    let error = run_graph(network(32), &options, &NoObserver).unwrap_err();
    assert!(error.to_string().contains("precision bf16 needs AVX512_BF16"), "{error}");
}
