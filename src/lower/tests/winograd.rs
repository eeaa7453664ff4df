//! Winograd convolutions: the error against exact sums, and that they are chosen at all.

mod harness;

use harness::{agree, f32s, run, run_with};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Binary, ConvAttrs, FuncData, Literal, Module, Op, TensorType, Unary};
use reflex_lower::optimize_for::OptimizeFor;
use reflex_lower::pipeline::{NoObserver, Options, run_graph};
use reflex_lower::schedule::{Scheduled, schedule_explained};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Expr};

fn attrs(window: [i64; 2]) -> ConvAttrs {
    let around = window.map(|n| n / 2).to_vec();
    ConvAttrs {
        strides: vec![1; 2],
        pads_begin: around.clone(),
        pads_end: around,
        dilations: vec![1; 2],
        groups: 1,
    }
}

/// A pointwise convolution (whose result is blocked), then one of kernels as `weights` has them;
/// with a bias, a residual and a SiLU where `rich`.
fn network(
    channels: [i64; 3],
    weights: [&Literal; 2],
    dims: [Option<i64>; 3],
    rich: bool,
) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let mut dim = |n: Option<i64>, name: &str| n.map_or_else(|| Expr::var(b.sym(name)), Expr::i64);
    let shape = vec![dim(dims[0], "n"), channels[0].into(), dim(dims[1], "h"), dim(dims[2], "w")];
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let [first, second] = weights.map(|w| b.constant(w.clone()));
    let mid = b.emit1(Op::Conv(attrs([1, 1])), &[x, first]).unwrap();
    let bias = b.constant(f32s(&[channels[2]], 5));
    let args = if rich { vec![mid, second, bias] } else { vec![mid, second] };
    let window = attrs([weights[1].shape()[2], weights[1].shape()[3]]);
    let mut y = b.emit1(Op::Conv(window), &args).unwrap();
    if rich {
        let gate = b.emit1(Op::Unary(Unary::Sigmoid), &[y]).unwrap();
        y = b.emit1(Op::Binary(Binary::Mul), &[y, gate]).unwrap();
        y = b.emit1(Op::Binary(Binary::Add), &[y, mid]).unwrap();
        let last = b.constant(scaled(&[16, channels[2], 1, 1], 9));
        y = b.emit1(Op::Conv(attrs([1, 1])), &[y, last]).unwrap();
    }
    b.finish(vec![y], vec!["y".into()]);
    module
}

/// Noise that keeps contractions of that depth about as large as their operands.
fn scaled(shape: &[i64], seed: u64) -> Literal {
    let size = (shape[1..].iter().product::<i64>() as f32).sqrt();
    let values: Vec<f32> = floats(&f32s(shape, seed)).iter().map(|v| v / size).collect();
    Literal::from_f32(shape.to_vec(), &values)
}

fn floats(l: &Literal) -> Vec<f32> {
    l.bytes().as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
}

/// The schedules of the compiled module's kernels for this CPU's vectors, a cache of one MiB and no
/// AMX, whatever this CPU has of these.
fn scheduled(module: &Module) -> Vec<Scheduled> {
    let mut options = Options::new(CpuTarget::host());
    let target = &mut options.cpus[0].target;
    target.features.retain(|f| !f.starts_with("amx"));
    target.l2_bytes = 1 << 20;
    let module = run_graph(module.clone(), &options, &NoObserver).unwrap();
    let kernels = module.funcs.values().filter_map(|f| match f {
        FuncData::Prim(f) => Some(f),
        FuncData::Graph(_) => None,
    });
    kernels.map(|f| schedule_explained(f, &options.cpus[0].target)).collect()
}

/// The number of stages of the module's kernels that the rule for Winograd transforms takes.
fn by_tiles(module: &Module) -> usize {
    let kernels = scheduled(module).into_iter();
    kernels.flat_map(|k| k.decisions).filter(|d| d.rule == "winograd transform").count()
}

