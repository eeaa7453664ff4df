//! LSTM, GRU and RNN layers, one layer and direction pair at a time.

use reflex_graph::{Op, RnnActivation, RnnAttrs, RnnCell, RnnDir, Value};
use reflex_tir::Expr;

use super::table::{Results, Table, all};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("gru", |cx, call| {
        recurrent(cx, call, RnnCell::Gru { linear_before_reset: true }, RnnActivation::Tanh)
    }),
    ("lstm", |cx, call| recurrent(cx, call, RnnCell::Lstm, RnnActivation::Tanh)),
    ("rnn_relu", |cx, call| recurrent(cx, call, RnnCell::Rnn, RnnActivation::Relu)),
    ("rnn_tanh", |cx, call| recurrent(cx, call, RnnCell::Rnn, RnnActivation::Tanh)),
];

/// Layers that are stacked.
struct Stack {
    cell: RnnCell,
    activation: RnnActivation,
    layers: usize,
    directions: usize,
    biased: bool,
}

/// The gates of a cell in the graph's order, by their numbers in PyTorch's.
fn gates(cell: RnnCell) -> &'static [usize] {
    match cell {
        RnnCell::Rnn => &[0],
        // i f g o to i o f g
        RnnCell::Lstm => &[0, 3, 1, 2],
        // r z n to z r n
        RnnCell::Gru { .. } => &[1, 0, 2],
    }
}

fn recurrent(
    cx: &mut ImportContext,
    call: &Call,
    cell: RnnCell,
    activation: RnnActivation,
) -> Results {
    if call.has("data") || call.has("batch_sizes") {
        return Err(unsupported("packed sequences"));
    }
    if call.flag("train", false)? && call.float("dropout", 0.0)? != 0.0 {
        return Err(unsupported("dropout in training: call eval() on the module first"));
    }
    call.ignore(&["dropout"]);
    let stack = Stack {
        cell,
        activation,
        layers: usize::try_from(call.int("num_layers", 1)?).unwrap_or(0),
        directions: if call.flag("bidirectional", false)? { 2 } else { 1 },
        biased: call.flag("has_biases", true)?,
    };
    let weights = call.tensors("params")?;
    let each = if stack.biased { 4 } else { 2 };
    if stack.layers == 0 || weights.len() != stack.layers.saturating_mul(stack.directions * each) {
        return Err(unsupported(format!("{} weights: projections", weights.len())));
    }
    let batch_first = call.flag("batch_first", false)?;
    let input = call.tensor("input")?;
    if cx.rank(input) != 3 {
        return Err(unsupported("a sequence without a batch"));
    }
    let mut x = if batch_first { cx.transpose(input, &[1, 0, 2])? } else { input };
    let states = match cell {
        RnnCell::Lstm => call.tensors("hx")?,
        _ => vec![call.tensor("hx")?],
    };
    let mut last: Vec<Vec<Value>> = vec![vec![]; states.len()];
    for layer in 0..stack.layers {
        let first = layer * stack.directions * each;
        let own = &weights[first..first + stack.directions * each];
        let results = run(cx, &stack, layer, x, own, &states)?;
        let shape = cx.shape(results[0]);
        // Directions go behind the batch: [t, n, dirs * hidden].
        let moved = cx.transpose(results[0], &[0, 2, 1, 3])?;
        let width = shape[1].clone() * shape[3].clone();
        x = cx.reshape(moved, &[shape[0].clone(), shape[2].clone(), width])?;
        for (list, state) in last.iter_mut().zip(&results[1..]) {
            list.push(*state);
        }
    }
    let y = if batch_first { cx.transpose(x, &[1, 0, 2])? } else { x };
    let mut results = vec![y];
    for list in last {
        results.push(cx.concat(&list, 0)?);
    }
    all(results)
}

/// One layer, in both directions where there are two.
fn run(
    cx: &mut ImportContext,
    stack: &Stack,
    layer: usize,
    x: Value,
    weights: &[Value],
    states: &[Value],
) -> Result<Vec<Value>> {
    let each = weights.len() / stack.directions;
    let hidden = cx.dim(weights[1], 1)?.as_int();
    let hidden = hidden.ok_or_else(|| unsupported("a symbolic hidden size"))?;
    let mut operands: [Vec<Value>; 3] = Default::default();
    for direction in weights.chunks_exact(each) {
        for (list, weight) in operands.iter_mut().zip(&direction[..2]) {
            let ordered = reordered(cx, *weight, stack.cell, hidden)?;
            list.push(cx.unsqueeze(ordered, &[0])?);
        }
        let gates = stack.cell.gates() * hidden;
        let bias = match direction.get(2..4) {
            Some([a, b]) => {
                let a = reordered(cx, *a, stack.cell, hidden)?;
                let b = reordered(cx, *b, stack.cell, hidden)?;
                cx.concat(&[a, b], 0)?
            }
            _ => {
                let zero = cx.num(0.0, cx.dtype(x))?;
                cx.broadcast(zero, &[Expr::i64(gates) * 2])?
            }
        };
        operands[2].push(cx.unsqueeze(bias, &[0])?);
    }
    let mut args = vec![x];
    for list in &operands {
        args.push(cx.concat(list, 0)?);
    }
    let count = stack.directions as i64;
    for state in states {
        let begin = Expr::i64(layer as i64 * count);
        args.push(cx.slice(*state, 0, &begin, &Expr::i64(count))?);
    }
    let (sigmoid, own) = (RnnActivation::Sigmoid, stack.activation);
    let activations = match stack.cell {
        RnnCell::Rnn => vec![own],
        RnnCell::Lstm => vec![sigmoid, own, own],
        RnnCell::Gru { .. } => vec![sigmoid, own],
    };
    let dir = if stack.directions == 2 { RnnDir::Both } else { RnnDir::Forward };
    let activations = activations.repeat(stack.directions);
    let attrs = RnnAttrs { cell: stack.cell, dir, hidden, activations, clip: None };
    cx.ops(Op::Rnn(attrs), &args)
}

/// Rows of weights with their gates in the graph's order.
fn reordered(cx: &mut ImportContext, w: Value, cell: RnnCell, hidden: i64) -> Result<Value> {
    let mut parts = vec![];
    if cx.dim(w, 0)?.as_int() != hidden.checked_mul(cell.gates()) {
        return Err(invalid("weights of other gates than the cell's"));
    }
    for gate in gates(cell) {
        let begin = Expr::i64(*gate as i64 * hidden);
        parts.push(cx.slice(w, 0, &begin, &Expr::i64(hidden))?);
    }
    cx.concat(&parts, 0)
}
