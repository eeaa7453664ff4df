//! Convolutions and pools, channels first or last.

use reflex_tir::Expr as DimExpr;

use super::attrs::OpCall;
use crate::relay::lower::func::{FuncLowerer, Term};

use crate::relay::source::Result;
use crate::{ConvAttrs, Op, PoolAttrs, PoolKind, ReduceKind, Value};

/// The order of a layout's axes.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// `NCHW`
    ChannelsFirst,
    /// `NHWC`
    ChannelsLast,
}

impl FuncLowerer<'_, '_, '_> {
    pub(super) fn spatial(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let value = match call.name {
            "nn.conv1d" => self.conv(call, 1)?,
            "nn.conv2d" => self.conv(call, 2)?,
            "nn.conv3d" => self.conv(call, 3)?,
            "nn.conv1d_transpose" => self.conv_transpose(call, 1)?,
            "nn.conv2d_transpose" => self.conv_transpose(call, 2)?,
            "nn.max_pool1d" | "nn.avg_pool1d" => self.pool(call, 1)?,
            "nn.max_pool2d" | "nn.avg_pool2d" => self.pool(call, 2)?,
            "nn.max_pool3d" | "nn.avg_pool3d" => self.pool(call, 3)?,
            "nn.global_max_pool2d" | "nn.global_avg_pool2d" => self.global_pool(call, 2)?,
            "nn.adaptive_max_pool1d" | "nn.adaptive_avg_pool1d" => self.adaptive_pool(call, 1)?,
            "nn.adaptive_max_pool2d" | "nn.adaptive_avg_pool2d" => self.adaptive_pool(call, 2)?,
            "nn.adaptive_max_pool3d" | "nn.adaptive_avg_pool3d" => self.adaptive_pool(call, 3)?,
            _ => return Ok(None),
        };
        Ok(Some(self.term(value)))
    }

    fn axis_order(&self, call: &mut OpCall<'_>, name: &'static str, axes: usize) -> Result<Layout> {
        let names = match axes {
            1 => ["NCW", "NWC"],
            2 => ["NCHW", "NHWC"],
            _ => ["NCDHW", "NDHWC"],
        };
        let found = call.text(name, names[0])?;
        match names.iter().position(|name| *name == found) {
            Some(0) => Ok(Layout::ChannelsFirst),
            Some(_) => Ok(Layout::ChannelsLast),
            None => Err(call.refuse(&format!("layout {found} is not supported"))),
        }
    }

    /// One number for each of some axes; a single one is for all.
    fn per_axis(
        &self,
        call: &mut OpCall<'_>,
        name: &'static str,
        axes: usize,
        default: i64,
    ) -> Result<Vec<i64>> {
        let list = call.ints(name)?.unwrap_or_else(|| vec![default]);
        match list[..] {
            [one] => Ok(vec![one; axes]),
            _ if list.len() == axes => Ok(list),
            _ => Err(call.refuse(&format!("`{name}` has {} numbers", list.len()))),
        }
    }

    /// Padding before and after: one number, one for each axis, or both for each.
    fn padding(&self, call: &mut OpCall<'_>, axes: usize) -> Result<(Vec<i64>, Vec<i64>)> {
        let list = call.ints("padding")?.unwrap_or_else(|| vec![0]);
        match list.len() {
            1 => Ok((vec![list[0]; axes], vec![list[0]; axes])),
            n if n == axes => Ok((list.clone(), list)),
            n if n == 2 * axes => Ok((list[..axes].to_vec(), list[axes..].to_vec())),
            n => Err(call.refuse(&format!("`padding` has {n} numbers"))),
        }
    }

    fn geometry(&self, call: &mut OpCall<'_>, axes: usize) -> Result<ConvAttrs> {
        let (pads_begin, pads_end) = self.padding(call, axes)?;
        Ok(ConvAttrs {
            strides: self.per_axis(call, "strides", axes, 1)?,
            pads_begin,
            pads_end,
            dilations: self.per_axis(call, "dilation", axes, 1)?,
            groups: call.int("groups", 1)?,
        })
    }

    /// The axes that move the channels behind the batch.
    fn to_first(rank: usize) -> Vec<usize> {
        [0, rank - 1].into_iter().chain(1..rank - 1).collect()
    }

    /// The axes that move the channels to the end.
    fn to_last(rank: usize) -> Vec<usize> {
        [0].into_iter().chain(2..rank).chain([1]).collect()
    }

    fn channels_first(&mut self, call: &OpCall<'_>, x: Value, layout: Layout) -> Result<Value> {
        match layout {
            Layout::ChannelsFirst => Ok(x),
            Layout::ChannelsLast => {
                let perm = Self::to_first(self.rank(x));
                self.emit(call, Op::Transpose(perm), &[x])
            }
        }
    }

    fn back(&mut self, call: &OpCall<'_>, y: Value, layout: Layout) -> Result<Value> {
        match layout {
            Layout::ChannelsFirst => Ok(y),
            Layout::ChannelsLast => {
                let perm = Self::to_last(self.rank(y));
                self.emit(call, Op::Transpose(perm), &[y])
            }
        }
    }

    /// Checks ranks, and what has to be the same as the input's.
    fn conv_operands(&mut self, call: &mut OpCall<'_>, axes: usize) -> Result<[Value; 2]> {
        let [x, w] = self.operands(call)?;
        if self.rank(x) != axes + 2 || self.rank(w) != axes + 2 {
            return Err(call.refuse(&format!("operands have {} axes", axes + 2)));
        }
        call.ignore(&["channels", "kernel_size"]);
        let own = self.b.tensor(x).dtype;
        if call.dtype("out_dtype")?.is_some_and(|dtype| dtype != own) {
            return Err(call.refuse("an `out_dtype` other than the operands' is not supported"));
        }
        if !call.text("out_layout", "")?.is_empty() {
            return Err(call.refuse("`out_layout` is not supported"));
        }
        Ok([x, w])
    }

    fn conv(&mut self, call: &mut OpCall<'_>, axes: usize) -> Result<Value> {
        let [x, w] = self.conv_operands(call, axes)?;
        let layout = self.axis_order(call, "data_layout", axes)?;
        let geometry = self.geometry(call, axes)?;
        // Weights are output channels first, or spatial axes first; of the latter, those of depthwise
        // convolutions have their output channels before the input's.
        let names = match axes {
            1 => ["OIW", "WIO", "WOI"],
            2 => ["OIHW", "HWIO", "HWOI"],
            _ => ["OIDHW", "DHWIO", "DHWOI"],
        };
        let found = call.text("kernel_layout", names[0])?;
        let channels = match names.iter().position(|name| *name == found) {
            Some(0) => None,
            Some(1) => Some([axes + 1, axes]),
            Some(_) => Some([axes, axes + 1]),
            None => return Err(call.refuse(&format!("layout {found} is not supported"))),
        };
        let w = match channels {
            None => w,
            Some(channels) => {
                let perm = channels.into_iter().chain(0..axes).collect();
                self.emit(call, Op::Transpose(perm), &[w])?
            }
        };
        let x = self.channels_first(call, x, layout)?;
        let y = self.emit(call, Op::Conv(geometry), &[x, w])?;
        self.back(call, y, layout)
    }

    fn conv_transpose(&mut self, call: &mut OpCall<'_>, axes: usize) -> Result<Value> {
        let [x, w] = self.conv_operands(call, axes)?;
        let layout = self.axis_order(call, "data_layout", axes)?;
        let conv = self.geometry(call, axes)?;
        let output_padding = self.per_axis(call, "output_padding", axes, 0)?;
        // Up to TVM 0.8 the same weights are called OIHW.
        let names = if axes == 1 { ["IOW", "OIW"] } else { ["IOHW", "OIHW"] };
        let layout_of_weights = call.text("kernel_layout", names[0])?;
        if !names.contains(&layout_of_weights) {
            return Err(call.refuse(&format!("layout {layout_of_weights} is not supported")));
        }
        let x = self.channels_first(call, x, layout)?;
        let y = self.emit(call, Op::ConvTranspose { conv, output_padding }, &[x, w])?;
        self.back(call, y, layout)
    }

    fn pool(&mut self, call: &mut OpCall<'_>, axes: usize) -> Result<Value> {
        let [x] = self.operands(call)?;
        if self.rank(x) != axes + 2 {
            return Err(call.refuse(&format!("the operand has {} axes", axes + 2)));
        }
        let layout = self.axis_order(call, "layout", axes)?;
        call.ignore(&["out_layout"]);
        let kind = match call.name.contains("max") {
            true => PoolKind::Max { indices: false },
            false => PoolKind::Average { count_pads: call.flag("count_include_pad", false)? },
        };
        let (pads_begin, pads_end) = self.padding(call, axes)?;
        let pool = PoolAttrs {
            kind,
            kernel: self.per_axis(call, "pool_size", axes, 1)?,
            strides: self.per_axis(call, "strides", axes, 1)?,
            pads_begin,
            pads_end,
            dilations: self.per_axis(call, "dilation", axes, 1)?,
            ceil: call.flag("ceil_mode", false)?,
        };
        let x = self.channels_first(call, x, layout)?;
        let y = self.emit(call, Op::Pool(pool), &[x])?;
        self.back(call, y, layout)
    }

    /// The maximum or mean over all spatial axes.
    fn global_pool(&mut self, call: &mut OpCall<'_>, axes: usize) -> Result<Value> {
        let [x] = self.operands(call)?;
        let layout = self.axis_order(call, "layout", axes)?;
        call.ignore(&["out_layout"]);
        if self.rank(x) != axes + 2 {
            return Err(call.refuse(&format!("the operand has {} axes", axes + 2)));
        }
        let kind = match call.name.contains("max") {
            true => ReduceKind::Max,
            false => ReduceKind::Mean,
        };
        let first = match layout {
            Layout::ChannelsFirst => 2,
            Layout::ChannelsLast => 1,
        };
        let axes = (first..first + axes).collect();
        self.emit(call, Op::Reduce { kind, axes, keep_dims: true }, &[x])
    }

    /// A pool whose windows follow from the size of its result, which divides the extents.
    fn adaptive_pool(&mut self, call: &mut OpCall<'_>, axes: usize) -> Result<Value> {
        let sizes = call.ints("output_size")?.filter(|sizes| sizes.len() == axes);
        let Some(sizes) = sizes else {
            return Err(call.refuse(&format!("`output_size` has {axes} numbers")));
        };
        if sizes.iter().all(|&size| size == 1) {
            return self.global_pool(call, axes);
        }
        let [x] = self.operands(call)?;
        let layout = self.axis_order(call, "layout", axes)?;
        call.ignore(&["out_layout"]);
        let x = self.channels_first(call, x, layout)?;
        let extents = self.shape(x).into_iter().skip(2).map(|extent| extent.as_int());
        let windows = extents.zip(&sizes).map(|(extent, &size)| {
            extent.filter(|extent| size > 0 && extent % size == 0).map(|extent| extent / size)
        });
        let windows: Option<Vec<i64>> = windows.collect();
        let Some(windows) = windows.filter(|windows| windows.len() == axes) else {
            return Err(
                call.refuse("an `output_size` that does not divide the extents is not supported")
            );
        };
        let pool = PoolAttrs {
            kind: match call.name.contains("max") {
                true => PoolKind::Max { indices: false },
                false => PoolKind::Average { count_pads: false },
            },
            kernel: windows.clone(),
            strides: windows,
            pads_begin: vec![0; axes],
            pads_end: vec![0; axes],
            dilations: vec![1; axes],
            ceil: false,
        };
        let y = self.emit(call, Op::Pool(pool), &[x])?;
        self.back(call, y, layout)
    }

    /// A tensor of the shape and type of another, filled with a number.
    pub(super) fn filled_like(&mut self, call: &OpCall<'_>, x: Value, value: f64) -> Result<Value> {
        let (dtype, shape): (_, Vec<DimExpr>) = (self.b.tensor(x).dtype, self.shape(x));
        let value = self.scalar(call, dtype, value)?;
        self.emit(call, Op::Broadcast(shape), &[value])
    }
}
