//! FlexAttention: attention with graphs that change scores and probabilities.

use reflex_graph::{Binary, Op, Unary};
use reflex_tir::DType;

use super::attention::repeated;
use super::sample::work_type;
use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::tensor::{computes, dtype};
use crate::value::{OnnxValue, Tensor};

/// Operators of `ai.onnx.preview`.
pub(super) const TABLE: Table = &[("FlexAttention", flex_attention)];

fn flex_attention(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if [q, k, v].iter().any(|x| x.rank() != 4 || !x.dtype().is_float()) {
        return Err(invalid(format!("{}, {} and {}", q.ty, k.ty, v.ty)));
    }
    let work = match call.int_opt("softmax_precision")? {
        Some(code) => dtype(i32::try_from(code).unwrap_or(0))?,
        None => work_type(q.dtype()),
    };
    if !computes(work) || !work.is_float() {
        return Err(unsupported(format!("softmax_precision {work}")));
    }
    let root = match call.float_opt("scale")? {
        Some(scale) => cx.num(scale.sqrt(), q.dtype())?,
        None => {
            let width = cx.dim_as(&q.shape()[3], DType::F32)?;
            let root = cx.unary(Unary::Sqrt, &width)?;
            let inverse = cx.unary(Unary::Reciprocal, &root)?;
            let scale = cx.unary(Unary::Sqrt, &inverse)?;
            cx.cast(&scale, q.dtype())?
        }
    };
    let keys = repeated(cx, k, q)?;
    let values = repeated(cx, v, q)?;
    let q = cx.mul(q, &root)?;
    let keys = cx.transpose(&keys, &[0, 1, 3, 2])?;
    let keys = cx.mul(&keys, &root)?;
    let scores = cx.matmul(&q, &keys)?;
    let scores = cx.cast(&scores, work)?;
    let scores = changed(cx, call, "score_mod", scores)?;
    let weights = match work {
        DType::F32 | DType::F64 => cx.op(Op::Softmax { axis: 3, log: false }, &[&scores])?,
        // Each step rounds in the type asked for.
        _ => {
            let most = cx.reduce_keep_dims(reflex_graph::ReduceKind::Max, &scores, &[3])?;
            let shifted = cx.binary(Binary::Sub, &scores, &most)?;
            let power = cx.unary(Unary::Exp, &shifted)?;
            let sum = cx.reduce_keep_dims(reflex_graph::ReduceKind::Sum, &power, &[3])?;
            cx.div(&power, &sum)?
        }
    };
    let weights = changed(cx, call, "prob_mod", weights)?;
    let values = cx.cast(&values, work)?;
    let y = cx.matmul(&weights, &values)?;
    one(cx.cast(&y, v.dtype())?)
}

/// `x` after the graph of an attribute, where there is one.
fn changed(cx: &mut ImportContext, call: &Call, name: &'static str, x: Tensor) -> Result<Tensor> {
    if !call.has(name) {
        return Ok(x);
    }
    let results = cx.subgraph(call.graph(name)?, vec![OnnxValue::Tensor(x.clone())])?;
    match results.as_slice() {
        [OnnxValue::Tensor(y)] if y.rank() == x.rank() => cx.cast(y, x.dtype()),
        _ => Err(invalid(format!("`{name}` has to have one result of rank {}", x.rank()))),
    }
}
