//! Fused multiply-adds without an instruction for them: the evaluator's bits, of which rounding twice would miss some. For
//! WebAssembly, whose code does not run here, the instructions.

mod common;
#[path = "../../../src/tir/tests/common/mod.rs"]
mod tir;

use common::check_for;
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::level::Level;
use reflex_tir::{DType, Expr, ForKind, Intrin, PrimFunc, Sign, Stmt};
use tir::property;

const COUNT: i64 = 64;

/// `y[i] = a[i] * b[i] + c[i]`, in vectors and one after the other.
fn fused(dtype: DType, kind: ForKind) -> PrimFunc {
    let mut f = FuncBuilder::new("fused");
    let [a, b, c] = ["a", "b", "c"].map(|name| f.input(name, dtype, vec![COUNT.into()]));
    let y = f.declare_output("y", dtype, vec![COUNT.into()]);
    let i = f.func_mut().new_var("i");
    let operands = [a, b, c].map(|x| f.at(x, &[i.into()])).to_vec();
    let store = Stmt::store(y, vec![i.into()], Expr::call(Intrin::Fma, operands));
    f.push(Stmt::loop_of(kind, i, COUNT.into(), store));
    f.finish()
}

/// A CPU without the instruction.
fn without() -> CpuTarget {
    let mut target = CpuTarget::host();
    target.features.retain(|feature| feature != "fma" && !feature.starts_with("avx512"));
    target.vector_bytes = 32;
    target
}

fn check(operands: [Vec<f32>; 3]) {
    let tensor = |values: &Vec<f32>| {
        let wide: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        EvalArg::Tensor(EvalTensor::from_f64(DType::F32, &[COUNT], &wide).unwrap())
    };
    let mut args: Vec<EvalArg> = operands.iter().map(tensor).collect();
    args.push(EvalArg::Tensor(EvalTensor::zeros(DType::F32, &[COUNT])));
    for kind in [ForKind::Vectorized, ForKind::Serial] {
        check_for(&fused(DType::F32, kind), &args, &without());
    }
}

/// Of numbers near one another, products and sums round in every way; of any bits, there are infinities, NaN and numbers
/// below the normal ones.
#[test]
fn sequences_round_once() {
    property(60, |u| {
        let near = u.ratio(1, 2)?;
        let mut number = || -> arbtest::arbitrary::Result<f32> {
            let bits = u.arbitrary::<u32>()?;
            Ok(f32::from_bits(match near {
                // The sign, an exponent of a few, and some of the first and last bits.
                true => bits & 0x8180_0fff | 0x3e80_0000 | (bits & 0x3000) << 9,
                false => bits,
            }))
        };
        let mut numbers =
            || (0..COUNT).map(|_| number()).collect::<arbtest::arbitrary::Result<Vec<f32>>>();
        check([numbers()?, numbers()?, numbers()?]);
        Ok(())
    });
}

/// Sums that lie halfway between two float32 numbers in float64, and do not exactly.
#[test]
fn sums_next_to_halfway_are_not_rounded_twice() {
    let (mut a, mut b, mut c) = (vec![], vec![], vec![]);
    for n in 0..COUNT / 2 {
        // 1 + 2^-24 is halfway; 2^-60 more or less decides, and is lost in float64.
        let tiny = f32::powi(2.0, -60);
        let sign = if n % 2 == 0 { 1.0 } else { -1.0 };
        a.extend([1.0 + f32::powi(2.0, -12), sign * tiny]);
        b.extend([1.0 + f32::powi(2.0, -12), 1.0 + n as f32 * f32::EPSILON]);
        // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24.
        c.extend([sign * tiny, 1.0 + n as f32 * f32::EPSILON]);
    }
    check([a, b, c]);
    let smallest = f32::from_bits(1);
    let of = |values: [f32; 4]| values.into_iter().cycle().take(COUNT as usize).collect::<Vec<_>>();
    check([
        of([smallest, 0.75, -0.0, f32::MAX]),
        of([0.5, 2.0 * smallest, 0.0, f32::MAX]),
        of([smallest, smallest, 0.0, f32::NEG_INFINITY]),
    ]);
}

fn assembly(func: &PrimFunc, level: Level) -> String {
    let object = reflex_llvm::compile_with_asm(func, &level.target(), OptLevel::O3).unwrap();
    assert!(object.elf.starts_with(b"\0asm"));
    object.asm.unwrap()
}

#[test]
fn webassembly_has_an_instruction_where_it_rounds_once() {
    let count = |text: &str, what: &str| text.matches(what).count();
    let vectors = fused(DType::F32, ForKind::Vectorized);
    let relaxed = assembly(&vectors, Level::WasmRelaxed);
    assert_eq!(count(&relaxed, "f32x4.relaxed_madd"), COUNT as usize / 4);
    let exact = assembly(&vectors, Level::Wasm);
    assert!(count(&exact, "relaxed") == 0 && count(&exact, "fmaf") == 0, "{exact}");
    assert_eq!(count(&exact, "f64x2.mul"), COUNT as usize / 2);
    let double = fused(DType::F64, ForKind::Vectorized);
    let relaxed = assembly(&double, Level::WasmRelaxed);
    assert_eq!(count(&relaxed, "f64x2.relaxed_madd"), COUNT as usize / 2);
}

#[test]
fn webassembly_adds_products_of_16_bits() {
    let mut f = FuncBuilder::new("dots");
    let [a, b] = ["a", "b"].map(|name| f.input(name, DType::U32, vec![8.into()]));
    let y = f.declare_output("y", DType::I32, vec![8.into()]);
    let i = f.func_mut().new_var("i");
    let operands = vec![f.at(a, &[i.into()]), f.at(b, &[i.into()]), Expr::int(0, DType::I32)];
    let dot = Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Signed };
    let store = Stmt::store(y, vec![i.into()], Expr::call(dot, operands));
    f.push(Stmt::loop_of(ForKind::Vectorized, i, 8.into(), store));
    let text = assembly(&f.finish(), Level::Wasm);
    assert_eq!(text.matches("i32x4.dot_i16x8_s").count(), 4, "{text}");
}
