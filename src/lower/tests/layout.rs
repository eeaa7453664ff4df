//! Random networks of convolutions: tensors in blocks of channels change nothing.

mod harness;

use harness::{agree, f32s, tensor};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, ConvAttrs, FuncData, Literal, Module, Node, Op, PadMode, PoolAttrs, PoolKind,
    ReduceKind, TensorType, Unary, Value,
};
use reflex_lower::pipeline::{NoObserver, Options, run_graph};
use reflex_lower::precision::Precision;
use reflex_tir::codegen::{CpuTarget, GpuTarget};
use reflex_tir::{DType, Expr};

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

/// A feature map of a static number of channels, and its height.
#[derive(Clone, Copy)]
struct Image {
    value: Value,
    channels: i64,
    height: i64,
}

struct Net<'a, 'm> {
    b: FuncBuilder<'m>,
    r: &'a mut Random,
    images: Vec<Image>,
    /// The type of weights.
    dtype: DType,
}

impl Net<'_, '_> {
    fn op(&mut self, op: Op, args: &[Value]) -> Value {
        self.b.emit1(op, args).unwrap()
    }

    /// Noise that keeps contractions of that depth about as large as their operands.
    fn weights(&mut self, shape: &[i64]) -> Value {
        let seed = self.r.below(1 << 20) as u64;
        let size = (shape[1..].iter().product::<i64>() as f32).sqrt();
        let noise = f32s(shape, seed);
        let scaled = noise.bytes().as_chunks().0.iter().map(|c| f32::from_le_bytes(*c) / size);
        let scaled: Vec<f32> = scaled.collect();
        let weights = self.b.constant(Literal::from_f32(shape.to_vec(), &scaled));
        match self.dtype {
            DType::F32 => weights,
            other => self.op(Op::Cast(other), &[weights]),
        }
    }

    fn conv(&mut self, x: Image, channels: i64, kernel: i64, groups: i64, bias: bool) -> Image {
        let stride = if kernel > 1 && x.height > 4 { self.r.pick(&[1, 2]) } else { 1 };
        let pad = kernel / 2;
        let attrs = ConvAttrs {
            strides: vec![stride, 1],
            pads_begin: vec![pad; 2],
            pads_end: vec![pad; 2],
            dilations: vec![1; 2],
            groups,
        };
        let mut args =
            vec![x.value, self.weights(&[channels, x.channels / groups, kernel, kernel])];
        if bias {
            args.push(self.weights(&[channels]));
        }
        let value = self.op(Op::Conv(attrs), &args);
        Image { value, channels, height: (x.height + 2 * pad - kernel) / stride + 1 }
    }

    fn pool(&mut self, x: Image) -> Image {
        let attrs = PoolAttrs {
            kind: self
                .r
                .pick(&[PoolKind::Max { indices: false }, PoolKind::Average { count_pads: false }]),
            kernel: vec![3, 3],
            strides: vec![1, 1],
            pads_begin: vec![1, 1],
            pads_end: vec![1, 1],
            dilations: vec![1, 1],
            ceil: false,
        };
        Image { value: self.op(Op::Pool(attrs), &[x.value]), ..x }
    }

    /// `x` times what its channels are on average.
    fn gated(&mut self, x: Image) -> Image {
        let mean = Op::Reduce { kind: ReduceKind::Mean, axes: vec![2, 3], keep_dims: true };
        let gate = self.op(mean, &[x.value]);
        let gate = self.op(Op::Unary(Unary::Sigmoid), &[gate]);
        Image { value: self.op(Op::Binary(Binary::Mul), &[x.value, gate]), ..x }
    }

    /// Some of its channels: in whole blocks, or not.
    fn part(&mut self, x: Image) -> Image {
        let extent = [x.channels.min(16), (x.channels / 2).max(1)];
        let (channels, begin) = (self.r.pick(&extent), self.r.pick(&[0, x.channels / 2]));
        let begin = begin.min(x.channels - channels);
        let shape = self.b.tensor(x.value).shape.clone();
        let mut extents = shape;
        extents[1] = Expr::i64(channels);
        let begins = vec![Expr::i64(0), Expr::i64(begin), Expr::i64(0), Expr::i64(0)];
        let slice = Op::Slice { begin: begins, shape: extents, stride: vec![1; 4] };
        Image { value: self.op(slice, &[x.value]), channels, ..x }
    }

