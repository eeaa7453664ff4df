//! Probabilities of classes from decisions on pairs of them: the second method of Wu, Lin and Weng
//! (2004), by the iteration that libsvm and ONNX Runtime run.

use std::sync::Arc;

use reflex_graph::{Binary, GatherKind, Literal, Op, OutOfRange, ReduceKind, Unary};
use reflex_tir::{DType, Expr};

use super::super::iterate::{Iterated, iterate, iterate_while};
use super::features::vector;
use crate::context::ImportContext;
use crate::error::Result;
use crate::value::Tensor;

/// Most rounds.
const ROUNDS: i64 = 100;
/// Up to as many classes, a round has no loop of its own.
const UNROLLED: usize = 8;

/// Probabilities `[rows, classes]` from decision values `[rows, pairs]` and the sigmoid of each pair.
pub(super) fn probabilities(
    cx: &mut ImportContext,
    decisions: &Tensor,
    a: &[f32],
    b: &[f32],
    classes: usize,
) -> Result<Tensor> {
    let r = matrix(cx, decisions, a, b, classes)?;
    let q = quadratic_form(cx, &r, classes)?;
    let shape = [decisions.shape()[0].clone(), Expr::i64(classes as i64)];
    let p = cx.filled(1.0 / classes as f64, DType::F32, &shape)?;
    let epsilon = f64::from(0.005_f32 / classes as f32);
    let done = iterate_while(cx, &Expr::i64(ROUNDS), &[p], |cx, _, p| {
        let p = &p[0];
        let row = cx.unsqueeze(p, &[1])?;
        let products = cx.mul(&q, &row)?;
        let qp = cx.reduce(ReduceKind::Sum, &products, &[2])?;
        let terms = cx.mul(p, &qp)?;
        let pqp = cx.reduce_keep_dims(ReduceKind::Sum, &terms, &[1])?;
        let distance = cx.sub(&qp, &pqp)?;
        let distance = cx.unary(Unary::Abs, &distance)?;
        let error = cx.reduce_keep_dims(ReduceKind::Max, &distance, &[1])?;
        let active = cx.binary_num(Binary::GreaterEqual, &error, epsilon)?;
        let next = round(cx, &q, [p.clone(), qp, pqp], classes)?;
        let next = cx.choose(&active, &next, p)?;
        // Rows that are not done, as a number: a maximum over none of them is no number.
        let rows = cx.cast(&active, DType::I64)?;
        let rows = cx.reduce(ReduceKind::Sum, &rows, &[0, 1])?;
        let go_on = cx.binary_num(Binary::Greater, &rows, 0.0)?;
        Ok((Iterated { carried: vec![next], stacked: vec![] }, go_on))
    })?;
    Ok(done.carried[0].clone())
}

/// `r[i, j]`: the probability of class i among i and j; 0 where they are one class.
fn matrix(
    cx: &mut ImportContext,
    decisions: &Tensor,
    a: &[f32],
    b: &[f32],
    classes: usize,
) -> Result<Tensor> {
    let scaled = cx.mul(decisions, &vector(a))?;
    let inner = cx.add(&scaled, &vector(b))?;
    let inner = cx.unary(Unary::Neg, &inner)?;
    let first = cx.unary(Unary::Sigmoid, &inner)?;
    let first = cx.binary_num(Binary::Max, &first, f64::from(1e-7_f32))?;
    let first = cx.binary_num(Binary::Min, &first, f64::from(1.0 - 1e-7_f32))?;
    let whole = cx.num(1.0, DType::F32)?;
    let second = cx.sub(&whole, &first)?;
    let none = cx.filled(0.0, DType::F32, &[decisions.shape()[0].clone(), Expr::i64(1)])?;
    let all = cx.concat(&[first, second, none], 1)?;
    let pairs = a.len() as i64;
    let mut places = vec![2 * pairs; classes * classes];
    let each = (0..classes).flat_map(|i| (i + 1..classes).map(move |j| (i, j)));
    for (pair, (i, j)) in (0..pairs).zip(each) {
        places[i * classes + j] = pair;
        places[j * classes + i] = pairs + pair;
    }
    let r = cx.take(&all, &cx.ints(&places), 1)?;
    let side = Expr::i64(classes as i64);
    cx.reshape(&r, &[decisions.shape()[0].clone(), side.clone(), side])
}

