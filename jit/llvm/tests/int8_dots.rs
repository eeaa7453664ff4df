//! Dot products of 8-bit and 16-bit integers: the same integers from `vpdpbusd`, `vpdpwssd`, `pmaddwd`,
//! `pmaddubsw` and plain code, for every pair of signednesses, where a sum of 16 bits would saturate too.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use common::{Kernel, check_for, check_source};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor, Scalar};
use reflex_tir::level::Level;
use reflex_tir::script::{parse, print};
use reflex_tir::{DType, Expr, ExprKind, ForKind, Intrin, PrimFunc, Sign, Stmt, VarData};

#[path = "../../../src/tir/tests/common/mod.rs"]
mod tir;
use tir::{Bits, property};

const SIGNS: [Sign; 2] = [Sign::Unsigned, Sign::Signed];

/// The most that codes of 7 bits have, in every byte.
const SEVEN_BITS: i64 = 0x7f7f_7f7f;

/// Four products of every pair of signednesses, and two of 16 bits.
fn all_dots() -> Vec<Intrin> {
    let of = |a| SIGNS.map(|b| Intrin::DotI8 { a, b });
    [&SIGNS.map(of).concat()[..], &[Intrin::DotI16]].concat()
}

/// `y[i] = dot(a[i], b[i], c[i])` in vectors of `lanes`.
fn dots(dot: Intrin, n: i64, lanes: i64) -> PrimFunc {
    masked_dots(dot, [None, None], n, lanes)
}

/// [`dots`], of operands of which only some bits count.
fn masked_dots(dot: Intrin, masks: [Option<i64>; 2], n: i64, lanes: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("dots");
    let a = f.input("a", DType::U32, vec![n.into()]);
    let b = f.input("b", DType::U32, vec![n.into()]);
    let c = f.input("c", DType::I32, vec![n.into()]);
    let y = f.declare_output("y", DType::I32, vec![n.into()]);
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = [Expr::var(o) * lanes + i];
    let masked = |e: Expr, mask: Option<i64>| match mask {
        Some(mask) => Expr::call(Intrin::BitAnd, vec![e, Expr::int(mask, DType::U32)]),
        None => e,
    };
    let [first, second] =
        [(a, masks[0]), (b, masks[1])].map(|(x, mask)| masked(f.at(x, &at), mask));
    let operands = [first, second, f.at(c, &at)];
    // One operand is named, as schedules name what several products read.
    let [first, second, sum] = operands;
    let named = VarData { name: "named".into(), dtype: DType::U32 };
    let var = f.func_mut().vars.push(named);
    let named = Expr::new(ExprKind::Var { var, dtype: DType::U32 });
    let value = Expr::call(dot, vec![first, named, sum]);
    let store = Stmt::store(y, at.to_vec(), value);
    let store = Stmt::Let { var, value: second, body: Box::new(store) };
    let vectors = Stmt::loop_of(ForKind::Vectorized, i, lanes.into(), store);
    f.push(Stmt::serial(o, (n / lanes).into(), vectors));
    f.finish()
}

/// Words and sums of any bits, often the extremes of 8 and of 32 bits.
fn arguments(bits: &mut Bits, n: i64) -> Vec<EvalArg> {
    let mut tensor = |dtype, extremes: [u32; 3]| {
        let mut tensor = EvalTensor::zeros(dtype, &[n]);
        let mut word = || match bits.within(0, 1) {
            0 => extremes[bits.within(0, 2) as usize],
            _ => bits.word(),
        };
        tensor.bytes = (0..n).flat_map(|_| word().to_le_bytes()).collect();
        EvalArg::Tensor(tensor)
    };
    let bytes = [0xffff_ffff, 0x8080_8080, 0x7f7f_7f7f];
    let a = tensor(DType::U32, bytes);
    let b = tensor(DType::U32, bytes);
    let c = tensor(DType::I32, [i32::MAX as u32, i32::MIN as u32, 0]);
    vec![a, b, c, EvalArg::Tensor(EvalTensor::zeros(DType::I32, &[n]))]
}

