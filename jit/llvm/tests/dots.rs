//! Dot products of VNNI pairs of bfloat16: the instruction, where the CPU has it, and its expansion
//! elsewhere give the evaluator's bits.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use common::{Kernel, check_for, check_source};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor, Scalar};
use reflex_tir::script::{parse, print};
use reflex_tir::{DType, Expr, ForKind, Intrin, PrimFunc, Stmt};

#[path = "../../../src/tir/tests/common/mod.rs"]
mod tir;
use tir::{Bits, property};

/// `y[i] = dot_bf16(a[i], b[i], c[i])` in vectors of `lanes`.
fn dots(n: i64, lanes: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("dots");
    let a = f.input("a", DType::U32, vec![n.into()]);
    let b = f.input("b", DType::U32, vec![n.into()]);
    let c = f.input("c", DType::F32, vec![n.into()]);
    let y = f.declare_output("y", DType::F32, vec![n.into()]);
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = [Expr::var(o) * lanes + i];
    let operands = vec![f.at(a, &at), f.at(b, &at), f.at(c, &at)];
    let store = Stmt::store(y, at.to_vec(), Expr::call(Intrin::DotBf16, operands));
    let vectors = Stmt::loop_of(ForKind::Vectorized, i, lanes.into(), store);
    f.push(Stmt::serial(o, (n / lanes).into(), vectors));
    f.finish()
}

fn arguments(bits: &mut Bits, n: i64) -> Vec<EvalArg> {
    let tensor = |dtype, word: &mut dyn FnMut() -> u32| {
        let mut tensor = EvalTensor::zeros(dtype, &[n]);
        tensor.bytes = (0..n).flat_map(|_| word().to_le_bytes()).collect();
        EvalArg::Tensor(tensor)
    };
    let a = tensor(DType::U32, &mut || bits.half() | bits.half() << 16);
    let b = tensor(DType::U32, &mut || bits.half() | bits.half() << 16);
    let c = tensor(DType::F32, &mut || bits.sum());
    vec![a, b, c, EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[n]))]
}

/// The host as it is, without the instruction, and with 16-byte vectors and nothing else.
fn targets() -> [CpuTarget; 3] {
    let mut plain = CpuTarget::host();
    plain.features.remove("avx512bf16");
    let mut bare = CpuTarget::host();
    bare.features.clear();
    bare.vector_bytes = 16;
    [CpuTarget::host(), plain, bare]
}

/// `y[i] = pair_bf16(x[2 i], x[2 i + 1])` and `z[i] = pair_bf16(x[i], x[n + i])` in vectors of
/// `lanes`, of elements of a type.
fn pairs(dtype: DType, n: i64, lanes: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("pairs");
    let x = f.input("x", dtype, vec![(2 * n).into()]);
    let y = f.declare_output("y", DType::U32, vec![n.into()]);
    let z = f.declare_output("z", DType::U32, vec![n.into()]);
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = Expr::var(o) * lanes + i;
    let pair = |f: &FuncBuilder, low: Expr, high: Expr| {
        Expr::call(Intrin::PairBf16, vec![f.at(x, &[low]), f.at(x, &[high])])
    };
    let adjacent = pair(&f, at.clone() * 2, at.clone() * 2 + 1);
    let apart = pair(&f, at.clone(), at.clone() + n);
    let stores = vec![Stmt::store(y, vec![at.clone()], adjacent), Stmt::store(z, vec![at], apart)];
    let vectors = Stmt::loop_of(ForKind::Vectorized, i, lanes.into(), Stmt::Seq(stores));
    f.push(Stmt::serial(o, (n / lanes).into(), vectors));
    f.finish()
}

