//! Activations, normalisations and what else `nn` holds, convolutions and pools apart.

use reflex_tir::Expr as DimExpr;

use super::attrs::OpCall;
use crate::relay::lower::func::{FuncLowerer, Term};

use crate::relay::source::Result;
use crate::{Binary, Op, PadMode, Unary, Value};

impl FuncLowerer<'_, '_, '_> {
    pub(super) fn nn(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let value = match call.name {
            "nn.relu" => {
                let [x] = self.operands(call)?;
                self.with_number(call, Binary::Max, x, 0.0)?
            }
            "nn.leaky_relu" => {
                let [x] = self.operands(call)?;
                let alpha = call.float("alpha", 0.25)?;
                let scaled = self.with_number(call, Binary::Mul, x, alpha)?;
                self.positive_or(call, x, scaled)?
            }
            "nn.prelu" => {
                let [x, alpha] = self.operands(call)?;
                let axis = call.int("axis", 1)?;
                let axis = self.axis(call, axis, self.rank(x))?;
                let alpha = self.along(call, alpha, axis, self.rank(x))?;
                let scaled = self.binary(call, Binary::Mul, x, alpha)?;
                self.positive_or(call, x, scaled)?
            }
            "nn.softmax" | "nn.log_softmax" | "nn.fast_softmax" => {
                let [x] = self.operands(call)?;
                let axis = call.int("axis", -1)?;
                let axis = self.axis(call, axis, self.rank(x))?;
                let log = call.name == "nn.log_softmax";
                self.emit(call, Op::Softmax { axis, log }, &[x])?
            }
            "nn.bias_add" => {
                let [x, bias] = self.operands(call)?;
                let axis = call.int("axis", 1)?;
                let axis = self.axis(call, axis, self.rank(x))?;
                let bias = self.along(call, bias, axis, self.rank(x))?;
                self.binary(call, Binary::Add, x, bias)?
            }
            "nn.batch_flatten" => {
                let [x] = self.operands(call)?;
                let shape = self.shape(x);
                let [batch, rest @ ..] = &shape[..] else {
                    return Err(call.refuse("needs a batch axis"));
                };
                let shape = vec![batch.clone(), crate::dims::product(rest)];
                self.reshaped(call, x, shape)?
            }
            "nn.pad" => self.pad(call)?,
            "nn.layer_norm" => self.layer_norm(call)?,
            "nn.batch_norm" => return self.batch_norm(call),
            "nn.dropout" => {
                let [x] = self.operands(call)?;
                call.ignore(&["rate"]);
                let mask = self.filled_like(call, x, 1.0)?;
                return Ok(self.tuple_term(vec![x, mask]));
            }
            _ => return Ok(None),
        };
        Ok(Some(self.term(value)))
    }

    /// `x` where it is positive, else `other`.
    fn positive_or(&mut self, call: &OpCall<'_>, x: Value, other: Value) -> Result<Value> {
        let positive = self.with_number(call, Binary::Greater, x, 0.0)?;
        self.emit(call, Op::Where, &[positive, x, other])
    }

    fn pad(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let (x, value) = (self.operand(call, 0)?, self.operand(call, 1)?);
        let width = call.int_lists("pad_width")?;
        let mode = match call.text("pad_mode", "constant")? {
            "constant" => PadMode::Constant,
            "edge" => PadMode::Edge,
            "reflect" => PadMode::Reflect,
            _ => return Err(call.refuse("a `pad_mode` that is not known")),
        };
        let side = |n: usize| -> Option<Vec<DimExpr>> {
            width.iter().map(|w| w.get(n).map(|w| DimExpr::i64(*w))).collect()
        };
        let (Some(before), Some(after)) = (side(0), side(1)) else {
            return Err(call.refuse("`pad_width` has two numbers for each axis"));
        };
        let dtype = self.b.tensor(x).dtype;
        let mut args = vec![x];
        if mode == PadMode::Constant {
            args.push(self.cast(call, value, dtype)?);
        }
        self.emit(call, Op::Pad { mode, before, after }, &args)
    }

    fn layer_norm(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x, gamma, beta] = self.operands(call)?;
        let rank = self.rank(x);
        let axis = call.int("axis", -1)?;
        let axis = self.axis(call, axis, rank)?;
        let epsilon = call.float("epsilon", 1e-5)?;
        if axis + 1 != rank {
            return Err(call.refuse("another axis than the last is not supported"));
        }
        if !call.flag("center", true)? || !call.flag("scale", true)? {
            return Err(call.refuse("without scale or bias is not supported"));
        }
        self.emit(call, Op::LayerNorm { axis, epsilon }, &[x, gamma, beta])
    }

    /// Inference only: the moving statistics are used, and returned unchanged.
    fn batch_norm(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let [x, gamma, beta, mean, variance] = self.operands(call)?;
        let rank = self.rank(x);
        let axis = call.int("axis", 1)?;
        let axis = self.axis(call, axis, rank)?;
        let epsilon = call.float("epsilon", 1e-5)?;
        let shift = self.along(call, mean, axis, rank)?;
        let spread = self.along(call, variance, axis, rank)?;
        let centred = self.binary(call, Binary::Sub, x, shift)?;
        let sum = self.with_number(call, Binary::Add, spread, epsilon)?;
        let root = self.unary(call, Unary::Sqrt, sum)?;
        let mut y = self.binary(call, Binary::Div, centred, root)?;
        if call.flag("scale", true)? {
            let gamma = self.along(call, gamma, axis, rank)?;
            y = self.binary(call, Binary::Mul, y, gamma)?;
        }
        if call.flag("center", true)? {
            let beta = self.along(call, beta, axis, rank)?;
            y = self.binary(call, Binary::Add, y, beta)?;
        }
        Ok(self.tuple_term(vec![y, mean, variance]))
    }
}
