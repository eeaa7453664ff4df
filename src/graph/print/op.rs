//! Operators as calls: Relax's name and attributes where Relax has the operator with the same
//! meaning, else `R.reflex.<name>` with attributes of its own.

use reflex_tir::script::{float, string};
use reflex_tir::{CmpOp, DType, Expr};

use super::consts::boolean;
use super::func::FuncPrinter;
use super::list::{floats, ints, tuple};
use crate::registered_op::{AttrValue, RegisteredOp};
use crate::script::op_names::ScriptName;
use crate::{
    Binary, ConvAttrs, GatherKind, NBits, Op, OutOfRange, PadMode, PoolAttrs, PoolKind,
    ResizeAttrs, ResizeMode, RnnAttrs, RnnCell, ScatterKind, ScatterReduce, Unary, Value, dims,
};

/// Layout names by number of spatial axes, as Relax gives them.
const DATA_LAYOUTS: [&str; 3] = ["NCW", "NCHW", "NCDHW"];
const KERNEL_LAYOUTS: [&str; 3] = ["OIW", "OIHW", "OIDHW"];
const TRANSPOSED_LAYOUTS: [&str; 3] = ["IOW", "IOHW", "IODHW"];

impl FuncPrinter<'_, '_> {
    /// The call that computes `op`.
    pub(super) fn op(&mut self, op: &Op, args: &[Value]) -> String {
        let x: Vec<String> = args.iter().map(|v| self.value(*v)).collect();
        let all = x.join(", ");
        match op {
            Op::Unary(Unary::Reciprocal) => self.reciprocal(args[0], &all),
            Op::Unary(f) => format!("R.{}({all})", f.script_name()),
            Op::Binary(Binary::Max) if self.is_zero(args[1]) => format!("R.nn.relu({})", x[0]),
            Op::Binary(f) => format!("R.{}({all})", f.script_name()),
            Op::Where => format!("R.where({all})"),
            Op::Cast(dtype) => format!("R.astype({all}, dtype=\"{dtype}\")"),
            Op::Reduce { kind, axes, keep_dims } => {
                let (axes, keep) = (ints(axes), boolean(*keep_dims));
                format!("R.{}({all}, axis={axes}, keepdims={keep})", kind.script_name())
            }
            Op::ArgReduce { kind, axis, keep_dims, select_last } => {
                let (name, keep) = (kind.script_name(), boolean(*keep_dims));
                let name = if *select_last { format!("reflex.{name}_last") } else { name.into() };
                format!("R.{name}({all}, axis={axis}, keepdims={keep})")
            }
            Op::Bitcast(dtype) => format!("R.reflex.bitcast({all}, dtype=\"{dtype}\")"),
            Op::Scan { kind, axis, exclusive, reverse: false } => {
                let (name, exclusive) = (kind.script_name(), boolean(*exclusive));
                format!("R.{name}({all}, axis={axis}, dtype=None, exclusive={exclusive})")
            }
            Op::Scan { kind, axis, exclusive, reverse: true } => {
                let (name, exclusive) = (kind.script_name(), boolean(*exclusive));
                format!("R.reflex.{name}_reverse({all}, axis={axis}, exclusive={exclusive})")
            }
            Op::MatMul => format!("R.matmul({all}, out_dtype=None)"),
            Op::MatMulInteger => format!("R.matmul({all}, out_dtype=\"int32\")"),
            Op::MatMulNBits(NBits { bits, block, activations }) => {
                let name = activations.script_name();
                format!(
                    "R.reflex.matmul_nbits({all}, bits={bits}, block={block}, activations=\"{name}\")"
                )
            }
            Op::Conv(attrs) => conv(attrs, &x),
            Op::ConvInteger(attrs) => {
                let (geometry, groups) = (geometry(attrs), attrs.groups);
                format!("R.reflex.conv_integer({all}, {geometry}, groups={groups})")
            }
            Op::ConvTranspose { conv, output_padding } => conv_transpose(conv, output_padding, &x),
            Op::Pool(attrs) => pool(attrs, &all),
            Op::Softmax { axis, log } => {
                let name = if *log { "log_softmax" } else { "softmax" };
                format!("R.nn.{name}({all}, axis={axis})")
            }
            Op::LayerNorm { axis, epsilon } => self.layer_norm(args, &all, *axis, *epsilon),
            Op::Reshape(shape) => format!("R.reshape({all}, {})", self.shape(shape)),
            Op::Transpose(perm) => format!("R.permute_dims({all}, axes={})", ints(perm)),
            Op::Broadcast(shape) => format!("R.broadcast_to({all}, {})", self.shape(shape)),
            Op::Concat { axis } => format!("R.concat({}, axis={axis})", tuple(&x)),
            Op::Slice { begin, shape, stride } => self.slice(&x[0], args[0], begin, shape, stride),
            Op::Pad { mode, before, after } => self.pad(*mode, before, after, args, &x),
            Op::Gather { kind, out_of_range } => gather(kind, *out_of_range, &all),
            Op::Scatter { kind, reduce, out_of_range } => {
                scatter(kind, *reduce, *out_of_range, &all)
            }
            Op::Resize(attrs) => self.resize(&x[0], args[0], attrs),
            Op::TopK { axis, k, largest } => self.top_k(&all, *axis, k, boolean(*largest)),
            Op::Iota { count } => format!("R.arange(0, {}, 1, dtype=\"int64\")", self.dim(count)),
            Op::Dims { values, scalar: false } => {
                format!("R.shape_to_tensor({})", self.shape(values))
            }
            Op::Dims { values, scalar: true } => {
                let values: Vec<String> = values.iter().map(|e| self.dim(e)).collect();
                format!("R.reflex.dim_to_tensor({})", values.join(", "))
            }
            Op::Rnn(attrs) => rnn(attrs, &all),
            Op::Registered(op) => registered(op, &all),
        }
    }

