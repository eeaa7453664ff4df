//! Operators over spatial axes: convolutions and pools.

use reflex_graph::{Binary, ConvAttrs, Op, PadMode, PoolAttrs, PoolKind, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::table::{Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("AveragePool", average_pool),
    ("ConvTranspose", conv_transpose),
    ("GlobalAveragePool", |cx, call| global(cx, call, ReduceKind::Mean)),
    ("GlobalLpPool", global_lp),
    ("GlobalMaxPool", |cx, call| global(cx, call, ReduceKind::Max)),
    ("LpPool", lp_pool),
    ("MaxPool", max_pool),
];

/// Limit of kernels, strides, dilations and pads, so that their arithmetic does not overflow.
const LIMIT: i64 = 1 << 24;

/// Geometry of a convolution or pooling, before padding is known.
pub(super) struct Geometry {
    pub kernel: Vec<i64>,
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    pads: Padding,
}

/// The side of an axis that the odd element of automatic padding goes to (`auto_pad`).
#[derive(Clone, Copy, PartialEq)]
enum ExtraPad {
    /// `SAME_UPPER`: the end.
    End,
    /// `SAME_LOWER`: the beginning.
    Begin,
}

enum Padding {
    Explicit(Vec<i64>),
    Same(ExtraPad),
}

/// Reads the attributes that convolutions and pools share.
pub(super) fn geometry(call: &Call, x: &Tensor, kernel: Option<&[Expr]>) -> Result<Geometry> {
    let spatial = x.rank().checked_sub(2).filter(|n| *n > 0);
    let spatial = spatial.ok_or_else(|| invalid(format!("input of rank {}", x.rank())))?;
    let list = |name, default: i64, count: usize| {
        let values = call.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
        let fine = values.len() == count && values.iter().all(|v| (-LIMIT..LIMIT).contains(v));
        if fine { Ok(values) } else { Err(invalid(format!("attribute `{name}` is {values:?}"))) }
    };
    let given = call.ints("kernel_shape")?.map(<[i64]>::to_vec);
    let weights = kernel.map(|dims| dims.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>());
    let kernel = match (given, weights) {
        (Some(given), Some(Some(weights))) if given != weights => {
            return Err(invalid(format!("kernel_shape {given:?}, the weights have {weights:?}")));
        }
        (Some(given), _) => given,
        (None, Some(Some(weights))) => weights,
        (None, _) => return Err(unsupported("a kernel of unknown extents")),
    };
    let fine = kernel.len() == spatial && kernel.iter().all(|k| (1..LIMIT).contains(k));
    if !fine {
        return Err(invalid(format!("kernel {kernel:?} for {spatial} spatial axes")));
    }
    let strides = list("strides", 1, spatial)?;
    let dilations = list("dilations", 1, spatial)?;
    if strides.iter().chain(&dilations).any(|v| *v < 1) {
        return Err(invalid(format!("strides {strides:?}, dilations {dilations:?}")));
    }
    let explicit = list("pads", 0, 2 * spatial)?;
    let pads = match call.text("auto_pad", "NOTSET")? {
        "NOTSET" => Padding::Explicit(explicit),
        "VALID" => Padding::Explicit(vec![0; 2 * spatial]),
        "SAME_UPPER" => Padding::Same(ExtraPad::End),
        "SAME_LOWER" => Padding::Same(ExtraPad::Begin),
        other => return Err(invalid(format!("auto_pad `{other}`"))),
    };
    Ok(Geometry { kernel, strides, dilations, pads })
}

impl Geometry {
    /// Padding before and after each spatial axis of `x`.
    fn pads(&self, x: &Tensor) -> (Vec<Expr>, Vec<Expr>) {
        let spatial = self.kernel.len();
        let extra = match &self.pads {
            Padding::Explicit(pads) => {
                let exprs = |list: &[i64]| list.iter().map(|p| Expr::i64(*p)).collect();
                return (exprs(&pads[..spatial]), exprs(&pads[spatial..]));
            }
            Padding::Same(extra) => *extra,
        };
        let mut pads = (vec![], vec![]);
        for i in 0..spatial {
            let dim = &x.shape()[i + 2];
            let kernel = (self.kernel[i] - 1) * self.dilations[i] + 1;
            let covered = (dim.clone().ceildiv(self.strides[i]) - 1) * self.strides[i] + kernel;
            let total = dims::simplify(&(covered - dim.clone()).max(0));
            let small = dims::simplify(&total.clone().floordiv(2));
            let large = dims::simplify(&(total - small.clone()));
            let (before, after) = match extra {
                ExtraPad::End => (small, large),
                ExtraPad::Begin => (large, small),
            };
            pads.0.push(before);
            pads.1.push(after);
        }
        pads
    }

    /// Padding of `x` in numbers that are at least `least`; `None` where one is symbolic or less.
    fn const_pads(&self, x: &Tensor, least: i64) -> Option<(Vec<i64>, Vec<i64>)> {
        let (before, after) = self.pads(x);
        let number = |pad: &Expr| pad.as_int().filter(|pad| *pad >= least);
        let numbers = |list: Vec<Expr>| list.iter().map(number).collect::<Option<Vec<i64>>>();
        Some((numbers(before)?, numbers(after)?))
    }

    /// `x` and the remaining padding: padding that is symbolic or negative is applied to `x`.
    fn padded(&self, cx: &mut ImportContext, x: &Tensor) -> Result<(Tensor, Vec<i64>, Vec<i64>)> {
        if let Some((before, after)) = self.const_pads(x, 0) {
            return Ok((x.clone(), before, after));
        }
        let (before, after) = self.pads(x);
        let padded = pad_spatial(cx, x, before, after, 0.0)?;
        Ok((padded, vec![0; self.kernel.len()], vec![0; self.kernel.len()]))
    }
}

/// `x` with padding before and after each spatial axis; negative padding crops.
fn pad_spatial(
    cx: &mut ImportContext,
    x: &Tensor,
    before: Vec<Expr>,
    after: Vec<Expr>,
    fill: f64,
) -> Result<Tensor> {
    let full = |list: Vec<Expr>| [vec![Expr::i64(0); 2], list].concat();
    let op = Op::Pad { mode: PadMode::Constant, before: full(before), after: full(after) };
    let fill = cx.num(fill, x.dtype())?;
    cx.op(op, &[x, &fill])
}

/// Group count of a convolution.
fn groups(call: &Call) -> Result<i64> {
    let groups = call.int("group", 1)?;
    if (1..LIMIT).contains(&groups) { Ok(groups) } else { Err(invalid(format!("group {groups}"))) }
}

/// A convolution with the call's attributes.
pub(super) fn convolve(
    cx: &mut ImportContext,
    call: &Call,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let kernel = w.shape().get(2..).ok_or_else(|| invalid("weights need two axes more"))?;
    let geometry = geometry(call, x, Some(kernel))?;
    let (x, pads_begin, pads_end) = geometry.padded(cx, x)?;
    let attrs = ConvAttrs {
        strides: geometry.strides,
        pads_begin,
        pads_end,
        dilations: geometry.dilations,
        groups: groups(call)?,
    };
    let args: Vec<&Tensor> = [Some(&x), Some(w), bias].into_iter().flatten().collect();
    cx.op(Op::Conv(attrs), &args)
}

/// The input of a convolution of 8-bit integers with its padding, and the geometry that is left.
pub(super) struct Padded {
    x: Tensor,
    attrs: ConvAttrs,
}

impl Padded {
    /// Pads `x` with its zero point `zero` (int32, one number), which stands for 0.
    pub(super) fn of(
        cx: &mut ImportContext,
        call: &Call,
        x: &Tensor,
        zero: Option<&Tensor>,
        w: &Tensor,
    ) -> Result<Padded> {
        let kernel = w.shape().get(2..).ok_or_else(|| invalid("weights need two axes more"))?;
        let geometry = geometry(call, x, Some(kernel))?;
        let groups = groups(call)?;
        let (x, pads_begin, pads_end) = match zero {
            None => geometry.padded(cx, x)?,
            Some(zero) => {
                let (before, after) = geometry.pads(x);
                let none = || vec![0; geometry.kernel.len()];
                let is_none = |list: &[Expr]| list.iter().all(|p| p.as_int() == Some(0));
                let x = match is_none(&before) && is_none(&after) {
                    true => x.clone(),
                    false => {
                        let fill = cx.cast(zero, x.dtype())?;
                        let fill = cx.reshape(&fill, &[])?;
                        let full = |list: Vec<Expr>| [vec![Expr::i64(0); 2], list].concat();
                        let (before, after) = (full(before), full(after));
                        let op = Op::Pad { mode: PadMode::Constant, before, after };
                        cx.op(op, &[x, &fill])?
                    }
                };
                (x, none(), none())
            }
        };
        let Geometry { strides, dilations, .. } = geometry;
        Ok(Padded { x, attrs: ConvAttrs { strides, pads_begin, pads_end, dilations, groups } })
    }

    /// Groups of channels.
    pub(super) fn groups(&self) -> i64 {
        self.attrs.groups
    }

    /// The convolution with `w`.
    pub(super) fn convolve(&self, cx: &mut ImportContext, w: &Tensor) -> Result<Tensor> {
        cx.op(Op::ConvInteger(self.attrs.clone()), &[&self.x, w])
    }
}

fn conv_transpose(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let kernel = w.shape().get(2..).ok_or_else(|| invalid("weights need two axes more"))?;
    let geometry = geometry(call, x, Some(kernel))?;
    let spatial = geometry.kernel.len();
    let mut output_padding =
        call.ints("output_padding")?.map_or_else(|| vec![0; spatial], <[i64]>::to_vec);
    if output_padding.len() != spatial {
        return Err(invalid(format!("output_padding {output_padding:?}")));
    }
    let shape = call.ints("output_shape")?;
    let wanted = match (&geometry.pads, shape) {
        (Padding::Explicit(pads), None) => {
            let exprs = |list: &[i64]| list.iter().map(|p| Expr::i64(*p)).collect();
            (exprs(&pads[..spatial]), exprs(&pads[spatial..]))
        }
        (pads, shape) => {
            let extra = match pads {
                Padding::Same(extra) => *extra,
                Padding::Explicit(_) => ExtraPad::Begin,
            };
            wanted_pads(x, &geometry, shape, &mut output_padding, extra)?
        }
    };
    let numbers = |list: &[Expr]| list.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>();
    let known = numbers(&wanted.0).zip(numbers(&wanted.1));
    let (pads_begin, pads_end) = known.clone().unwrap_or((vec![0; spatial], vec![0; spatial]));
    let conv = ConvAttrs {
        strides: geometry.strides,
        pads_begin,
        pads_end,
        dilations: geometry.dilations,
        groups: groups(call)?,
    };
    let op = Op::ConvTranspose { conv, output_padding };
    if known.is_some() {
        let args: Vec<&Tensor> = [Some(x), Some(w), call.opt(2)?].into_iter().flatten().collect();
        return one(cx.op(op, &args)?);
    }
    // Padding takes elements off the result, which is cropped, or filled up, by symbolic numbers.
    let whole = cx.op(op, &[x, w])?;
    let off = |list: Vec<Expr>| list.iter().map(|p| dims::simplify(&(-p.clone()))).collect();
    let cropped = pad_spatial(cx, &whole, off(wanted.0), off(wanted.1), 0.0)?;
    let Some(bias) = call.opt(2)? else { return one(cropped) };
    let mut per_channel = vec![Expr::i64(1); cropped.rank() - 1];
    per_channel[0] = cropped.shape()[1].clone();
    let bias = cx.reshape(bias, &per_channel)?;
    one(cx.add(&cropped, &bias)?)
}

/// Padding that gives a transposed convolution the output shape `shape`, or `stride` times the
/// input's. Where it is known and negative, it becomes output padding.
fn wanted_pads(
    x: &Tensor,
    geometry: &Geometry,
    shape: Option<&[i64]>,
    output_padding: &mut [i64],
    extra: ExtraPad,
) -> Result<(Vec<Expr>, Vec<Expr>)> {
    let spatial = geometry.kernel.len();
    // Some models give batch and channels as well.
    let shape = shape.map(|s| if s.len() == spatial + 2 { &s[2..] } else { s });
    if shape.is_some_and(|s| s.len() != spatial) {
        return Err(invalid(format!("output_shape {shape:?}")));
    }
    let mut pads = (vec![], vec![]);
    for i in 0..spatial {
        let (stride, dilation) = (geometry.strides[i], geometry.dilations[i]);
        let kernel = (geometry.kernel[i] - 1) * dilation + 1;
        // The input size cancels when the output is a multiple of it.
        let mut total = match shape {
            None => Expr::i64(kernel - stride + output_padding[i]),
            Some(shape) => {
                let full = (x.shape()[i + 2].clone() - 1) * stride + kernel + output_padding[i];
                dims::simplify(&(full - shape[i]))
            }
        };
        if let Some(missing) = total.as_int().filter(|total| *total < 0) {
            output_padding[i] -= missing;
            total = Expr::i64(0);
        }
        // What is missing at run time is missing at the end.
        let taken = total.clone().max(0);
        let small = dims::simplify(&taken.clone().floordiv(2));
        let large = dims::simplify(&(taken - small.clone()));
        let (before, _) = match extra {
            ExtraPad::End => (small, large),
            ExtraPad::Begin => (large, small),
        };
        pads.1.push(dims::simplify(&(total - before.clone())));
        pads.0.push(before);
    }
    Ok(pads)
}

/// Pooling with the call's attributes.
pub(super) fn pool(
    cx: &mut ImportContext,
    call: &Call,
    x: &Tensor,
    kind: PoolKind,
) -> Result<Vec<Tensor>> {
    let geometry = geometry(call, x, None)?;
    let ceil = call.flag("ceil_mode")?;
    let attrs = |kind: PoolKind, pads_begin: Vec<i64>, pads_end: Vec<i64>| PoolAttrs {
        kind,
        kernel: geometry.kernel.clone(),
        strides: geometry.strides.clone(),
        pads_begin,
        pads_end,
        dilations: geometry.dilations.clone(),
        ceil,
    };
    if let Some((before, after)) = geometry.const_pads(x, i64::MIN) {
        return cx.ops(Op::Pool(attrs(kind, before, after)), &[x]);
    }
    let none = || vec![0; geometry.kernel.len()];
    let unpadded = |cx: &mut ImportContext, x: &Tensor, kind| {
        cx.ops(Op::Pool(attrs(kind, none(), none())), &[x])
    };
    let (before, after) = geometry.pads(x);
    let fill = if let PoolKind::Max { .. } = kind { lowest(x.dtype()) } else { 0.0 };
    let padded = pad_spatial(cx, x, before.clone(), after.clone(), fill)?;
    match kind {
        PoolKind::Max { indices: true } => {
            if geometry.dilations.iter().any(|d| *d != 1) {
                return Err(unsupported("indices of a dilated auto_pad over symbolic extents"));
            }
            let mut pooled = unpadded(cx, &padded, kind)?;
            pooled[1] = unpadded_positions(cx, &pooled[1], &padded, x, &before)?;
            Ok(pooled)
        }
        // A window's average over its elements inside is that over all, by the share inside.
        PoolKind::Average { count_pads: false } => {
            let whole = PoolKind::Average { count_pads: true };
            let mean = unpadded(cx, &padded, whole)?.remove(0);
            let one = [vec![Expr::i64(1); 2], x.shape()[2..].to_vec()].concat();
            let ones = cx.filled(1.0, x.dtype(), &one)?;
            let inside = pad_spatial(cx, &ones, before, after, 0.0)?;
            let share = unpadded(cx, &inside, whole)?.remove(0);
            Ok(vec![cx.div(&mean, &share)?])
        }
        PoolKind::Max { indices: false } | PoolKind::Average { .. } | PoolKind::Lp(_) => {
            unpadded(cx, &padded, kind)
        }
    }
}

/// The least value of a type.
fn lowest(dtype: DType) -> f64 {
    match dtype {
        d if d.is_float() => f64::NEG_INFINITY,
        d if d.is_int() => -(2.0_f64.powi(i32::from(d.bits) - 1)),
        _ => 0.0,
    }
}

/// Flat positions in `x` of flat positions in `padded`. One in the padding before an axis, which
/// is where a window of nothing but the least value starts, counts as the axis's first.
fn unpadded_positions(
    cx: &mut ImportContext,
    at: &Tensor,
    padded: &Tensor,
    x: &Tensor,
    before: &[Expr],
) -> Result<Tensor> {
    let dim = |dim: &Expr| Tensor::dim(&dims::simplify(dim));
    let (mut rest, mut result, mut step) = (at.clone(), cx.num(0.0, DType::I64)?, Expr::i64(1));
    for axis in (2..x.rank()).rev() {
        let extent = dim(&padded.shape()[axis]);
        let along = cx.binary(Binary::FloorMod, &rest, &extent)?;
        rest = cx.div(&rest, &extent)?;
        let inside = cx.sub(&along, &dim(&before[axis - 2]))?;
        let inside = cx.binary_num(Binary::Max, &inside, 0.0)?;
        let part = cx.mul(&inside, &dim(&step))?;
        result = cx.add(&result, &part)?;
        step = step * x.shape()[axis].clone();
    }
    let planes = cx.mul(&rest, &dim(&step))?;
    cx.add(&result, &planes)
}

fn max_pool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let indices = call.wants(1);
    let column_major = call.flag("storage_order")?;
    let x = call.input(0)?;
    let mut results = pool(cx, call, x, PoolKind::Max { indices })?;
    if column_major && indices {
        results[1] = column_major_positions(cx, &results[1], x)?;
    }
    all(results)
}

