//! LSTM layers step by step: with peephole weights, over sequences of different lengths, and with
//! dynamically quantised operands.
//!
//! The layers of graph IR have none of these. The products with the inputs are one matrix multiplication
//! before the loop; past its end a sequence keeps its state, and its outputs are zero.

use reflex_graph::{Binary, RnnActivation, RnnAttrs, RnnDir, Unary};
use reflex_tir::{DType, Expr};

use super::index::mirrored;
use super::integer_products::{Quantised, int_matmul};
use super::iterate::{Iterated, iterate};
use super::quant::dynamically_quantized;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::value::Tensor;

/// The weights of the products with an input or a state.
pub(super) enum Weights {
    /// `[directions, 4 * hidden, depth]`; `[depth, 4 * hidden]` of one direction.
    Float(Tensor),
    /// The other factor is quantised over its own range.
    Quantised(Box<Integers>),
}

/// 8-bit integers, `[directions, depth, 4 * hidden]`, with scales and zero points `[directions]` or
/// `[directions, 4 * hidden]`; all without `directions` of one.
pub(super) struct Integers {
    pub x: Tensor,
    pub scale: Tensor,
    pub zero_point: Tensor,
}

impl Weights {
    fn of_direction(&self, cx: &mut ImportContext, at: i64) -> Result<Weights> {
        let mut part = |x: &Tensor| {
            let part = cx.slice(x, 0, &Expr::i64(at), &Expr::i64(1))?;
            cx.squeeze(&part, &[0])
        };
        match self {
            Weights::Float(x) => {
                let x = part(x)?;
                Ok(Weights::Float(cx.transpose(&x, &[1, 0])?))
            }
            Weights::Quantised(w) => {
                let (x, scale) = (part(&w.x)?, part(&w.scale)?);
                let zero_point = part(&w.zero_point)?;
                Ok(Weights::Quantised(Box::new(Integers { x, scale, zero_point })))
            }
        }
    }

    /// The product of `x` and the weights of a direction.
    fn times(&self, cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
        match self {
            Weights::Float(w) => cx.matmul(x, w),
            Weights::Quantised(w) => {
                let [x, x_scale, x_zero] = dynamically_quantized(cx, x)?;
                let x = Quantised { x: &x, zero_point: Some(&x_zero) };
                let sum =
                    int_matmul(cx, x, Quantised { x: &w.x, zero_point: Some(&w.zero_point) })?;
                let scale = cx.mul(&x_scale, &w.scale)?;
                let sum = cx.cast(&sum, scale.dtype())?;
                cx.mul(&sum, &scale)
            }
        }
    }
}

/// Operands of a layer beyond those of [`reflex_graph::Op::Rnn`].
pub(super) struct Extras<'a> {
    /// Peephole weights `[directions, 3 * hidden]` of the gates i, o, f.
    pub peepholes: Option<&'a Tensor>,
    /// Lengths of the sequences.
    pub lengths: Option<&'a Tensor>,
}

/// One direction of a layer.
struct Direction {
    recurrence: Weights,
    /// Weights of the gates i, o, f, `[hidden]` each.
    peepholes: Option<[Tensor; 3]>,
    activations: [RnnActivation; 3],
    clip: Option<f64>,
    hidden: i64,
    /// int64, `[n, 1]`.
    lengths: Option<Tensor>,
}

/// `y [t, directions, n, hidden]`, and the last hidden and cell states. `weights` are those of the inputs and of
/// the state, `args` are x, b, h0, c0.
pub(super) fn layer(
    cx: &mut ImportContext,
    attrs: &RnnAttrs,
    weights: [&Weights; 2],
    args: &[Tensor],
    extras: &Extras<'_>,
) -> Result<Vec<Tensor>> {
    let backwards: &[bool] = match attrs.dir {
        RnnDir::Forward => &[false],
        RnnDir::Reverse => &[true],
        RnnDir::Both => &[false, true],
    };
    let steps = args[0].shape()[0].clone();
    let lengths = match extras.lengths {
        Some(lengths) => Some(cx.cast(lengths, DType::I64)?),
        None => None,
    };
    let whole = match &lengths {
        Some(lengths) => lengths.clone(),
        None => {
            let steps = Tensor::dim(&steps);
            cx.broadcast(&steps, &args[0].shape()[1..2])?
        }
    };
    let mut results: [Vec<Tensor>; 3] = Default::default();
    for (at, reverse) in backwards.iter().enumerate() {
        let mut own = vec![args[0].clone()];
        for arg in &args[1..] {
            let part = cx.slice(arg, 0, &Expr::i64(at as i64), &Expr::i64(1))?;
            own.push(cx.squeeze(&part, &[0])?);
        }
        if *reverse {
            own[0] = mirrored(cx, &own[0], &whole, 1, 0)?;
        }
        let peepholes = match extras.peepholes {
            Some(p) => Some(gate_weights(cx, p, at as i64, attrs.hidden)?),
            None => None,
        };
        let [f, g, h] = *attrs.activations.get(at * 3..at * 3 + 3).unwrap_or_default() else {
            return Err(invalid("three activations for each direction"));
        };
        let lengths = match &lengths {
            Some(lengths) => Some(cx.unsqueeze(lengths, &[1])?),
            None => None,
        };
        let [inputs, recurrence] = weights;
        let inputs = inputs.of_direction(cx, at as i64)?;
        let direction = Direction {
            recurrence: recurrence.of_direction(cx, at as i64)?,
            peepholes,
            activations: [f, g, h],
            clip: attrs.clip,
            hidden: attrs.hidden,
            lengths,
        };
        let [y, h, c] = direction.run(cx, &inputs, &own)?;
        let y = if *reverse { mirrored(cx, &y, &whole, 1, 0)? } else { y };
        for (list, (value, axis)) in results.iter_mut().zip([(y, 1), (h, 0), (c, 0)]) {
            list.push(cx.unsqueeze(&value, &[axis])?);
        }
    }
    let [y, h, c] = &results;
    Ok(vec![cx.concat(y, 1)?, cx.concat(h, 0)?, cx.concat(c, 0)?])
}

