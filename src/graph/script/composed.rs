//! Operators that are formulas over other operators: arithmetic, windows, quantisation, losses.

use std::f64::consts::PI;

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, GatherKind, Op, OutOfRange, ReduceKind, Unary, Value, dims};

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn composed(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        let at = call.start();
        Ok(Some(match name {
            "atan2" => self.atan2(call)?,
            "log_add_exp" => self.log_add_exp(call)?,
            "ewise_fma" => {
                let args = Args::bind(self.source, call, &["x1", "x2", "x3"])?;
                let operands = self.operands(&args, &["x1", "x2", "x3"])?;
                let product = self.emit_binary(at, Binary::Mul, operands[0], operands[1])?;
                self.emit1(at, Op::Binary(Binary::Add), &[product, operands[2]])?
            }
            "outer" => {
                let args = Args::bind(self.source, call, &["x1", "x2"])?;
                let operands = self.operands(&args, &["x1", "x2"])?;
                let column = self.along(at, operands[0], 0, 2)?;
                let row = self.along(at, operands[1], 1, 2)?;
                self.emit1(at, Op::Binary(Binary::Mul), &[column, row])?
            }
            "einsum" => self.einsum(call)?,
            "image.affine_grid" => self.affine_grid(call)?,
            "hamming_window" => self.hamming_window(call)?,
            "collapse_sum_to" => {
                let args = Args::bind(self.source, call, &["data", "shape"])?;
                let x = self.value(args.need("data")?)?;
                let shape = self.dims_of(args.need("shape")?)?;
                self.collapse_sum(at, x, shape)?
            }
            "collapse_sum_like" => {
                let args = Args::bind(self.source, call, &["data", "collapse_target"])?;
                let operands = self.operands(&args, &["data", "collapse_target"])?;
                let shape = self.shape_of(operands[1]);
                self.collapse_sum(at, operands[0], shape)?
            }
            "quantize" => self.quantize(call)?,
            "dequantize" => self.dequantize(call)?,
            "nn.nll_loss" => self.nll_loss(call)?,
            "nn.cross_entropy_with_logits" => self.cross_entropy(call)?,
            _ => return Ok(None),
        }))
    }

    /// The angle of `(x2, x1)`: that of the absolute values, mirrored by the signs, which zeros have
    /// too.
    fn atan2(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x1", "x2"])?;
        let operands = self.operands(&args, &["x1", "x2"])?;
        let (y, x) = (operands[0], operands[1]);
        let (height, width) = (self.unary(at, Unary::Abs, y)?, self.unary(at, Unary::Abs, x)?);
        let ratio = self.emit_binary(at, Binary::Div, height, width)?;
        // 0 / 0 is an angle of 0, and infinity over infinity one of 45 degrees.
        let equal = self.emit_binary(at, Binary::Equal, height, width)?;
        let zero = self.emit_binary_const(at, Binary::Equal, height, 0.0)?;
        let (none, one) =
            (self.number(at, self.dtype_of(x), 0.0)?, self.number(at, self.dtype_of(x), 1.0)?);
        let diagonal = self.emit_value(at, Op::Where, &[zero, none, one])?;
        let ratio = self.emit_value(at, Op::Where, &[equal, diagonal, ratio])?;
        let angle = self.unary(at, Unary::Atan, ratio)?;
        let left = self.has_sign(at, x)?;
        let straight = self.number(at, self.dtype_of(x), PI)?;
        let mirrored = self.emit_binary(at, Binary::Sub, straight, angle)?;
        let angle = self.emit_value(at, Op::Where, &[left, mirrored, angle])?;
        let below = self.has_sign(at, y)?;
        let negative = self.unary(at, Unary::Neg, angle)?;
        self.emit1(at, Op::Where, &[below, negative, angle])
    }

    /// Whether a number has a sign, as negative zero does.
    fn has_sign(&mut self, at: TextSize, x: Value) -> Result<Value> {
        let negative = self.emit_binary_const(at, Binary::Less, x, 0.0)?;
        let inverse = self.unary(at, Unary::Reciprocal, x)?;
        let below = self.emit_binary_const(at, Binary::Less, inverse, 0.0)?;
        self.emit_binary(at, Binary::Or, negative, below)
    }

    /// `max(a, b) + log(exp(a - max) + exp(b - max))`
    fn log_add_exp(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x1", "x2"])?;
        let operands = self.operands(&args, &["x1", "x2"])?;
        let most = self.emit_binary(at, Binary::Max, operands[0], operands[1])?;
        let mut terms = vec![];
        for x in operands {
            let below = self.emit_binary(at, Binary::Sub, x, most)?;
            terms.push(self.unary(at, Unary::Exp, below)?);
        }
        let sum = self.emit_binary(at, Binary::Add, terms[0], terms[1])?;
        let log = self.unary(at, Unary::Log, sum)?;
        self.emit1(at, Op::Binary(Binary::Add), &[most, log])
    }

    /// `alpha - beta cos(2 pi i / n)`, where a periodic window has one more interval.
    fn hamming_window(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["window_size", "periodic", "alpha", "beta", "dtype"];
        let args = Args::bind(self.source, call, names)?;
        args.need("window_size")?;
        let size = args.int("window_size", 0)?;
        let intervals = size - i64::from(!args.boolean("periodic", true)?);
        let dtype = self.dtype_or(&args, "dtype", DType::F32)?;
        if size < 2 {
            return Err(self.source.refuse(at, "a window has two elements or more"));
        }
        let counter = self.emit_value(at, Op::Iota { count: Expr::i64(size) }, &[])?;
        let counter = self.cast_to(call, counter, DType::F64)?;
        let turn = 2.0 * PI / intervals as f64;
        let angle = self.emit_binary_const(at, Binary::Mul, counter, turn)?;
        let wave = self.unary(at, Unary::Cos, angle)?;
        let beta = args.float("beta", 0.46)?;
        let wave = self.emit_binary_const(at, Binary::Mul, wave, -beta)?;
        let window = self.emit_binary_const(at, Binary::Add, wave, args.float("alpha", 0.54)?)?;
        self.cast_to(call, window, dtype).map(ParsedValue::Value)
    }

    /// The points of a grid over the square from -1 to 1, mapped by a matrix for each image.
    fn affine_grid(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "size", "align_corners"])?;
        args.only_true("align_corners")?;
        let x = self.value(args.need("data")?)?;
        let size = self.dims_of(args.need("size")?)?;
        let (shape, dtype) = (self.shape_of(x), self.dtype_of(x));
        let size: Option<Vec<i64>> = size.iter().map(Expr::as_int).collect();
        let size = size.filter(|size| size.iter().all(|n| *n > 1)).unwrap_or_default();
        let ([batch, ..], [height, width]) = (&shape[..], &size[..]) else {
            return Err(self.source.refuse(at, "a grid has two rows and two columns or more"));
        };
        let grid = vec![Expr::i64(*height), Expr::i64(*width)];
        let row = vec![Expr::i64(1), dims::product(&grid)];
        let mut rows = vec![];
        for (axis, count) in [(1, *width), (0, *height)] {
            let points = self.emit_value(at, Op::Iota { count: Expr::i64(count) }, &[])?;
            let points = self.cast_to(call, points, dtype)?;
            let step = 2.0 / (count - 1) as f64;
            let points = self.emit_binary_const(at, Binary::Mul, points, step)?;
            let points = self.emit_binary_const(at, Binary::Sub, points, 1.0)?;
            let points = self.along(at, points, axis, 2)?;
            let points = self.emit_value(at, Op::Broadcast(grid.clone()), &[points])?;
            rows.push(self.emit_value(at, Op::Reshape(row.clone()), &[points])?);
        }
        rows.push(self.filled(at, dtype, 1.0, row)?);
        let points = self.emit_value(at, Op::Concat { axis: 0 }, &rows)?;
        let mapped = self.emit_value(at, Op::MatMul, &[x, points])?;
        let shape = [vec![batch.clone(), Expr::i64(2)], grid].concat();
        self.emit1(at, Op::Reshape(shape), &[mapped])
    }

    /// Sums over the axes that broadcasting from `shape` would lengthen.
    fn collapse_sum(&mut self, at: TextSize, x: Value, shape: Vec<Expr>) -> Result<ParsedValue> {
        let own = self.shape_of(x);
        let Some(extra) = own.len().checked_sub(shape.len()) else {
            return Err(self.source.refuse(at, "the sum has more axes than what is summed"));
        };
        let mut axes: Vec<usize> = (0..extra).collect();
        for (i, target) in shape.iter().enumerate() {
            let axis = extra + i;
            match dims::equal(&own[axis], target) {
                Some(true) => {}
                _ if target.as_int() == Some(1) => axes.push(axis),
                _ => {
                    let message = format!("axis {axis} neither stays nor becomes 1");
                    return Err(self.source.refuse(at, message));
                }
            }
        }
        let op = Op::Reduce { kind: ReduceKind::Sum, axes, keep_dims: true };
        let sum = self.emit_value(at, op, &[x])?;
        self.emit1(at, Op::Reshape(shape), &[sum])
    }

    /// A scale or zero point: one for all, or one for each element of an axis.
    fn quantisation(&mut self, at: TextSize, v: Value, axis: usize, rank: usize) -> Result<Value> {
        match self.shape_of(v).iter().all(|d| d.as_int() == Some(1)) {
            true => self.emit_value(at, Op::Reshape(vec![]), &[v]),
            false => self.along(at, v, axis, rank),
        }
    }

    /// `clip(round(x / scale) + zero_point)`
    fn quantize(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["data", "scale", "zero_point", "axis", "out_dtype"];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["data", "scale", "zero_point"])?;
        let (x, rank) = (operands[0], self.rank(operands[0]));
        let axis = self.axis(at, args.int("axis", -1)?, rank)?;
        let dtype = self.dtype_or(&args, "out_dtype", DType::I8)?;
        let (low, high) = match dtype {
            DType::I8 => (-128.0, 127.0),
            DType::U8 => (0.0, 255.0),
            DType::I16 => (-32768.0, 32767.0),
            DType::U16 => (0.0, 65535.0),
            _ => {
                let message = format!("quantisation to {dtype} is not supported");
                return Err(self.source.refuse(at, message));
            }
        };
        let scale = self.quantisation(at, operands[1], axis, rank)?;
        let zero = self.quantisation(at, operands[2], axis, rank)?;
        let zero = self.cast_to(call, zero, self.dtype_of(x))?;
        let scaled = self.emit_binary(at, Binary::Div, x, scale)?;
        let round = self.unary(at, Unary::Round, scaled)?;
        let shifted = self.emit_binary(at, Binary::Add, round, zero)?;
        let capped = self.emit_binary_const(at, Binary::Min, shifted, high)?;
        let clipped = self.emit_binary_const(at, Binary::Max, capped, low)?;
        self.emit1(at, Op::Cast(dtype), &[clipped])
    }

    /// `(x - zero_point) scale`, the difference in int32 and the product in float32.
    fn dequantize(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["data", "scale", "zero_point", "axis", "out_dtype"];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["data", "scale", "zero_point"])?;
        let rank = self.rank(operands[0]);
        let axis = self.axis(at, args.int("axis", -1)?, rank)?;
        let dtype = self.dtype_or(&args, "out_dtype", DType::F32)?;
        if dtype != DType::F32 || self.dtype_of(operands[0]).is_float() {
            let message = "dequantisation is from integers to float32";
            return Err(self.source.refuse(at, message));
        }
        let scale = self.quantisation(at, operands[1], axis, rank)?;
        let scale = self.cast_to(call, scale, DType::F32)?;
        let zero = self.quantisation(at, operands[2], axis, rank)?;
        let zero = self.cast_to(call, zero, DType::I32)?;
        let x = self.cast_to(call, operands[0], DType::I32)?;
        let centred = self.emit_binary(at, Binary::Sub, x, zero)?;
        let centred = self.cast_to(call, centred, DType::F32)?;
        self.emit1(at, Op::Binary(Binary::Mul), &[centred, scale])
    }

    /// The negative predictions of the target classes, weighted.
    fn nll_loss(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["predictions", "targets", "weights", "reduction", "ignore_index"];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["predictions", "targets"])?;
        let (x, targets) = (operands[0], operands[1]);
        let shape = self.shape_of(targets);
        // The classes are the second axis, or the only one.
        let axis = usize::from(self.rank(x) > 1);
        let mut picked = shape.clone();
        picked.insert(axis.min(picked.len()), Expr::i64(1));
        let index = self.emit_value(at, Op::Reshape(picked), &[targets])?;
        let kind = GatherKind::Elements(axis);
        let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
        let picked = self.emit_value(at, op, &[x, index])?;
        let picked = self.emit_value(at, Op::Reshape(shape.clone()), &[picked])?;
        let mut weight = match args.get("weights") {
            Some(weights) => {
                let weights = self.value(weights)?;
                let kind = GatherKind::Axis(0);
                let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
                self.emit_value(at, op, &[weights, targets])?
            }
            None => self.filled(at, self.dtype_of(x), 1.0, shape)?,
        };
        let ignored = args.int("ignore_index", -100)? as f64;
        let counts = self.emit_binary_const(at, Binary::NotEqual, targets, ignored)?;
        let zero = self.number(at, self.dtype_of(x), 0.0)?;
        weight = self.emit_value(at, Op::Where, &[counts, weight, zero])?;
        let picked = self.emit_value(at, Op::Where, &[counts, picked, zero])?;
        let losses = self.emit_binary(at, Binary::Mul, picked, weight)?;
        let losses = self.unary(at, Unary::Neg, losses)?;
        let total = |p: &mut Self, v| {
            let axes = (0..p.rank(v)).collect();
            p.emit_value(at, Op::Reduce { kind: ReduceKind::Sum, axes, keep_dims: false }, &[v])
        };
        Ok(ParsedValue::Value(match args.string("reduction", "mean")?.as_str() {
            "none" => losses,
            "sum" => total(self, losses)?,
            "mean" => {
                let (sum, weights) = (total(self, losses)?, total(self, weight)?);
                self.emit_binary(at, Binary::Div, sum, weights)?
            }
            _ => return Err(self.source.unsupported(call)),
        }))
    }

    /// `-sum(x y)`, for each sample of a batch.
    fn cross_entropy(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["predictions", "labels"])?;
        let operands = self.operands(&args, &["predictions", "labels"])?;
        let shape = self.shape_of(operands[0]);
        let product = self.emit_binary(at, Binary::Mul, operands[0], operands[1])?;
        let axes = (0..shape.len()).collect();
        let op = Op::Reduce { kind: ReduceKind::Sum, axes, keep_dims: false };
        let sum = self.emit_value(at, op, &[product])?;
        let loss = self.unary(at, Unary::Neg, sum)?;
        if shape.len() < 2 {
            return Ok(ParsedValue::Value(loss));
        }
        let batch = self.dim_as(call, shape[0].clone(), loss)?;
        self.emit1(at, Op::Binary(Binary::Div), &[loss, batch])
    }
}
