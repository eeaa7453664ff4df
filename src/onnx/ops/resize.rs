//! Resize and its predecessor Upsample.

use reflex_graph::{Op, ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest, dims};
use reflex_tir::Expr;

use super::table::{Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("Resize", resize), ("Upsample", upsample)];

fn upsample(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let scales = match call.floats("scales")? {
        Some(scales) => scales.iter().map(|s| f64::from(*s)).collect(),
        None => known_scales(call, 1)?.ok_or_else(|| invalid("no scales"))?,
    };
    let mode = match call.text("mode", "nearest")? {
        "nearest" => ResizeMode::Nearest(ResizeNearest::Floor),
        "linear" => ResizeMode::Linear,
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    one(scaled(cx, x, mode, ResizeCoord::Asymmetric, scales)?)
}

fn resize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let (mode, coord) = if call.opset < 11 {
        (mode(call, ResizeNearest::Floor)?, ResizeCoord::Asymmetric)
    } else {
        (mode(call, nearest(call)?)?, coordinates(call)?)
    };
    if call.flag("antialias")? {
        return Err(unsupported("antialiasing"));
    }
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|a| axis(*a, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    let (scales_at, sizes_at) = if call.opset < 11 { (1, usize::MAX) } else { (2, 3) };
    let sizes = if sizes_at == usize::MAX { None } else { call.opt(sizes_at)? };
    if let Some(sizes) = sizes.filter(|s| s.count() != Some(0)) {
        let sizes = cx.dims_of(sizes, "size")?;
        return one(sized(cx, call, x, mode, coord, &axes, sizes)?);
    }
    let given = known_scales(call, scales_at)?.ok_or_else(|| invalid("no scales or sizes"))?;
    if given.len() != axes.len() {
        return Err(invalid(format!("{} scales for {} axes", given.len(), axes.len())));
    }
    let mut scales = vec![1.0; x.rank()];
    for (axis, scale) in axes.iter().zip(given) {
        scales[*axis] = scale;
    }
    one(scaled(cx, x, mode, coord, scales)?)
}

fn known_scales(call: &Call, index: usize) -> Result<Option<Vec<f64>>> {
    let Some(scales) = call.opt(index)?.filter(|s| s.count() != Some(0)) else { return Ok(None) };
    match scales.as_floats() {
        Some(scales) => Ok(Some(scales)),
        None => Err(unsupported("scales that are not constant")),
    }
}

fn mode(call: &Call, nearest: ResizeNearest) -> Result<ResizeMode> {
    let coefficient = call.float("cubic_coeff_a", -0.75)?;
    let exclude_outside = call.flag("exclude_outside")?;
    // Only used by a coordinate mode that is refused.
    call.ignore(&["extrapolation_value"]);
    match call.text("mode", "nearest")? {
        "nearest" => Ok(ResizeMode::Nearest(nearest)),
        // A border sample repeats its neighbour, so leaving it out changes nothing.
        "linear" => Ok(ResizeMode::Linear),
        "cubic" => Ok(ResizeMode::Cubic { coefficient, exclude_outside }),
        other => Err(invalid(format!("mode `{other}`"))),
    }
}

fn nearest(call: &Call) -> Result<ResizeNearest> {
    match call.text("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" => Ok(ResizeNearest::RoundPreferFloor),
        "round_prefer_ceil" => Ok(ResizeNearest::RoundPreferCeil),
        "floor" => Ok(ResizeNearest::Floor),
        "ceil" => Ok(ResizeNearest::Ceil),
        other => Err(invalid(format!("nearest_mode `{other}`"))),
    }
}

fn coordinates(call: &Call) -> Result<ResizeCoord> {
    match call.text("coordinate_transformation_mode", "half_pixel")? {
        "half_pixel" => Ok(ResizeCoord::HalfPixel),
        "pytorch_half_pixel" => Ok(ResizeCoord::PytorchHalfPixel),
        "align_corners" => Ok(ResizeCoord::AlignCorners),
        "asymmetric" => Ok(ResizeCoord::Asymmetric),
        other => Err(unsupported(format!("coordinate_transformation_mode `{other}`"))),
    }
}

fn scaled(
    cx: &mut ImportContext,
    x: &Tensor,
    mode: ResizeMode,
    coord: ResizeCoord,
    scales: Vec<f64>,
) -> Result<Tensor> {
    if scales.len() != x.rank() || scales.iter().any(|s| !(*s > 0.0 && *s < 1e6)) {
        return Err(invalid(format!("scales {scales:?} for rank {}", x.rank())));
    }
    if scales.iter().all(|s| *s == 1.0) {
        return Ok(x.clone());
    }
    let extents = x.shape().iter().zip(&scales).map(|(dim, scale)| extent(dim, *scale));
    let shape = extents.collect::<Result<Vec<Expr>>>()?;
    cx.op(Op::Resize(ResizeAttrs { mode, coord, shape, scales: Some(scales) }), &[x])
}

/// `floor(dim * scale)`, in f32 as other engines do; of a symbol for scales that are exact
/// fractions.
fn extent(dim: &Expr, scale: f64) -> Result<Expr> {
    if let Some(dim) = dim.as_int() {
        return Ok(Expr::i64((dim as f32 * scale as f32).floor() as i64));
    }
    let whole = |den: i64| {
        let num = scale * den as f64;
        (num.fract() == 0.0).then_some((num as i64, den))
    };
    let inverse = (1.0 / scale).round();
    let reciprocal = (1.0 / inverse as f32 == scale as f32).then_some((1, inverse as i64));
    let fraction = (0..10).find_map(|bits| whole(1 << bits)).or(reciprocal);
    let (num, den) = fraction.ok_or_else(|| unsupported("this scale of a symbolic extent"))?;
    Ok(dims::simplify(&(dim.clone() * num).floordiv(den)))
}

fn sized(
    cx: &mut ImportContext,
    call: &Call,
    x: &Tensor,
    mode: ResizeMode,
    coord: ResizeCoord,
    axes: &[usize],
    sizes: Vec<Expr>,
) -> Result<Tensor> {
    if sizes.len() != axes.len() {
        return Err(invalid(format!("{} sizes for {} axes", sizes.len(), axes.len())));
    }
    let mut shape = x.shape().to_vec();
    for (axis, size) in axes.iter().zip(&sizes) {
        shape[*axis] = size.clone();
    }
    let mut scales = None;
    let policy = call.text("keep_aspect_ratio_policy", "stretch")?;
    if policy != "stretch" {
        let numbers = |dims: &[Expr]| dims.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>();
        let (Some(from), Some(to)) = (x.const_shape(), numbers(&shape)) else {
            return Err(unsupported("keep_aspect_ratio_policy with symbolic extents"));
        };
        let ratio = |axis: &usize| to[*axis] as f64 / from[*axis] as f64;
        let ratios = axes.iter().map(ratio);
        let scale = match policy {
            "not_larger" => ratios.fold(f64::INFINITY, f64::min),
            "not_smaller" => ratios.fold(0.0, f64::max),
            other => return Err(invalid(format!("keep_aspect_ratio_policy `{other}`"))),
        };
        let mut all = vec![1.0; x.rank()];
        for axis in axes {
            all[*axis] = scale;
            shape[*axis] = Expr::i64((scale * from[*axis] as f64 + 0.5).floor() as i64);
        }
        scales = Some(all);
    }
    if shape == x.shape() {
        return Ok(x.clone());
    }
    cx.op(Op::Resize(ResizeAttrs { mode, coord, shape, scales }), &[x])
}
