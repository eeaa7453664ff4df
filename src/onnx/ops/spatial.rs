//! Operators over spatial axes: convolutions and pools.

use reflex_graph::{Binary, ConvAttrs, Op, PadMode, PoolAttrs, PoolKind, ReduceKind, Unary, dims};
use reflex_tir::Expr;

use super::table::{Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("AveragePool", average_pool),
    ("Conv", conv),
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

    /// Padding in numbers, for operators that cannot pad beforehand.
    fn const_pads(&self, x: &Tensor) -> Result<(Vec<i64>, Vec<i64>)> {
        let (before, after) = self.pads(x);
        let numbers = |list: Vec<Expr>| list.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>();
        match (numbers(before), numbers(after)) {
            (Some(before), Some(after)) => Ok((before, after)),
            _ => Err(unsupported("auto_pad over symbolic extents")),
        }
    }

    /// `x` and the remaining padding: padding that is symbolic or negative is applied to `x`.
    fn padded(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        fill: f64,
    ) -> Result<(Tensor, Vec<i64>, Vec<i64>)> {
        let (before, after) = self.pads(x);
        let numbers = |list: &[Expr]| {
            list.iter().map(|p| p.as_int().filter(|v| *v >= 0)).collect::<Option<Vec<i64>>>()
        };
        if let (Some(before), Some(after)) = (numbers(&before), numbers(&after)) {
            return Ok((x.clone(), before, after));
        }
        let full = |list: Vec<Expr>| [vec![Expr::i64(0); 2], list].concat();
        let op = Op::Pad { mode: PadMode::Constant, before: full(before), after: full(after) };
        let fill = cx.num(fill, x.dtype())?;
        let padded = cx.op(op, &[x, &fill])?;
        Ok((padded, vec![0; self.kernel.len()], vec![0; self.kernel.len()]))
    }
}

/// Group count of a convolution.
fn groups(call: &Call) -> Result<i64> {
    let groups = call.int("group", 1)?;
    if (1..LIMIT).contains(&groups) { Ok(groups) } else { Err(invalid(format!("group {groups}"))) }
}

fn conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let result = convolve(cx, call, x, w, call.opt(2)?)?;
    one(result)
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
    let (x, pads_begin, pads_end) = geometry.padded(cx, x, 0.0)?;
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
    let (pads_begin, pads_end) = match (&geometry.pads, shape) {
        (Padding::Explicit(pads), None) => (pads[..spatial].to_vec(), pads[spatial..].to_vec()),
        (pads, shape) => {
            let extra = match pads {
                Padding::Same(extra) => *extra,
                Padding::Explicit(_) => ExtraPad::Begin,
            };
            wanted_pads(x, &geometry, shape, &mut output_padding, extra)?
        }
    };
    let conv = ConvAttrs {
        strides: geometry.strides,
        pads_begin,
        pads_end,
        dilations: geometry.dilations,
        groups: groups(call)?,
    };
    let args: Vec<&Tensor> = [Some(x), Some(w), call.opt(2)?].into_iter().flatten().collect();
    one(cx.op(Op::ConvTranspose { conv, output_padding }, &args)?)
}

/// Padding that gives a transposed convolution the output shape `shape`, or `stride` times the
/// input's.
fn wanted_pads(
    x: &Tensor,
    geometry: &Geometry,
    shape: Option<&[i64]>,
    output_padding: &mut [i64],
    extra: ExtraPad,
) -> Result<(Vec<i64>, Vec<i64>)> {
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
        let total = match shape {
            None => Expr::i64(kernel - stride + output_padding[i]),
            Some(shape) => {
                let full = (x.shape()[i + 2].clone() - 1) * stride + kernel + output_padding[i];
                dims::simplify(&(full - shape[i]))
            }
        };
        let total = total.as_int().ok_or_else(|| unsupported("output_shape of symbolic input"))?;
        if total < 0 {
            output_padding[i] -= total;
        }
        let total = total.max(0);
        let (small, large) = (total / 2, total - total / 2);
        let (before, after) = match extra {
            ExtraPad::End => (small, large),
            ExtraPad::Begin => (large, small),
        };
        pads.0.push(before);
        pads.1.push(after);
    }
    Ok(pads)
}

fn pool(cx: &mut ImportContext, call: &Call, x: &Tensor, kind: PoolKind) -> Result<Vec<Tensor>> {
    let geometry = geometry(call, x, None)?;
    let ceil = call.flag("ceil_mode")?;
    let (pads_begin, pads_end) = geometry.const_pads(x)?;
    let attrs = PoolAttrs {
        kind,
        kernel: geometry.kernel,
        strides: geometry.strides,
        pads_begin,
        pads_end,
        dilations: geometry.dilations,
        ceil,
    };
    cx.ops(Op::Pool(attrs), &[x])
}

fn max_pool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let indices = call.wants(1);
    if call.int("storage_order", 0)? != 0 && indices {
        return Err(unsupported("indices in column-major order"));
    }
    all(pool(cx, call, call.input(0)?, PoolKind::Max { indices })?)
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
