//! Streams that are asked for ahead: the same elements, and one instruction for each vector of them.

mod common;

use common::{Kernel, check};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::level::Level;
use reflex_tir::script::{parse, print};
use reflex_tir::{DType, Expr, ForKind, Intrin, PREFETCH_BYTES, PrimFunc, Stmt};

/// `y[i] = prefetch(x[i]) & 15 + prefetch(x[i]) >> 4` in vectors of 8.
fn stream(n: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("stream");
    let x = f.input("x", DType::U32, vec![n.into()]);
    let y = f.declare_output("y", DType::U32, vec![n.into()]);
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = [Expr::var(o) * 8 + i];
    let word = Expr::call(Intrin::Prefetch, vec![f.at(x, &at)]);
    let constant = |n| Expr::int(n, DType::U32);
    let low = Expr::call(Intrin::BitAnd, vec![word.clone(), constant(15)]);
    let high = Expr::call(Intrin::Shr, vec![word, constant(4)]);
    let store = Stmt::store(y, at.to_vec(), low + high);
    let vectors = Stmt::loop_of(ForKind::Vectorized, i, 8.into(), store);
    f.push(Stmt::serial(o, (n / 8).into(), vectors));
    f.finish()
}

#[test]
fn elements_are_the_same() {
    let mut x = EvalTensor::zeros(DType::U32, &[64]);
    x.bytes = (0..256u32).map(|n| (n * 89 + 7) as u8).collect();
    let args = [EvalArg::Tensor(x), EvalArg::Tensor(EvalTensor::zeros(DType::U32, &[64]))];
    check(&stream(64), &args);
}

#[test]
fn each_vector_is_asked_for_once() {
    let target = Level::V3.target();
    let asm = Kernel::for_target(&stream(8), OptLevel::O3, &target).raw_asm().to_owned();
    assert_eq!(asm.matches("prefetcht0").count(), 1, "{asm}");
    assert!(asm.contains(&format!("prefetcht0\t{PREFETCH_BYTES}(")), "{asm}");
}

#[test]
fn text_reads_back() {
    let text = print(&stream(16));
    assert!(text.contains("T.prefetch(x["), "{text}");
    assert_eq!(print(&parse(&text).unwrap()), text);
}
