//! Loops that an operator's import makes itself.

use reflex_graph::{Loop, Node, TensorType};
use reflex_tir::{DType, Expr};

use crate::context::ImportContext;
use crate::error::Result;
use crate::value::Tensor;

/// The results of an iteration, and of all of them.
pub(super) struct Iterated {
    /// Values for the next iteration, of the same types as before; finally those of the last one.
    pub carried: Vec<Tensor>,
    /// One value each iteration; finally stacked along a new first axis.
    pub stacked: Vec<Tensor>,
}

/// Runs `step` for `0..trips` with the iteration's number and the carried values.
pub(super) fn iterate(
    cx: &mut ImportContext,
    trips: &Expr,
    init: &[Tensor],
    step: impl FnOnce(&mut ImportContext, &Tensor, &[Tensor]) -> Result<Iterated>,
) -> Result<Iterated> {
    iterate_while(cx, trips, init, |cx, at, before| {
        let done = step(cx, at, before)?;
        Ok((done, cx.num(1.0, DType::BOOL)?))
    })
}

/// As [`iterate`], while the bool that `step` also returns is true; nothing is stacked then.
pub(super) fn iterate_while(
    cx: &mut ImportContext,
    trips: &Expr,
    init: &[Tensor],
    step: impl FnOnce(&mut ImportContext, &Tensor, &[Tensor]) -> Result<(Iterated, Tensor)>,
) -> Result<Iterated> {
    let start = init.iter().map(|x| cx.value(x)).collect::<Result<Vec<_>>>()?;
    let max_trips = cx.value(&Tensor::dim(trips))?;
    cx.b.open();
    let iter = cx.b.body_param("", TensorType::new(DType::I64, vec![]));
    let cond_in = cx.b.body_param("", TensorType::new(DType::BOOL, vec![]));
    let carried: Vec<_> = init.iter().map(|x| cx.b.body_param("", x.ty.clone())).collect();
    let at = cx.tensor_of(iter);
    let before: Vec<Tensor> = carried.iter().map(|v| cx.tensor_of(*v)).collect();
    let results = step(cx, &at, &before).and_then(|(done, go_on)| {
        let all = [&[go_on], done.carried.as_slice(), done.stacked.as_slice()].concat();
        all.iter().map(|x| cx.value(x)).collect::<Result<Vec<_>>>()
    });
    let body = cx.b.close(results.as_ref().map_or(vec![], Clone::clone));
    let results = results?;
    let mut types: Vec<TensorType> = init.iter().map(|x| x.ty.clone()).collect();
    let mut known = vec![];
    for value in &results[1 + init.len()..] {
        let mut ty = cx.b.tensor(*value).clone();
        ty.shape.insert(0, trips.clone());
        known.push(ty.clone());
        // A loop says how many trips it made; here it is known.
        ty.shape[0] = Expr::var(cx.b.sym("trips"));
        types.push(ty);
    }
    let (max_trips, cond) = (Some(max_trips), None);
    let node = Loop { max_trips, cond, init: start, iter, cond_in, carried, body };
    let mut carried = cx.bind(Node::Loop(Box::new(node)), types);
    let mut stacked = vec![];
    for (open, ty) in carried.split_off(init.len()).iter().zip(known) {
        let value = cx.value(open)?;
        let value = cx.b.match_cast(value, ty);
        stacked.push(cx.tensor_of(value));
    }
    Ok(Iterated { carried, stacked })
}
