//! Recurrent layers.

use super::error::{EvalError, Result};
use super::scalar::{Scalars, floats, tensor};
use crate::literal::Literal;
use crate::op::{RnnActivation, RnnAttrs, RnnCell, RnnDir};

fn apply(f: RnnActivation, x: f64) -> f64 {
    match f {
        RnnActivation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        RnnActivation::Tanh => x.tanh(),
        RnnActivation::Relu => x.max(0.0),
    }
}

/// One direction of the layer.
struct Layer<'a> {
    attrs: &'a RnnAttrs,
    act: &'a [RnnActivation],
    input: usize,
    hidden: usize,
    w: &'a [f64],
    r: &'a [f64],
    b: &'a [f64],
}

impl Layer<'_> {
    fn clip(&self, x: f64) -> f64 {
        self.attrs.clip.map_or(x, |c| x.clamp(-c, c))
    }

    fn input_sum(&self, gate: usize, j: usize, x: &[f64]) -> f64 {
        let row = &self.w[(gate * self.hidden + j) * self.input..][..self.input];
        dot(row, x) + self.b[gate * self.hidden + j]
    }

    fn state_sum(&self, gate: usize, j: usize, h: &[f64]) -> f64 {
        let row = &self.r[(gate * self.hidden + j) * self.hidden..][..self.hidden];
        dot(row, h) + self.recurrent_bias(gate, j)
    }

    fn recurrent_bias(&self, gate: usize, j: usize) -> f64 {
        self.b[(self.attrs.cell.gates() as usize + gate) * self.hidden + j]
    }

    fn gate(&self, gate: usize, act: usize, j: usize, x: &[f64], h: &[f64]) -> f64 {
        let sum = self.input_sum(gate, j, x) + self.state_sum(gate, j, h);
        apply(self.act[act], self.clip(sum))
    }

    fn step(&self, x: &[f64], h: &mut [f64], c: &mut [f64]) {
        let old = h.to_vec();
        match self.attrs.cell {
            RnnCell::Rnn => {
                for (j, h) in h.iter_mut().enumerate() {
                    *h = self.gate(0, 0, j, x, &old);
                }
            }
            RnnCell::Lstm => {
                for j in 0..self.hidden {
                    let i = self.gate(0, 0, j, x, &old);
                    let o = self.gate(1, 0, j, x, &old);
                    let f = self.gate(2, 0, j, x, &old);
                    c[j] = f * c[j] + i * self.gate(3, 1, j, x, &old);
                    h[j] = o * apply(self.act[2], c[j]);
                }
            }
            RnnCell::Gru { linear_before_reset } => {
                let r: Vec<f64> = (0..self.hidden).map(|j| self.gate(1, 0, j, x, &old)).collect();
                let reset: Vec<f64> = r.iter().zip(&old).map(|(r, h)| r * h).collect();
                for j in 0..self.hidden {
                    let z = self.gate(0, 0, j, x, &old);
                    let state = if linear_before_reset {
                        r[j] * self.state_sum(2, j, &old)
                    } else {
                        self.state_sum(2, j, &reset)
                    };
                    let sum = self.clip(self.input_sum(2, j, x) + state);
                    h[j] = (1.0 - z) * apply(self.act[1], sum) + z * old[j];
                }
            }
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn expect(l: &Literal, shape: &[usize]) -> Result<Vec<f64>> {
    if l.shape().iter().map(|d| *d as usize).eq(shape.iter().copied()) {
        return floats(l);
    }
    Err(EvalError::new(format!("recurrent layer: {l:?} where {shape:?} is needed")))
}

pub(super) fn rnn(attrs: &RnnAttrs, args: &[&Literal]) -> Result<Vec<Literal>> {
    let [t, n, input] = *args[0].shape() else {
        return Err(EvalError::new(format!("recurrent layer over {:?}", args[0])));
    };
    let (t, n, input) = (t as usize, n as usize, input as usize);
    let (dirs, gates) = (attrs.dir.count() as usize, attrs.cell.gates() as usize);
    let hidden = usize::try_from(attrs.hidden).map_err(|_| EvalError::new("hidden extent"))?;
    let per = attrs.cell.activations();
    if attrs.activations.len() != dirs * per {
        return Err(EvalError::new("recurrent layer: number of activations"));
    }
    let x = floats(args[0])?;
    let w = expect(args[1], &[dirs, gates * hidden, input])?;
    let r = expect(args[2], &[dirs, gates * hidden, hidden])?;
    let or_zero = |at: usize, shape: &[usize]| match args.get(at) {
        Some(l) => expect(l, shape),
        None => Ok(vec![0.0; shape.iter().product()]),
    };
    let b = or_zero(3, &[dirs, 2 * gates * hidden])?;
    let mut hs = or_zero(4, &[dirs, n, hidden])?;
    let mut cs = or_zero(5, &[dirs, n, hidden])?;
    let mut y = vec![0.0; t * dirs * n * hidden];
    for d in 0..dirs {
        let layer = Layer {
            attrs,
            act: &attrs.activations[d * per..(d + 1) * per],
            input,
            hidden,
            w: &w[d * gates * hidden * input..],
            r: &r[d * gates * hidden * hidden..],
            b: &b[d * 2 * gates * hidden..],
        };
        let backwards = attrs.dir == RnnDir::Reverse || d == 1;
        for row in 0..n {
            let at = (d * n + row) * hidden;
            let mut h = hs[at..at + hidden].to_vec();
            for step in 0..t {
                let step = if backwards { t - 1 - step } else { step };
                let x = &x[(step * n + row) * input..][..input];
                layer.step(x, &mut h, &mut cs[at..at + hidden]);
                y[((step * dirs + d) * n + row) * hidden..][..hidden].copy_from_slice(&h);
            }
            hs[at..at + hidden].copy_from_slice(&h);
        }
    }
    let (t, n, dirs, hidden) = (t as i64, n as i64, dirs as i64, hidden as i64);
    let dtype = args[0].dtype();
    let mut out = vec![
        tensor(dtype, vec![t, dirs, n, hidden], &Scalars::Float(y))?,
        tensor(dtype, vec![dirs, n, hidden], &Scalars::Float(hs))?,
    ];
    if attrs.cell == RnnCell::Lstm {
        out.push(tensor(dtype, vec![dirs, n, hidden], &Scalars::Float(cs))?);
    }
    Ok(out)
}
