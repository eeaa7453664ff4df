//! Classification losses.

use reflex_graph::{Binary, GatherKind, Op, ReduceKind, Unary};

use super::table::{Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::value::Tensor;

pub(super) const TABLE: Table = &[
    ("NegativeLogLikelihoodLoss", |cx, call| {
        let x = call.input(0)?.clone();
        one(negative_log_likelihood(cx, call, &x)?)
    }),
    ("SoftmaxCrossEntropyLoss", |cx, call| {
        let log = cx.op(Op::Softmax { axis: 1, log: true }, &[call.input(0)?])?;
        all(vec![negative_log_likelihood(cx, call, &log)?, log])
    }),
];

fn negative_log_likelihood(cx: &mut ImportContext, call: &Call, x: &Tensor) -> Result<Tensor> {
    let target = call.input(1)?;
    if x.rank() < 2 || target.rank() + 1 != x.rank() {
        return Err(invalid(format!("scores {} for targets {}", x.ty, target.ty)));
    }
    let ignored = match call.int_opt("ignore_index")? {
        Some(class) => Some(cx.num(class as f64, target.dtype())?),
        None => None,
    };
    let zero_class = cx.num(0.0, target.dtype())?;
    let skip = match &ignored {
        Some(class) => Some(cx.binary(Binary::Equal, target, class)?),
        None => None,
    };
    // An ignored target may be outside the classes.
    let safe = match &skip {
        Some(skip) => cx.choose(skip, &zero_class, target)?,
        None => target.clone(),
    };
    let picked = cx.unsqueeze(&safe, &[1])?;
    let score = cx.gather(GatherKind::Elements(1), x, &picked)?;
    let score = cx.squeeze(&score, &[1])?;
    let loss = cx.unary(Unary::Neg, &score)?;
    let mut weight = match call.opt(2)? {
        Some(weight) => cx.take(weight, &safe, 0)?,
        None => cx.filled(1.0, x.dtype(), target.shape())?,
    };
    if let Some(skip) = &skip {
        let zero = cx.num(0.0, x.dtype())?;
        weight = cx.choose(skip, &zero, &weight)?;
    }
    let loss = cx.mul(&loss, &weight)?;
    let axes: Vec<usize> = (0..loss.rank()).collect();
    let sum = |cx: &mut ImportContext, x: &Tensor| cx.reduce(ReduceKind::Sum, x, &axes);
    match call.text("reduction", "mean")? {
        "none" => Ok(loss),
        "sum" => sum(cx, &loss),
        "mean" => {
            let (total, weights) = (sum(cx, &loss)?, sum(cx, &weight)?);
            cx.div(&total, &weights)
        }
        other => Err(invalid(format!("reduction `{other}`"))),
    }
}
