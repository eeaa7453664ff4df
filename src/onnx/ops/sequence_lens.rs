//! Recurrent layers over sequences of different lengths.
//!
//! The layer runs over all steps. Steps past a sequence's end are masked from the results, and the
//! last state is the one at its end. A reverse direction runs forward over the
//! sequences reversed one by one. The cell state of an LSTM is known at the last step only, so
//! those are in [`super::lstm`].

use reflex_graph::{Binary, GatherKind, Op, RnnAttrs, RnnDir};
use reflex_tir::{DType, Expr};

use super::index::mirrored;
use crate::context::ImportContext;
use crate::error::Result;
use crate::value::Tensor;

/// `y` and the last hidden state of a layer; `args` are the operands of [`Op::Rnn`].
pub(super) fn layer(
    cx: &mut ImportContext,
    attrs: &RnnAttrs,
    args: &[Tensor],
    lengths: &Tensor,
) -> Result<Vec<Tensor>> {
    let lengths = cx.cast(lengths, DType::I64)?;
    let reverse: &[bool] = match attrs.dir {
        RnnDir::Forward => &[false],
        RnnDir::Reverse => &[true],
        RnnDir::Both => &[false, true],
    };
    let per_direction = attrs.activations.len() / reverse.len();
    let (mut ys, mut hs) = (vec![], vec![]);
    for (at, reverse) in reverse.iter().enumerate() {
        let activations = attrs.activations[at * per_direction..][..per_direction].to_vec();
        let own = RnnAttrs { dir: RnnDir::Forward, activations, ..attrs.clone() };
        let mut parts = vec![args[0].clone()];
        for arg in &args[1..] {
            parts.push(cx.slice(arg, 0, &Expr::i64(at as i64), &Expr::i64(1))?);
        }
        if *reverse {
            parts[0] = mirrored(cx, &parts[0], &lengths, 1, 0)?;
        }
        let (y, h) = direction(cx, own, &parts, &lengths)?;
        // Axes of y: time, direction, batch, hidden.
        ys.push(if *reverse { mirrored_y(cx, &y, &lengths)? } else { y });
        hs.push(h);
    }
    Ok(vec![cx.concat(&ys, 1)?, cx.concat(&hs, 0)?])
}

/// One forward direction: masked outputs and the state at each sequence's end.
fn direction(
    cx: &mut ImportContext,
    attrs: RnnAttrs,
    args: &[Tensor],
    lengths: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let initial = args[4].clone();
    let y = cx.ops(Op::Rnn(attrs), &args.iter().collect::<Vec<_>>())?.remove(0);
    let steps = cx.iota(&y.shape()[0])?;
    let steps = cx.unsqueeze(&steps, &[1, 2, 3])?;
    let ends = cx.unsqueeze(lengths, &[0, 1, 3])?;
    let inside = cx.binary(Binary::Less, &steps, &ends)?;
    let zero = cx.num(0.0, y.dtype())?;
    let masked = cx.choose(&inside, &y, &zero)?;
    // The state at the last step; of an empty sequence the one it starts with.
    let last = cx.binary_num(Binary::Sub, &ends, 1.0)?;
    let last = cx.binary_num(Binary::Max, &last, 0.0)?;
    let mut shape = y.shape().to_vec();
    shape[0] = Expr::i64(1);
    let last = cx.broadcast(&last, &shape)?;
    let state = cx.gather(GatherKind::Elements(0), &y, &last)?;
    let state = cx.squeeze(&state, &[0])?;
    let some = cx.unsqueeze(lengths, &[0, 2])?;
    let some = cx.binary_num(Binary::Greater, &some, 0.0)?;
    Ok((masked, cx.choose(&some, &state, &initial)?))
}

/// Each sequence of `y` reversed.
fn mirrored_y(cx: &mut ImportContext, y: &Tensor, lengths: &Tensor) -> Result<Tensor> {
    let flat = cx.squeeze(y, &[1])?;
    let flat = mirrored(cx, &flat, lengths, 1, 0)?;
    cx.unsqueeze(&flat, &[1])
}
