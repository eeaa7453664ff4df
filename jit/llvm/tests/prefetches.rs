//! Streams that are asked for ahead: the same elements, and one instruction for each vector of them.

mod common;

use common::{Kernel, check};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{EvalArg, EvalTensor};
use reflex_tir::level::Level;
use reflex_tir::script::{parse, print};
use reflex_tir::{DType, Expr, ForKind, Intrin, NEAR_BYTES, PrimFunc, Stmt};

/// `y[i] = x[i] & 15 + x[i] >> 4` in vectors of 8, where each `x[i]` is asked for at all of these distances.
fn stream(n: i64, distances: &[i64]) -> PrimFunc {
    let mut f = FuncBuilder::new("stream");
    let x = f.input("x", DType::U32, vec![n.into()]);
    let y = f.declare_output("y", DType::U32, vec![n.into()]);
    let (o, i) = (f.func_mut().new_var("o"), f.func_mut().new_var("i"));
    let at = [Expr::var(o) * 8 + i];
    let word = distances.iter().fold(f.at(x, &at), |word, bytes| {
        Expr::call(Intrin::Prefetch, vec![word, (*bytes).into()])
    });
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
    check(&stream(64, &[NEAR_BYTES]), &args);
    check(&stream(64, &[1 << 40]), &args);
}

#[test]
fn each_vector_is_asked_for_once() {
    let target = Level::V3.target();
    let asm =
        Kernel::for_target(&stream(8, &[NEAR_BYTES]), OptLevel::O3, &target).raw_asm().to_owned();
    assert_eq!(asm.matches("prefetcht0").count(), 1, "{asm}");
    assert!(asm.contains(&format!("prefetcht0\t{NEAR_BYTES}(")), "{asm}");
}

#[test]
fn what_is_far_goes_into_the_second_level_cache() {
    let target = Level::V3.target();
    let func = stream(8, &[2 * NEAR_BYTES]);
    let asm = Kernel::for_target(&func, OptLevel::O3, &target).raw_asm().to_owned();
    assert_eq!(asm.matches("prefetcht1").count(), 1, "{asm}");
}

#[test]
fn one_element_asks_for_two_places() {
    let target = Level::V3.target();
    let func = stream(8, &[NEAR_BYTES, 2 * NEAR_BYTES]);
    let asm = Kernel::for_target(&func, OptLevel::O3, &target).raw_asm().to_owned();
    assert_eq!(["prefetcht0", "prefetcht1"].map(|name| asm.matches(name).count()), [1, 1], "{asm}");
}

#[test]
fn text_reads_back() {
    let text = print(&stream(16, &[128]));
    assert!(text.contains("T.prefetch(x["), "{text}");
    assert_eq!(print(&parse(&text).unwrap()), text);
}