    /// A quotient: Relax has no reciprocal.
    fn reciprocal(&self, x: Value, name: &str) -> String {
        let dtype = self.func.values[x].ty.as_tensor().map_or(DType::F32, |t| t.dtype);
        format!("R.divide(R.const(1.0, \"{dtype}\"), {name})")
    }

    fn layer_norm(&self, args: &[Value], all: &str, axis: usize, epsilon: f64) -> String {
        let rank = self.func.values[args[0]].ty.as_tensor().map_or(0, |t| t.shape.len());
        let axes: Vec<i64> = (axis..rank).map(|a| a as i64 - rank as i64).collect();
        let (axes, epsilon) = (ints(&axes), float(epsilon));
        match args.len() {
            3 => format!(
                "R.nn.layer_norm({all}, axes={axes}, epsilon={epsilon}, center=True, scale=True)"
            ),
            _ => format!("R.reflex.layer_norm({all}, axes={axes}, epsilon={epsilon})"),
        }
    }

    fn slice(
        &self,
        name: &str,
        x: Value,
        begin: &[Expr],
        extent: &[Expr],
        stride: &[i64],
    ) -> String {
        let own = self.func.values[x].ty.as_tensor().map_or(&[][..], |t| &t.shape);
        let ends: Option<Vec<Expr>> = (0..begin.len())
            .map(|i| slice_end(&begin[i], &extent[i], stride[i], own.get(i)?))
            .collect();
        let backwards = stride.iter().any(|s| *s < 0);
        let known = begin.iter().chain(extent).chain(own).all(|e| e.as_int().is_some());
        let Some(ends) = ends.filter(|_| known || !backwards) else {
            let (begin, extent) = (self.shape(begin), self.shape(extent));
            let strides = ints(stride);
            return format!("R.reflex.slice({name}, {begin}, {extent}, strides={strides})");
        };
        let axes: Vec<String> = (0..begin.len()).map(|a| a.to_string()).collect();
        let list = |l: &[Expr]| tuple(&l.iter().map(|e| self.dim(e)).collect::<Vec<_>>());
        let (axes, begin, end) = (tuple(&axes), list(begin), list(&ends));
        let strides = tuple(&stride.iter().map(i64::to_string).collect::<Vec<_>>());
        // Negative strides need Relax's reading of negative ends.
        let inbound = boolean(!backwards);
        format!(
            "R.strided_slice({name}, {axes}, {begin}, {end}, {strides}, assume_inbound={inbound})"
        )
    }

