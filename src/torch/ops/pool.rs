//! Pooling.

use reflex_graph::{Binary, Op, PoolAttrs, PoolKind, ReduceKind, Value};
use reflex_tir::{DType, Expr};

use super::conv::batched;
use super::table::{Results, Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::dtype;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("_adaptive_avg_pool2d", |cx, call| adaptive_average(cx, call, 2)),
    ("_adaptive_avg_pool3d", |cx, call| adaptive_average(cx, call, 3)),
    ("adaptive_avg_pool1d", |cx, call| adaptive_average(cx, call, 1)),
    ("adaptive_avg_pool2d", |cx, call| adaptive_average(cx, call, 2)),
    ("adaptive_avg_pool3d", |cx, call| adaptive_average(cx, call, 3)),
    ("adaptive_max_pool1d", |cx, call| adaptive_max(cx, call, 1)),
    ("adaptive_max_pool2d", |cx, call| adaptive_max(cx, call, 2)),
    ("avg_pool1d", |cx, call| average(cx, call, 1)),
    ("avg_pool2d", |cx, call| average(cx, call, 2)),
    ("avg_pool3d", |cx, call| average(cx, call, 3)),
    ("max_pool1d", |cx, call| one(max(cx, call, 1, false)?[0])),
    ("max_pool2d", |cx, call| one(max(cx, call, 2, false)?[0])),
    ("max_pool2d_with_indices", |cx, call| all(max(cx, call, 2, true)?)),
    ("max_pool3d", |cx, call| one(max(cx, call, 3, false)?[0])),
    ("max_pool3d_with_indices", |cx, call| all(max(cx, call, 3, true)?)),
];

/// Extents of matrices of averages, above which a pool is refused.
const LARGEST: i64 = 1 << 12;

fn geometry(call: &Call, kind: PoolKind, axes: usize) -> Result<PoolAttrs> {
    let kernel = call.spatial("kernel_size", axes)?.ok_or_else(|| invalid("no kernel_size"))?;
    let pads = call.spatial("padding", axes)?.unwrap_or(vec![0; axes]);
    Ok(PoolAttrs {
        kind,
        strides: call.spatial("stride", axes)?.unwrap_or(kernel.clone()),
        kernel,
        pads_begin: pads.clone(),
        pads_end: pads,
        dilations: call.spatial("dilation", axes)?.unwrap_or(vec![1; axes]),
        ceil: call.flag("ceil_mode", false)?,
    })
}

fn max(cx: &mut ImportContext, call: &Call, axes: usize, indices: bool) -> Result<Vec<Value>> {
    let (x, alone) = batched(cx, call.tensor("self")?, axes)?;
    let attrs = geometry(call, PoolKind::Max { indices }, axes)?;
    let mut results = cx.ops(Op::Pool(attrs), &[x])?;
    if let Some(places) = results.get_mut(1) {
        // Places count from the start of their plane.
        let plane = cx.shape(x)[2..].iter().fold(Expr::i64(1), |n, dim| n * dim.clone());
        let plane = cx.dim_as(&plane, DType::I64)?;
        *places = cx.binary(Binary::FloorMod, *places, plane)?;
    }
    if alone {
        for result in &mut results {
            *result = cx.squeeze(*result, &[0])?;
        }
    }
    Ok(results)
}

fn average(cx: &mut ImportContext, call: &Call, axes: usize) -> Results {
    let (x, alone) = batched(cx, call.tensor("self")?, axes)?;
    let count_pads = call.flag("count_include_pad", true)?;
    let divisor = call.opt_int("divisor_override")?;
    let attrs = geometry(call, PoolKind::Average { count_pads }, axes)?;
    let own = cx.dtype(x);
    let wide = cx.wide(x)?;
    let y = match divisor {
        None => cx.op(Op::Pool(attrs), &[wide])?,
        Some(_) if attrs.ceil => return Err(unsupported("divisor_override with ceil_mode")),
        Some(0) => return Err(invalid("a divisor_override of 0")),
        Some(divisor) => {
            let count: f64 = attrs.kernel.iter().map(|k| *k as f64).product();
            let kind = PoolKind::Average { count_pads: true };
            let y = cx.op(Op::Pool(PoolAttrs { kind, ..attrs }), &[wide])?;
            cx.binary_num(Binary::Mul, y, count / divisor as f64)?
        }
    };
    let y = cx.cast(y, own)?;
    one(if alone { cx.squeeze(y, &[0])? } else { y })
}

