//! Operators that sample maps by grids and offsets: GridSample, AffineGrid and DeformConv.

use reflex_graph::{Binary, dims};
use reflex_tir::Expr;

use super::sample::{Corners, Interpolation, Outside, Sampler, work_type};
use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table =
    &[("AffineGrid", affine_grid), ("DeformConv", deform_conv), ("GridSample", grid_sample)];

pub(super) fn grid_sample(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let axes = x.rank().saturating_sub(2);
    let coordinates = grid.shape().last().and_then(Expr::as_int);
    if axes == 0 || grid.rank() != x.rank() || coordinates != Some(axes as i64) {
        return Err(invalid(format!("a grid {} for {}", grid.ty, x.ty)));
    }
    if !grid.dtype().is_float() {
        return Err(invalid(format!("a grid of type {}", grid.dtype())));
    }
    let interpolation = match call.text("mode", "linear")? {
        "linear" | "bilinear" => Interpolation::Linear,
        "cubic" | "bicubic" => Interpolation::Cubic,
        "nearest" => Interpolation::Nearest,
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let outside = match call.text("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return Err(invalid(format!("padding_mode `{other}`"))),
    };
    let corners = if call.flag("align_corners")? { Corners::Centres } else { Corners::Edges };
    let points = grid.shape()[1..=axes].to_vec();
    let grid = cx.cast(grid, work_type(grid.dtype()))?;
    let flat = [grid.shape()[0].clone(), dims::product(&points)];
    let mut at = vec![];
    for axis in 0..axes {
        // The last coordinate is that of the first axis.
        let place = Expr::i64((axes - 1 - axis) as i64);
        let unit = cx.slice(&grid, axes + 1, &place, &Expr::i64(1))?;
        let unit = cx.reshape(&unit, &flat)?;
        at.push(in_elements(cx, &unit, &x.shape()[axis + 2], corners)?);
    }
    let samples = Sampler { interpolation, outside, corners }.sample(cx, x, &at)?;
    let shape = [&samples.shape()[..2], &points].concat();
    one(cx.reshape(&samples, &shape)?)
}

/// Positions in elements of positions from -1 to 1.
fn in_elements(
    cx: &mut ImportContext,
    unit: &Tensor,
    extent: &Expr,
    corners: Corners,
) -> Result<Tensor> {
    let from_zero = cx.binary_num(Binary::Add, unit, 1.0)?;
    let scaled = match corners {
        Corners::Centres => {
            let last = cx.dim_as(&(extent.clone() - 1), unit.dtype())?;
            cx.mul(&from_zero, &last)?
        }
        Corners::Edges => {
            let extent = cx.dim_as(extent, unit.dtype())?;
            let scaled = cx.mul(&from_zero, &extent)?;
            cx.binary_num(Binary::Sub, &scaled, 1.0)?
        }
    };
    cx.binary_num(Binary::Mul, &scaled, 0.5)
}

fn affine_grid(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (theta, size) = (call.input(0)?, call.input(1)?);
    let centres = call.flag("align_corners")?;
    let size = cx.dims_of(size, "size")?;
    let axes = size.len().saturating_sub(2);
    let fits = |n: usize, i: usize| theta.shape()[i].as_int().is_none_or(|d| d == n as i64);
    let known = theta.rank() == 3 && fits(axes, 1) && fits(axes + 1, 2);
    if !(2..=3).contains(&axes) || !known || !theta.dtype().is_float() {
        let count = size.len();
        return Err(invalid(format!("transformations {} for {count} extents", theta.ty)));
    }
    cx.check_dim(&theta.shape()[0], &size[0])?;
    let work = work_type(theta.dtype());
    let points = &size[2..];
    let count = dims::product(points);
    let mut columns = vec![];
    // The first coordinate is that of the last axis.
    for axis in (0..axes).rev() {
        let place = cx.iota(&points[axis])?;
        let place = cx.cast(&place, work)?;
        let last = dims::simplify(&(points[axis].clone() - 1).max(1));
        let unit = if centres {
            let step = cx.dim_as(&last, work)?;
            let doubled = cx.binary_num(Binary::Mul, &place, 2.0)?;
            cx.div(&doubled, &step)?
        } else {
            let extent = cx.dim_as(&points[axis], work)?;
            let doubled = cx.binary_num(Binary::Mul, &place, 2.0)?;
            let centre = cx.binary_num(Binary::Add, &doubled, 1.0)?;
            cx.div(&centre, &extent)?
        };
        let unit = cx.binary_num(Binary::Sub, &unit, 1.0)?;
        let mut shape = vec![Expr::i64(1); axes];
        shape[axis] = points[axis].clone();
        let unit = cx.reshape(&unit, &shape)?;
        let unit = cx.broadcast(&unit, points)?;
        columns.push(cx.reshape(&unit, &[count.clone(), Expr::i64(1)])?);
    }
    columns.push(cx.filled(1.0, work, &[count.clone(), Expr::i64(1)])?);
    let places = cx.concat(&columns, 1)?;
    let theta_work = cx.cast(theta, work)?;
    let turned = cx.transpose(&theta_work, &[0, 2, 1])?;
    let grid = cx.matmul(&places, &turned)?;
    let shape = [&[size[0].clone()], points, &[Expr::i64(axes as i64)]].concat();
    let grid = cx.reshape(&grid, &shape)?;
    one(cx.cast(&grid, theta.dtype())?)
}

/// The geometry of a deformable convolution.
struct Deformed {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
    groups: i64,
    offset_groups: i64,
}

const LIMIT: i64 = 1 << 24;

impl Deformed {
    fn of(call: &Call, x: &Tensor, w: &Tensor) -> Result<Deformed> {
        let axes = x.rank().saturating_sub(2);
        if axes == 0 || w.rank() != x.rank() {
            return Err(invalid(format!("weights {} for {}", w.ty, x.ty)));
        }
        let weights = w.shape()[2..].iter().map(Expr::as_int).collect::<Option<Vec<i64>>>();
        let kernel = weights.ok_or_else(|| unsupported("a kernel of symbolic extents"))?;
        if call.ints("kernel_shape")?.is_some_and(|given| given != kernel) {
            return Err(invalid(format!("kernel_shape, the weights have {kernel:?}")));
        }
        let list = |name, default: i64, count: usize| {
            let values = call.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
            let fine = values.len() == count && values.iter().all(|v| (0..LIMIT).contains(v));
            if fine { Ok(values) } else { Err(invalid(format!("`{name}` is {values:?}"))) }
        };
        let count = |name| match call.int(name, 1)? {
            groups if (1..LIMIT).contains(&groups) => Ok(groups),
            groups => Err(invalid(format!("`{name}` is {groups}"))),
        };
        Ok(Deformed {
            kernel,
            strides: list("strides", 1, axes)?,
            dilations: list("dilations", 1, axes)?,
            pads: list("pads", 0, 2 * axes)?,
            groups: count("group")?,
            offset_groups: count("offset_group")?,
        })
    }

    /// The position of each element of the kernel along `axis`, relative to the window.
    fn taps(&self, axis: usize) -> Vec<i64> {
        let inner: i64 = self.kernel[axis + 1..].iter().product();
        let count: i64 = self.kernel.iter().product();
        (0..count).map(|k| k / inner % self.kernel[axis] * self.dilations[axis]).collect()
    }
}

/// By sampling: every output reads `kernel` positions of its own, bilinearly.
fn deform_conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, w, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = Deformed::of(call, x, w)?;
    let axes = shape.kernel.len();
    let (Some(channels), Some(outputs)) = (x.shape()[1].as_int(), w.shape()[0].as_int()) else {
        return Err(unsupported("symbolic numbers of channels"));
    };
    let whole = |n: i64, parts: i64| n % parts == 0;
    if !whole(channels, shape.groups)
        || !whole(channels, shape.offset_groups)
        || !whole(outputs, shape.groups)
        || offset.rank() != x.rank()
    {
        return Err(invalid(format!("{} and {} in groups", x.ty, w.ty)));
    }
    let batch = x.shape()[0].clone();
    let points = offset.shape()[2..].to_vec();
    let taps: i64 = shape.kernel.iter().product();
    let count = dims::product(&points);
    let maps = dims::simplify(&(batch.clone() * shape.offset_groups));
    let samples = dims::simplify(&(count.clone() * taps));
    let at = positions(cx, &shape, offset, &points, &[maps.clone(), samples.clone()])?;
    let per_map = Expr::i64(channels / shape.offset_groups);
    let maps_shape = [&[maps.clone(), per_map], &x.shape()[2..]].concat();
    let x_maps = cx.reshape(x, &maps_shape)?;
    let sampler = Sampler {
        interpolation: Interpolation::Linear,
        outside: Outside::Zeros,
        corners: Corners::Centres,
    };
    let mut columns = sampler.sample(cx, &x_maps, &at)?;
    if let Some(mask) = call.opt(4)? {
        let mask = cx.reshape(mask, &[maps, Expr::i64(1), samples])?;
        columns = cx.mul(&columns, &mask)?;
    }
    let (groups, depth) = (shape.groups, channels / shape.groups * taps);
    let columns =
        cx.reshape(&columns, &[batch.clone(), Expr::i64(groups), Expr::i64(depth), count])?;
    let weights = [1, groups, outputs / groups, depth].map(Expr::i64);
    let weights = cx.reshape(w, &weights)?;
    let y = cx.matmul(&weights, &columns)?;
    let y = cx.reshape(&y, &[&[batch, Expr::i64(outputs)], points.as_slice()].concat())?;
    let Some(bias) = call.opt(3)? else { return one(y) };
    let mut per_channel = vec![Expr::i64(1); axes + 1];
    per_channel[0] = Expr::i64(outputs);
    let bias = cx.reshape(bias, &per_channel)?;
    one(cx.add(&y, &bias)?)
}