#[test]
fn convolutions_by_tiles_answer_as_the_graph_does() {
    let wide = CpuTarget::host().vector_bytes >= 32;
    // Large feature maps take tiles of 4, small ones of 2; a symbolic size counts as large.
    let cases = [
        ([16, 32, 32], [13, 18], [None; 3], [3, 3]),
        ([16, 48, 48], [8, 9], [Some(1), Some(8), Some(9)], [3, 3]),
        ([16, 32, 32], [2, 7], [None; 3], [3, 3]),
        ([16, 48, 48], [11, 6], [None; 3], [3, 1]),
        ([16, 48, 48], [3, 13], [None; 3], [1, 5]),
        ([16, 32, 32], [9, 10], [None; 3], [5, 5]),
        ([16, 48, 48], [9, 10], [None; 3], [5, 3]),
    ];
    for (channels, [h, w], dims, [r, s]) in cases {
        let weights = [
            scaled(&[channels[1], channels[0], 1, 1], 1),
            scaled(&[channels[2], channels[1], r, s], 2),
        ];
        let [first, second] = &weights;
        let module = network(channels, [first, second], dims, true);
        if wide {
            assert_eq!(by_tiles(&module), 2, "{channels:?} {h} {w} {r} {s}");
        }
        agree(&module, &[f32s(&[1, channels[0], h, w], 3)]);
    }
}

/// A convolution of float16 over any width.
fn of_halves(channels: i64) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let width = Expr::var(b.sym("w"));
    let shape = vec![1.into(), channels.into(), 1.into(), width];
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let weights = b.constant(scaled(&[channels, channels, 1, 5], 2));
    let [x, weights] = [x, weights].map(|v| b.emit1(Op::Cast(DType::F16), &[v]).unwrap());
    let y = b.emit1(Op::Conv(attrs([1, 5])), &[x, weights]).unwrap();
    b.finish(vec![y], vec!["y".into()]);
    module
}

#[test]
fn known_shapes_keep_the_tiles_of_symbolic_ones_in_float16_too() {
    let general = of_halves(64);
    let mut bound = general.clone();
    for func in bound.funcs.values_mut() {
        let FuncData::Graph(func) = func else { continue };
        let dims = func.infer_symbolic_var_map(&[&[1, 64, 1, 5]]);
        func.bind_symbolic_vars(&dims);
    }
    if CpuTarget::host().vector_bytes >= 32 {
        assert_eq!((by_tiles(&general), by_tiles(&bound)), (2, 2));
    }
}

/// Steps of the module's kernels that divide a feature map into strips.
fn in_strips(module: &Module) -> usize {
    let kernels = scheduled(module).into_iter();
    kernels.flat_map(|k| k.steps).filter(|step| step.contains("in strips of")).count()
}

#[test]
fn strips_of_an_image_answer_as_the_graph_does() {
    // Partial rows and columns of tiles, several feature maps, static and symbolic shapes, kernels
    // in one direction.
    let cases = [
        (16, [Some(1), Some(26), Some(50)], [3, 3]),
        (16, [Some(2), Some(16), Some(52)], [3, 3]),
        (16, [None, Some(26), Some(50)], [3, 3]),
        (16, [None; 3], [3, 3]),
        (48, [None, Some(22), Some(20)], [3, 1]),
        (48, [None, Some(8), Some(62)], [1, 3]),
    ];
    for (channels, dims, [r, s]) in cases {
        let weights = [scaled(&[channels, 4, 1, 1], 1), scaled(&[channels, channels, r, s], 2)];
        let [first, second] = &weights;
        let module = network([4, channels, channels], [first, second], dims, true);
        if CpuTarget::host().vector_bytes >= 32 {
            assert_eq!(in_strips(&module), 1, "{dims:?} {r} {s}");
        }
        let shape = [dims[0].unwrap_or(2), 4, dims[1].unwrap_or(11), dims[2].unwrap_or(21)];
        agree(&module, &[f32s(&shape, 3)]);
    }
}

