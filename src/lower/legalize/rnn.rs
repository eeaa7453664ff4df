//! Recurrent layers: the input's matmul with the weights for all steps at once, then a serial loop
//! over time whose stages are the recurrent matmul and the cell.
//!
//! A gate's input is `((x w + h r) + wb) + rb`, clipped where asked.

use reflex_graph::{RnnActivation, RnnAttrs, RnnCell, RnnDir};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{BinOp, Buffer, DType, Expr, Intrin, Stmt};

use crate::legalize::builder::{LegalizeError, OpBuilder, scratch, sum_of_products};
use crate::legalize::elementwise::sigmoid;

/// `Rnn`.
pub fn rnn(cx: &mut OpBuilder<'_>, attrs: &RnnAttrs) -> Result<(), LegalizeError> {
    let needed = if attrs.cell == RnnCell::Lstm { 6 } else { 5 };
    if cx.args.len() < needed {
        return Err(cx.error(format!("{needed} operands expected")));
    }
    if cx.args[0].dtype != DType::F32 {
        return Err(cx.error("recurrent layers take float32 only"));
    }
    let outs: Vec<Buffer> = ["y", "h", "c"]
        .iter()
        .zip(cx.outs.clone())
        .map(|(name, ty)| cx.f.declare_output(name, ty.dtype, ty.shape))
        .collect();
    let directions: &[Direction] = match attrs.dir {
        RnnDir::Forward => &[Direction::Forward],
        RnnDir::Reverse => &[Direction::Reverse],
        RnnDir::Both => &[Direction::Forward, Direction::Reverse],
    };
    let mut layers = vec![];
    for (n, direction) in directions.iter().enumerate() {
        let layer = Layer::new(cx, attrs, n, *direction)?;
        let start = layer.start(cx);
        layers.push((layer, start));
    }
    // One after the other, so that a schedule may run both at the same time.
    for (layer, start) in &layers {
        layer.steps(cx, start, outs[0]);
    }
    for (layer, start) in &layers {
        layer.last(cx, start, &outs[1..]);
    }
    Ok(())
}

/// The way through time.
#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Reverse,
}

/// One direction of a recurrent layer.
struct Layer<'a> {
    attrs: &'a RnnAttrs,
    dir: Expr,
    direction: Direction,
    acts: &'a [RnnActivation],
    steps: Expr,
    batch: Expr,
    hidden: Expr,
    gates: i64,
}

/// Buffers that are computed before the first step.
struct Start {
    /// `x w`, `[t, n, gates * hidden]`
    input: Buffer,
    /// Hidden (and cell) state.
    state: Vec<Buffer>,
}

/// Values that gates are computed from within one step.
struct Step<'a> {
    layer: &'a Layer<'a>,
    /// `x w`, `[t, n, gates * hidden]`
    input: Buffer,
    /// `h r`, `[n, gates * hidden]`
    recurrent: Buffer,
    time: Expr,
    bias: &'a dyn Fn(&FuncBuilder, Expr) -> Expr,
}

