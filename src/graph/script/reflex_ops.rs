//! `R.reflex.<name>`: operators that Relax does not have.

use reflex_tir::{DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::args::{Args, elements, float, string};
use super::op_names::ScriptName;
use super::ops::Ties;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{
    Activations, ArgReduceKind, ConvAttrs, NBits, Node, Op, PadMode, PoolAttrs, PoolKind,
    ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest, RnnActivation, RnnAttrs, RnnCell, RnnDir,
    ScanKind,
};

impl FuncParser<'_, '_> {
    pub(super) fn reflex(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        match name {
            "argmax_last" => self.arg_reduce(call, ArgReduceKind::Max, Ties::Last),
            "argmin_last" => self.arg_reduce(call, ArgReduceKind::Min, Ties::Last),
            "cumsum_reverse" => self.reverse_scan(call, ScanKind::Sum),
            "cumprod_reverse" => self.reverse_scan(call, ScanKind::Prod),
            "bitcast" => {
                let args = Args::bind(self.source, call, &["x", "dtype"])?;
                let x = self.value(args.need("x")?)?;
                let dtype = args.dtype("dtype")?.unwrap_or(self.dtype_of(x));
                self.emit1(at, Op::Bitcast(dtype), &[x])
            }
            "matmul_nbits" => {
                let names = &["x", "codes", "scales", "zeros", "bits", "block", "activations"];
                let args = Args::bind(self.source, call, names)?;
                let mut operands = self.operands(&args, &["x", "codes", "scales"])?;
                if let Some(zeros) = args.get("zeros") {
                    operands.push(self.value(zeros)?);
                }
                let (bits, block) = (args.int("bits", 4)?, args.int("block", 32)?);
                let activations = args.named("activations", Activations::Int8)?;
                let codes = NBits { bits, block, activations };
                self.emit1(at, Op::MatMulNBits(codes), &operands)
            }
            "conv" | "conv_integer" | "conv_transpose" => self.reflex_conv(name, call),
            "max_pool" | "avg_pool" | "lp_pool" => self.reflex_pool(name, call),
            "layer_norm" => {
                let args = Args::bind(self.source, call, &["x", "scale", "axes", "epsilon"])?;
                let operands = self.operands(&args, &["x", "scale"])?;
                let axis = self.trailing_axes(&args, self.rank(operands[0]))?;
                let epsilon = args.float("epsilon", 1e-5)?;
                self.emit1(at, Op::LayerNorm { axis, epsilon }, &operands)
            }
            "slice" => self.reflex_slice(call),
            "pad" => self.reflex_pad(call),
            "resize" => self.reflex_resize(call),
            "topk" => {
                let args = Args::bind(self.source, call, &["x", "k", "axis", "largest"])?;
                let x = self.value(args.need("x")?)?;
                let k = self.dim_of(args.need("k")?)?;
                let axis = self.axis(at, args.int("axis", -1)?, self.rank(x))?;
                let largest = args.boolean("largest", true)?;
                Ok(ParsedValue::Values(self.emit(at, Op::TopK { axis, k, largest }, &[x])?))
            }
            "dim_to_tensor" => {
                let args = Args::bind(self.source, call, &["value"])?;
                let values = vec![self.dim_of(args.need("value")?)?];
                self.emit1(at, Op::Dims { values, scalar: true }, &[])
            }
            "match_shape" => self.match_shape(call),
            "construct" | "is_constructor" | "field" => self.data(name, call),
            "rnn" | "lstm" | "gru" => self.reflex_rnn(name, call),
            _ => Err(self.source.unsupported(call)),
        }
    }

    fn reverse_scan(&mut self, call: &ast::ExprCall, kind: ScanKind) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "axis", "exclusive"])?;
        let x = self.value(args.need("x")?)?;
        let axis = self.axis(call.start(), args.int("axis", 0)?, self.rank(x))?;
        let exclusive = args.boolean("exclusive", false)?;
        self.emit1(call.start(), Op::Scan { kind, axis, exclusive, reverse: true }, &[x])
    }

    fn reflex_slice(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "begin", "extent", "strides"])?;
        let x = self.value(args.need("x")?)?;
        let begin = self.dims_of(args.need("begin")?)?;
        let shape = self.dims_of(args.need("extent")?)?;
        let stride = args.ints("strides")?.unwrap_or(vec![1; begin.len()]);
        self.emit1(call.start(), Op::Slice { begin, shape, stride }, &[x])
    }

    fn reflex_pad(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &["x", "value", "before", "after", "mode"];
        let args = Args::bind(self.source, call, names)?;
        let mut operands = self.operands(&args, &["x"])?;
        if let Some(value) = args.get("value") {
            operands.push(self.value(value)?);
        }
        let before = self.dims_of(args.need("before")?)?;
        let after = self.dims_of(args.need("after")?)?;
        let mode = args.named("mode", PadMode::Constant)?;
        self.emit1(call.start(), Op::Pad { mode, before, after }, &operands)
    }

    fn match_shape(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "dims"])?;
        let value = self.value(args.need("x")?)?;
        let dims = self.dims_of(args.need("dims")?)?;
        let ty = self.b.ty(value).clone();
        let node = Node::MatchShape { value, dims };
        Ok(ParsedValue::Value(self.b.bind_values(node, vec![ty])[0]))
    }

    fn reflex_conv(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names =
            &["x", "w", "bias", "strides", "padding", "output_padding", "dilation", "groups"];
        let args = Args::bind(self.source, call, names)?;
        let mut operands = self.operands(&args, &["x", "w"])?;
        if let Some(bias) = args.get("bias") {
            operands.push(self.value(bias)?);
        }
        let spatial = self.rank(operands[0]).saturating_sub(2);
        let conv = self.conv_attrs(&args, spatial)?;
        let op = match name {
            "conv" if args.get("output_padding").is_none() => Op::Conv(conv),
            "conv_integer" if args.get("output_padding").is_none() => Op::ConvInteger(conv),
            "conv_transpose" => {
                let output_padding = self.per_axis(&args, "output_padding", spatial, 0)?;
                Op::ConvTranspose { conv, output_padding }
            }
            _ => return Err(self.source.unsupported(call)),
        };
        self.emit1(call.start(), op, &operands)
    }

    /// Strides, padding, dilation and groups as Relax gives them.
    pub(super) fn conv_attrs(&self, args: &Args<'_>, spatial: usize) -> Result<ConvAttrs> {
        let (pads_begin, pads_end) = self.padding(args, spatial)?;
        Ok(ConvAttrs {
            strides: self.per_axis(args, "strides", spatial, 1)?,
            pads_begin,
            pads_end,
            dilations: self.per_axis(args, "dilation", spatial, 1)?,
            groups: args.int("groups", 1)?,
        })
    }

    fn reflex_pool(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &[
            "x",
            "pool_size",
            "strides",
            "dilation",
            "padding",
            "ceil_mode",
            "count_include_pad",
            "indices",
            "p",
        ];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("x")?)?;
        let spatial = self.rank(x).saturating_sub(2);
        let indices = args.boolean("indices", false)?;
        let kind = match name {
            "max_pool" => PoolKind::Max { indices },
            "avg_pool" => {
                PoolKind::Average { count_pads: args.boolean("count_include_pad", false)? }
            }
            _ => {
                let p = u32::try_from(args.int("p", 2)?);
                PoolKind::Lp(p.map_err(|_| self.source.unsupported(call))?)
            }
        };
        let attrs = self.pool_attrs(&args, spatial, kind)?;
        let outputs = self.emit(call.start(), Op::Pool(attrs), &[x])?;
        Ok(if indices { ParsedValue::Values(outputs) } else { ParsedValue::Value(outputs[0]) })
    }

    pub(super) fn pool_attrs(
        &self,
        args: &Args<'_>,
        spatial: usize,
        kind: PoolKind,
    ) -> Result<PoolAttrs> {
        let (pads_begin, pads_end) = self.padding(args, spatial)?;
        Ok(PoolAttrs {
            kind,
            kernel: self.per_axis(args, "pool_size", spatial, 1)?,
            strides: self.per_axis(args, "strides", spatial, 1)?,
            pads_begin,
            pads_end,
            dilations: self.per_axis(args, "dilation", spatial, 1)?,
            ceil: args.boolean("ceil_mode", false)?,
        })
    }

    fn reflex_resize(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &[
            "x",
            "shape",
            "method",
            "rounding_method",
            "cubic_alpha",
            "cubic_exclude",
            "coordinate_transformation_mode",
            "scales",
        ];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("x")?)?;
        let shape: Vec<Expr> = self.dims_of(args.need("shape")?)?;
        let mode = match args.string("method", "linear")?.as_str() {
            "nearest" => {
                let default = ResizeNearest::RoundPreferFloor;
                ResizeMode::Nearest(args.named("rounding_method", default)?)
            }
            "linear" => ResizeMode::Linear,
            "cubic" => ResizeMode::Cubic {
                coefficient: args.float("cubic_alpha", -0.75)?,
                exclude_outside: args.boolean("cubic_exclude", false)?,
            },
            _ => return Err(self.source.unsupported(call)),
        };
        let coord = args.named("coordinate_transformation_mode", ResizeCoord::HalfPixel)?;
        let scales = args.get("scales").map(|e| self.floats(e)).transpose()?;
        self.emit1(call.start(), Op::Resize(ResizeAttrs { mode, coord, shape, scales }), &[x])
    }

    pub(super) fn floats(&self, e: &Py) -> Result<Vec<f64>> {
        let list = elements(e).ok_or_else(|| self.source.expected("a list", e))?;
        list.iter().map(|e| float(self.source, e)).collect()
    }

    fn reflex_rnn(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &[
            "x",
            "w",
            "r",
            "b",
            "h0",
            "c0",
            "hidden",
            "direction",
            "activations",
            "clip",
            "linear_before_reset",
        ];
        let args = Args::bind(self.source, call, names)?;
        let mut operands = self.operands(&args, &["x", "w", "r"])?;
        for name in ["b", "h0", "c0"] {
            if let Some(e) = args.get(name) {
                operands.push(self.value(e)?);
            }
        }
        let linear_before_reset = args.boolean("linear_before_reset", false)?;
        let cell = match name {
            "rnn" => RnnCell::Rnn,
            "lstm" => RnnCell::Lstm,
            _ => RnnCell::Gru { linear_before_reset },
        };
        let list = args.need("activations")?;
        let words = elements(list).ok_or_else(|| self.source.expected("a list", list))?;
        let activation = |e: &Py| {
            RnnActivation::from_script_name(string(self.source, e)?)
                .ok_or_else(|| self.source.unsupported(e))
        };
        let attrs = RnnAttrs {
            cell,
            dir: args.named("direction", RnnDir::Forward)?,
            hidden: args.int("hidden", 0)?,
            activations: words.iter().map(activation).collect::<Result<_>>()?,
            clip: args.get("clip").map(|e| float(self.source, e)).transpose()?,
        };
        Ok(ParsedValue::Values(self.emit(call.start(), Op::Rnn(attrs), &operands)?))
    }

    /// The first of the last axes, which an argument names in order.
    pub(super) fn trailing_axes(&self, args: &Args<'_>, rank: usize) -> Result<usize> {
        let axes = self.axes(args, "axes", rank)?;
        let first = rank - axes.len().min(rank);
        match axes.first() {
            Some(axis) if *axis == first => Ok(first),
            _ => Err(self.source.refuse(args.at(), "only the last axes can be normalised")),
        }
    }

    /// The element type an argument gives, or this one.
    pub(super) fn dtype_or(&self, args: &Args<'_>, name: &str, default: DType) -> Result<DType> {
        Ok(args.dtype(name)?.unwrap_or(default))
    }
}
