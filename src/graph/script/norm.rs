//! Normalisations of `R.nn`.

use reflex_tir::Expr;
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, Op, ReduceKind, Unary, Value};

impl FuncParser<'_, '_> {
    pub(super) fn norm(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        match name {
            "layer_norm" => self.layer_norm(call),
            "batch_norm" => self.batch_norm(call),
            "group_norm" => self.group_norm(call),
            "instance_norm" => self.instance_norm(call),
            "rms_norm" => self.rms_norm(call),
            _ => Err(self.source.unsupported(call)),
        }
    }

    fn layer_norm(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &["data", "gamma", "beta", "axes", "epsilon", "center", "scale"];
        let args = Args::bind(self.source, call, names)?;
        affine(&args)?;
        let operands = self.operands(&args, &["data", "gamma", "beta"])?;
        args.need("axes")?;
        let axis = self.trailing_axes(&args, self.rank(operands[0]))?;
        let epsilon = args.float("epsilon", 1e-5)?;
        self.emit1(call.start(), Op::LayerNorm { axis, epsilon }, &operands)
    }

    /// Inference only: the moving statistics are used and returned unchanged.
    fn batch_norm(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &[
            "data",
            "gamma",
            "beta",
            "moving_mean",
            "moving_var",
            "axis",
            "epsilon",
            "center",
            "scale",
            "momentum",
            "training",
        ];
        let args = Args::bind(self.source, call, names)?;
        if args.boolean("training", true)? {
            let message = "`R.nn.batch_norm` with `training=True` is not supported";
            return Err(self.source.refuse(at, message));
        }
        let operands =
            self.operands(&args, &["data", "gamma", "beta", "moving_mean", "moving_var"])?;
        let (x, mean, variance) = (operands[0], operands[3], operands[4]);
        let rank = self.rank(x);
        let axis = self.axis(at, args.int("axis", 1)?, rank)?;
        let wide = |p: &mut Self, v| p.along(at, v, axis, rank);
        let shift = wide(self, mean)?;
        let spread = wide(self, variance)?;
        let centred = self.emit_binary(at, Binary::Sub, x, shift)?;
        let mut y = self.over_root(at, centred, spread, args.float("epsilon", 1e-5)?)?;
        if args.boolean("scale", true)? {
            let gamma = wide(self, operands[1])?;
            y = self.emit_binary(at, Binary::Mul, y, gamma)?;
        }
        if args.boolean("center", true)? {
            let beta = wide(self, operands[2])?;
            y = self.emit_binary(at, Binary::Add, y, beta)?;
        }
        Ok(ParsedValue::Values(vec![y, mean, variance]))
    }

    /// `x / sqrt(variance + epsilon)`
    fn over_root(
        &mut self,
        at: TextSize,
        x: Value,
        variance: Value,
        epsilon: f64,
    ) -> Result<Value> {
        let sum = self.emit_binary_const(at, Binary::Add, variance, epsilon)?;
        let root = self.unary(at, Unary::Sqrt, sum)?;
        self.emit_binary(at, Binary::Div, x, root)
    }

    /// Scale and bias per channel.
    fn affine(&mut self, args: &Args<'_>, mut y: Value, axis: usize) -> Result<Value> {
        let at = args.at();
        affine(args)?;
        let operands = self.operands(args, &["gamma", "beta"])?;
        let rank = self.rank(y);
        for (operand, f) in [(operands[0], Binary::Mul), (operands[1], Binary::Add)] {
            let wide = self.along(at, operand, axis, rank)?;
            y = self.emit_binary(at, f, y, wide)?;
        }
        Ok(y)
    }

    fn group_norm(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &[
            "data",
            "gamma",
            "beta",
            "num_groups",
            "channel_axis",
            "axes",
            "epsilon",
            "center",
            "scale",
        ];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("data")?)?;
        let shape = self.shape_of(x);
        let channel = self.axis(at, args.int("channel_axis", 1)?, shape.len())?;
        args.need("axes")?;
        let axes = self.axes(&args, "axes", shape.len())?;
        let groups = args.int("num_groups", 1)?;
        let Some(channels) = shape[channel].as_int().filter(|c| groups > 0 && c % groups == 0)
        else {
            return Err(self.source.refuse(at, "the channels do not divide into the groups"));
        };
        // The channel axis becomes groups and what is in one, which is normalised over too.
        let mut grouped = shape.clone();
        grouped[channel] = Expr::i64(groups);
        grouped.insert(channel + 1, Expr::i64(channels / groups));
        let within = axes.iter().map(|a| if *a > channel { a + 1 } else { *a });
        let mut within: Vec<usize> =
            within.filter(|a| *a != channel).chain([channel + 1]).collect();
        within.sort_unstable();
        let split = self.emit_value(at, Op::Reshape(grouped), &[x])?;
        let (centred, variance) = self.moments(at, split, within)?;
        let y = self.over_root(at, centred, variance, args.float("epsilon", 1e-5)?)?;
        let y = self.emit_value(at, Op::Reshape(shape), &[y])?;
        self.affine(&args, y, channel).map(ParsedValue::Value)
    }

    fn instance_norm(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names =
            &["data", "gamma", "beta", "channel_axis", "axes", "epsilon", "center", "scale"];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("data")?)?;
        let rank = self.rank(x);
        let channel = self.axis(at, args.int("channel_axis", 1)?, rank)?;
        args.need("axes")?;
        let axes = self.axes(&args, "axes", rank)?;
        let (centred, variance) = self.moments(at, x, axes)?;
        let y = self.over_root(at, centred, variance, args.float("epsilon", 1e-5)?)?;
        self.affine(&args, y, channel).map(ParsedValue::Value)
    }

    fn rms_norm(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "weight", "axes", "epsilon"])?;
        let operands = self.operands(&args, &["data", "weight"])?;
        let (x, rank) = (operands[0], self.rank(operands[0]));
        let axes = match args.get("axes") {
            Some(_) => self.axes(&args, "axes", rank)?,
            None => vec![self.axis(at, -1, rank)?],
        };
        let squared = self.emit_binary(at, Binary::Mul, x, x)?;
        let op = Op::Reduce { kind: ReduceKind::Mean, axes, keep_dims: true };
        let mean = self.emit_value(at, op, &[squared])?;
        let y = self.over_root(at, x, mean, args.float("epsilon", 1e-5)?)?;
        self.emit1(at, Op::Binary(Binary::Mul), &[y, operands[1]])
    }
}

/// TVM documents that these switch scale and bias off, and applies both all the same: only the
/// form where the two agree is read.
fn affine(args: &Args<'_>) -> Result<()> {
    args.only_true("scale")?;
    args.only_true("center")
}