impl<'a> Layer<'a> {
    fn new(
        cx: &OpBuilder<'_>,
        attrs: &'a RnnAttrs,
        n: usize,
        direction: Direction,
    ) -> Result<Layer<'a>, LegalizeError> {
        let (gates, per_dir) = match attrs.cell {
            RnnCell::Rnn => (1, 1),
            RnnCell::Lstm => (4, 3),
            RnnCell::Gru { .. } => (3, 2),
        };
        let acts = attrs
            .activations
            .get(n * per_dir..(n + 1) * per_dir)
            .ok_or_else(|| cx.error("an activation is missing"))?;
        Ok(Layer {
            attrs,
            dir: Expr::i64(n as i64),
            direction,
            acts,
            steps: cx.args[0].shape[0].clone(),
            batch: cx.args[0].shape[1].clone(),
            hidden: Expr::i64(attrs.hidden),
            gates,
        })
    }

    fn width(&self) -> Expr {
        Expr::i64(self.gates * self.attrs.hidden)
    }

    /// The inputs' products, and the initial states.
    fn start(&self, cx: &mut OpBuilder<'_>) -> Start {
        let (x, w) = (cx.reader(0), cx.reader(1));
        let depth = cx.args[0].shape[2].clone();
        let shape = vec![self.steps.clone(), self.batch.clone(), self.width()];
        let dir = self.dir.clone();
        let input =
            cx.f.reduce_stage("input", "xw", DType::F32, shape, &[depth], zero(), |f, i, k| {
                let weight = w(f, &[dir.clone(), i[2].clone(), k[0].clone()]);
                x(f, &[i[0].clone(), i[1].clone(), k[0].clone()]) * weight
            });
        Start { input, state: self.states(cx) }
    }

    /// The loop over time, which stores the states of each step.
    fn steps(&self, cx: &mut OpBuilder<'_>, start: &Start, states: Buffer) {
        let (r, b) = (cx.reader(2), cx.reader(3));
        let Start { input, state } = start;
        let dir = self.dir.clone();
        let bias = |f: &FuncBuilder, at: Expr| b(f, &[dir.clone(), at]);
        let recurrent_shape = vec![self.batch.clone(), self.width()];
        cx.f.repeat("t", self.steps.clone(), |f, t| {
            let time = match self.direction {
                Direction::Forward => t,
                Direction::Reverse => self.steps.clone() - 1 - t,
            };
            let depth = [self.hidden.clone()];
            let hr = f.reduce_stage(
                "recurrent",
                "hr",
                DType::F32,
                recurrent_shape,
                &depth,
                zero(),
                |f, i, k| {
                    let weight = r(f, &[dir.clone(), i[1].clone(), k[0].clone()]);
                    f.at(state[0], &[i[0].clone(), k[0].clone()]) * weight
                },
            );
            let step = Step { layer: self, input: *input, recurrent: hr, time, bias: &bias };
            match self.attrs.cell {
                RnnCell::Rnn => step.elman(f, state),
                RnnCell::Lstm => step.lstm(f, state),
                RnnCell::Gru { linear_before_reset: true } => step.gru_linear(f, state),
                RnnCell::Gru { linear_before_reset: false } => step.gru(f, state, &r),
            }
            let time = step.time.clone();
            f.fill("emit", &self.cell_shape(), |f, i| {
                let at = vec![time, dir.clone(), i[0].clone(), i[1].clone()];
                Stmt::store(states, at, f.at(state[0], i))
            });
        });
    }

    /// Stores the states after the last step.
    fn last(&self, cx: &mut OpBuilder<'_>, start: &Start, outs: &[Buffer]) {
        for (out, state) in outs.iter().zip(&start.state) {
            cx.f.fill("last", &self.cell_shape(), |f, i| {
                let at = vec![self.dir.clone(), i[0].clone(), i[1].clone()];
                Stmt::store(*out, at, f.at(*state, i))
            });
        }
    }

    fn cell_shape(&self) -> [Expr; 2] {
        [self.batch.clone(), self.hidden.clone()]
    }

    /// Hidden (and cell) state, set to the initial values.
    fn states(&self, cx: &mut OpBuilder<'_>) -> Vec<Buffer> {
        let count = if self.attrs.cell == RnnCell::Lstm { 2 } else { 1 };
        (0..count)
            .map(|n| {
                let init = cx.reader(4 + n);
                let name = ["hs", "cs"][n];
                let state = scratch(&mut cx.f, name, DType::F32, self.cell_shape().to_vec());
                cx.f.fill("start", &self.cell_shape(), |f, i| {
                    let at = [self.dir.clone(), i[0].clone(), i[1].clone()];
                    Stmt::store(state, i.to_vec(), init(f, &at))
                });
                state
            })
            .collect()
    }
}