/// Between tensors that are plain: read and written otherwise, a feature map is copied into blocks.
#[test]
fn plain_images_are_copied_into_blocks() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = vec![Expr::var(b.sym("n")), Expr::var(b.sym("l")), Expr::i64(64), Expr::i64(1)];
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let w = b.constant(scaled(&[96, 64, 5, 1], 4));
    let x = b.emit1(Op::Transpose(vec![0, 2, 1, 3]), &[x]).unwrap();
    let mut window = attrs([5, 1]);
    (window.pads_begin, window.pads_end) = (vec![0, 0], vec![0, 0]);
    let y = b.emit1(Op::Conv(window), &[x, w]).unwrap();
    b.finish(vec![y], vec!["y".into()]);
    if CpuTarget::host().vector_bytes >= 32 {
        assert_eq!(by_tiles(&module), 2);
    }
    for length in [6, 9, 32] {
        agree(&module, &[f32s(&[2, length, 64, 1], 3)]);
    }
}

/// The largest error as a part of the sum of absolute products: eight times the spacing of float32
/// at most, and no more than eight times the error of a float32 sum in order.
#[test]
fn the_error_is_near_that_of_float32() {
    let (ci, co) = (64i64, 32i64);
    let cases = [(12, 12, 3, 3), (8, 8, 3, 3), (6, 24, 1, 5), (6, 24, 1, 3), (12, 12, 5, 5)];
    for (h, w, r, s) in cases {
        let mut identity = vec![0.0f32; (ci * ci) as usize];
        (0..ci as usize).for_each(|n| identity[n * ci as usize + n] = 1.0);
        let identity = Literal::from_f32(vec![ci, ci, 1, 1], &identity);
        let weights = f32s(&[co, ci, r, s], 7);
        let module =
            network([ci, ci, co], [&identity, &weights], [Some(1), Some(h), Some(w)], false);
        let x = f32s(&[1, ci, h, w], 8);
        if CpuTarget::host().vector_bytes >= 32 {
            assert_eq!(by_tiles(&module), 2);
        }
        near_float32(&module, &x, &weights, 1);
    }
}

/// Holds the error of a Winograd convolution, with half of a kernel around the feature map, against
/// that of a sum in order.
fn near_float32(module: &Module, image: &Literal, weights: &Literal, step: i64) {
    let got = floats(&run(module, std::slice::from_ref(image)).unwrap()[0]);
    let ([_, ci, h, w], [_, _, r, s]) = (image.shape(), weights.shape()) else {
        panic!("images and weights have four axes")
    };
    let (ci, h, w, r, s) = (*ci, *h, *w, *r, *s);
    let (x, weights) = (floats(image), floats(weights));
    let places = [(h, r), (w, s)].map(|(n, taps)| (n + taps / 2 * 2 - taps) / step + 1);
    let (mut tiles, mut plain) = (0.0f64, 0.0f64);
    for (n, got) in got.iter().enumerate() {
        let n = n as i64;
        let (o, y, z) = (n / (places[0] * places[1]), n / places[1] % places[0], n % places[1]);
        let (mut exact, mut size, mut sum) = (0.0f64, 0.0f64, 0.0f32);
        for at in 0..ci * r * s {
            let (c, i, j) =
                (at / (r * s), y * step + at / s % r - r / 2, z * step + at % s - s / 2);
            if (0..h).contains(&i) && (0..w).contains(&j) {
                let (a, b) =
                    (x[((c * h + i) * w + j) as usize], weights[(o * ci * r * s + at) as usize]);
                exact += f64::from(a) * f64::from(b);
                size += (f64::from(a) * f64::from(b)).abs();
                sum = a.mul_add(b, sum);
            }
        }
        tiles = tiles.max((f64::from(*got) - exact).abs() / size);
        plain = plain.max((f64::from(sum) - exact).abs() / size);
    }
    let near = tiles <= 8.0 * f64::from(f32::EPSILON) && tiles <= 8.0 * plain;
    let case = format!("{ci}x{h}x{w}, {r}x{s} by {step}");
    println!("{case}: {:.2} and {:.2} of 2^-20", tiles * 1048576.0, plain * 1048576.0);
    assert!(near, "{case}: {tiles:e} by tiles, {plain:e} in order");
}