/// Flat positions in the planes of `x` counted with the first spatial axis innermost.
fn column_major_positions(cx: &mut ImportContext, at: &Tensor, x: &Tensor) -> Result<Tensor> {
    let dim = |dim: &Expr| Tensor::dim(&dims::simplify(dim));
    let (mut rest, mut result) = (at.clone(), cx.num(0.0, DType::I64)?);
    for axis in (2..x.rank()).rev() {
        let extent = dim(&x.shape()[axis].clone().max(1));
        let along = cx.binary(Binary::FloorMod, &rest, &extent)?;
        rest = cx.div(&rest, &extent)?;
        let part = cx.mul(&along, &dim(&dims::product(&x.shape()[2..axis])))?;
        result = cx.add(&result, &part)?;
    }
    let planes = cx.mul(&rest, &dim(&dims::product(&x.shape()[2..])))?;
    cx.add(&result, &planes)
}

fn average_pool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let count_pads = call.flag("count_include_pad")?;
    all(pool(cx, call, call.input(0)?, PoolKind::Average { count_pads })?)
}

fn norm_order(call: &Call) -> Result<u32> {
    let p = call.int("p", 2)?;
    u32::try_from(p).ok().filter(|p| *p > 0).ok_or_else(|| invalid(format!("norm {p}")))
}

fn lp_pool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let kind = PoolKind::Lp(norm_order(call)?);
    all(pool(cx, call, call.input(0)?, kind)?)
}

fn global(cx: &mut ImportContext, call: &Call, kind: ReduceKind) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    one(cx.reduce_keep_dims(kind, x, &axes)?)
}

fn global_lp(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let p = f64::from(norm_order(call)?);
    let axes: Vec<usize> = (2..x.rank()).collect();
    let magnitude = cx.unary(Unary::Abs, x)?;
    let power = cx.binary_num(Binary::Pow, &magnitude, p)?;
    let sum = cx.reduce_keep_dims(ReduceKind::Sum, &power, &axes)?;
    one(cx.binary_num(Binary::Pow, &sum, 1.0 / p)?)
}
