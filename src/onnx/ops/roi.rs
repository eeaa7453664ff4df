//! RoiAlign: averages or maxima of bilinear samples in the cells of regions.

use reflex_graph::{Binary, Op, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::sample::work_type;
use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("RoiAlign", roi_align)];

/// The combination of the samples of a cell.
#[derive(Clone, Copy, PartialEq)]
enum Pooling {
    Average,
    Max,
}

/// The samples of all regions along one axis: `[regions, cells, samples]`.
struct AxisSamples {
    /// Lower and upper element, int64.
    low: Tensor,
    high: Tensor,
    /// Their weights; both 0 outside of the map.
    low_weight: Tensor,
    high_weight: Tensor,
    /// Bool: the samples that the region has, where regions differ in their number.
    used: Option<Tensor>,
    /// Samples of each region's cell, `[regions]`.
    count: Tensor,
}

/// The attributes that concern one axis.
struct AxisAttributes {
    cells: i64,
    /// 0: as many samples as there are elements in a cell.
    sampling_ratio: i64,
    scale: f64,
    half_pixel: bool,
}

fn roi_align(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, rois, batches) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let [n, c, h, w] = x.shape() else { return Err(invalid(format!("input of type {}", x.ty))) };
    if rois.rank() != 2 || rois.shape()[1].as_int() != Some(4) || batches.rank() != 1 {
        return Err(invalid(format!("regions {} of maps {}", rois.ty, batches.ty)));
    }
    let pooling = match call.text("mode", "avg")? {
        "avg" => Pooling::Average,
        "max" => Pooling::Max,
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    // The half pixel came with opset 16.
    let default = if call.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let half_pixel = match call.text("coordinate_transformation_mode", default)? {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return Err(invalid(format!("coordinate_transformation_mode `{other}`"))),
    };
    let scale = call.float("spatial_scale", 1.0)?;
    let sampling_ratio = call.int("sampling_ratio", 0)?;
    let [height, width] = [call.int("output_height", 1)?, call.int("output_width", 1)?];
    let fits = |n: &i64| (1..1 << 16).contains(n);
    if ![height, width].iter().all(fits) || !(0..1 << 10).contains(&sampling_ratio) {
        return Err(invalid(format!("{height} by {width} cells, ratio {sampling_ratio}")));
    }
    let work = work_type(x.dtype());
    let rois = cx.cast(rois, work)?;
    let attributes = |cells| AxisAttributes { cells, sampling_ratio, scale, half_pixel };
    let rows = axis_samples(cx, &rois, [1, 3], h, &attributes(height))?;
    let columns = axis_samples(cx, &rois, [0, 2], w, &attributes(width))?;
    // Channels last: a sample reads whole rows of the map `[n * h * w, c]`.
    let map = cx.transpose(x, &[0, 2, 3, 1])?;
    let map = cx.reshape(&map, &[dims::product([n, h, w]), c.clone()])?;
    let map = cx.cast(&map, work)?;
    let batches = cx.cast(batches, DType::I64)?;
    let batches = cx.unsqueeze(&batches, &[1, 2, 3, 4])?;
    let first_row = cx.mul(&batches, &Tensor::dim(h))?;
    let products = products(cx, &map, &first_row, w, &rows, &columns)?;
    let pooled = pooled(cx, products, &rows, &columns, pooling)?;
    let y = cx.transpose(&pooled, &[0, 3, 1, 2])?;
    one(cx.cast(&y, x.dtype())?)
}

fn axis_samples(
    cx: &mut ImportContext,
    rois: &Tensor,
    ends: [i64; 2],
    extent: &Expr,
    attributes: &AxisAttributes,
) -> Result<AxisSamples> {
    let work = rois.dtype();
    let offset = if attributes.half_pixel { 0.5 } else { 0.0 };
    let mut bounds = vec![];
    for end in ends {
        let end = cx.slice(rois, 1, &Expr::i64(end), &Expr::i64(1))?;
        let end = cx.squeeze(&end, &[1])?;
        let end = cx.binary_num(Binary::Mul, &end, attributes.scale)?;
        bounds.push(cx.binary_num(Binary::Sub, &end, offset)?);
    }
    let mut length = cx.sub(&bounds[1], &bounds[0])?;
    if !attributes.half_pixel {
        length = cx.binary_num(Binary::Max, &length, 1.0)?;
    }
    let cell = cx.binary_num(Binary::Div, &length, attributes.cells as f64)?;
    let (samples, count) = match attributes.sampling_ratio {
        0 => {
            let count = cx.unary(Unary::Ceil, &cell)?;
            let count = cx.binary_num(Binary::Max, &count, 0.0)?;
            // No cell has more samples than the map has elements along the axis, and a few.
            let most = cx.dim_as(&(extent.clone() + 2), work)?;
            let count = cx.binary(Binary::Min, &count, &most)?;
            let zero = cx.filled(0.0, work, &[Expr::i64(1)])?;
            let all = cx.concat(&[count.clone(), zero], 0)?;
            let most = cx.reduce(ReduceKind::Max, &all, &[0])?;
            let most = cx.cast(&most, DType::I64)?;
            (cx.dims_of(&most, "samples")?[0].clone(), count)
        }
        ratio => (Expr::i64(ratio), cx.filled(ratio as f64, work, &rois.shape()[..1])?),
    };
    let cells = Expr::i64(attributes.cells);
    let coordinate = sample_coordinates(cx, [&bounds[0], &cell, &count], &cells, &samples)?;
    let used = match attributes.sampling_ratio {
        0 => {
            let sample = cx.iota(&samples)?;
            let sample = cx.cast(&sample, work)?;
            let count = cx.unsqueeze(&count, &[1, 2])?;
            Some(cx.binary(Binary::Less, &sample, &count)?)
        }
        _ => None,
    };
    let zero = cx.num(0.0, work)?;
    let before = cx.num(-1.0, work)?;
    let end = cx.dim_as(extent, work)?;
    let below = cx.binary(Binary::Less, &coordinate, &before)?;
    let above = cx.binary(Binary::Greater, &coordinate, &end)?;
    let outside = cx.binary(Binary::Or, &below, &above)?;
    let last = cx.dim_as(&(extent.clone() - 1), work)?;
    let coordinate = cx.binary(Binary::Max, &coordinate, &zero)?;
    let coordinate = cx.binary(Binary::Min, &coordinate, &last)?;
    let low = cx.unary(Unary::Floor, &coordinate)?;
    let next = cx.binary_num(Binary::Add, &low, 1.0)?;
    let high = cx.binary(Binary::Min, &next, &last)?;
    let upper = cx.sub(&coordinate, &low)?;
    let one = cx.num(1.0, work)?;
    let lower = cx.sub(&one, &upper)?;
    Ok(AxisSamples {
        low_weight: cx.choose(&outside, &zero, &lower)?,
        high_weight: cx.choose(&outside, &zero, &upper)?,
        low: cx.cast(&low, DType::I64)?,
        high: cx.cast(&high, DType::I64)?,
        used,
        count,
    })
}