/// The result's extents; -1 stands for the input's.
fn sizes(cx: &ImportContext, call: &Call, x: Value, axes: usize) -> Result<Vec<Expr>> {
    let shape = cx.shape(x);
    let spatial = &shape[shape.len() - axes..];
    let list = call.opt_dims("output_size")?.unwrap_or_default();
    let list = if list.len() == 1 { vec![list[0].clone(); axes] } else { list };
    if list.len() != axes {
        return Err(invalid(format!("output_size of {} entries", list.len())));
    }
    let size = |(size, own): (&Expr, &Expr)| match size.as_int() {
        Some(-1) => own.clone(),
        _ => size.clone(),
    };
    Ok(list.iter().zip(spatial).map(size).collect())
}

fn adaptive_average(cx: &mut ImportContext, call: &Call, axes: usize) -> Results {
    let x = call.tensor("self")?;
    let first = cx.rank(x).checked_sub(axes).filter(|first| *first > 0);
    let first = first.ok_or_else(|| invalid("an input without channels"))?;
    let sizes = sizes(cx, call, x, axes)?;
    let (own, mut y) = (cx.dtype(x), cx.wide(x)?);
    let to_one: Vec<usize> =
        (0..axes).filter(|i| sizes[*i].as_int() == Some(1)).map(|i| first + i).collect();
    y = cx.reduce(ReduceKind::Mean, y, &to_one, true)?;
    for (i, size) in sizes.iter().enumerate() {
        let at = first + i;
        let extent = cx.dim(y, at)?;
        if to_one.contains(&at) || extent == *size {
            continue;
        }
        let (Some(extent), Some(size)) = (extent.as_int(), size.as_int()) else {
            return Err(unsupported("adaptive pooling of a symbolic extent"));
        };
        // The product with a matrix of averages.
        let matrix = averages(cx, extent, size)?;
        let matrix = cx.cast(matrix, cx.dtype(y))?;
        let last = cx.rank(y) - 1;
        let turned = cx.swap(y, at, last)?;
        let product = cx.matmul(turned, matrix)?;
        y = cx.swap(product, at, last)?;
    }
    one(cx.cast(y, own)?)
}

/// First and behind the last element of each window.
fn windows(extent: i64, size: i64) -> Result<Vec<(i64, i64)>> {
    if !(1..=LARGEST).contains(&size) || !(1..=LARGEST).contains(&extent) {
        return Err(unsupported(format!("adaptive pooling of {extent} elements to {size}")));
    }
    Ok((0..size).map(|i| (i * extent / size, ((i + 1) * extent + size - 1) / size)).collect())
}

fn averages(cx: &mut ImportContext, extent: i64, size: i64) -> Result<Value> {
    let windows = windows(extent, size)?;
    let mut bytes = Vec::with_capacity((extent * size * 4) as usize);
    for row in 0..extent {
        for (begin, end) in &windows {
            let inside = (*begin..*end).contains(&row);
            let share = if inside { 1.0 / (end - begin) as f32 } else { 0.0 };
            bytes.extend_from_slice(&share.to_le_bytes());
        }
    }
    Ok(cx.b.constant(dtype::literal(DType::F32, vec![extent, size], bytes)?))
}

fn adaptive_max(cx: &mut ImportContext, call: &Call, axes: usize) -> Results {
    let mut y = call.tensor("self")?;
    let first = cx.rank(y).checked_sub(axes).filter(|first| *first > 0);
    let first = first.ok_or_else(|| invalid("an input without channels"))?;
    let sizes = sizes(cx, call, y, axes)?;
    for (i, size) in sizes.iter().enumerate() {
        let at = first + i;
        let extent = cx.dim(y, at)?;
        if extent == *size {
            continue;
        }
        if size.as_int() == Some(1) {
            y = cx.reduce(ReduceKind::Max, y, &[at], true)?;
            continue;
        }
        let (Some(extent), Some(size)) = (extent.as_int(), size.as_int()) else {
            return Err(unsupported("adaptive pooling of a symbolic extent"));
        };
        let mut parts = vec![];
        for (begin, end) in windows(extent, size)? {
            let part = cx.slice(y, at, &Expr::i64(begin), &Expr::i64(end - begin))?;
            parts.push(cx.reduce(ReduceKind::Max, part, &[at], true)?);
        }
        y = cx.concat(&parts, at)?;
    }
    one(y)
}
