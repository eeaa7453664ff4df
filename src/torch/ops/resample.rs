//! Resampling and padding of images.

use reflex_graph::{Op, PadMode, ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest, Value, dims};
use reflex_tir::Expr;

use super::table::{Results, Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("_upsample_nearest_exact1d", |cx, call| nearest(cx, call, ResizeCoord::HalfPixel)),
    ("_upsample_nearest_exact2d", |cx, call| nearest(cx, call, ResizeCoord::HalfPixel)),
    ("_upsample_nearest_exact3d", |cx, call| nearest(cx, call, ResizeCoord::HalfPixel)),
    ("constant_pad_nd", |cx, call| padded(cx, call, PadMode::Constant)),
    ("pad", |cx, call| {
        let mode = match call.text("mode", "constant")? {
            "constant" => PadMode::Constant,
            "reflect" => PadMode::Reflect,
            "replicate" => PadMode::Edge,
            "circular" => PadMode::Wrap,
            other => return Err(invalid(format!("mode `{other}`"))),
        };
        padded(cx, call, mode)
    }),
    ("reflection_pad1d", |cx, call| padded(cx, call, PadMode::Reflect)),
    ("reflection_pad2d", |cx, call| padded(cx, call, PadMode::Reflect)),
    ("reflection_pad3d", |cx, call| padded(cx, call, PadMode::Reflect)),
    ("replication_pad1d", |cx, call| padded(cx, call, PadMode::Edge)),
    ("replication_pad2d", |cx, call| padded(cx, call, PadMode::Edge)),
    ("replication_pad3d", |cx, call| padded(cx, call, PadMode::Edge)),
    ("upsample_bicubic2d", |cx, call| {
        let cubic = ResizeMode::Cubic { coefficient: -0.75, exclude_outside: false };
        interpolated(cx, call, cubic)
    }),
    ("upsample_bilinear2d", |cx, call| interpolated(cx, call, ResizeMode::Linear)),
    ("upsample_linear1d", |cx, call| interpolated(cx, call, ResizeMode::Linear)),
    ("upsample_nearest1d", |cx, call| nearest(cx, call, ResizeCoord::Asymmetric)),
    ("upsample_nearest2d", |cx, call| nearest(cx, call, ResizeCoord::Asymmetric)),
    ("upsample_nearest3d", |cx, call| nearest(cx, call, ResizeCoord::Asymmetric)),
    ("upsample_trilinear3d", |cx, call| interpolated(cx, call, ResizeMode::Linear)),
];

fn nearest(cx: &mut ImportContext, call: &Call, coord: ResizeCoord) -> Results {
    let rounding = match coord {
        ResizeCoord::Asymmetric => ResizeNearest::Floor,
        _ => ResizeNearest::RoundPreferCeil,
    };
    resampled(cx, call, ResizeMode::Nearest(rounding), coord)
}

fn interpolated(cx: &mut ImportContext, call: &Call, mode: ResizeMode) -> Results {
    let coord = match call.flag("align_corners", false)? {
        true => ResizeCoord::AlignCorners,
        false => ResizeCoord::HalfPixel,
    };
    resampled(cx, call, mode, coord)
}

/// The factors that a call gives for the spatial axes.
fn factors(call: &Call, axes: usize) -> Result<Option<Vec<f64>>> {
    if let Some(list) = call.opt_floats("scale_factors")? {
        return Ok(Some(list));
    }
    if let Some(only) = call.opt_float("scales")? {
        return Ok(Some(vec![only]));
    }
    let names = &["scales_d", "scales_h", "scales_w"][3 - axes.min(3)..];
    let list = names.iter().map(|name| call.opt_float(name)).collect::<Result<Vec<_>>>()?;
    Ok(list.into_iter().collect())
}

/// An extent times a factor, rounded down.
fn times(extent: &Expr, factor: f64) -> Result<Expr> {
    if !(factor > 0.0 && factor < 1e6) {
        return Err(invalid(format!("a factor of {factor}")));
    }
    let inverse = 1.0 / factor;
    match extent.as_int() {
        Some(extent) => Ok(Expr::i64((extent as f64 * factor).floor() as i64)),
        None if factor.fract() == 0.0 => Ok(dims::simplify(&(extent.clone() * factor as i64))),
        None if inverse.fract() == 0.0 => {
            Ok(dims::simplify(&extent.clone().floordiv(inverse as i64)))
        }
        None => Err(unsupported(format!("a symbolic extent times {factor}"))),
    }
}

fn resampled(cx: &mut ImportContext, call: &Call, mode: ResizeMode, coord: ResizeCoord) -> Results {
    let x = call.tensor_of(&["self", "input"])?;
    let mut shape = cx.shape(x);
    let axes = shape.len().checked_sub(2).filter(|axes| (1..=3).contains(axes));
    let axes = axes.ok_or_else(|| invalid(format!("an image of rank {}", shape.len())))?;
    let factors = factors(call, axes)?;
    let sizes = match (call.opt_dims("output_size")?, &factors) {
        (Some(sizes), _) => sizes,
        (None, Some(factors)) => {
            let pairs = shape[2..].iter().zip(factors);
            pairs.map(|(extent, factor)| times(extent, *factor)).collect::<Result<_>>()?
        }
        (None, None) => return Err(invalid("neither sizes nor factors")),
    };
    if sizes.len() != axes || factors.as_ref().is_some_and(|f| f.len() != axes) {
        return Err(invalid(format!("{} sizes of {axes} axes", sizes.len())));
    }
    shape.truncate(2);
    shape.extend(sizes);
    let used = coord != ResizeCoord::AlignCorners;
    let scales = factors.filter(|_| used).map(|factors| [vec![1.0, 1.0], factors].concat());
    let own = cx.dtype(x);
    let wide = cx.wide(x)?;
    let y = cx.op(Op::Resize(ResizeAttrs { mode, coord, shape, scales }), &[wide])?;
    one(cx.cast(y, own)?)
}

/// Padding of the last axes; the list begins with the last one.
fn padded(cx: &mut ImportContext, call: &Call, mode: PadMode) -> Results {
    let x: Value = call.tensor("self")?;
    let name = if call.has("pad") { "pad" } else { "padding" };
    let pads = call.dims(name)?;
    let rank = cx.rank(x);
    if pads.len() % 2 != 0 || pads.len() / 2 > rank {
        return Err(invalid(format!("{} paddings of {rank} axes", pads.len())));
    }
    let mut before = vec![Expr::i64(0); rank];
    let mut after = before.clone();
    for (i, pair) in pads.chunks_exact(2).enumerate() {
        let at = rank - 1 - i;
        before[at] = pair[0].clone();
        after[at] = pair[1].clone();
    }
    let value = call.opt_float("value")?.unwrap_or(0.0);
    let mut args = vec![x];
    if mode == PadMode::Constant {
        args.push(cx.num(value, cx.dtype(x))?);
    }
    one(cx.op(Op::Pad { mode, before, after }, &args)?)
}