fn gate_weights(
    cx: &mut ImportContext,
    p: &Tensor,
    direction: i64,
    hidden: i64,
) -> Result<[Tensor; 3]> {
    if p.rank() != 2 || p.shape()[1].as_int() != Some(3 * hidden) {
        return Err(invalid(format!("peephole weights {} for {hidden} cells", p.ty)));
    }
    let own = cx.slice(p, 0, &Expr::i64(direction), &Expr::i64(1))?;
    let own = cx.squeeze(&own, &[0])?;
    let mut gate = |n: i64| cx.slice(&own, 0, &Expr::i64(n * hidden), &Expr::i64(hidden));
    Ok([gate(0)?, gate(1)?, gate(2)?])
}

impl Direction {
    /// `y [t, n, hidden]` and the last states `[n, hidden]`.
    fn run(
        &self,
        cx: &mut ImportContext,
        weights: &Weights,
        args: &[Tensor],
    ) -> Result<[Tensor; 3]> {
        let [x, b, h, c] = args else { return Err(invalid("four operands")) };
        let width = Expr::i64(4 * self.hidden);
        let input_bias = cx.slice(b, 0, &Expr::i64(0), &width)?;
        let state_bias = cx.slice(b, 0, &width, &width)?;
        let bias = cx.add(&input_bias, &state_bias)?;
        let inputs = weights.times(cx, x)?;
        let inputs = cx.add(&inputs, &bias)?;
        let steps = x.shape()[0].clone();
        let done = iterate(cx, &steps, &[h.clone(), c.clone()], |cx, at, carried| {
            self.step(cx, &inputs, at, carried)
        })?;
        let [h, c] = done.carried.as_slice() else { return Err(invalid("two states")) };
        Ok([done.stacked[0].clone(), h.clone(), c.clone()])
    }

    fn step(
        &self,
        cx: &mut ImportContext,
        inputs: &Tensor,
        at: &Tensor,
        carried: &[Tensor],
    ) -> Result<Iterated> {
        let (h, c) = (&carried[0], &carried[1]);
        let input = cx.take(inputs, at, 0)?;
        let product = self.recurrence.times(cx, h)?;
        let gates = cx.add(&product, &input)?;
        let size = Expr::i64(self.hidden);
        let mut parts = vec![];
        for gate in 0..4 {
            parts.push(cx.slice(&gates, 1, &Expr::i64(gate * self.hidden), &size)?);
        }
        let [f, g, last] = self.activations;
        let [pi, po, pf] = match &self.peepholes {
            Some([i, o, f]) => [Some(i), Some(o), Some(f)],
            None => [None; 3],
        };
        let input_gate = self.gate(cx, &parts[0], pi.map(|p| (p, c)), f)?;
        let forget = self.gate(cx, &parts[2], pf.map(|p| (p, c)), f)?;
        let new = self.gate(cx, &parts[3], None, g)?;
        let kept = cx.mul(c, &forget)?;
        let added = cx.mul(&input_gate, &new)?;
        let cell = cx.add(&kept, &added)?;
        let output = self.gate(cx, &parts[1], po.map(|p| (p, &cell)), f)?;
        let shown = activated(cx, &cell, last)?;
        let hidden = cx.mul(&output, &shown)?;
        let Some(lengths) = &self.lengths else {
            return Ok(Iterated { carried: vec![hidden.clone(), cell], stacked: vec![hidden] });
        };
        let inside = cx.binary(Binary::Less, at, lengths)?;
        let zero = cx.num(0.0, hidden.dtype())?;
        let y = cx.choose(&inside, &hidden, &zero)?;
        let (hidden, cell) = (cx.choose(&inside, &hidden, h)?, cx.choose(&inside, &cell, c)?);
        Ok(Iterated { carried: vec![hidden, cell], stacked: vec![y] })
    }

    /// A gate from its inputs and what it sees of a cell.
    fn gate(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        peephole: Option<(&Tensor, &Tensor)>,
        f: RnnActivation,
    ) -> Result<Tensor> {
        let mut x = x.clone();
        if let Some((weight, cell)) = peephole {
            let seen = cx.mul(cell, weight)?;
            x = cx.add(&x, &seen)?;
        }
        if let Some(clip) = self.clip {
            x = cx.binary_num(Binary::Max, &x, -clip)?;
            x = cx.binary_num(Binary::Min, &x, clip)?;
        }
        activated(cx, &x, f)
    }
}

fn activated(cx: &mut ImportContext, x: &Tensor, f: RnnActivation) -> Result<Tensor> {
    match f {
        RnnActivation::Sigmoid => cx.unary(Unary::Sigmoid, x),
        RnnActivation::Tanh => cx.unary(Unary::Tanh, x),
        RnnActivation::Relu => cx.binary_num(Binary::Max, x, 0.0),
    }
}