    fn pad(
        &self,
        mode: PadMode,
        before: &[Expr],
        after: &[Expr],
        values: &[Value],
        args: &[String],
    ) -> String {
        let fill = match values {
            [_] => Some("0.0".to_string()),
            [_, value] if mode == PadMode::Constant => self.number(*value),
            _ => None,
        };
        let width: Option<Vec<i64>> = before
            .iter()
            .zip(after)
            .flat_map(|(b, a)| [b.as_int(), a.as_int()])
            .map(|w| w.filter(|w| *w >= 0))
            .collect();
        match (width, fill) {
            (Some(width), Some(fill)) => {
                let (x, width, mode) = (&args[0], ints(&width), mode.script_name());
                format!("R.nn.pad({x}, pad_width={width}, pad_value={fill}, pad_mode=\"{mode}\")")
            }
            _ => {
                let (before, after) = (self.shape(before), self.shape(after));
                let (all, mode) = (args.join(", "), mode.script_name());
                format!("R.reflex.pad({all}, before={before}, after={after}, mode=\"{mode}\")")
            }
        }
    }

    fn resize(&self, name: &str, x: Value, attrs: &ResizeAttrs) -> String {
        let coord = attrs.coord.script_name();
        let own = self.func.values[x].ty.as_tensor().map_or(&[][..], |t| &t.shape);
        let planar = own.len() == 4 && own[..2] == attrs.shape[..2] && attrs.scales.is_none();
        let (mut cubic, mut rounding, mut exclude) = (-0.75, "", false);
        let method = match attrs.mode {
            ResizeMode::Nearest(nearest) => {
                rounding = nearest.script_name();
                if planar { "nearest_neighbor" } else { "nearest" }
            }
            ResizeMode::Linear => "linear",
            ResizeMode::Cubic { coefficient, exclude_outside } => {
                (cubic, exclude) = (coefficient, exclude_outside);
                "cubic"
            }
        };
        if planar {
            let (size, cubic) = (self.shape(&attrs.shape[2..]), float(cubic));
            let exclude = i32::from(exclude);
            return format!(
                "R.image.resize2d({name}, {size}, roi=[0.0, 0.0, 0.0, 0.0], layout=\"NCHW\", \
                 method=\"{method}\", coordinate_transformation_mode=\"{coord}\", \
                 rounding_method=\"{rounding}\", cubic_alpha={cubic}, cubic_exclude={exclude}, \
                 extrapolation_value=0.0, out_dtype=None)"
            );
        }
        let mode = match attrs.mode {
            ResizeMode::Nearest(_) => format!(", rounding_method=\"{rounding}\""),
            ResizeMode::Linear => String::new(),
            ResizeMode::Cubic { .. } => {
                let (cubic, exclude) = (float(cubic), boolean(exclude));
                format!(", cubic_alpha={cubic}, cubic_exclude={exclude}")
            }
        };
        let scales = attrs.scales.as_ref().map_or("None".to_string(), |s| floats(s));
        let shape = self.shape(&attrs.shape);
        format!(
            "R.reflex.resize({name}, {shape}, method=\"{method}\"{mode}, \
             coordinate_transformation_mode=\"{coord}\", scales={scales})"
        )
    }

    fn top_k(&self, x: &str, axis: usize, k: &Expr, largest: &str) -> String {
        match k.as_int() {
            Some(k) => format!(
                "R.topk({x}, k={k}, axis={axis}, ret_type=\"both\", largest={largest}, \
                 dtype=\"int64\")"
            ),
            None => {
                format!("R.reflex.topk({x}, {}, axis={axis}, largest={largest})", self.dim(k))
            }
        }
    }
}