impl Step<'_> {
    /// The column of gate `g` for hidden unit `h`.
    fn column(&self, g: i64, h: &Expr) -> Expr {
        h.clone() + g * self.layer.attrs.hidden
    }

    fn wb(&self, f: &FuncBuilder, g: i64, h: &Expr) -> Expr {
        (self.bias)(f, self.column(g, h))
    }

    fn rb(&self, f: &FuncBuilder, g: i64, h: &Expr) -> Expr {
        (self.bias)(f, self.column(g + self.layer.gates, h))
    }

    fn xw(&self, f: &FuncBuilder, g: i64, i: &[Expr]) -> Expr {
        f.at(self.input, &[self.time.clone(), i[0].clone(), self.column(g, &i[1])])
    }

    fn hr(&self, f: &FuncBuilder, g: i64, i: &[Expr]) -> Expr {
        f.at(self.recurrent, &[i[0].clone(), self.column(g, &i[1])])
    }

    fn clip(&self, x: Expr) -> Expr {
        match self.layer.attrs.clip {
            Some(limit) => {
                let bound = |x: f64| Expr::float(x, DType::F32);
                x.min(bound(limit)).max(bound(-limit))
            }
            None => x,
        }
    }

    /// Gate `g` through activation `act`.
    fn gate(&self, f: &FuncBuilder, g: i64, act: usize, i: &[Expr]) -> Expr {
        let sum = self.xw(f, g, i) + self.hr(f, g, i);
        let sum = sum + self.wb(f, g, &i[1]) + self.rb(f, g, &i[1]);
        activate(self.layer.acts[act], self.clip(sum))
    }

    fn elman(&self, f: &mut FuncBuilder, state: &[Buffer]) {
        f.fill("hidden", &self.layer.cell_shape(), |f, i| {
            Stmt::store(state[0], i.to_vec(), self.gate(f, 0, 0, i))
        });
    }

    fn lstm(&self, f: &mut FuncBuilder, state: &[Buffer]) {
        f.fill("cell", &self.layer.cell_shape(), |f, i| {
            let kept = self.gate(f, 2, 0, i) * f.at(state[1], i);
            let new = self.gate(f, 0, 0, i) * self.gate(f, 3, 1, i);
            Stmt::store(state[1], i.to_vec(), kept + new)
        });
        f.fill("hidden", &self.layer.cell_shape(), |f, i| {
            let cell = activate(self.layer.acts[2], f.at(state[1], i));
            Stmt::store(state[0], i.to_vec(), self.gate(f, 1, 0, i) * cell)
        });
    }

    /// `(1 - z) * candidate + z * h`
    fn blend(&self, f: &FuncBuilder, i: &[Expr], candidate: Expr, h: Expr) -> Expr {
        let z = self.gate(f, 0, 0, i);
        (Expr::float(1.0, DType::F32) - z.clone()) * candidate + z * h
    }

    fn gru_linear(&self, f: &mut FuncBuilder, state: &[Buffer]) {
        f.fill("hidden", &self.layer.cell_shape(), |f, i| {
            let inner = self.hr(f, 2, i) + self.rb(f, 2, &i[1]);
            let sum = self.xw(f, 2, i) + self.gate(f, 1, 0, i) * inner + self.wb(f, 2, &i[1]);
            let candidate = activate(self.layer.acts[1], self.clip(sum));
            Stmt::store(state[0], i.to_vec(), self.blend(f, i, candidate, f.at(state[0], i)))
        });
    }

    fn gru(
        &self,
        f: &mut FuncBuilder,
        state: &[Buffer],
        r: &dyn Fn(&FuncBuilder, &[Expr]) -> Expr,
    ) {
        let shape = self.layer.cell_shape();
        let reset = f.stage("reset", "rh", DType::F32, shape.to_vec(), |f, i| {
            self.gate(f, 1, 0, i) * f.at(state[0], i)
        });
        let product = f.reduce_stage(
            "candidate",
            "hc",
            DType::F32,
            shape.to_vec(),
            std::slice::from_ref(&self.layer.hidden),
            zero(),
            |f, i, k| {
                let at = [self.layer.dir.clone(), self.column(2, &i[1]), k[0].clone()];
                f.at(reset, &[i[0].clone(), k[0].clone()]) * r(f, &at)
            },
        );
        f.fill("hidden", &shape, |f, i| {
            let sum = self.xw(f, 2, i) + f.at(product, i);
            let sum = sum + self.wb(f, 2, &i[1]) + self.rb(f, 2, &i[1]);
            let candidate = activate(self.layer.acts[1], self.clip(sum));
            Stmt::store(state[0], i.to_vec(), self.blend(f, i, candidate, f.at(state[0], i)))
        });
    }
}

/// Sums of products, from zero.
fn zero() -> Reducer<'static> {
    Reducer { init: Expr::float(0.0, DType::F32), combine: &sum_of_products }
}

fn activate(kind: RnnActivation, x: Expr) -> Expr {
    match kind {
        RnnActivation::Sigmoid => sigmoid(x),
        RnnActivation::Tanh => Expr::call(Intrin::Tanh, vec![x]),
        RnnActivation::Relu => Expr::binary(BinOp::Max, x, Expr::float(0.0, DType::F32)),
    }
}
