//! Dense convolutions in blocked layout as split-bf16 multiply-accumulates in AMX registers: errors of
//! their results next to those of float32, by class of input, and inputs that cannot be split.

#[path = "../../../tests/common/amx.rs"]
mod amx;
mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use common::{Kernel, assert_same};
use reflex_tir::DType;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor, eval};
use reflex_tir::level::Level;
use reflex_tir::script::parse;

#[path = "../../../src/tir/tests/common/mod.rs"]
#[allow(unused_imports)]
mod tir;
use tir::Bits;

/// Channels of a block.
const BLOCK: usize = 16;
/// Positions on a side of every result.
const SIDE: usize = 14;
/// Of so many channels of results one is looked at.
const STEP: usize = 29;

/// A CPU with the unit: this one, or one whose other instructions this one has.
fn target() -> Option<CpuTarget> {
    let mut host = CpuTarget::host();
    if !host.has_amx_bf16() {
        if !Level::V4.runs_on_host() {
            skip::skip("AVX-512");
            return None;
        }
        amx::install();
        for feature in ["avx512bf16", "amx-tile", "amx-bf16"] {
            host.features.insert(feature.to_owned());
        }
    }
    Some(host)
}

/// A kernel of a text test: filters of `taps` by `taps` over feature maps of `side` by `side`.
struct Conv {
    kernel: Kernel,
    channels: usize,
    outputs: usize,
    side: usize,
    taps: usize,
    /// Whether the result is in blocks too.
    blocks: bool,
}

impl Conv {
    /// The kernels of a file that use matrix registers: with filters of stride 2, and pointwise.
    fn of(file: &str, target: &CpuTarget) -> [Conv; 2] {
        let mut all: Vec<Conv> = by_tiles(file).map(|text| Conv::compiled(text, target)).collect();
        all.sort_by_key(|c| std::cmp::Reverse(c.taps));
        let Ok(both) = all.try_into() else { panic!("two kernels by terms") };
        both
    }

    fn compiled(text: &str, target: &CpuTarget) -> Conv {
        let func = parse(text).unwrap();
        // Zero where it is known only when the kernel runs.
        let extents = |b| func.buffers[b].shape.iter().map(|e| e.as_int().unwrap_or(0) as usize);
        let shapes: Vec<Vec<usize>> = func.buffer_params().map(|b| extents(b).collect()).collect();
        let [x, w, y] = &shapes[..] else { panic!("an image, weights and a result: {shapes:?}") };
        let channels = x[1] * BLOCK;
        let taps = (w[1] / channels).isqrt();
        let (outputs, blocks) = (w[0] * BLOCK, y.len() == 5);
        let kernel = Kernel::for_target(&func, OptLevel::O3, target);
        // Those with filters larger than 1 by 1 have stride 2.
        let side = if taps == 1 { SIDE } else { 2 * SIDE };
        assert!([side, 0].contains(&x[2]));
        Conv { kernel, channels, outputs, side, taps, blocks }
    }

    fn image_len(&self) -> usize {
        self.channels * self.side * self.side
    }

    fn weights_len(&self) -> usize {
        self.outputs * self.depth()
    }

    /// Multiply-accumulates for a result.
    fn depth(&self) -> usize {
        self.channels * self.taps * self.taps
    }

    /// Operands whose elements follow each other by channel, row and column; those of the weights by
    /// result first.
    fn factors(&self, mut element: impl FnMut(usize) -> f32) -> Operands<'_> {
        let x = (0..self.image_len()).map(&mut element).collect();
        Operands { of: self, x, w: (0..self.weights_len()).map(element).collect() }
    }
}

/// The operands of a kernel.
struct Operands<'a> {
    of: &'a Conv,
    x: Vec<f32>,
    w: Vec<f32>,
}

