//! Lookups of codes in a table of bytes: every code at every width, by each CPU's instructions.

mod common;

use common::{Kernel, check_for, check_source};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::level::Level;
use reflex_tir::{DType, Expr, ForKind, PrimFunc, Stmt};

/// `y[i] = table[x[i]]` in vectors of so many lanes, and the rest that they leave in one more.
fn lookups(codes: DType, lanes: i64, n: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("lookups");
    let x = f.input("x", codes, vec![n.into()]);
    let table = f.input("table", DType::U8, vec![256.into()]);
    let y = f.declare_output("y", DType::U8, vec![n.into()]);
    let mut looked_up = |first: Expr, lanes: i64| {
        let i = f.func_mut().new_var("i");
        let at = [first + i];
        let code = f.at(x, &at);
        let code = if codes == DType::U8 { code } else { code.reinterpret(DType::U8) };
        let found = f.at(table, &[code.cast(DType::I64)]);
        Stmt::loop_of(ForKind::Vectorized, i, lanes.into(), Stmt::store(y, at.to_vec(), found))
    };
    let main = looked_up(0.into(), lanes);
    let rest = (n > lanes).then(|| looked_up(lanes.into(), n - lanes));
    f.push(Stmt::Seq([main].into_iter().chain(rest).collect()));
    f.finish()
}

/// All codes, and a table that maps no two to one byte.
fn args(dtype: DType, n: i64) -> Vec<EvalArg> {
    let tensor = |dtype, bytes: Vec<u8>| {
        let mut tensor = EvalTensor::zeros(dtype, &[bytes.len() as i64]);
        tensor.bytes = bytes;
        EvalArg::Tensor(tensor)
    };
    let x = (0..n).map(|i| (i * 77 + 200) as u8).collect();
    let table = (0..256).map(|i| (i * 167 + 13) as u8).collect();
    vec![tensor(dtype, x), tensor(DType::U8, table), tensor(DType::U8, vec![0; n as usize])]
}

/// A CPU of a level with some features more or fewer.
fn target(level: Level, more: &[&str], fewer: &[&str]) -> CpuTarget {
    let mut target = level.target();
    target.features.extend(more.iter().map(|name| (*name).to_owned()));
    target.features.retain(|name| !fewer.contains(&name.as_str()));
    if fewer.contains(&"avx2") {
        target.vector_bytes = 16;
    }
    target
}

/// CPUs with each kind of instruction, and the number of these for 64 codes.
fn targets() -> [(CpuTarget, &'static str, usize); 4] {
    let old = ["avx", "avx2", "f16c", "fma"];
    [
        (target(Level::V3, &[], &old), "pshufb", 64),
        (Level::V3.target(), "vpshufb", 32),
        (Level::V4.target(), "vpshufb", 16),
        (target(Level::V4, &["avx512vbmi"], &[]), "2b", 2),
    ]
}

#[test]
fn every_code_is_looked_up() {
    let host = CpuTarget::host();
    let oldest =
        target(Level::V3, &[], &["ssse3", "sse4.1", "sse4.2", "avx", "avx2", "f16c", "fma"]);
    let targets = targets().into_iter().map(|(target, ..)| target).chain([oldest]);
    for target in targets.filter(|target| host.runs(target)) {
        for dtype in [DType::U8, DType::I8] {
            for (lanes, n) in [(4, 4), (8, 11), (16, 256), (32, 256), (64, 256), (64, 107)] {
                check_for(&lookups(dtype, lanes, n), &args(dtype, n), &target);
            }
        }
    }
    check_source(&lookups(DType::I8, 16, 256), &args(DType::I8, 256));
}

/// `vpermi2b` and `vpermt2b` are one instruction, which overwrites one operand or another.
#[test]
fn each_cpu_has_its_instructions() {
    let func = lookups(DType::U8, 64, 64);
    for (target, name, count) in targets() {
        let asm = Kernel::for_target(&func, OptLevel::O3, &target).raw_asm().to_owned();
        assert_eq!(asm.matches(&format!("{name}\t")).count(), count, "{asm}");
    }
}
