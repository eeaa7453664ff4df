//! Resize and its predecessor Upsample.

use reflex_graph::{Binary, Op, ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest, Unary, dims};
use reflex_tir::{DType, Expr};

use super::resample::{Coordinates, Filter, Resampling, ResizedAxis, Rounding};
use super::table::{Table, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("Resize", resize), ("Upsample", upsample)];

fn upsample(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let scales = match call.floats("scales")? {
        Some(scales) => Some(scales.iter().map(|s| f64::from(*s)).collect()),
        None => known_scales(call, 1)?,
    };
    let filter = match call.text("mode", "nearest")? {
        "nearest" => Filter::Nearest(Rounding::Floor),
        "linear" => Filter::Linear,
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let (coordinates, antialias, exclude_outside) = (Coordinates::Asymmetric, false, false);
    let how = Resampling { filter, coordinates, antialias, exclude_outside };
    match scales {
        Some(scales) => one(scaled(cx, x, &how, scales)?),
        None => {
            let axes: Vec<usize> = (0..x.rank()).collect();
            one(run_time_scaled(cx, call, x, &how, &axes, call.input(1)?)?)
        }
    }
}

fn resize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let how = resampling(call)?;
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|a| axis(*a, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    let (scales_at, sizes_at) = if call.opset < 11 { (1, usize::MAX) } else { (2, 3) };
    let sizes = if sizes_at == usize::MAX { None } else { call.opt(sizes_at)? };
    if let Some(sizes) = sizes.filter(|s| s.count() != Some(0)) {
        let sizes = cx.dims_of(sizes, "size")?;
        return one(sized(cx, call, x, &how, &axes, sizes)?);
    }
    call.ignore(&["keep_aspect_ratio_policy"]);
    let given = known_scales(call, scales_at)?;
    let fits = |scales: &Vec<f64>| graph_form(&how).is_some() && whole(x, &how, &axes, scales);
    let Some(given) = given.filter(fits) else {
        return one(run_time_scaled(cx, call, x, &how, &axes, call.input(scales_at)?)?);
    };
    if given.len() != axes.len() {
        return Err(invalid(format!("{} scales for {} axes", given.len(), axes.len())));
    }
    let mut scales = vec![1.0; x.rank()];
    for (axis, scale) in axes.iter().zip(given) {
        scales[*axis] = scale;
    }
    one(scaled(cx, x, &how, scales)?)
}

/// Whether scales give the graph's operator the same corners: it takes them from the extents, ONNX
/// from the products of extents and scales before these are rounded down.
fn whole(x: &Tensor, how: &Resampling, axes: &[usize], scales: &[f64]) -> bool {
    let is_whole = |(axis, scale): (&usize, &f64)| {
        let extent = x.shape()[*axis].as_int().map(|extent| extent as f64);
        scale.fract() == 0.0 || extent.is_some_and(|extent| (extent * scale).fract() == 0.0)
    };
    !matches!(how.coordinates, Coordinates::AlignCorners) || axes.iter().zip(scales).all(is_whole)
}

/// The attributes that say how to resample.
fn resampling(call: &Call) -> Result<Resampling> {
    let old = call.opset < 11;
    let rounding = if old { Rounding::Floor } else { rounding(call)? };
    let coefficient = call.float("cubic_coeff_a", -0.75)?;
    let filter = match call.text("mode", "nearest")? {
        "nearest" => Filter::Nearest(rounding),
        "linear" => Filter::Linear,
        "cubic" => Filter::Cubic(coefficient),
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let extrapolated = call.float("extrapolation_value", 0.0)?;
    let coordinates = match call.text("coordinate_transformation_mode", "half_pixel")? {
        _ if old => Coordinates::Asymmetric,
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => Coordinates::CropAndResize(extrapolated),
        other => return Err(invalid(format!("coordinate_transformation_mode `{other}`"))),
    };
    let antialias = call.flag("antialias")?;
    if antialias && matches!(filter, Filter::Nearest(_)) {
        return Err(invalid("antialiasing of mode `nearest`"));
    }
    Ok(Resampling {
        filter,
        coordinates,
        antialias,
        exclude_outside: call.flag("exclude_outside")?,
    })
}

fn rounding(call: &Call) -> Result<Rounding> {
    match call.text("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" => Ok(Rounding::PreferFloor),
        "round_prefer_ceil" => Ok(Rounding::PreferCeil),
        "floor" => Ok(Rounding::Floor),
        "ceil" => Ok(Rounding::Ceil),
        other => Err(invalid(format!("nearest_mode `{other}`"))),
    }
}

/// The same as attributes of the graph's operator, if it has them.
fn graph_form(how: &Resampling) -> Option<(ResizeMode, ResizeCoord)> {
    if how.antialias {
        return None;
    }
    let exclude_outside = how.exclude_outside;
    let mode = match how.filter {
        Filter::Nearest(Rounding::PreferFloor) => {
            ResizeMode::Nearest(ResizeNearest::RoundPreferFloor)
        }
        Filter::Nearest(Rounding::PreferCeil) => {
            ResizeMode::Nearest(ResizeNearest::RoundPreferCeil)
        }
        Filter::Nearest(Rounding::Floor) => ResizeMode::Nearest(ResizeNearest::Floor),
        Filter::Nearest(Rounding::Ceil) => ResizeMode::Nearest(ResizeNearest::Ceil),
        // A border sample repeats its neighbour, so leaving it out changes nothing.
        Filter::Linear => ResizeMode::Linear,
        Filter::Cubic(coefficient) => ResizeMode::Cubic { coefficient, exclude_outside },
    };
    let coord = match how.coordinates {
        Coordinates::HalfPixel => ResizeCoord::HalfPixel,
        Coordinates::PytorchHalfPixel => ResizeCoord::PytorchHalfPixel,
        Coordinates::AlignCorners => ResizeCoord::AlignCorners,
        Coordinates::Asymmetric => ResizeCoord::Asymmetric,
        Coordinates::HalfPixelSymmetric | Coordinates::CropAndResize(_) => return None,
    };
    Some((mode, coord))
}

/// The regions of `CropAndResize` for the axes in turn: float64 scalars.
fn regions(
    cx: &mut ImportContext,
    call: &Call,
    how: &Resampling,
    count: usize,
) -> Result<Option<Vec<[Tensor; 2]>>> {
    let Coordinates::CropAndResize(_) = how.coordinates else { return Ok(None) };
    let roi = call.opt(1)?.filter(|roi| roi.rank() == 1 && roi.count() == Some(2 * count));
    let roi = roi.ok_or_else(|| invalid(format!("no region of {count} axes")))?;
    let roi = cx.cast(roi, DType::F64)?;
    let mut regions = vec![];
    for axis in 0..count {
        let mut ends = vec![];
        for place in [axis, count + axis] {
            let end = cx.slice(&roi, 0, &Expr::i64(place as i64), &Expr::i64(1))?;
            ends.push(cx.reshape(&end, &[])?);
        }
        let [start, end] = [ends.remove(0), ends.remove(0)];
        regions.push([start, end]);
    }
    Ok(Some(regions))
}

/// By scales that the graph's operator does not take, or that are data.
fn run_time_scaled(
    cx: &mut ImportContext,
    call: &Call,
    x: &Tensor,
    how: &Resampling,
    axes: &[usize],
    scales: &Tensor,
) -> Result<Tensor> {
    if scales.rank() != 1 || scales.count() != Some(axes.len()) {
        return Err(invalid(format!("scales {} for {} axes", scales.ty, axes.len())));
    }
    let regions = regions(cx, call, how, axes.len())?;
    let scales = cx.cast(scales, DType::F64)?;
    let mut resized = vec![];
    for (place, axis) in axes.iter().enumerate() {
        let scale = cx.slice(&scales, 0, &Expr::i64(place as i64), &Expr::i64(1))?;
        let scale = cx.reshape(&scale, &[])?;
        if regions.is_none() && scale.as_number() == Some(1.0) {
            continue;
        }
        let size = cx.dim_as(&x.shape()[*axis], DType::F64)?;
        let size = cx.mul(&size, &scale)?;
        let size = cx.unary(Unary::Floor, &size)?;
        let size = cx.cast(&size, DType::I64)?;
        let extent = cx.dims_of(&size, "size")?[0].clone();
        let region = regions.as_ref().map(|all| all[place].clone());
        resized.push(ResizedAxis { axis: *axis, scale, extent, region });
    }
    how.apply(cx, x, &resized)
}

/// Scales that are known now; `None` where they are data.
fn known_scales(call: &Call, index: usize) -> Result<Option<Vec<f64>>> {
    let scales = call.opt(index)?.filter(|s| s.count() != Some(0));
    Ok(scales.ok_or_else(|| invalid("no scales or sizes"))?.as_floats())
}

fn scaled(
    cx: &mut ImportContext,
    x: &Tensor,
    how: &Resampling,
    scales: Vec<f64>,
) -> Result<Tensor> {
    let form = graph_form(how).ok_or_else(|| unsupported("this resampling by known scales"))?;
    let (mode, coord) = form;
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
    how: &Resampling,
    axes: &[usize],
    sizes: Vec<Expr>,
) -> Result<Tensor> {
    if sizes.len() != axes.len() {
        return Err(invalid(format!("{} sizes for {} axes", sizes.len(), axes.len())));
    }
    let policy = match call.text("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => None,
        "not_larger" => Some(Binary::Min),
        "not_smaller" => Some(Binary::Max),
        other => return Err(invalid(format!("keep_aspect_ratio_policy `{other}`"))),
    };
    if let (Some((mode, coord)), None) = (graph_form(how), policy) {
        let mut shape = x.shape().to_vec();
        for (axis, size) in axes.iter().zip(&sizes) {
            shape[*axis] = size.clone();
        }
        if shape == x.shape() {
            return Ok(x.clone());
        }
        return cx.op(Op::Resize(ResizeAttrs { mode, coord, shape, scales: None }), &[x]);
    }
    let regions = regions(cx, call, how, axes.len())?;
    let mut ratios = vec![];
    for (axis, size) in axes.iter().zip(&sizes) {
        let (to, from) = (cx.dim_as(size, DType::F64)?, cx.dim_as(&x.shape()[*axis], DType::F64)?);
        ratios.push(cx.div(&to, &from)?);
    }
    let common = match (policy, ratios.split_first()) {
        (Some(f), Some((first, rest))) => {
            Some(rest.iter().try_fold(first.clone(), |a, b| cx.binary(f, &a, b))?)
        }
        _ => None,
    };
    let mut resized = vec![];
    for (place, axis) in axes.iter().enumerate() {
        let (scale, extent) = match &common {
            Some(scale) => (scale.clone(), kept_aspect(cx, &x.shape()[*axis], scale)?),
            None => (ratios[place].clone(), sizes[place].clone()),
        };
        let same = dims::equal(&extent, &x.shape()[*axis]) == Some(true);
        if same && common.is_none() && regions.is_none() {
            continue;
        }
        let region = regions.as_ref().map(|all| all[place].clone());
        resized.push(ResizedAxis { axis: *axis, scale, extent, region });
    }
    how.apply(cx, x, &resized)
}

/// `floor(extent * scale + 0.5)`
fn kept_aspect(cx: &mut ImportContext, extent: &Expr, scale: &Tensor) -> Result<Expr> {
    let size = cx.dim_as(extent, DType::F64)?;
    let size = cx.mul(&size, scale)?;
    let size = cx.binary_num(Binary::Add, &size, 0.5)?;
    let size = cx.unary(Unary::Floor, &size)?;
    let size = cx.cast(&size, DType::I64)?;
    Ok(cx.dims_of(&size, "size")?[0].clone())
}