/// `start + i * cell + (k + 0.5) * cell / count` for cell `i` and sample `k`.
fn sample_coordinates(
    cx: &mut ImportContext,
    [start, cell, count]: [&Tensor; 3],
    cells: &Expr,
    samples: &Expr,
) -> Result<Tensor> {
    let work = start.dtype();
    let index = cx.iota(cells)?;
    let index = cx.cast(&index, work)?;
    let index = cx.unsqueeze(&index, &[1])?;
    let sample = cx.iota(samples)?;
    let sample = cx.cast(&sample, work)?;
    let sample = cx.binary_num(Binary::Add, &sample, 0.5)?;
    let [start, cell, count] = [
        cx.unsqueeze(start, &[1, 2])?,
        cx.unsqueeze(cell, &[1, 2])?,
        cx.unsqueeze(count, &[1, 2])?,
    ];
    let corner = cx.mul(&index, &cell)?;
    let corner = cx.add(&start, &corner)?;
    let within = cx.mul(&sample, &cell)?;
    let within = cx.div(&within, &count)?;
    cx.add(&corner, &within)
}

/// The four weighted elements of each sample, `[regions, rows, row samples, columns, column
/// samples, c]`.
fn products(
    cx: &mut ImportContext,
    map: &Tensor,
    first_row: &Tensor,
    width: &Expr,
    rows: &AxisSamples,
    columns: &AxisSamples,
) -> Result<Vec<Tensor>> {
    let mut products = vec![];
    for (row, row_weight) in [(&rows.low, &rows.low_weight), (&rows.high, &rows.high_weight)] {
        let row = cx.unsqueeze(row, &[3, 4])?;
        let row = cx.add(first_row, &row)?;
        let row = cx.mul(&row, &Tensor::dim(width))?;
        let row_weight = cx.unsqueeze(row_weight, &[3, 4, 5])?;
        let sides = [(&columns.low, &columns.low_weight), (&columns.high, &columns.high_weight)];
        for (column, column_weight) in sides {
            let column = cx.unsqueeze(column, &[1, 2])?;
            let at = cx.add(&row, &column)?;
            let column_weight = cx.unsqueeze(column_weight, &[1, 2, 5])?;
            let weight = cx.mul(&row_weight, &column_weight)?;
            let element = cx.take(map, &at, 0)?;
            products.push(cx.mul(&weight, &element)?);
        }
    }
    Ok(products)
}

/// The value of each cell, `[regions, rows, columns, c]`.
fn pooled(
    cx: &mut ImportContext,
    products: Vec<Tensor>,
    rows: &AxisSamples,
    columns: &AxisSamples,
    pooling: Pooling,
) -> Result<Tensor> {
    let (f, kind, neutral) = match pooling {
        Pooling::Average => (Binary::Add, ReduceKind::Sum, 0.0),
        Pooling::Max => (Binary::Max, ReduceKind::Max, f64::NEG_INFINITY),
    };
    let mut products = products.into_iter();
    let mut value = products.next().ok_or_else(|| invalid("no samples"))?;
    for product in products {
        value = cx.binary(f, &value, &product)?;
    }
    let neutral = cx.num(neutral, value.dtype())?;
    let masks = [(&rows.used, [3, 4, 5]), (&columns.used, [1, 2, 5])];
    for (used, axes) in masks {
        if let Some(used) = used {
            let used = cx.unsqueeze(used, &axes)?;
            value = cx.choose(&used, &value, &neutral)?;
        }
    }
    let sum = cx.op(Op::Reduce { kind, axes: vec![2, 4], keep_dims: false }, &[&value])?;
    let count = cx.mul(&rows.count, &columns.count)?;
    let count = cx.unsqueeze(&count, &[1, 2, 3])?;
    let value = match pooling {
        Pooling::Average => {
            let count = cx.binary_num(Binary::Max, &count, 1.0)?;
            cx.div(&sum, &count)?
        }
        Pooling::Max => {
            let zero = cx.num(0.0, sum.dtype())?;
            let some = cx.binary(Binary::Greater, &count, &zero)?;
            cx.choose(&some, &sum, &zero)?
        }
    };
    Ok(value)
}