/// The host, the levels that it runs, AVX-VNNI where it has that, and 16-byte vectors and nothing
/// else.
fn targets() -> Vec<CpuTarget> {
    let levels = Level::ALL.into_iter().filter(|level| level.runs_on_host());
    let mut targets: Vec<CpuTarget> = levels.map(Level::target).collect();
    let host = CpuTarget::host();
    if host.features.contains("avxvnni") {
        let mut narrow = Level::V3.target();
        narrow.features.insert("avxvnni".to_owned());
        targets.push(narrow);
    }
    let mut bare = host.clone();
    bare.features.clear();
    bare.vector_bytes = 16;
    targets.extend([host, bare]);
    targets
}

#[test]
fn every_cpu_gives_the_same_integers() {
    let targets = targets();
    for lanes in [1, 3, 4, 8, 16, 24] {
        property(2, |u| {
            let mut bits = Bits::new(u.arbitrary()?);
            let args = arguments(&mut bits, 48);
            for dot in all_dots() {
                for target in &targets {
                    check_for(&dots(dot, 48, lanes), &args, target);
                }
                check_source(&dots(dot, 48, lanes), &args);
            }
            for (a, b) in [(Sign::Unsigned, Sign::Signed), (Sign::Signed, Sign::Unsigned)] {
                let unsigned = |sign| (sign == Sign::Unsigned).then_some(SEVEN_BITS);
                let masks = [unsigned(a), unsigned(b)];
                let func = masked_dots(Intrin::DotI8 { a, b }, masks, 48, lanes);
                targets.iter().for_each(|target| drop(check_for(&func, &args, target)));
            }
            Ok(())
        });
    }
}

#[test]
fn sums_wrap_and_never_saturate() {
    let args = |a: u32, b: u32, c: i32| {
        let of = |dtype, word: u32| {
            let mut tensor = EvalTensor::zeros(dtype, &[16]);
            tensor.bytes = word.to_le_bytes().repeat(16);
            EvalArg::Tensor(tensor)
        };
        let y = EvalArg::Tensor(EvalTensor::zeros(DType::I32, &[16]));
        [of(DType::U32, a), of(DType::U32, b), of(DType::I32, c as u32), y]
    };
    let cases = [
        // Two products alone are past 16 bits: 4 * 255 * 127 and 4 * 255 * -128.
        (0xffff_ffff, 0x7f7f_7f7f, 0, 129_540),
        (0xffff_ffff, 0x8080_8080, 0, -130_560),
        (0xffff_ffff, 0x7f7f_7f7f, i32::MAX, i32::MAX.wrapping_add(129_540)),
        // 1 * 1 - 2 * 2 + 3 * 3 - 4 * 4, the first in the lowest byte.
        (0x0403_0201, 0xfc03_fe01, 5, -5),
    ];
    check_source(&dots(Intrin::DotI16, 16, 16), &args(0x8000_8000, 0x8000_8000, 7));
    for target in targets() {
        for (a, b, c, sum) in cases {
            let func = dots(Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Signed }, 16, 16);
            let after = check_for(&func, &args(a, b, c), &target);
            assert_eq!(after[3].tensor().get(7).unwrap(), Scalar::Int(i64::from(sum)));
        }
        // -32768 * -32768 twice, past 32 bits.
        let after =
            check_for(&dots(Intrin::DotI16, 16, 16), &args(0x8000_8000, 0x8000_8000, 7), &target);
        assert_eq!(after[3].tensor().get(7).unwrap(), Scalar::Int(i64::from(i32::MIN + 7)));
    }
}

/// `y[i] = dot_i8(pack_4x8(x[4 i], ..), b[i], c[i])` in one vector.
fn packed(dtype: DType) -> PrimFunc {
    let mut f = FuncBuilder::new("packed");
    let x = f.input("x", dtype, vec![64.into()]);
    let b = f.input("b", DType::U32, vec![16.into()]);
    let c = f.input("c", DType::I32, vec![16.into()]);
    let y = f.declare_output("y", DType::I32, vec![16.into()]);
    let i = f.func_mut().new_var("i");
    let bytes = (0..4).map(|n| f.at(x, &[Expr::var(i) * 4 + n])).collect();
    let word = Expr::call(Intrin::Pack4x8, bytes);
    let at = [Expr::var(i)];
    let operands = vec![word, f.at(b, &at), f.at(c, &at)];
    let dot = Intrin::DotI8 { a: Sign::of(dtype).unwrap(), b: Sign::Signed };
    let store = Stmt::store(y, at.to_vec(), Expr::call(dot, operands));
    f.push(Stmt::loop_of(ForKind::Vectorized, i, 16.into(), store));
    f.finish()
}

