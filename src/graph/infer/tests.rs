//! Inference over numbers and symbols.

use cranelift_entity::EntityRef;
use reflex_tir::{DType, Expr, Var};

use super::{Assumption, infer, infer_assuming};
use crate::{Binary, ConvAttrs, GatherKind, Op, OutOfRange, PoolAttrs, PoolKind, TensorType};

fn sym(index: usize) -> Expr {
    Expr::var(Var::new(index))
}

fn f32(shape: &[Expr]) -> TensorType {
    TensorType::new(DType::F32, shape.to_vec())
}

fn dims(values: &[i64]) -> Vec<Expr> {
    values.iter().map(|v| Expr::i64(*v)).collect()
}

fn conv(strides: &[i64], pads: &[i64], groups: i64) -> ConvAttrs {
    ConvAttrs {
        strides: strides.to_vec(),
        pads_begin: pads.to_vec(),
        pads_end: pads.to_vec(),
        dilations: vec![1; strides.len()],
        groups,
    }
}

#[test]
fn broadcasting_states_what_it_assumes() {
    let add = Op::Binary(Binary::Add);
    let n = sym(0);
    let (a, b) = (f32(&[n.clone(), Expr::i64(3)]), f32(&dims(&[3])));
    assert_eq!(infer(&add, &[&a, &b]).unwrap(), vec![a.clone()]);
    let one = f32(&dims(&[1, 3]));
    assert_eq!(infer(&add, &[&one, &a]).unwrap(), vec![a.clone()]);
    let two = f32(&dims(&[2, 3]));
    assert!(infer(&add, &[&a, &two]).is_err());
    let (types, assumed) = infer_assuming(&add, &[&a, &two]).unwrap();
    assert_eq!(types, vec![two.clone()]);
    assert_eq!(assumed, vec![Assumption { arg: 0, axis: 0, dim: Expr::i64(2) }]);
    let message = infer(&add, &[&two, &f32(&dims(&[4]))]).unwrap_err().to_string();
    assert_eq!(message, "Binary(Add)(float32[2, 3], float32[4]): dimensions 3 and 4 differ");
}

#[test]
fn windows_use_floor_division() {
    let n = sym(0);
    let x = f32(&[Expr::i64(1), Expr::i64(3), n.clone()]);
    let w = f32(&dims(&[8, 3, 3]));
    let y = infer(&Op::Conv(conv(&[2], &[1], 1)), &[&x, &w]).unwrap();
    assert_eq!(y[0].shape[2], (n + 1).floordiv(2));
    let pool = PoolAttrs {
        kind: PoolKind::Max { indices: false },
        kernel: vec![3],
        strides: vec![2],
        pads_begin: vec![0],
        pads_end: vec![0],
        dilations: vec![1],
        ceil: true,
    };
    let y = infer(&Op::Pool(pool), &[&f32(&dims(&[1, 1, 6]))]).unwrap();
    assert_eq!(y[0].shape[2], Expr::i64(3));
}

#[test]
fn products_batch_and_contract() {
    let n = sym(0);
    let a = f32(&[n.clone(), Expr::i64(4), Expr::i64(5)]);
    let b = f32(&dims(&[5, 6]));
    let y = infer(&Op::MatMul, &[&a, &b]).unwrap();
    assert_eq!(y[0].shape, [n, Expr::i64(4), Expr::i64(6)]);
    assert!(infer(&Op::MatMul, &[&b, &b]).is_err());
}

#[test]
fn reshape_and_gather_check_what_they_can() {
    let n = sym(0);
    let x = f32(&[n.clone(), Expr::i64(6)]);
    let reshape = |shape: Vec<Expr>| infer(&Op::Reshape(shape), &[&x]);
    assert!(reshape(vec![n.clone() * 2, Expr::i64(3)]).is_ok());
    assert!(reshape(vec![n.clone() * 6 + 1]).is_err());
    let index = TensorType::new(DType::I64, dims(&[2]));
    let y = infer(
        &Op::Gather { kind: GatherKind::Axis(1), out_of_range: OutOfRange::Raise },
        &[&x, &index],
    )
    .unwrap();
    assert_eq!(y[0].shape, [n, Expr::i64(2)]);
    assert!(
        infer(
            &Op::Gather { kind: GatherKind::Axis(2), out_of_range: OutOfRange::Raise },
            &[&x, &index]
        )
        .is_err()
    );
}