impl Operands<'_> {
    /// The element of a padded feature map.
    fn image(&self, channel: usize, [row, column]: [usize; 2]) -> f32 {
        let (side, pad) = (self.of.side, self.of.taps / 2);
        let inside = |n: usize| n.checked_sub(pad).filter(|n| *n < side);
        match (inside(row), inside(column)) {
            (Some(row), Some(column)) => self.x[(channel * side + row) * side + column],
            _ => 0.0,
        }
    }

    /// A step for each multiply-accumulate of a result, in the order of the naive kernel, from `zero`.
    fn sums<T: Copy>(&self, zero: T, step: impl Fn(T, f32, f32) -> T) -> Vec<T> {
        let Conv { taps, .. } = *self.of;
        let stride = self.of.side / SIDE;
        let element = |output: usize, at: usize| {
            let first = [at / SIDE * stride, at % SIDE * stride];
            (0..self.of.depth()).fold(zero, |sum, k| {
                let (channel, tap) = (k / (taps * taps), k % (taps * taps));
                let at = [first[0] + tap / taps, first[1] + tap % taps];
                step(sum, self.image(channel, at), self.w[output * self.of.depth() + k])
            })
        };
        let outputs = (0..self.of.outputs).step_by(STEP);
        outputs
            .flat_map(|o| (0..SIDE * SIDE).map(move |at| (o, at)))
            .map(|(o, at)| element(o, at))
            .collect()
    }

    /// The result of the float32 nest: one multiply-add after the other.
    fn in_order(&self) -> Vec<f32> {
        self.sums(0.0, |sum, a, b| a.mul_add(b, sum))
    }

    /// The largest error relative to the sum of absolute products.
    fn error(&self, got: &[f32]) -> f64 {
        let exact = self.sums(0.0, |sum, a, b| sum + f64::from(a) * f64::from(b));
        let size = self.sums(0.0, |sum, a, b| sum + (f64::from(a) * f64::from(b)).abs());
        let each = got.iter().zip(exact).zip(size).filter(|(_, size)| *size > 0.0);
        each.map(|((got, exact), size)| (f64::from(*got) - exact).abs() / size).fold(0.0, f64::max)
    }

    /// Those results that are looked at.
    fn run(&self) -> Vec<f32> {
        let Conv { channels, outputs, side, blocks, .. } = *self.of;
        let area = side * side;
        let in_blocks = |n: usize| {
            let (block, rest) = (n / (area * BLOCK), n % (area * BLOCK));
            self.x[(block * BLOCK + rest % BLOCK) * area + rest / BLOCK]
        };
        let packed = |n: usize| {
            let (panel, rest) = (n / (self.of.depth() * BLOCK), n % (self.of.depth() * BLOCK));
            self.w[(panel * BLOCK + rest % BLOCK) * self.of.depth() + rest / BLOCK]
        };
        let x: Vec<f32> = (0..self.x.len()).map(in_blocks).collect();
        let w: Vec<f32> = (0..self.w.len()).map(packed).collect();
        let tensor = |shape: &[usize], values: &[f32]| {
            let shape: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
            EvalArg::Tensor(EvalTensor::f32(&shape, values))
        };
        let y = vec![7.0; outputs * SIDE * SIDE];
        let shape: &[usize] = match blocks {
            true => &[1, outputs / BLOCK, SIDE, SIDE, BLOCK],
            false => &[1, outputs, SIDE, SIDE],
        };
        let mut args = [
            tensor(&[1, channels / BLOCK, side, side, BLOCK], &x),
            tensor(&[outputs / BLOCK, self.of.depth(), BLOCK], &w),
            tensor(shape, &y),
        ];
        self.of.kernel.run(&mut args).unwrap();
        let y = args[2].tensor().to_f32();
        let place = |o: usize, at: usize| match blocks {
            true => (o / BLOCK * SIDE * SIDE + at) * BLOCK + o % BLOCK,
            false => o * SIDE * SIDE + at,
        };
        let looked_at = (0..outputs).step_by(STEP);
        looked_at
            .flat_map(|o| (0..SIDE * SIDE).map(move |at| (o, at)))
            .map(|(o, at)| y[place(o, at)])
            .collect()
    }
}

fn same(got: &[f32], want: &[f32]) -> bool {
    let equal = |(g, w): (&f32, &f32)| g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan();
    got.len() == want.len() && got.iter().zip(want).all(equal)
}

/// Numbers of either sign with exponents from `low` to `high`.
fn numbers(seed: u64, low: i32, high: i32) -> impl FnMut(usize) -> f32 {
    let mut bits = Bits::new(seed);
    move |_| {
        let word = bits.word();
        let exponent = bits.within((low + 127) as u32, (high + 127) as u32);
        f32::from_bits(word & 0x807f_ffff | exponent << 23)
    }
}

#[test]
fn symbolic_shapes_change_no_bit() {
    let Some(target) = target() else { return };
    let known = include_str!("../../../tests/filetests/lower/lower_conv_bf16x3.py");
    let unknown = include_str!("../../../tests/filetests/lower/lower_conv_split_bf16_symbolic.py");
    for (known, unknown) in Conv::of(known, &target).iter().zip(&Conv::of(unknown, &target)) {
        let (want, got) =
            [known, unknown].map(|conv| conv.factors(numbers(53, -3, 3)).run()).into();
        assert!(same(&got, &want), "{0}x{0}", known.taps);
    }
}

