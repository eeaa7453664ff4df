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
    let [w, r] = weights(call)?;
    let attrs = attributes(call, cell, &r.shape()[2])?;
    let peepholes = if is_lstm { call.opt(7)? } else { None };
    let mut args = Operands::of(cx, call, &attrs, &w.shape()[1])?;
    let lengths = args.lengths.take();
    let results = match lengths {
        lengths if is_lstm && (lengths.is_some() || peepholes.is_some()) => {
            let [w, r] = [w, r].map(|w| lstm::Weights::Float(w.clone()));
            let extras = lstm::Extras { peepholes, lengths };
            lstm::layer(cx, &attrs, [&w, &r], &args.list, &extras)?
        }
        lengths => {
            args.list.splice(1..1, [w.clone(), r.clone()]);
            match lengths {
                Some(lengths) => sequence_lens::layer(cx, &attrs, &args.list, lengths)?,
                None => cx.ops(Op::Rnn(attrs), &args.list.iter().collect::<Vec<_>>())?,
            }
        }
    };
    arranged(cx, call, results)
}

/// com.microsoft's DynamicQuantizeLSTM: inputs and state are quantised over their own ranges, the inputs at once and
/// the state in each step.
pub(super) fn dynamic_quantize_lstm(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let [w, r] = weights(call)?;
    let attrs = attributes(call, RnnCell::Lstm, &r.shape()[1])?;
    let args = Operands::of(cx, call, &attrs, &w.shape()[2])?;
    let quantised = |x: &Tensor, at: usize| -> Result<lstm::Weights> {
        let (scale, zero_point) = (call.input(at)?, call.input(at + 1)?);
        for p in [scale, zero_point] {
            if p.rank() == 0 || p.rank() > 2 || (p.rank() == 2 && p.shape()[1] != x.shape()[2]) {
                return Err(invalid(format!(
                    "scales and zero points {} of weights {}",
                    p.ty, x.ty
                )));
            }
        }
        let (x, scale, zero_point) = (x.clone(), scale.clone(), zero_point.clone());
        Ok(lstm::Weights::Quantised(Box::new(lstm::Integers { x, scale, zero_point })))
    };
    let extras = lstm::Extras { peepholes: call.opt(7)?, lengths: args.lengths };
    let (w, r) = (quantised(w, 8)?, quantised(r, 10)?);
    let results = lstm::layer(cx, &attrs, [&w, &r], &args.list, &extras)?;
    arranged(cx, call, results)
}

/// The weights of the inputs and of the state, of three axes.
fn weights<'a>(call: &'a Call) -> Result<[&'a Tensor; 2]> {
    let [x, w, r] = [call.input(0)?, call.input(1)?, call.input(2)?];
    if x.rank() != 3 || w.rank() != 3 || r.rank() != 3 {
        return Err(invalid("input and weights have three axes"));
    }
    Ok([w, r])
}

/// Operands that are no weights.
struct Operands<'a> {
    /// Inputs with the steps first, biases, and the states before the first step.
    list: Vec<Tensor>,
    /// Lengths of the sequences, unless all are known to be full.
    lengths: Option<&'a Tensor>,
}

impl<'a> Operands<'a> {
    /// `width`: that of the product with the inputs.
    fn of(
        cx: &mut ImportContext,
        call: &'a Call,
        attrs: &RnnAttrs,
        width: &Expr,
    ) -> Result<Operands<'a>> {
        let batch_first = call.flag("layout")?;
        let x = call.input(0)?;
        let x = if batch_first { cx.transpose(x, &[1, 0, 2])? } else { x.clone() };
        let lengths = call.opt(4)?.filter(|lengths| !full_length(lengths, &x.shape()[0]));
        let dirs = Expr::i64(if attrs.dir == RnnDir::Both { 2 } else { 1 });
        let bias = match call.opt(3)? {
            Some(bias) => bias.clone(),
            None => {
                let width = reflex_graph::dims::simplify(&(width.clone() * 2));
                cx.filled(0.0, x.dtype(), &[dirs.clone(), width])?
            }
        };
        let state = [dirs, x.shape()[1].clone(), Expr::i64(attrs.hidden)];
        let mut list = vec![x.clone(), bias];
        for index in 5..if attrs.cell == RnnCell::Lstm { 7 } else { 6 } {
            list.push(match call.opt(index)? {
                Some(state) if batch_first => cx.transpose(state, &[1, 0, 2])?,
                Some(state) => state.clone(),
                None => cx.filled(0.0, x.dtype(), &state)?,
            });
        }
        Ok(Operands { list, lengths })
    }
}

/// The results, in the layout that the node asks for.
fn arranged(cx: &mut ImportContext, call: &Call, results: Vec<Tensor>) -> Result<Vec<OnnxValue>> {
    if !call.flag("layout")? {
        return all(results);
    }
    let mut moved = vec![];
    for (index, result) in results.iter().enumerate() {
        let perm: &[usize] = if index == 0 { &[2, 0, 1, 3] } else { &[1, 0, 2] };
        moved.push(cx.transpose(result, perm)?);
    }
    all(moved)
}

/// `recurrent`: the extent of the state that the weights have.
fn attributes(call: &Call, cell: RnnCell, recurrent: &Expr) -> Result<RnnAttrs> {
    let dir = match call.text("direction", "forward")? {
        "forward" => RnnDir::Forward,
        "reverse" => RnnDir::Reverse,
        "bidirectional" => RnnDir::Both,
        other => return Err(invalid(format!("direction `{other}`"))),
    };
    let hidden = match (call.int_opt("hidden_size")?, recurrent.as_int()) {
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