#[test]
fn pairs_are_rounded_alike_on_every_cpu() {
    let targets = targets();
    for lanes in [1, 4, 8, 13, 16, 32] {
        property(6, |u| {
            let n = 416;
            let mut bits = Bits::new(u.arbitrary()?);
            let mut tensor = EvalTensor::zeros(DType::F32, &[2 * n]);
            // Halves of float32 at and about the middle between two bfloat16.
            let mut word = || match bits.within(0, 3) {
                0 => bits.sum(),
                1 => bits.half() << 16 | 0x8000,
                2 => bits.half() << 16 | bits.within(0x7ffe, 0x8002),
                _ => bits.word(),
            };
            tensor.bytes = (0..2 * n).flat_map(|_| word().to_le_bytes()).collect();
            let out = || EvalArg::Tensor(EvalTensor::zeros(DType::U32, &[n]));
            let args = [EvalArg::Tensor(tensor), out(), out()];
            for target in &targets {
                check_for(&pairs(DType::F32, n, lanes), &args, target);
            }
            check_source(&pairs(DType::F32, n, lanes), &args);
            Ok(())
        });
    }
    let host = CpuTarget::host();
    if host.has_avx512_bf16() {
        let kernel = Kernel::new(&pairs(DType::F32, 64, 16), OptLevel::O3);
        let asm = kernel.raw_asm();
        assert_eq!(asm.matches("vcvtne2ps2bf16").count(), 2, "{asm}");
        // Adjacent halves come in order: one permutation, for those apart.
        assert_eq!(asm.matches("vperm").count() + asm.matches("vpunpck").count(), 1, "{asm}");
    } else {
        skip::skip_part("assembly", "AVX512_BF16");
    }
}

#[test]
fn pairs_of_bfloat16_are_side_by_side_in_memory() {
    for lanes in [1, 4, 8, 13, 16, 32] {
        property(6, |u| {
            let (n, mut bits) = (416, Bits::new(u.arbitrary()?));
            let mut tensor = EvalTensor::zeros(DType::BF16, &[2 * n]);
            tensor.bytes = (0..n).flat_map(|_| bits.word().to_le_bytes()).collect();
            let out = || EvalArg::Tensor(EvalTensor::zeros(DType::U32, &[n]));
            let args = [EvalArg::Tensor(tensor), out(), out()];
            for target in &targets() {
                check_for(&pairs(DType::BF16, n, lanes), &args, target);
            }
            check_source(&pairs(DType::BF16, n, lanes), &args);
            Ok(())
        });
    }
    let func = pairs(DType::BF16, 16, 16);
    assert_eq!(print(&parse(&print(&func)).unwrap()), print(&func));
}

/// `y[i] = dot_bf16(pair_bf16(x[0], x[1]), b[i], c[i])`.
#[test]
fn a_broadcast_pair_of_bfloat16_is_an_operand_in_memory() {
    let mut f = FuncBuilder::new("broadcast");
    let x = f.input("x", DType::BF16, vec![2.into()]);
    let b = f.input("b", DType::U32, vec![16.into()]);
    let c = f.input("c", DType::F32, vec![16.into()]);
    let y = f.declare_output("y", DType::F32, vec![16.into()]);
    let i = f.func_mut().new_var("i");
    let at = [Expr::var(i)];
    let halves = [0, 1].map(|n| f.at(x, &[n.into()])).to_vec();
    let operands = vec![Expr::call(Intrin::PairBf16, halves), f.at(b, &at), f.at(c, &at)];
    let store = Stmt::store(y, at.to_vec(), Expr::call(Intrin::DotBf16, operands));
    f.push(Stmt::loop_of(ForKind::Vectorized, i, 16.into(), store));
    let func = f.finish();
    let mut args = arguments(&mut Bits::new(7), 16);
    args[0] = EvalArg::Tensor(EvalTensor::zeros(DType::BF16, &[2]));
    if let EvalArg::Tensor(x) = &mut args[0] {
        x.bytes = vec![0x80, 0x3f, 0x20, 0xc0];
    }
    for target in targets() {
        check_for(&func, &args, &target);
    }
    if CpuTarget::host().has_avx512_bf16() {
        let kernel = Kernel::new(&func, OptLevel::O3);
        let asm = kernel.raw_asm();
        let line = asm.lines().find(|l| l.contains("vdpbf16ps")).expect("the instruction");
        assert!(asm.contains("vbroadcastss\t(%") || line.contains("1to16"), "{asm}");
        assert!(!asm.contains("movz") && !asm.contains("vpgather"), "{asm}");
    } else {
        skip::skip_part("assembly", "AVX512_BF16");
    }
}

