//! Matrix registers: the machine code gives the evaluator's bits, on CPUs that have the unit and
//! elsewhere by emulation, and leaves the unit as it was.

#[path = "../../../tests/common/amx.rs"]
mod amx;
mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use common::{Kernel, assert_same};
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::scalar::dot_tile;
use reflex_tir::eval::{EvalArg, EvalTensor, eval};
use reflex_tir::level::Level;
use reflex_tir::script::parse;
use reflex_tir::{DType, PrimFunc};

#[path = "../../../src/tir/tests/common/mod.rs"]
mod tir;
use tir::{Bits, property};

/// A CPU with the unit: this one, or one whose other instructions this one has.
fn target() -> Option<CpuTarget> {
    let mut host = CpuTarget::host();
    if host.has_amx_bf16() {
        return Some(host);
    }
    if !Level::V4.runs_on_host() {
        skip::skip("AVX-512");
        return None;
    }
    amx::install();
    for feature in ["avx512bf16", "amx-tile", "amx-bf16", "amx-int8"] {
        host.features.insert(feature.to_owned());
    }
    Some(host)
}

/// The code of both generators, by the names of their optimisations.
fn kernels(func: &PrimFunc, target: &CpuTarget) -> [(&'static str, Kernel); 4] {
    [
        ("O0", Kernel::for_target(func, OptLevel::O0, target)),
        ("O3", Kernel::for_target(func, OptLevel::O3, target)),
        ("baseline", Kernel::baseline(func, target)),
        ("quick baseline", Kernel::quick_baseline(func, target)),
    ]
}

/// The products, their instructions, and the types of their sums.
const DOTS: [(&str, &str, DType); 5] = [
    ("dot_bf16", "tdpbf16ps", DType::F32),
    ("dot_u8u8", "tdpbuud", DType::I32),
    ("dot_u8s8", "tdpbusd", DType::I32),
    ("dot_s8u8", "tdpbsud", DType::I32),
    ("dot_s8s8", "tdpbssd", DType::I32),
];

/// `y += a b`, rows of `y` at a distance: both as registers of these shapes.
fn product([rows, words, columns, pitch]: [usize; 4], dot: &str) -> String {
    let sum = if dot == "dot_bf16" { "float32" } else { "int32" };
    format!(
        r#"
@T.prim_func(s_tir=True)
def product(a: T.Buffer(({rows}, {pitch}), "uint32"), b: T.Buffer(({words}, {pitch}), "uint32"), y: T.Buffer(({rows}, {pitch}), "{sum}")):
    for part in T.parallel(1):
        c = T.alloc_buffer(({rows}, {columns}), "{sum}", scope="tile")
        x = T.alloc_buffer(({rows}, {words}), "uint32", scope="tile")
        w = T.alloc_buffer(({words}, {columns}), "uint32", scope="tile")
        T.tile_zero(c)
        for twice in range(2):
            T.tile_load(x, a[part, 0], {pitch})
            T.tile_load(w, b[0, part], {pitch})
            T.tile_{dot}(c, x, w)
        T.tile_store(c, y[0, 0], {pitch})
"#
    )
}

fn words(shape: [usize; 2], bits: &mut Bits) -> EvalArg {
    let mut tensor = EvalTensor::zeros(DType::U32, &shape.map(|n| n as i64));
    let word = |bits: &mut Bits| bits.half() | bits.half() << 16;
    tensor.bytes = (0..tensor.len()).flat_map(|_| word(bits).to_le_bytes()).collect();
    EvalArg::Tensor(tensor)
}

#[test]
fn machine_code_gives_the_evaluators_bits() {
    let Some(target) = target() else { return };
    property(40, |u| {
        let mut side = || u.int_in_range(1..=16_usize);
        let (rows, depth, columns) = (side()?, side()?, side()?);
        let pitch = depth.max(columns) + u.int_in_range(0..=5_usize)?;
        let (dot, instruction, sum) = *u.choose(&DOTS)?;
        let func = parse(&product([rows, depth, columns, pitch], dot)).unwrap();
        let bits = &mut Bits::new(u.arbitrary()?);
        let y = EvalArg::Tensor(EvalTensor::zeros(sum, &[rows as i64, pitch as i64]));
        let args = [words([rows, pitch], bits), words([depth, pitch], bits), y];
        let mut want = args.to_vec();
        eval(&func, &mut want).unwrap();
        for (name, kernel) in kernels(&func, &target) {
            let asm = kernel.object.asm.as_deref();
            for name in ["ldtilecfg", "tilezero", "tileloadd", instruction, "tilestored"] {
                assert!(asm.is_none_or(|asm| asm.contains(name)), "{name}: {asm:?}");
            }
            let mut got = args.to_vec();
            kernel.run(&mut got).unwrap();
            assert_same(&func, name, &want, &got);
            // Released: the configuration is the initial one.
            assert!(!amx::is_configured(), "{name}");
            assert!(amx::unit().tiles == [[[0; 64]; 16]; 8]);
        }
        Ok(())
    });
    if !CpuTarget::host().has_amx_bf16() {
        assert!(amx::unit().count > 100, "nothing was emulated");
    }
}

/// The kernel of a model, scheduled for matrix registers: the text test's own result, run.
#[test]
fn scheduled_matmuls_give_the_evaluators_bits() {
    let Some(target) = target() else { return };
    let file = include_str!("../../../tests/filetests/lower/lower_matmul_amx.py");
    let (_, kernel) = file.split_once("# ----\n").unwrap();
    let func = parse(kernel).unwrap();
    let mut bits = Bits::new(7);
    let mut floats = |shape: [i64; 2]| {
        let count = shape.iter().product::<i64>();
        let value = |bits: &mut Bits| bits.within(0, 2000) as f32 / 1000.0 - 1.0;
        let values: Vec<f32> = (0..count).map(|_| value(&mut bits)).collect();
        EvalArg::Tensor(EvalTensor::f32(&shape, &values))
    };
    let args = [floats([51, 64]), floats([64, 48]), floats([51, 48])];
    let mut want = args.to_vec();
    eval(&func, &mut want).unwrap();
    for (name, kernel) in kernels(&func, &target) {
        let mut got = args.to_vec();
        kernel.run(&mut got).unwrap();
        assert_same(&func, name, &want, &got);
        assert!(!amx::is_configured(), "{name}");
    }
}

/// The same of 8-bit integers: rows of whole registers, and others in vectors.
#[test]
fn scheduled_integer_matmuls_give_the_evaluators_integers() {
    let Some(target) = target() else { return };
    let file = include_str!("../../../tests/filetests/lower/lower_matmul_int8_amx.py");
    let (_, kernel) = file.split_once("# ----\n").unwrap();
    let func = parse(kernel).unwrap();
    let mut bits = Bits::new(7);
    let mut bytes = |dtype, shape: [i64; 2]| {
        let mut tensor = EvalTensor::zeros(dtype, &shape);
        tensor.bytes.fill_with(|| bits.word() as u8);
        EvalArg::Tensor(tensor)
    };
    let y = EvalArg::Tensor(EvalTensor::zeros(DType::I32, &[51, 48]));
    let args = [bytes(DType::U8, [51, 128]), bytes(DType::I8, [128, 48]), y];
    let mut want = args.to_vec();
    eval(&func, &mut want).unwrap();
    for (name, kernel) in kernels(&func, &target) {
        let asm = kernel.object.asm.as_deref();
        assert!(asm.is_none_or(|asm| asm.contains("tdpbusd")), "{asm:?}");
        let mut got = args.to_vec();
        kernel.run(&mut got).unwrap();
        assert_same(&func, name, &want, &got);
        assert!(!amx::is_configured(), "{name}");
    }
}

/// The operands of a float32 GEMM, by row.
struct Operands {
    a: Vec<f32>,
    b: Vec<f32>,
}

/// The shapes of the kernels in the text tests.
const M: usize = 197;
const K: usize = 128;
const N: usize = 192;
/// Rows of whole registers; the others are multiplied in vectors whatever the class.
const WHOLE: usize = 192;

impl Operands {
    fn of(mut element: impl FnMut(usize) -> f32) -> Operands {
        let a = (0..M * K).map(&mut element).collect();
        Operands { a, b: (0..K * N).map(element).collect() }
    }

    /// `f` folded over the reduction axis for every element, from 0.
    fn sums<T: Copy>(&self, zero: T, step: impl Fn(T, f32, f32) -> T) -> Vec<T> {
        let element = |i: usize| {
            let (row, column) = (i / N, i % N);
            let factors = (0..K).map(|k| (self.a[row * K + k], self.b[k * N + column]));
            factors.fold(zero, |sum, (a, b)| step(sum, a, b))
        };
        (0..M * N).map(element).collect()
    }

    /// The largest error relative to the sum of absolute products.
    fn error(&self, got: &[f32]) -> f64 {
        let exact = self.sums(0.0, |sum, a, b| sum + f64::from(a) * f64::from(b));
        let size = self.sums(0.0, |sum, a, b| sum + (f64::from(a) * f64::from(b)).abs());
        let each = got.iter().zip(exact).zip(size).take(WHOLE * N);
        each.map(|((got, exact), size)| (f64::from(*got) - exact).abs() / size).fold(0.0, f64::max)
    }

    /// The result of the float32 nest: one multiply-add after the other.
    fn in_order(&self) -> Vec<f32> {
        self.sums(0.0, |sum, a, b| a.mul_add(b, sum))
    }

    fn run(&self, kernel: &Kernel) -> Vec<f32> {
        let tensor = |rows: usize, columns: usize, values: &[f32]| {
            EvalArg::Tensor(EvalTensor::f32(&[rows as i64, columns as i64], values))
        };
        let y = vec![7.0; M * N];
        let mut args = [tensor(M, K, &self.a), tensor(K, N, &self.b), tensor(M, N, &y)];
        kernel.run(&mut args).unwrap();
        args[2].tensor().to_f32()
    }
}

fn same(got: &[f32], want: &[f32]) -> bool {
    let equal = |(g, w): (&f32, &f32)| g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan();
    got.iter().zip(want).all(equal)
}

fn split_kernel(file: &str, target: &CpuTarget) -> Kernel {
    let (_, kernel) = file.split_once("# ----\n").unwrap();
    Kernel::for_target(&parse(kernel).unwrap(), OptLevel::O3, target)
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

/// In `f32-fast` (bf16x3) each multiplication has a relative error below 2^-15.
#[test]
fn bf16x3_is_near() {
    let Some(target) = target() else { return };
    let file = include_str!("../../../tests/filetests/lower/lower_matmul_bf16x3.py");
    let kernel = split_kernel(file, &target);
    assert_eq!(kernel.raw_asm().matches("tdpbf16ps").count() % 3, 0, "three products");
    for (seed, low, high) in [(43, -1, 0), (47, -20, 20)] {
        let factors = Operands::of(numbers(seed, low, high));
        let (got, own) = (factors.run(&kernel), factors.in_order());
        let (error, of_f32) = (factors.error(&got), factors.error(&own));
        assert!(error < 2_f64.powi(-15) && error > of_f32, "{error:e}, {of_f32:e} in order");
    }
}

#[test]
fn operands_that_bf16_cannot_split_take_float32() {
    let Some(target) = target() else { return };
    let file = include_str!("../../../tests/filetests/lower/lower_matmul_bf16x3.py");
    let kernel = split_kernel(file, &target);
    let with = |at: usize, value: f32| {
        let mut factors = Operands::of(numbers(23, -3, 3));
        factors.a[at] = value;
        factors.b[at % (K * N)] = 0.0;
        factors
    };
    let classes = [
        ("subnormal", Operands::of(numbers(29, -127, -100))),
        ("one subnormal", with(77, 1e-40)),
        ("huge", Operands::of(numbers(31, 58, 63))),
        ("one huge", with(78, 3e38)),
        ("overflowing", Operands::of(numbers(37, 60, 127))),
        ("products below the normal numbers", Operands::of(numbers(41, -70, -60))),
        ("infinite", with(79, f32::INFINITY)),
        ("negative infinite", with(M * K - 1, f32::NEG_INFINITY)),
        ("NaN", with(80, f32::NAN)),
        ("negative zeros", Operands { a: vec![-0.0; M * K], b: vec![f32::INFINITY; K * N] }),
    ];
    for (name, factors) in classes {
        assert!(same(&factors.run(&kernel), &factors.in_order()), "{name}");
    }
    // Zeros have no exponent: they take split-bf16, and their sums are positive.
    let zeros = Operands { a: vec![-0.0; M * K], b: vec![1.0; K * N] };
    assert!(same(&zeros.run(&kernel), &zeros.in_order()));
}

/// One element: its accumulator before, VNNI pairs, and the accumulator after.
type Case = (u32, &'static [(u32, u32)], u32);

#[test]
fn sums_are_added_as_the_manual_says() {
    const ONE: u32 = 0x3f80;
    let cases: [Case; 7] = [
        // Lower and upper halves are two sums: 2^24 and 1, which 2^24 swallows.
        (0, &[(0x4b80 | ONE << 16, ONE | ONE << 16)], 0x4b80_0000),
        // 1 + 1 in the lower halves, then 2^24 from the upper ones: 2^24 + 2.
        (0, &[(ONE, ONE), (ONE | 0x4b80 << 16, ONE | ONE << 16)], 0x4b80_0001),
        // The sum before comes last: 2^24 + (1 + 1), not (2^24 + 1) + 1.
        (0x4b80_0000, &[(ONE | ONE << 16, ONE | ONE << 16)], 0x4b80_0001),
        // A subnormal sum before counts as zero.
        (0x807f_ffff, &[(0, 0)], 0x0000_0000),
        // A subnormal operand is zero: 2^-127 * 2^127.
        (0, &[(0x0040, 0x7f00)], 0x0000_0000),
        // 2^-126 - 2^-150 would be rounded to 2^-126 as a subnormal number.
        (0, &[(0x2000, 0x2000), (0x9a00, 0x1a00)], 0x0000_0000),
        // Infinity times zero.
        (0, &[(0x7f80, 0x0000)], 0x7fc0_0000),
    ];
    for (n, (before, pairs, after)) in cases.into_iter().enumerate() {
        let mut unit = amx::unit();
        let mut configuration = [0; 64];
        configuration[0] = 1;
        for (tile, (rows, words)) in [(1, 1), (1, pairs.len()), (pairs.len(), 1)].iter().enumerate()
        {
            configuration[16 + 2 * tile] = *words as u8 * 4;
            configuration[48 + tile] = *rows as u8;
        }
        unit.configure(&configuration).unwrap();
        unit.tiles[0][0][..4].copy_from_slice(&before.to_le_bytes());
        for (k, (a, b)) in pairs.iter().enumerate() {
            unit.tiles[1][0][4 * k..][..4].copy_from_slice(&a.to_le_bytes());
            unit.tiles[2][k][..4].copy_from_slice(&b.to_le_bytes());
        }
        unit.dot_bf16(0, 1, 2).unwrap();
        let emulated = u32::from_le_bytes(unit.tiles[0][0][..4].try_into().unwrap());
        let meant = dot_tile(f32::from_bits(before), pairs);
        if f32::from_bits(after).is_nan() {
            assert!(meant.is_nan() && f32::from_bits(emulated).is_nan(), "case {n}");
            continue;
        }
        assert_eq!((meant.to_bits(), emulated), (after, after), "case {n}: {meant:e}");
    }
}

#[test]
fn the_emulators_rounding_is_the_evaluators() {
    property(64, |u| {
        let mut bits = Bits::new(u.arbitrary()?);
        for _ in 0..2_000 {
            let (a, b) = (bits.half() << 16, bits.half() << 16);
            let c = bits.sum();
            let [a, b, c] = [a, b, c].map(f32::from_bits);
            let emulated = amx::multiply_add(a, b, c);
            // One product of two numbers added to `c` by way of a sum before that is `c`, and
            // nothing else.
            let meant = {
                let pairs = [(a.to_bits() >> 16, b.to_bits() >> 16)];
                dot_tile(c, &pairs)
            };
            // That rounds the product first, so only exact ones compare.
            let exact = f64::from(a) * f64::from(b);
            let normal = exact == 0.0 || exact.abs() > 1e-37 && exact.abs() < 1e38;
            let products = !a.is_subnormal() && !b.is_subnormal();
            if normal && products {
                let same = emulated.to_bits() == meant.to_bits()
                    || emulated.is_nan() && meant.is_nan()
                    || emulated == 0.0 && meant == 0.0;
                assert!(same, "{a:e} * {b:e} + {c:e}: {emulated:e} and {meant:e}");
            }
        }
        Ok(())
    });
}

#[test]
fn kernels_with_matrix_registers_are_refused_elsewhere() {
    let func = parse(&product([4; 4], "dot_bf16")).unwrap();
    let error = reflex_llvm::compile(&func, &Level::V4.target(), OptLevel::O0).unwrap_err();
    assert!(error.to_string().contains("need a CPU with AMX"), "{error}");
    let nested = product([4; 4], "dot_bf16").replace("        T.tile_zero(c)\n", "        T.tile_zero(c)\n        z = T.alloc_buffer((4, 4), scope=\"tile\")\n        T.tile_zero(z)\n");
    let func = parse(&nested).unwrap();
    let mut target = Level::V4.target();
    target.features.extend(["avx512bf16", "amx-tile", "amx-bf16"].map(str::to_owned));
    let error = reflex_llvm::compile(&func, &target, OptLevel::O0).unwrap_err();
    assert!(error.to_string().contains("inside of others' allocation"), "{error}");
}