/// A convolution of stride 2 over few channels.
fn first_of(dims: [Option<i64>; 3], weights: &Literal, around: [i64; 2], rich: bool) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let mut dim = |n: Option<i64>, name: &str| n.map_or_else(|| Expr::var(b.sym(name)), Expr::i64);
    let ci = weights.shape()[1];
    let shape = vec![dim(dims[0], "n"), ci.into(), dim(dims[1], "h"), dim(dims[2], "w")];
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let w = b.constant(weights.clone());
    let bias = b.constant(f32s(&weights.shape()[..1], 5));
    let args = if rich { vec![x, w, bias] } else { vec![x, w] };
    let attrs = ConvAttrs {
        strides: vec![2; 2],
        pads_begin: around.to_vec(),
        pads_end: around.to_vec(),
        dilations: vec![1; 2],
        groups: 1,
    };
    let mut y = b.emit1(Op::Conv(attrs), &args).unwrap();
    if rich {
        y = b.emit1(Op::Unary(Unary::Sigmoid), &[y]).unwrap();
        let last = b.constant(scaled(&[16, weights.shape()[0], 1, 1], 9));
        y = b.emit1(Op::Conv(self::attrs([1, 1])), &[y, last]).unwrap();
    }
    b.finish(vec![y], vec!["y".into()]);
    module
}

/// Kernels of stride 2 are taken by phases of the feature map: with rows and columns of even and of
/// odd number, kernels that lack a phase, padding of any width, several feature maps, what is known
/// and what is not.
#[test]
fn windows_of_stride_two_answer_as_the_graph_does() {
    let cases = [
        ([Some(1), Some(55), Some(53)], [64, 3, 7, 7], [2, 3]),
        ([None; 3], [64, 3, 7, 7], [3, 3]),
        ([Some(1), Some(63), Some(60)], [64, 2, 8, 7], [0, 3]),
        ([None, Some(52), Some(60)], [48, 4, 5, 7], [1, 3]),
    ];
    for (dims, weights, around) in cases {
        let w = scaled(&weights, 2);
        let module = first_of(dims, &w, around, true);
        if CpuTarget::host().vector_bytes >= 32 {
            assert_eq!(by_tiles(&module), 2, "{weights:?}");
        }
        let shape =
            [dims[0].unwrap_or(2), weights[1], dims[1].unwrap_or(25), dims[2].unwrap_or(20)];
        agree(&module, &[f32s(&shape, 3)]);
    }
}

/// As of kernels of stride 1.
#[test]
fn the_error_by_phases_is_near_that_of_float32() {
    for (ci, h, w) in [(3, 56, 80), (4, 48, 56)] {
        let weights = f32s(&[64, ci, 7, 7], 7);
        let module = first_of([Some(1), Some(h), Some(w)], &weights, [3, 3], false);
        if CpuTarget::host().vector_bytes >= 32 {
            assert_eq!(by_tiles(&module), 2);
        }
        near_float32(&module, &f32s(&[1, ci, h, w], 8), &weights, 2);
    }
}

/// Bytes of the constants of a module after the graph passes.
fn constant_bytes(module: &Module, options: &Options) -> usize {
    let module = run_graph(module.clone(), options, &NoObserver).unwrap();
    module.consts.values().map(Literal::size).sum()
}

/// Optimised for size, weights take the bytes that the model's do, and answers are the same within
/// rounding.
#[test]
fn direct_sums_take_the_bytes_of_the_model() {
    let weights = [scaled(&[32, 16, 1, 1], 1), scaled(&[32, 32, 3, 3], 2)];
    let module = network([16, 32, 32], [&weights[0], &weights[1]], [None; 3], true);
    let model: usize = module.consts.values().map(Literal::size).sum();
    let fast = Options::new(CpuTarget::host());
    let small = Options { optimize_for: OptimizeFor::Size, ..fast.clone() };
    assert_eq!(constant_bytes(&module, &small), model);
    if CpuTarget::host().vector_bytes >= 32 {
        // Tiles of 4 by 4 from kernels of 3 by 3: 36 elements for 9.
        assert_eq!(constant_bytes(&module, &fast), model + (36 - 9) * 32 * 32 * 4);
    }
    let args = [f32s(&[1, 16, 13, 18], 3)];
    let [one, other] = [&fast, &small].map(|o| run_with(o, &module, &args).unwrap().remove(0));
    let pairs = floats(&one).into_iter().zip(floats(&other));
    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4));
}