#[test]
fn every_cpu_gives_the_evaluators_bits() {
    let targets = targets();
    for lanes in [1, 4, 8, 13, 16, 32] {
        property(6, |u| {
            let n = 1248;
            let args = arguments(&mut Bits::new(u.arbitrary()?), n);
            for target in &targets {
                check_for(&dots(n, lanes), &args, target);
            }
            check_source(&dots(n, lanes), &args);
            Ok(())
        });
    }
}

/// Two VNNI pairs (upper half second), the accumulator before, and after.
type Case = (u32, u32, u32, u32);

#[test]
fn sums_are_rounded_in_order_and_without_subnormals() {
    let one = 0x3f80;
    let cases: [Case; 8] = [
        // The upper product first: 2^24 + 1 is 2^24, and another 1 changes nothing.
        (one | one << 16, one | one << 16, 0x4b80_0000, 0x4b80_0000),
        // 2^24 cancels before the lower product is added.
        (one | 0xcb80 << 16, one | one << 16, 0x4b80_0000, 0x3f80_0000),
        // The other way round the lower product is lost.
        (0xcb80 | one << 16, one | one << 16, 0x4b80_0000, 0x0000_0000),
        // A subnormal sum counts as zero of its sign.
        (0, 0, 0x807f_ffff, 0x0000_0000),
        // A subnormal operand is zero: 2^-127 * 2^127.
        (0x0040, 0x7f00, 0x0000_0000, 0x0000_0000),
        // 2^-126 - 2^-150 would be rounded to 2^-126 as a subnormal number.
        (0x9a00, 0x1a00, 0x0080_0000, 0x0000_0000),
        // 2^-126 - 2^-151 is that once rounded to 24 bits.
        (0x9980, 0x1a00, 0x0080_0000, 0x0080_0000),
        // Too small: zero with the product's sign.
        (0x9a00, 0x1a00, 0x0000_0000, 0x8000_0000),
    ];
    let column = |dtype, of: &dyn Fn(&Case) -> u32| {
        let mut tensor = EvalTensor::zeros(dtype, &[8]);
        tensor.bytes = cases.iter().flat_map(|c| of(c).to_le_bytes()).collect();
        EvalArg::Tensor(tensor)
    };
    let args = [
        column(DType::U32, &|c| c.0),
        column(DType::U32, &|c| c.1),
        column(DType::F32, &|c| c.2),
        EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[8])),
    ];
    for target in targets() {
        let after = check_for(&dots(8, 8), &args, &target);
        for (n, case) in cases.iter().enumerate() {
            let Scalar::F32(sum) = after[3].tensor().get(n).unwrap() else { panic!("not float32") };
            assert_eq!(sum.to_bits(), case.3, "case {n}: {sum:e}");
        }
    }
}

#[test]
fn the_instruction_is_used_where_there_is_one() {
    let host = CpuTarget::host();
    if !host.has_avx512_bf16() {
        return skip::skip("AVX512_BF16");
    }
    let kernel = Kernel::new(&dots(64, 16), OptLevel::O3);
    assert_eq!(kernel.raw_asm().matches("vdpbf16ps").count(), 1, "{}", kernel.raw_asm());
}

#[test]
fn text_reads_back() {
    let func = dots(16, 16);
    let text = print(&func);
    assert!(text.contains("T.dot_bf16(a["), "{text}");
    assert_eq!(print(&parse(&text).unwrap()), text);
}