/// The positions along each axis, in the form `flat`: those of an ordinary convolution and the
/// offsets.
fn positions(
    cx: &mut ImportContext,
    shape: &Deformed,
    offset: &Tensor,
    points: &[Expr],
    flat: &[Expr; 2],
) -> Result<Vec<Tensor>> {
    let axes = points.len();
    let work = work_type(offset.dtype());
    let taps: i64 = shape.kernel.iter().product();
    let counts = [Expr::i64(shape.offset_groups), Expr::i64(taps), Expr::i64(axes as i64)];
    let apart = [&[offset.shape()[0].clone()], &counts[..], points].concat();
    let offset = cx.cast(offset, work)?;
    let offset = cx.reshape(&offset, &apart)?;
    let mut at = vec![];
    for axis in 0..axes {
        let moved = cx.slice(&offset, 3, &Expr::i64(axis as i64), &Expr::i64(1))?;
        let moved = cx.squeeze(&moved, &[3])?;
        let window = cx.iota(&points[axis])?;
        let window = cx.binary_num(Binary::Mul, &window, shape.strides[axis] as f64)?;
        let window = cx.binary_num(Binary::Sub, &window, shape.pads[axis] as f64)?;
        let mut along = vec![Expr::i64(1); axes + 1];
        along[axis + 1] = points[axis].clone();
        let window = cx.reshape(&window, &along)?;
        let inner = cx.ints(&shape.taps(axis));
        let mut first = vec![Expr::i64(1); axes + 1];
        first[0] = Expr::i64(taps);
        let inner = cx.reshape(&inner, &first)?;
        let regular = cx.add(&window, &inner)?;
        let regular = cx.cast(&regular, work)?;
        let place = cx.add(&moved, &regular)?;
        at.push(cx.reshape(&place, flat)?);
    }
    Ok(at)
}