    fn step(&mut self) -> Image {
        let recent = self.images.len().saturating_sub(3);
        let x = self.r.pick(&self.images[recent..]);
        let alike: Vec<Image> = self
            .images
            .iter()
            .filter(|i| i.channels == x.channels && i.height == x.height)
            .copied()
            .collect();
        let y = self.r.pick(&alike);
        let bias = self.r.below(2) == 0;
        match self.r.below(12) {
            0..=2 => {
                let (channels, kernel) =
                    (self.r.pick(&[16, 24, 32, 48, 64, 5]), self.r.pick(&[1, 3]));
                self.conv(x, channels, kernel, 1, bias)
            }
            3 | 4 => self.conv(x, x.channels, 3, x.channels, bias),
            5 => self.conv(x, x.channels, 1, if x.channels % 2 == 0 { 2 } else { 1 }, bias),
            6 => Image { value: self.op(Op::Binary(Binary::Add), &[x.value, y.value]), ..x },
            7 => {
                let less = self.op(Op::Binary(Binary::Less), &[x.value, y.value]);
                Image { value: self.op(Op::Where, &[less, x.value, y.value]), ..x }
            }
            8 => self.pool(x),
            9 => {
                let value = self.op(Op::Concat { axis: 1 }, &[x.value, y.value]);
                Image { value, channels: 2 * x.channels, ..x }
            }
            10 => self.part(x),
            _ => self.gated(x),
        }
    }
}

fn network(seed: u64) -> Module {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let n = Expr::var(b.sym("n"));
    let shape = vec![n, Expr::i64(3), Expr::i64(9), Expr::i64(7)];
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let mut net = Net { b, r: &mut random, images: vec![], dtype: DType::F32 };
    let input = Image { value: x, channels: 3, height: 9 };
    let first = net.conv(input, 16, 3, 1, true);
    net.images.push(first);
    for _ in 0..7 {
        let image = net.step();
        if image.channels <= 96 {
            net.images.push(image);
        }
    }
    let last = *net.images.last().unwrap();
    let rectified = net.op(Op::Unary(Unary::Tanh), &[last.value]);
    let mean = Op::Reduce { kind: ReduceKind::Mean, axes: vec![2, 3], keep_dims: false };
    let mean = net.op(mean, &[rectified]);
    let other = net.r.pick(&net.images.clone());
    net.b.finish(vec![mean, other.value], vec!["mean".into(), "other".into()]);
    module
}

/// The number of values of the compiled module with five dimensions.
fn in_blocks(module: &Module) -> usize {
    in_blocks_with(module, &Options::new(CpuTarget::host()))
}

fn in_blocks_with(module: &Module, options: &Options) -> usize {
    let module = run_graph(module.clone(), options, &NoObserver).unwrap();
    let rank =
        |v: Value, f: &reflex_graph::Func| f.values[v].ty.as_tensor().map_or(0, |t| t.shape.len());
    let graphs = module.funcs.values().filter_map(|f| match f {
        FuncData::Graph(f) => Some(f),
        FuncData::Prim(_) => None,
    });
    graphs
        .flat_map(|f| f.body.bindings.iter().map(move |b| (f, b)))
        .filter(|(f, b)| matches!(b.node, Node::CallTir { .. }) && rank(b.outputs[0], f) == 5)
        .count()
}

#[test]
fn networks_answer_as_the_graph_does() {
    let mut blocked = 0;
    for seed in 0..20 {
        let module = network(seed);
        blocked += in_blocks(&module);
        for n in [1, 2] {
            agree(&module, &[f32s(&[n, 3, 9, 7], seed + 1)]);
        }
    }
    assert!(CpuTarget::host().vector_bytes < 32 || blocked > 15, "{blocked}");
}

/// A depthwise convolution between two dense ones, over a feature map of a given shape.
fn low_image(extents: [i64; 2], strides: [i64; 2], kernel: [i64; 2]) -> Module {
    let mut random = Random(7);
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let mut shape = vec![Expr::var(b.sym("n")), Expr::i64(3)];
    shape.extend(extents.map(Expr::i64));
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let mut net = Net { b, r: &mut random, images: vec![], dtype: DType::F32 };
    let image = Image { value: x, channels: 3, height: extents[0] };
    let wide = net.conv(image, 64, 1, 1, true);
    let pads = kernel.map(|k| k / 2).to_vec();
    let attrs = ConvAttrs {
        strides: strides.to_vec(),
        pads_begin: pads.clone(),
        pads_end: pads,
        dilations: vec![1; 2],
        groups: 64,
    };
    let weights = net.weights(&[64, 1, kernel[0], kernel[1]]);
    let value = net.op(Op::Conv(attrs), &[wide.value, weights]);
    let alone = Image { value, ..wide };
    let last = net.conv(alone, 32, 1, 1, false);
    net.b.finish(vec![last.value], vec!["y".into()]);
    module
}

