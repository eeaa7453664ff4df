//! `R.nn.<name>`: activations, softmax, padding, attention; convolutions and pools are named
//! here and live in `spatial`, normalisations in `norm`.

use reflex_tir::Expr;
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, Op, PadMode, Unary, Value};

/// The constants of SELU.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl FuncParser<'_, '_> {
    pub(super) fn nn(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        if let Some(spatial) = spatial_axes(name) {
            let stem = name.trim_end_matches("_transpose").trim_end_matches(['1', '2', '3', 'd']);
            return match stem {
                "conv" if name.ends_with("_transpose") => self.conv_transpose(call, spatial),
                "conv" => self.conv(call, spatial),
                "max_pool" => self.max_pool(call, spatial),
                "avg_pool" => self.avg_pool(call, spatial),
                "adaptive_avg_pool" => self.adaptive_pool(call, spatial),
                _ => Err(self.source.unsupported(call)),
            };
        }
        match name {
            "softmax" | "log_softmax" => {
                let args = Args::bind(self.source, call, &["data", "axis"])?;
                let x = self.value(args.need("data")?)?;
                let axis = self.axis(at, args.int("axis", -1)?, self.rank(x))?;
                self.emit1(at, Op::Softmax { axis, log: name == "log_softmax" }, &[x])
            }
            "relu" | "relu6" | "silu" | "gelu" | "gelu_tanh" | "selu" => {
                let x = self.one(call)?;
                self.activation(name, at, x).map(ParsedValue::Value)
            }
            "leakyrelu" => {
                let args = Args::bind(self.source, call, &["data", "alpha"])?;
                let x = self.value(args.need("data")?)?;
                let scaled =
                    self.emit_binary_const(at, Binary::Mul, x, args.float("alpha", 0.01)?)?;
                self.positive_or(at, x, scaled).map(ParsedValue::Value)
            }
            // Inference only: nothing is dropped.
            "dropout" => {
                let args = Args::bind(self.source, call, &["x", "rate"])?;
                let x = self.value(args.need("x")?)?;
                let mask = self.filled(at, self.dtype_of(x), 1.0, self.shape_of(x))?;
                Ok(ParsedValue::Values(vec![x, mask]))
            }
            "pixel_shuffle" => self.pixel_shuffle(call),
            "softplus" => self.softplus(call),
            "prelu" => self.prelu(call),
            "pad" => self.pad(call),
            "attention" | "attention_bias" => self.attention(call),
            "batch_flatten" => {
                let x = self.one(call)?;
                let shape = self.shape_of(x);
                let [batch, rest @ ..] = &shape[..] else {
                    return Err(self.source.unsupported(call));
                };
                let shape = vec![batch.clone(), crate::dims::product(rest)];
                self.emit1(at, Op::Reshape(shape), &[x])
            }
            _ => self.norm(name, call),
        }
    }

    fn activation(&mut self, name: &str, at: TextSize, x: Value) -> Result<Value> {
        match name {
            "relu" => self.emit_binary_const(at, Binary::Max, x, 0.0),
            "relu6" => {
                let capped = self.emit_binary_const(at, Binary::Min, x, 6.0)?;
                self.emit_binary_const(at, Binary::Max, capped, 0.0)
            }
            "silu" => {
                let gate = self.unary(at, Unary::Sigmoid, x)?;
                self.emit_binary(at, Binary::Mul, x, gate)
            }
            "gelu" => {
                let scaled =
                    self.emit_binary_const(at, Binary::Mul, x, std::f64::consts::FRAC_1_SQRT_2)?;
                let erf = self.unary(at, Unary::Erf, scaled)?;
                self.gelu_of(at, x, erf)
            }
            "gelu_tanh" => {
                // x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
                let square = self.emit_binary(at, Binary::Mul, x, x)?;
                let inner = self.emit_binary_const(at, Binary::Mul, square, 0.044715)?;
                let inner = self.emit_binary_const(at, Binary::Add, inner, 1.0)?;
                let inner = self.emit_binary(at, Binary::Mul, inner, x)?;
                let root = (2.0 / std::f64::consts::PI).sqrt();
                let inner = self.emit_binary_const(at, Binary::Mul, inner, root)?;
                let tanh = self.unary(at, Unary::Tanh, inner)?;
                self.gelu_of(at, x, tanh)
            }
            _ => {
                let grown = self.unary(at, Unary::Exp, x)?;
                let grown = self.emit_binary_const(at, Binary::Sub, grown, 1.0)?;
                let grown = self.emit_binary_const(at, Binary::Mul, grown, SELU_ALPHA)?;
                let either = self.positive_or(at, x, grown)?;
                self.emit_binary_const(at, Binary::Mul, either, SELU_SCALE)
            }
        }
    }

    /// `x (1 + y) / 2`
    fn gelu_of(&mut self, at: TextSize, x: Value, y: Value) -> Result<Value> {
        let factor = self.emit_binary_const(at, Binary::Add, y, 1.0)?;
        let half = self.emit_binary_const(at, Binary::Mul, x, 0.5)?;
        self.emit_binary(at, Binary::Mul, half, factor)
    }

    /// `x` where it is positive, else `other`.
    fn positive_or(&mut self, at: TextSize, x: Value, other: Value) -> Result<Value> {
        let positive = self.emit_binary_const(at, Binary::Greater, x, 0.0)?;
        self.emit_value(at, Op::Where, &[positive, x, other])
    }

    /// The channels of each block become its pixels.
    fn pixel_shuffle(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "upscale_factor"])?;
        let x = self.value(args.need("data")?)?;
        let shape = self.shape_of(x);
        let factor = args.int("upscale_factor", 1)?;
        let [batch @ .., channels, height, width] = &shape[..] else {
            return Err(self.source.unsupported(call));
        };
        let area = factor.checked_mul(factor).filter(|_| factor > 0);
        let groups = channels.as_int().zip(area).filter(|(c, area)| c % area == 0);
        let Some(groups) = groups.map(|(c, area)| Expr::i64(c / area)) else {
            return Err(self.source.refuse(at, "the channels do not divide into blocks"));
        };
        let side = Expr::i64(factor);
        let blocks = [groups.clone(), side.clone(), side.clone(), height.clone(), width.clone()];
        let blocks = batch.iter().cloned().chain(blocks).collect();
        let n = batch.len();
        let axes = (0..=n).chain([n + 3, n + 1, n + 4, n + 2]).collect();
        let larger = |d: &Expr| crate::dims::simplify(&(d.clone() * factor));
        let pixels = [groups, larger(height), larger(width)];
        let pixels = batch.iter().cloned().chain(pixels).collect();
        let x = self.emit_value(at, Op::Reshape(blocks), &[x])?;
        let x = self.emit_value(at, Op::Transpose(axes), &[x])?;
        self.emit1(at, Op::Reshape(pixels), &[x])
    }

    fn softplus(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "beta", "threshold"])?;
        let x = self.value(args.need("data")?)?;
        let (beta, threshold) = (args.float("beta", 1.0)?, args.float("threshold", 20.0)?);
        let scaled = self.emit_binary_const(at, Binary::Mul, x, beta)?;
        let grown = self.unary(at, Unary::Exp, scaled)?;
        let grown = self.emit_binary_const(at, Binary::Add, grown, 1.0)?;
        let log = self.unary(at, Unary::Log, grown)?;
        let log = self.emit_binary_const(at, Binary::Div, log, beta)?;
        let linear = self.emit_binary_const(at, Binary::Greater, scaled, threshold)?;
        self.emit1(at, Op::Where, &[linear, x, log])
    }

    fn prelu(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "alpha", "axis"])?;
        let operands = self.operands(&args, &["data", "alpha"])?;
        let (x, alpha) = (operands[0], operands[1]);
        let axis = self.axis(at, args.int("axis", 1)?, self.rank(x))?;
        let alpha = self.along(at, alpha, axis, self.rank(x))?;
        let scaled = self.emit_binary(at, Binary::Mul, x, alpha)?;
        self.positive_or(at, x, scaled).map(ParsedValue::Value)
    }

    /// A 1-D tensor shaped to broadcast along one axis of a tensor of this rank.
    pub(super) fn along(
        &mut self,
        at: TextSize,
        v: Value,
        axis: usize,
        rank: usize,
    ) -> Result<Value> {
        let own = self.shape_of(v);
        let [count] = &own[..] else {
            return Err(self.source.refuse(at, "a parameter per channel has one axis"));
        };
        let mut shape = vec![Expr::i64(1); rank];
        shape[axis] = count.clone();
        self.emit_value(at, Op::Reshape(shape), &[v])
    }

    fn pad(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "pad_width", "pad_mode", "pad_value"])?;
        let mut operands = self.operands(&args, &["data"])?;
        args.need("pad_width")?;
        let width = args.ints("pad_width")?.unwrap_or_default();
        let side = |start: usize| width.iter().skip(start).step_by(2).map(|w| Expr::i64(*w));
        let (before, after) = (side(0).collect(), side(1).collect());
        let mode = args.named("pad_mode", PadMode::Constant)?;
        let value = args.float("pad_value", 0.0)?;
        if mode == PadMode::Constant && value != 0.0 {
            operands.push(self.number(at, self.dtype_of(operands[0]), value)?);
        }
        self.emit1(at, Op::Pad { mode, before, after }, &operands)
    }

    /// `softmax(q k^T / sqrt(d) + bias) v` over `[batch, length, heads, width]`.
    fn attention(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["query", "key", "value", "bias", "scale", "causal_mask", "window_size"];
        let args = Args::bind(self.source, call, names)?;
        args.only("causal_mask", &[])?;
        if let Some(window) = args.get("window_size") {
            return Err(self.source.unsupported(window));
        }
        let operands = self.operands(&args, &["query", "key", "value"])?;
        let width = match &self.shape_of(operands[0])[..] {
            [_, _, _, width] => width.as_int(),
            _ => return Err(self.source.unsupported(call)),
        };
        let scale = match (args.get("scale"), width) {
            (Some(_), _) => args.float("scale", 1.0)?,
            (None, Some(width)) => 1.0 / (width as f64).sqrt(),
            (None, None) => return Err(self.source.unsupported(call)),
        };
        let heads_first = Op::Transpose(vec![0, 2, 1, 3]);
        let q = self.emit_value(at, heads_first.clone(), &[operands[0]])?;
        let k = self.emit_value(at, Op::Transpose(vec![0, 2, 3, 1]), &[operands[1]])?;
        let v = self.emit_value(at, heads_first.clone(), &[operands[2]])?;
        let scores = self.emit_value(at, Op::MatMul, &[q, k])?;
        let mut scores = self.emit_binary_const(at, Binary::Mul, scores, scale)?;
        if let Some(bias) = args.get("bias") {
            let bias = self.value(bias)?;
            scores = self.emit_binary(at, Binary::Add, scores, bias)?;
        }
        let weights = self.emit_value(at, Op::Softmax { axis: 3, log: false }, &[scores])?;
        let mixed = self.emit_value(at, Op::MatMul, &[weights, v])?;
        self.emit1(at, heads_first, &[mixed])
    }
}

/// Spatial axes of `conv2d`, `avg_pool1d`, `conv3d_transpose` and their like.
fn spatial_axes(name: &str) -> Option<usize> {
    let stem = name.trim_end_matches("_transpose");
    match stem.as_bytes() {
        [.., digit @ b'1'..=b'3', b'd'] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}