/// `q[i, j]`: `-r[j, i] * r[i, j]`, and on the diagonal the squares of column i.
fn quadratic_form(cx: &mut ImportContext, r: &Tensor, classes: usize) -> Result<Tensor> {
    let turned = cx.transpose(r, &[0, 2, 1])?;
    let products = cx.mul(r, &turned)?;
    let outside = cx.unary(Unary::Neg, &products)?;
    let squares = cx.mul(r, r)?;
    let diagonal = cx.reduce(ReduceKind::Sum, &squares, &[1])?;
    let diagonal = cx.unsqueeze(&diagonal, &[2])?;
    let on = (0..classes * classes).map(|at| u8::from(at / classes == at % classes));
    let shape = vec![classes as i64; 2];
    let on = Literal::new(DType::BOOL, shape, Arc::new(on.collect::<Vec<u8>>()));
    let on = Tensor::literal(on.expect("a byte each"));
    cx.choose(&on, &diagonal, &outside)
}

/// A round over all classes, from `p`, `qp` and `pqp`; returns `p`.
fn round(cx: &mut ImportContext, q: &Tensor, state: [Tensor; 3], classes: usize) -> Result<Tensor> {
    if classes > UNROLLED {
        let trips = Expr::i64(classes as i64);
        let done = iterate(cx, &trips, &state, |cx, at, before| {
            let before = [0, 1, 2].map(|i| before[i].clone());
            let carried = coordinate(cx, q, before, at, classes)?.to_vec();
            Ok(Iterated { carried, stacked: vec![] })
        })?;
        return Ok(done.carried[0].clone());
    }
    let mut state = state;
    for class in 0..classes as i64 {
        state = coordinate(cx, q, state, &Tensor::dim(&class.into()), classes)?;
    }
    let [p, ..] = state;
    Ok(p)
}

/// The step for one class.
fn coordinate(
    cx: &mut ImportContext,
    q: &Tensor,
    [p, qp, pqp]: [Tensor; 3],
    at: &Tensor,
    classes: usize,
) -> Result<[Tensor; 3]> {
    let at = cx.reshape(at, &[1.into()])?;
    let (kind, out_of_range) = (GatherKind::Axis(1), OutOfRange::Clamp);
    let row = cx.op(Op::Gather { kind, out_of_range }, &[q, &at])?;
    let row = cx.squeeze(&row, &[1])?;
    let (own, qp_own) = (cx.take(&row, &at, 1)?, cx.take(&qp, &at, 1)?);
    let gap = cx.sub(&pqp, &qp_own)?;
    let step = cx.div(&gap, &own)?;
    let scale = cx.binary_num(Binary::Add, &step, 1.0)?;
    let inner = cx.mul(&step, &own)?;
    let twice = cx.binary_num(Binary::Mul, &qp_own, 2.0)?;
    let inner = cx.add(&inner, &twice)?;
    let gain = cx.mul(&step, &inner)?;
    let pqp = cx.add(&pqp, &gain)?;
    let pqp = cx.div(&pqp, &scale)?;
    let pqp = cx.div(&pqp, &scale)?;
    let moved = cx.mul(&step, &row)?;
    let qp = cx.add(&qp, &moved)?;
    let qp = cx.div(&qp, &scale)?;
    let columns = cx.iota(&Expr::i64(classes as i64))?;
    let here = cx.binary(Binary::Equal, &columns, &at)?;
    let here = cx.cast(&here, DType::F32)?;
    let moved = cx.mul(&step, &here)?;
    let p = cx.add(&p, &moved)?;
    let p = cx.div(&p, &scale)?;
    Ok([p, qp, pqp])
}