#[test]
fn windows_may_cover_the_image() {
    // Rows, columns, or both; last, kernels that do not cover it.
    let mut blocked = 0;
    let low = [[2, 9], [3, 7], [9, 2], [3, 3], [1, 5], [2, 1], [4, 9]];
    for extents in low {
        for (strides, kernel) in [([1, 1], [5, 5]), ([2, 1], [5, 5]), ([1, 2], [7, 5])] {
            let module = low_image(extents, strides, kernel);
            blocked += in_blocks(&module);
            agree(&module, &[f32s(&[2, 3, extents[0], extents[1]], 3)]);
        }
    }
    assert!(CpuTarget::host().vector_bytes < 32 || blocked > 30, "{blocked}");
}

/// Convolutions of 16-bit floats, or rounded to them: a sum with a bias, then two of it that meet.
fn network_of_halves(dtype: DType) -> Module {
    let mut random = Random(5);
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = [1, 3, 5, 4].map(Expr::i64).to_vec();
    let x = b.param("x", TensorType::new(dtype, shape));
    let mut net = Net { b, r: &mut random, images: vec![], dtype };
    let input = Image { value: x, channels: 3, height: 5 };
    let first = net.conv(input, 16, 1, 1, true);
    let value = net.op(Op::Unary(Unary::Tanh), &[first.value]);
    let first = Image { value, ..first };
    let left = net.conv(first, 24, 3, 1, true);
    let right = net.conv(first, 24, 3, 1, false);
    let right = net.pool(right);
    net.b.finish(vec![left.value, right.value], vec!["left".into(), "right".into()]);
    module
}

/// Their results are in the workspace's `tests/gpu_convolutions.rs`: the evaluator takes minutes.
#[test]
fn a_gpu_keeps_feature_maps_of_tensor_cores_with_channels_last() {
    for (dtype, precision) in [(DType::F16, Precision::F32), (DType::F32, Precision::Bf16)] {
        for gpu in GpuTarget::known() {
            let module = network_of_halves(dtype);
            let mut options = Options::new(CpuTarget::host());
            options.schedule_for = Some(gpu);
            let halves = usize::from(dtype.is_half());
            assert_eq!(in_blocks_with(&module, &options), halves, "{dtype} in precision f32");
            options.precision = precision;
            assert_eq!(in_blocks_with(&module, &options), 1, "{dtype}");
        }
    }
}

/// Networks of 8-bit integers: `x` of each image has codes, with a zero point of 7.
impl Net<'_, '_> {
    fn number(&mut self, value: f32) -> Value {
        self.b.constant(Literal::from_f32(vec![], &[value]))
    }

    fn dequantized(&mut self, x: Value) -> Value {
        let wide = self.op(Op::Cast(DType::F32), &[x]);
        let [zero, scale] = [7.0, 0.03].map(|n| self.number(n));
        let moved = self.op(Op::Binary(Binary::Sub), &[wide, zero]);
        self.op(Op::Binary(Binary::Mul), &[moved, scale])
    }

    fn quantized(&mut self, x: Value) -> Value {
        let (to, low, high) = self.r.pick(&[(DType::U8, 0.0, 255.0), (DType::I8, -128.0, 127.0)]);
        let [scale, zero, low, high] = [0.03, 7.0, low, high].map(|n| self.number(n));
        let x = self.op(Op::Binary(Binary::Div), &[x, scale]);
        let x = self.op(Op::Unary(Unary::Round), &[x]);
        let x = self.op(Op::Binary(Binary::Add), &[x, zero]);
        let x = self.op(Op::Binary(Binary::Max), &[x, low]);
        let x = self.op(Op::Binary(Binary::Min), &[x, high]);
        self.op(Op::Cast(to), &[x])
    }

