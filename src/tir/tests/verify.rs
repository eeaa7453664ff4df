//! Each kind of fault is found and named; schedules leave none.

use reflex_tir::builder::FuncBuilder;
use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{DType, Expr, ExprKind, ForKind, Intrin, PrimFunc, Scope, Stmt};

const F: DType = DType::F32;

fn faults(build: impl FnOnce(&mut FuncBuilder)) -> Vec<String> {
    faults_in(IrForm::Scheduled, build)
}

fn faults_in(form: IrForm, build: impl FnOnce(&mut FuncBuilder)) -> Vec<String> {
    let mut f = FuncBuilder::new("f");
    build(&mut f);
    let found = verify(&f.finish(), form).unwrap_err();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn every_fault_is_listed() {
    let found = faults(|f| {
        let x = f.input("x", F, vec![4.into()]);
        let ghost = f.func_mut().new_var("ghost");
        let local = f.func_mut().new_buffer("local", F, vec![4.into()], Scope::Local);
        f.push(Stmt::store(x, vec![0.into()], Expr::float(0.0, F)));
        f.push(Stmt::store(local, vec![ghost.into()], Expr::float(0.0, F)));
    });
    assert_eq!(
        found,
        [
            "function `f`: `x` is an input and is stored to",
            "function `f`: variable `ghost` is not in scope",
            "function `f`: buffer `local` is not in scope",
        ]
    );
}

#[test]
fn types_and_arity_are_checked() {
    let found = faults(|f| {
        let x = f.input("x", F, vec![4.into(), 4.into(), 4.into()]);
        f.output("c", "y", F, vec![4.into()], |f, i| {
            let two = f.at(x, &[i[0].clone(), i[0].clone()]);
            let mixed = Expr::new(ExprKind::Binary {
                op: reflex_tir::BinOp::Add,
                a: two,
                b: Expr::float(1.0, DType::F64),
            });
            Expr::call(Intrin::BitAnd, vec![mixed.clone(), mixed])
        });
    });
    assert!(found.contains(&"block `c`: `x` has 3 dimensions and 2 indices".into()), "{found:?}");
    assert!(found.iter().any(|f| f.contains("operands of types float32 and float64")), "{found:?}");
    assert!(found.iter().any(|f| f.contains("BitAnd of [float32, float32]")), "{found:?}");
}

#[test]
fn loops_and_blocks_are_checked() {
    let found = faults_in(IrForm::Lowered, |f| {
        let n = f.symbol("n");
        let x = f.input("x", F, vec![n.clone()]);
        let i = f.func_mut().new_var("i");
        let y = f.declare_output("y", F, vec![n.clone()]);
        let store = Stmt::store(y, vec![i.into()], f.at(x, &[i.into()]));
        f.push(Stmt::loop_of(ForKind::Vectorized, i, n.clone(), store.clone()));
        f.push(Stmt::serial(i, n, store));
        f.stage("b", "t", F, vec![1.into()], |_, _| Expr::float(0.0, F));
        f.stage("b", "u", F, vec![1.into()], |_, _| Expr::float(0.0, F));
    });
    assert_eq!(
        found,
        [
            "loop `i`: a Vectorized loop needs a constant extent",
            "loop `i0`: block `b` in lowered form",
            "loop `i0`: block `b` in lowered form",
            "loop `i0`: two blocks are called `b`",
        ]
    );
}

#[test]
fn an_unbound_dimension_is_a_fault() {
    let found = faults(|f| {
        let n = f.symbol("n");
        f.input("x", F, vec![n * 2]);
    });
    assert_eq!(found, ["function `f`: variable `n` is not in scope"]);
}

#[test]
fn an_empty_function_has_no_fault() {
    assert_eq!(verify(&PrimFunc::new("f"), IrForm::Lowered), Ok(()));
}
