//! Convolutions, pools and resizing: `R.nn.conv2d`, `R.nn.max_pool2d`, `R.image.resize2d`.

use reflex_tir::Expr;
use ruff_python_ast as ast;
use ruff_text_size::Ranged;

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Op, PoolKind, ReduceKind, ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest, Value};

const CHANNELS_FIRST: [&str; 3] = ["NCW", "NCHW", "NCDHW"];

/// The arguments of a gradient of pooling, of which all but the first are those of pooling itself.
pub(super) static POOL_ARGS: [&str; 10] = [
    "output_grad",
    "data",
    "pool_size",
    "strides",
    "padding",
    "dilation",
    "ceil_mode",
    "count_include_pad",
    "layout",
    "out_layout",
];

impl<'s> FuncParser<'s, '_> {
    /// One entry per spatial axis; a single number stands for all.
    pub(super) fn per_axis(
        &self,
        args: &Args<'_>,
        name: &str,
        spatial: usize,
        default: i64,
    ) -> Result<Vec<i64>> {
        match args.ints(name)? {
            None => Ok(vec![default; spatial]),
            Some(one) if one.len() == 1 => Ok(vec![one[0]; spatial]),
            Some(list) if list.len() == spatial => Ok(list),
            Some(_) => {
                let message = format!("`{name}` has one entry for each of {spatial} axes");
                Err(self.source.refuse(args.at(), message))
            }
        }
    }

    /// Padding before and after: one number, one per axis, or all of them.
    pub(super) fn padding(&self, args: &Args<'_>, spatial: usize) -> Result<(Vec<i64>, Vec<i64>)> {
        match args.ints("padding")? {
            Some(list) if list.len() == 2 * spatial => {
                let (before, after) = list.split_at(spatial);
                Ok((before.to_vec(), after.to_vec()))
            }
            _ => {
                let both = self.per_axis(args, "padding", spatial, 0)?;
                Ok((both.clone(), both))
            }
        }
    }

    /// `conv1d` to `conv3d`.
    pub(super) fn conv(&mut self, call: &ast::ExprCall, spatial: usize) -> Result<ParsedValue> {
        let names = &[
            "data",
            "weight",
            "strides",
            "padding",
            "dilation",
            "groups",
            "data_layout",
            "kernel_layout",
            "out_layout",
            "out_dtype",
        ];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.conv_operands(&args, spatial, ["OIW", "OIHW", "OIDHW"])?;
        let conv = self.conv_attrs(&args, spatial)?;
        self.emit1(call.start(), Op::Conv(conv), &operands)
    }

    /// `conv1d_transpose` to `conv3d_transpose`.
    pub(super) fn conv_transpose(
        &mut self,
        call: &ast::ExprCall,
        spatial: usize,
    ) -> Result<ParsedValue> {
        let names = &[
            "data",
            "weight",
            "strides",
            "padding",
            "output_padding",
            "dilation",
            "groups",
            "data_layout",
            "kernel_layout",
            "out_layout",
            "out_dtype",
        ];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.conv_operands(&args, spatial, ["IOW", "IOHW", "IODHW"])?;
        let conv = self.conv_attrs(&args, spatial)?;
        let output_padding = self.per_axis(&args, "output_padding", spatial, 0)?;
        self.emit1(call.start(), Op::ConvTranspose { conv, output_padding }, &operands)
    }

    /// Data and weight of a convolution whose layouts are the only ones that are read.
    fn conv_operands(
        &mut self,
        args: &Args<'_>,
        spatial: usize,
        kernel_layouts: [&str; 3],
    ) -> Result<Vec<Value>> {
        args.only("data_layout", &[CHANNELS_FIRST[spatial - 1]])?;
        args.only("kernel_layout", &[kernel_layouts[spatial - 1]])?;
        args.only("out_layout", &[CHANNELS_FIRST[spatial - 1], ""])?;
        let operands = self.operands(args, &["data", "weight"])?;
        self.matching_dtype(args, "out_dtype", operands[0])?;
        Ok(operands)
    }

    /// `max_pool1d` to `max_pool3d`.
    pub(super) fn max_pool(&mut self, call: &ast::ExprCall, spatial: usize) -> Result<ParsedValue> {
        let args = self.pool_args(call, &POOL_ARGS[1..], spatial)?;
        // Read for its type; a maximum counts nothing.
        args.boolean("count_include_pad", false)?;
        self.pool(&args, spatial, PoolKind::Max { indices: false })
    }

    /// `avg_pool1d` to `avg_pool3d`.
    pub(super) fn avg_pool(&mut self, call: &ast::ExprCall, spatial: usize) -> Result<ParsedValue> {
        let args = self.pool_args(call, &POOL_ARGS[1..], spatial)?;
        // TVM's own default, which is not the same for all ranks.
        let count_pads = args.boolean("count_include_pad", spatial != 2)?;
        self.pool(&args, spatial, PoolKind::Average { count_pads })
    }

    /// The arguments of a pooling operator, by these names of [`POOL_ARGS`].
    pub(super) fn pool_args<'a>(
        &self,
        call: &'a ast::ExprCall,
        names: &'static [&'static str],
        spatial: usize,
    ) -> Result<Args<'a>>
    where
        's: 'a,
    {
        let args = Args::bind(self.source, call, names)?;
        args.only("layout", &[CHANNELS_FIRST[spatial - 1]])?;
        args.only("out_layout", &[CHANNELS_FIRST[spatial - 1], ""])?;
        Ok(args)
    }

    fn pool(&mut self, args: &Args<'_>, spatial: usize, kind: PoolKind) -> Result<ParsedValue> {
        let x = self.value(args.need("data")?)?;
        let attrs = self.pool_attrs(args, spatial, kind)?;
        self.emit1(args.at(), Op::Pool(attrs), &[x])
    }

    /// Adaptive average pooling, where the output dimensions divide the input's.
    pub(super) fn adaptive_pool(
        &mut self,
        call: &ast::ExprCall,
        spatial: usize,
    ) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["data", "output_size", "layout", "out_layout"])?;
        args.only("layout", &[CHANNELS_FIRST[spatial - 1]])?;
        args.only("out_layout", &[CHANNELS_FIRST[spatial - 1], ""])?;
        let x = self.value(args.need("data")?)?;
        let size = self.per_axis(&args, "output_size", spatial, -1)?;
        if size.iter().all(|s| *s == 1) {
            let axes = (2..2 + spatial).collect();
            let op = Op::Reduce { kind: ReduceKind::Mean, axes, keep_dims: true };
            return self.emit1(at, op, &[x]);
        }
        let shape = self.shape_of(x);
        let window = |(d, out): (&Expr, &i64)| match (d.as_int(), *out) {
            (_, -1) => Some(1),
            (Some(d), out) if out > 0 && d % out == 0 => Some(d / out),
            _ => None,
        };
        let spatial_dims = shape.get(2..).unwrap_or_default();
        let kernel: Option<Vec<i64>> = spatial_dims.iter().zip(&size).map(window).collect();
        let Some(kernel) = kernel.filter(|k| k.len() == spatial) else {
            let message = "adaptive pooling to extents that do not divide the input's";
            return Err(self.source.refuse(at, message));
        };
        let attrs = crate::PoolAttrs {
            kind: PoolKind::Average { count_pads: false },
            strides: kernel.clone(),
            kernel,
            pads_begin: vec![0; spatial],
            pads_end: vec![0; spatial],
            dilations: vec![1; spatial],
            ceil: false,
        };
        self.emit1(at, Op::Pool(attrs), &[x])
    }

    /// `image.resize2d` and `image.resize3d`.
    pub(super) fn resize(&mut self, call: &ast::ExprCall, spatial: usize) -> Result<ParsedValue> {
        let names = &[
            "data",
            "size",
            "roi",
            "layout",
            "method",
            "coordinate_transformation_mode",
            "rounding_method",
            "cubic_alpha",
            "cubic_exclude",
            "extrapolation_value",
            "out_dtype",
        ];
        let args = Args::bind(self.source, call, names)?;
        args.only("layout", &[CHANNELS_FIRST[spatial - 1]])?;
        let x = self.value(args.need("data")?)?;
        self.matching_dtype(&args, "out_dtype", x)?;
        // The region of interest and the extrapolation value only matter to `tf_crop_and_resize`.
        let coord = args.named("coordinate_transformation_mode", ResizeCoord::HalfPixel)?;
        let mode = match args.string("method", "linear")?.as_str() {
            "nearest_neighbor" => match args.string("rounding_method", "round")?.as_str() {
                "" if coord != ResizeCoord::AlignCorners => {
                    ResizeMode::Nearest(ResizeNearest::Floor)
                }
                "floor" => ResizeMode::Nearest(ResizeNearest::Floor),
                "ceil" => ResizeMode::Nearest(ResizeNearest::Ceil),
                "round_prefer_floor" => ResizeMode::Nearest(ResizeNearest::RoundPreferFloor),
                "round_prefer_ceil" => ResizeMode::Nearest(ResizeNearest::RoundPreferCeil),
                // `round` goes to even at ties, which no [`ResizeNearest`] does.
                other => {
                    let message = format!("`rounding_method=\"{other}\"` is not supported");
                    return Err(self.source.refuse(call.start(), message));
                }
            },
            "linear" => ResizeMode::Linear,
            "cubic" => ResizeMode::Cubic {
                coefficient: args.float("cubic_alpha", -0.75)?,
                exclude_outside: args.boolean("cubic_exclude", false)?,
            },
            _ => return Err(self.source.unsupported(call)),
        };
        let size = self.dims_of(args.need("size")?)?;
        let shape = self.shape_of(x);
        if shape.len() != 2 + spatial || size.len() != spatial {
            return Err(self.source.unsupported(call));
        }
        let shape = shape[..2].iter().cloned().chain(size).collect();
        let attrs = ResizeAttrs { mode, coord, shape, scales: None };
        self.emit1(call.start(), Op::Resize(attrs), &[x])
    }
}
