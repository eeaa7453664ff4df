//! LSTM, GRU and RNN layers.

use reflex_graph::{Op, RnnActivation, RnnAttrs, RnnCell, RnnDir};
use reflex_tir::Expr;

use super::table::{Table, all};
use super::{lstm, sequence_lens};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("GRU", |cx, call| {
        let linear_before_reset = call.flag("linear_before_reset")?;
        layer(cx, call, RnnCell::Gru { linear_before_reset })
    }),
    ("LSTM", |cx, call| layer(cx, call, RnnCell::Lstm)),
    ("RNN", |cx, call| layer(cx, call, RnnCell::Rnn)),
];

fn layer(cx: &mut ImportContext, call: &Call, cell: RnnCell) -> Result<Vec<OnnxValue>> {
    let is_lstm = cell == RnnCell::Lstm;
    let batch_first = call.flag("layout")?;
    let [x, w, r] = [call.input(0)?, call.input(1)?, call.input(2)?];
    if x.rank() != 3 || w.rank() != 3 || r.rank() != 3 {
        return Err(invalid("input and weights have three axes"));
    }
    let x = if batch_first { cx.transpose(x, &[1, 0, 2])? } else { x.clone() };
    let attrs = attributes(call, cell, r)?;
    let lengths = call.opt(4)?.filter(|lengths| !full_length(lengths, &x.shape()[0]));
    let peepholes = if is_lstm { call.opt(7)? } else { None };
    let dirs = Expr::i64(if attrs.dir == RnnDir::Both { 2 } else { 1 });
    let hidden = Expr::i64(attrs.hidden);
    let bias = match call.opt(3)? {
        Some(bias) => bias.clone(),
        None => {
            let width = w.shape()[1].clone() * 2;
            cx.filled(0.0, x.dtype(), &[dirs.clone(), reflex_graph::dims::simplify(&width)])?
        }
    };
    let mut args = vec![x.clone(), w.clone(), r.clone(), bias];
    for index in 5..if is_lstm { 7 } else { 6 } {
        args.push(match call.opt(index)? {
            Some(state) if batch_first => cx.transpose(state, &[1, 0, 2])?,
            Some(state) => state.clone(),
            None => {
                cx.filled(0.0, x.dtype(), &[dirs.clone(), x.shape()[1].clone(), hidden.clone()])?
            }
        });
    }
    let results = match lengths {
        lengths if is_lstm && (lengths.is_some() || peepholes.is_some()) => {
            lstm::layer(cx, &attrs, &args, &lstm::Extras { peepholes, lengths })?
        }
        Some(lengths) => sequence_lens::layer(cx, &attrs, &args, lengths)?,
        None => cx.ops(Op::Rnn(attrs), &args.iter().collect::<Vec<_>>())?,
    };
    if !batch_first {
        return all(results);
    }
    let mut moved = vec![];
    for (index, result) in results.iter().enumerate() {
        let perm: &[usize] = if index == 0 { &[2, 0, 1, 3] } else { &[1, 0, 2] };
        moved.push(cx.transpose(result, perm)?);
    }
    all(moved)
}

fn attributes(call: &Call, cell: RnnCell, r: &Tensor) -> Result<RnnAttrs> {
    let dir = match call.text("direction", "forward")? {
        "forward" => RnnDir::Forward,
        "reverse" => RnnDir::Reverse,
        "bidirectional" => RnnDir::Both,
        other => return Err(invalid(format!("direction `{other}`"))),
    };
    let recurrent = r.shape()[2].as_int();
    let hidden = match (call.int_opt("hidden_size")?, recurrent) {
        (Some(hidden), Some(found)) if hidden != found => {
            return Err(invalid(format!("hidden_size {hidden}, the weights have {found}")));
        }
        (Some(hidden), _) | (None, Some(hidden)) => hidden,
        (None, None) => return Err(unsupported("an unknown hidden extent")),
    };
    if call.flag("input_forget")? {
        return Err(unsupported("coupled input and forget gates"));
    }
    let clip = call.float_opt("clip")?;
    use RnnActivation::{Sigmoid, Tanh};
    let defaults: &[RnnActivation] = match cell {
        RnnCell::Rnn => &[Tanh],
        RnnCell::Lstm => &[Sigmoid, Tanh, Tanh],
        RnnCell::Gru { .. } => &[Sigmoid, Tanh],
    };
    let dirs = if dir == RnnDir::Both { 2 } else { 1 };
    let activations = match call.texts("activations")? {
        Some(names) => names.into_iter().map(activation).collect::<Result<Vec<_>>>()?,
        None => defaults.repeat(dirs),
    };
    if activations.len() != defaults.len() * dirs {
        return Err(invalid(format!("{} activations", activations.len())));
    }
    // The supported activations have no parameters.
    for name in ["activation_alpha", "activation_beta"] {
        if call.floats(name)?.is_some_and(|values| !values.is_empty()) {
            return Err(unsupported(format!("attribute `{name}`")));
        }
    }
    Ok(RnnAttrs { cell, dir, hidden, activations, clip })
}

fn activation(name: &str) -> Result<RnnActivation> {
    match name.to_ascii_lowercase().as_str() {
        "sigmoid" => Ok(RnnActivation::Sigmoid),
        "tanh" => Ok(RnnActivation::Tanh),
        "relu" => Ok(RnnActivation::Relu),
        _ => Err(unsupported(format!("activation `{name}`"))),
    }
}

/// Returns true if all sequences are known to have the full length.
fn full_length(lengths: &Tensor, steps: &Expr) -> bool {
    lengths.as_elements().is_some_and(|all| all.iter().all(|n| n == steps))
}
