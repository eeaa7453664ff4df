//! Products of matrices.

use reflex_graph::{Binary, ReduceKind, Value};

use super::einsum;
use super::table::{Results, Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};

pub(super) const TABLE: Table = &[
    ("addbmm", |cx, call| {
        let product = product(cx, call, ["batch1", "batch2"])?;
        let sum = cx.reduce(ReduceKind::Sum, product, &[0], false)?;
        one(added(cx, call, sum)?)
    }),
    ("addmm", |cx, call| {
        let product = product(cx, call, ["mat1", "mat2"])?;
        one(added(cx, call, product)?)
    }),
    ("addmv", |cx, call| {
        let product = product(cx, call, ["mat", "vec"])?;
        one(added(cx, call, product)?)
    }),
    ("baddbmm", |cx, call| {
        let product = product(cx, call, ["batch1", "batch2"])?;
        one(added(cx, call, product)?)
    }),
    ("bmm", |cx, call| one(product(cx, call, ["self", "mat2"])?)),
    ("dot", |cx, call| one(product(cx, call, ["self", "tensor"])?)),
    ("einsum", einsum::einsum),
    ("linear", linear),
    ("matmul", |cx, call| one(product(cx, call, ["self", "other"])?)),
    ("mm", |cx, call| one(product(cx, call, ["self", "mat2"])?)),
    ("mv", |cx, call| one(product(cx, call, ["self", "vec"])?)),
    ("outer", |cx, call| {
        let (a, b) = (call.tensor("self")?, call.tensor("vec2")?);
        let a = cx.unsqueeze(a, &[1])?;
        one(cx.mul(a, b)?)
    }),
];

fn product(cx: &mut ImportContext, call: &Call, names: [&str; 2]) -> Result<Value> {
    call.ignore(&["out_dtype"]);
    cx.matmul(call.tensor(names[0])?, call.tensor(names[1])?)
}

/// `beta * self + alpha * product`
fn added(cx: &mut ImportContext, call: &Call, product: Value) -> Result<Value> {
    let x = call.tensor("self")?;
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    let product = times(cx, product, alpha)?;
    // PyTorch does not read `self` here, whose NaN does not count.
    if beta == 0.0 {
        return Ok(product);
    }
    let x = times(cx, x, beta)?;
    cx.add(product, x)
}

fn times(cx: &mut ImportContext, x: Value, factor: f64) -> Result<Value> {
    if factor == 1.0 { Ok(x) } else { cx.binary_num(Binary::Mul, x, factor) }
}

fn linear(cx: &mut ImportContext, call: &Call) -> Results {
    let (x, w, bias) = (call.tensor("input")?, call.tensor("weight")?, call.opt("bias")?);
    let y = match cx.rank(w) {
        // A vector of weights gives one number.
        1 => cx.matmul(x, w)?,
        2 => {
            let w = cx.transpose(w, &[1, 0])?;
            cx.matmul(x, w)?
        }
        rank => return Err(invalid(format!("weights of rank {rank}"))),
    };
    match bias {
        Some(bias) => one(cx.add(y, bias)?),
        None => one(y),
    }
}