/// In `f32-fast` (bf16x3) each multiplication has a relative error below 2^-15.
#[test]
fn bf16x3_is_near() {
    let Some(target) = target() else { return };
    let file = include_str!("../../../tests/filetests/lower/lower_conv_bf16x3.py");
    for conv in &Conv::of(file, &target) {
        assert_eq!(conv.kernel.raw_asm().matches("tdpbf16ps").count() % 3, 0, "three products");
        let factors = conv.factors(numbers(43, -20, 20));
        let (got, own) = (factors.run(), factors.in_order());
        let (error, of_f32) = (factors.error(&got), factors.error(&own));
        assert!(error < 2_f64.powi(-15) && error > of_f32, "{error:e}, {of_f32:e} in order");
    }
}

#[test]
fn operands_that_bf16_cannot_split_take_float32() {
    let Some(target) = target() else { return };
    let file = include_str!("../../../tests/filetests/lower/lower_conv_bf16x3.py");
    for conv in &Conv::of(file, &target) {
        let with = |at: usize, value: f32| {
            let mut factors = conv.factors(numbers(23, -3, 3));
            factors.x[at] = value;
            factors.w[at] = 0.0;
            factors
        };
        let last = conv.image_len() - 1;
        let infinite = Operands {
            of: conv,
            x: vec![-0.0; conv.image_len()],
            w: vec![f32::INFINITY; conv.weights_len()],
        };
        let classes = [
            ("subnormal", conv.factors(numbers(29, -127, -100))),
            ("one subnormal", with(77, 1e-40)),
            ("huge", conv.factors(numbers(31, 58, 63))),
            ("one huge", with(78, 3e38)),
            ("overflowing", conv.factors(numbers(37, 60, 127))),
            ("products below the normal numbers", conv.factors(numbers(41, -70, -60))),
            ("infinite", with(79, f32::INFINITY)),
            ("negative infinite", with(conv.side, f32::NEG_INFINITY)),
            ("NaN", with(80, f32::NAN)),
            ("negative zeros", infinite),
        ];
        for (name, mut factors) in classes {
            if name == "one huge" {
                factors.x[last] = 3e38;
            }
            let name = format!("{0}x{0}, {name}", conv.taps);
            assert!(same(&factors.run(), &factors.in_order()), "{name}");
        }
        // Zeros have no exponent: they take split-bf16, and their sums are positive.
        let zeros = Operands {
            of: conv,
            x: vec![-0.0; conv.image_len()],
            w: vec![1.0; conv.weights_len()],
        };
        assert!(same(&zeros.run(), &zeros.in_order()));
    }
}

/// Nothing is read that was not written, and VNNI pairs across two channel blocks give the same bits.
#[test]
fn the_evaluator_takes_every_kernel() {
    let Some(target) = target() else { return };
    let terms = include_str!("../../../tests/filetests/lower/lower_conv_bf16x3.py");
    let words = include_str!("../../../tests/filetests/lower/lower_conv_vnni.py");
    let mut number = numbers(59, -3, 3);
    let kernels = [terms, words].into_iter().flat_map(by_tiles).collect::<Vec<_>>();
    assert_eq!(kernels.len(), 4);
    for text in kernels {
        let func = parse(text).unwrap();
        let mut args = vec![];
        for b in func.buffer_params() {
            let data = &func.buffers[b];
            let shape: Vec<i64> = data.shape.iter().map(|e| e.as_int().unwrap()).collect();
            let mut tensor = EvalTensor::zeros(data.dtype, &shape);
            // Halves of VNNI pairs are rounded; the last tensor is the result.
            let mut bytes = |n: usize| match data.dtype {
                DType::F32 => number(n).to_le_bytes(),
                _ => (number(n).to_bits() & 0xffff_0000 | number(n).to_bits() >> 16).to_le_bytes(),
            };
            tensor.bytes = (0..tensor.bytes.len() / 4).flat_map(&mut bytes).collect();
            args.push(EvalArg::Tensor(tensor));
        }
        let mut want = args.clone();
        eval(&func, &mut want).unwrap();
        Kernel::for_target(&func, OptLevel::O3, &target).run(&mut args).unwrap();
        assert_same(&func, "bits", &want, &args);
    }
}

/// The kernels of a text test that use matrix registers.
fn by_tiles(file: &str) -> impl Iterator<Item = &str> {
    let (_, kernels) = file.split_once("# ----\n").unwrap();
    kernels.split_inclusive("\n\n").filter(|t| t.contains("tile_dot_bf16"))
}