    /// A convolution of codes, scaled by channels and quantized again.
    fn integer_conv(&mut self, x: Image, channels: i64, kernel: i64, groups: i64) -> Image {
        let stride = if kernel > 1 && x.height > 4 { self.r.pick(&[1, 2]) } else { 1 };
        let (pad, dtype) = (kernel / 2, self.r.pick(&[DType::I8, DType::U8]));
        let shape = vec![channels, x.channels / groups, kernel, kernel];
        let (count, seed) = (shape.iter().product::<i64>(), self.r.below(1 << 20) as i64);
        let bytes = (0..count).map(|n| (((n + seed) * (n + 31) * 89) >> 3) as u8).collect();
        let w = self.b.constant(tensor(dtype, &shape, bytes));
        let mut attrs = ConvAttrs {
            strides: vec![stride; 2],
            pads_begin: vec![pad; 2],
            pads_end: vec![pad; 2],
            dilations: vec![1; 2],
            groups,
        };
        let mut codes = x.value;
        if self.r.below(2) == 0 && pad > 0 {
            let around = [0, 0, pad, pad].map(Expr::i64).to_vec();
            let (before, after, mode) = (around.clone(), around, PadMode::Constant);
            let code = self.b.tensor(codes).dtype;
            let zero = self.b.constant(tensor(code, &[], vec![7]));
            codes = self.op(Op::Pad { mode, before, after }, &[codes, zero]);
            (attrs.pads_begin, attrs.pads_end) = (vec![0; 2], vec![0; 2]);
        }
        let sums = self.op(Op::ConvInteger(attrs), &[codes, w]);
        let sums = self.op(Op::Cast(DType::F32), &[sums]);
        let scale = self.weights(&[channels, 1, 1]);
        let small = self.number(1e-4);
        let scale = self.op(Op::Binary(Binary::Mul), &[scale, small]);
        let value = self.op(Op::Binary(Binary::Mul), &[sums, scale]);
        let value = self.quantized(value);
        Image { value, channels, height: (x.height + 2 * pad - kernel) / stride + 1 }
    }

    fn integer_step(&mut self) -> Image {
        let recent = self.images.len().saturating_sub(3);
        let x = self.r.pick(&self.images[recent..]);
        match self.r.below(8) {
            0..=3 => {
                let kernel = self.r.pick(&[1, 3]);
                let channels = self.r.pick(&[16, 24, 32, 64, 5]);
                self.integer_conv(x, channels, kernel, 1)
            }
            4 => self.integer_conv(x, x.channels, 3, x.channels),
            5 => {
                let wide = self.dequantized(x.value);
                let gate = self.op(Op::Unary(Unary::Sigmoid), &[wide]);
                let gated = self.op(Op::Binary(Binary::Mul), &[wide, gate]);
                Image { value: self.quantized(gated), ..x }
            }
            6 => {
                let other = self.integer_conv(x, x.channels, 1, 1);
                let [a, b] = [x.value, other.value].map(|codes| self.dequantized(codes));
                let sum = self.op(Op::Binary(Binary::Add), &[a, b]);
                Image { value: self.quantized(sum), ..x }
            }
            _ => {
                let dtype = self.b.tensor(x.value).dtype;
                let other = self.integer_conv(x, 16, 1, 1);
                let other = self.op(Op::Cast(dtype), &[other.value]);
                let value = self.op(Op::Concat { axis: 1 }, &[x.value, other]);
                Image { value, channels: x.channels + 16, ..x }
            }
        }
    }
}

fn network_of_codes(seed: u64) -> Module {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let n = Expr::var(b.sym("n"));
    let shape = vec![n, Expr::i64(3), Expr::i64(11), Expr::i64(11)];
    let x = b.param("x", TensorType::new(DType::U8, shape));
    let mut net = Net { b, r: &mut random, images: vec![], dtype: DType::F32 };
    let input = Image { value: x, channels: 3, height: 11 };
    let first = net.integer_conv(input, 16, 3, 1);
    net.images.push(first);
    for _ in 0..7 {
        let image = net.integer_step();
        if image.channels <= 96 {
            net.images.push(image);
        }
    }
    let last = *net.images.last().unwrap();
    let codes = net.op(Op::Cast(DType::I32), &[last.value]);
    let largest = Op::Reduce { kind: ReduceKind::Max, axes: vec![2, 3], keep_dims: false };
    let largest = net.op(largest, &[codes]);
    let other = net.r.pick(&net.images.clone());
    net.b.finish(vec![largest, other.value], vec!["largest".into(), "other".into()]);
    module
}

#[test]
fn networks_of_codes_answer_as_the_graph_does() {
    let mut blocked = 0;
    for seed in 0..14 {
        let module = network_of_codes(seed);
        blocked += in_blocks(&module);
        for n in [1, 2] {
            let bytes = (0..n * 363).map(|i| ((i * (i + 31) * 89) >> 3) as u8).collect();
            agree(&module, &[tensor(DType::U8, &[n, 3, 11, 11], bytes)]);
        }
    }
    assert!(CpuTarget::host().vector_bytes < 32 || blocked > 12, "{blocked}");
}