/// The end that Relax reads as this slice of an axis, if there is one.
fn slice_end(begin: &Expr, extent: &Expr, stride: i64, dim: &Expr) -> Option<Expr> {
    if stride > 0 {
        let end = dims::simplify(&(begin.clone() + (extent.clone() - 1) * stride + 1));
        let end = if extent.as_int() == Some(0) { begin.clone() } else { end };
        let read = dims::simplify(&(end.clone() - begin.clone()).ceildiv(stride));
        // Relax counts negative numbers from the end.
        let plain = |e: &Expr| dims::decide(CmpOp::Ge, e, &Expr::i64(0)) == Some(true);
        return (read == dims::simplify(extent) && plain(begin) && plain(&end)).then_some(end);
    }
    let (begin, extent, dim) = (begin.as_int()?, extent.as_int()?, dim.as_int()?);
    let last = begin.checked_add(extent.checked_sub(1)?.checked_mul(stride)?)?;
    if extent < 1 || last < 0 || begin >= dim {
        return None;
    }
    // The position before the first element is far below zero, as -1 would be the last.
    Some(Expr::i64(if last > 0 { last - 1 } else { -dim - 1 }))
}

fn conv(attrs: &ConvAttrs, operands: &[String]) -> String {
    let (bias, operands) = (operands.len() == 3, operands.join(", "));
    let geometry = geometry(attrs);
    let (spatial, groups) = (attrs.strides.len(), attrs.groups);
    let known = (1..=3).contains(&spatial);
    if bias || !known {
        return format!("R.reflex.conv({operands}, {geometry}, groups={groups})");
    }
    let (data, kernel) = (DATA_LAYOUTS[spatial - 1], KERNEL_LAYOUTS[spatial - 1]);
    format!(
        "R.nn.conv{spatial}d({operands}, {geometry}, groups={groups}, data_layout=\"{data}\", \
         kernel_layout=\"{kernel}\", out_layout=\"{data}\", out_dtype=None)"
    )
}

fn conv_transpose(attrs: &ConvAttrs, extra: &[i64], operands: &[String]) -> String {
    let (bias, operands) = (operands.len() == 3, operands.join(", "));
    let ConvAttrs { strides, pads_begin, pads_end, dilations, groups } = attrs;
    let spatial = strides.len();
    let geometry = format!(
        "strides={}, padding={}, output_padding={}, dilation={}",
        ints(strides),
        ints(&[&pads_begin[..], pads_end].concat()),
        ints(extra),
        ints(dilations)
    );
    if bias || !(1..=3).contains(&spatial) {
        return format!("R.reflex.conv_transpose({operands}, {geometry}, groups={groups})");
    }
    let (data, kernel) = (DATA_LAYOUTS[spatial - 1], TRANSPOSED_LAYOUTS[spatial - 1]);
    format!(
        "R.nn.conv{spatial}d_transpose({operands}, {geometry}, groups={groups}, \
         data_layout=\"{data}\", kernel_layout=\"{kernel}\", out_layout=\"{data}\", \
         out_dtype=None)"
    )
}

fn geometry(attrs: &ConvAttrs) -> String {
    let padding = [&attrs.pads_begin[..], &attrs.pads_end].concat();
    let (strides, dilation) = (ints(&attrs.strides), ints(&attrs.dilations));
    format!("strides={strides}, padding={}, dilation={dilation}", ints(&padding))
}