#[test]
fn words_are_neighbours_in_memory() {
    for dtype in [DType::U8, DType::I8] {
        property(4, |u| {
            let mut bits = Bits::new(u.arbitrary()?);
            let mut args = arguments(&mut bits, 16);
            let mut x = EvalTensor::zeros(dtype, &[64]);
            x.bytes = (0..16).flat_map(|_| bits.word().to_le_bytes()).collect();
            args[0] = EvalArg::Tensor(x);
            for target in targets() {
                check_for(&packed(dtype), &args, &target);
            }
            check_source(&packed(dtype), &args);
            Ok(())
        });
    }
}

#[test]
fn the_instruction_is_used_where_there_is_one() {
    let host = CpuTarget::host();
    if host.vector_bytes != 64 || !host.has_avx512_vnni() {
        return skip::skip("AVX512_VNNI");
    }
    let func = packed(DType::U8);
    let asm = Kernel::for_target(&func, OptLevel::O3, &host).raw_asm().to_owned();
    assert_eq!(
        (asm.matches("vpdpbusd\t").count(), asm.matches("vpdpbusds").count()),
        (1, 0),
        "{asm}"
    );
    let asm = Kernel::for_target(&func, OptLevel::O3, &Level::V4.target()).raw_asm().to_owned();
    assert_eq!(
        (asm.matches("vpmaddwd").count(), asm.matches("vpmaddubsw").count()),
        (2, 0),
        "{asm}"
    );
}

/// Codes of 7 bits take `pmaddubsw`, whose sums fit into 16 bits, and others never do.
#[test]
fn pairs_are_summed_in_16_bits_where_they_fit() {
    let dot = Intrin::DotI8 { a: Sign::Signed, b: Sign::Unsigned };
    let count = |mask: Option<i64>| {
        let func = masked_dots(dot, [None, mask], 8, 8);
        let asm = Kernel::for_target(&func, OptLevel::O3, &Level::V3.target()).raw_asm().to_owned();
        ["vpmaddubsw", "vpmaddwd"].map(|name| asm.matches(name).count())
    };
    assert_eq!(count(Some(0x0f0f_0f0f)), [1, 1]);
    assert_eq!(count(Some(SEVEN_BITS)), [1, 1]);
    assert_eq!(count(Some(0xff7f_7f7f)), [0, 2]);
    assert_eq!(count(None), [0, 2]);
}

#[test]
fn text_reads_back() {
    for dot in all_dots() {
        let text = print(&dots(dot, 16, 16));
        assert_eq!(print(&parse(&text).unwrap()), text);
    }
    let text = print(&packed(DType::U8));
    assert!(text.contains("T.dot_u8s8(T.pack_4x8(x["), "{text}");
    assert_eq!(print(&parse(&text).unwrap()), text);
}

/// `tests/aarch64.rs` compares the sums that they compute.
#[test]
fn neon_has_the_instructions_of_its_level() {
    let asm = |[a, b]: [Sign; 2], level: Level| {
        let func = dots(Intrin::DotI8 { a, b }, 48, 8);
        let object = reflex_llvm::compile_with_asm(&func, &level.target(), OptLevel::O3).unwrap();
        object.asm.unwrap()
    };
    let count = |text: &str, name: &str| {
        let named = |line: &&str| line.split_whitespace().next() == Some(name);
        text.lines().filter(named).count()
    };
    for (level, names) in [
        (Level::Armv8, [("sdot", 0), ("udot", 0), ("usdot", 0)]),
        // A mixed pair takes two signed dot products, and vectors are two registers.
        (Level::Armv8Dot, [("sdot", 4), ("udot", 0), ("usdot", 0)]),
        (Level::Armv8I8mm, [("sdot", 0), ("udot", 0), ("usdot", 2)]),
    ] {
        for signs in [[Sign::Unsigned, Sign::Signed], [Sign::Signed, Sign::Unsigned]] {
            let text = asm(signs, level);
            assert_eq!(names.map(|(name, _)| (name, count(&text, name))), names, "{level}: {text}");
        }
    }
    for (sign, name) in [(Sign::Signed, "sdot"), (Sign::Unsigned, "udot")] {
        let text = asm([sign, sign], Level::Armv8Dot);
        assert_eq!(count(&text, name), 2, "{text}");
    }
}