fn pool(attrs: &PoolAttrs, x: &str) -> String {
    let PoolAttrs { kind, kernel, strides, pads_begin, pads_end, dilations, ceil } = attrs;
    let geometry = format!(
        "pool_size={}, strides={}, dilation={}, padding={}, ceil_mode={}",
        ints(kernel),
        ints(strides),
        ints(dilations),
        ints(&[&pads_begin[..], pads_end].concat()),
        boolean(*ceil)
    );
    let spatial = strides.len();
    let known = (1..=3).contains(&spatial);
    let relax = |name: &str, count: bool| {
        let layout = DATA_LAYOUTS[spatial - 1];
        let count = boolean(count);
        format!(
            "R.nn.{name}_pool{spatial}d({x}, {geometry}, count_include_pad={count}, \
             layout=\"{layout}\", out_layout=\"{layout}\")"
        )
    };
    match kind {
        PoolKind::Max { indices: false } if known => relax("max", false),
        PoolKind::Average { count_pads } if known => relax("avg", *count_pads),
        PoolKind::Max { indices } => {
            format!("R.reflex.max_pool({x}, {geometry}, indices={})", boolean(*indices))
        }
        PoolKind::Average { count_pads } => {
            let count = boolean(*count_pads);
            format!("R.reflex.avg_pool({x}, {geometry}, count_include_pad={count})")
        }
        PoolKind::Lp(p) => format!("R.reflex.lp_pool({x}, {geometry}, p={p})"),
    }
}

/// The argument that asks for an error, which TVM's operators do not have.
fn raises(mode: OutOfRange) -> &'static str {
    match mode {
        OutOfRange::Raise => ", mode=\"raise\"",
        OutOfRange::Clamp => "",
    }
}

fn gather(kind: &GatherKind, mode: OutOfRange, operands: &str) -> String {
    let raises = raises(mode);
    match kind {
        GatherKind::Axis(axis) => {
            let mode = if raises.is_empty() { ", mode=\"fast\"" } else { raises };
            format!("R.take({operands}, axis={axis}{mode})")
        }
        GatherKind::Elements(axis) => format!("R.gather_elements({operands}, axis={axis}{raises})"),
        GatherKind::Nd { batch_dims } => {
            format!("R.gather_nd({operands}, batch_dims={batch_dims}{raises})")
        }
    }
}

fn scatter(kind: &ScatterKind, reduce: ScatterReduce, mode: OutOfRange, operands: &str) -> String {
    let (reduction, raises) = (reduce.script_name(), raises(mode));
    match kind {
        ScatterKind::Elements(axis) => format!(
            "R.scatter_elements({operands}, axis={axis}, reduction=\"{reduction}\"{raises})"
        ),
        ScatterKind::Nd => format!("R.scatter_nd({operands}, reduction=\"{reduction}\"{raises})"),
    }
}

fn rnn(attrs: &RnnAttrs, operands: &str) -> String {
    let (name, extra) = match attrs.cell {
        RnnCell::Rnn => ("rnn", String::new()),
        RnnCell::Lstm => ("lstm", String::new()),
        RnnCell::Gru { linear_before_reset } => {
            ("gru", format!(", linear_before_reset={}", boolean(linear_before_reset)))
        }
    };
    let activations: Vec<String> =
        attrs.activations.iter().map(|a| format!("\"{}\"", a.script_name())).collect();
    let (hidden, dir, activations) =
        (attrs.hidden, attrs.dir.script_name(), activations.join(", "));
    let clip = attrs.clip.map_or("None".to_string(), float);
    format!(
        "R.reflex.{name}({operands}, hidden={hidden}, direction=\"{dir}\", \
         activations=[{activations}], clip={clip}{extra})"
    )
}

/// A call as TVM prints one of an operator `relax.SPACE.NAME`.
fn registered(op: &RegisteredOp, all: &str) -> String {
    let attr = |(name, value): &(String, AttrValue)| {
        let value = match value {
            AttrValue::Int(value) => value.to_string(),
            AttrValue::Float(value) => float(*value),
            AttrValue::Bool(value) => boolean(*value).to_owned(),
            AttrValue::Str(value) => string(value),
            AttrValue::Ints(list) => ints(list),
            AttrValue::Floats(list) => floats(list),
        };
        format!(", {name}={value}")
    };
    let attrs: String = op.attrs.iter().map(attr).collect();
    format!("R.{}({all}{attrs})", op.name)
}
