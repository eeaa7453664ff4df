//! Operators that put elements where others came from (Col2Im, MaxUnpool), and determinants.

use reflex_graph::{
    ArgReduceKind, Binary, Op, OutOfRange, PadMode, ReduceKind, ScatterKind, ScatterReduce, Unary,
    dims,
};
use reflex_tir::{DType, Expr};

use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("Col2Im", col2im), ("Det", det), ("MaxUnpool", max_unpool)];

const LIMIT: i64 = 1 << 24;

/// An attribute of non-negative integers, one or two per axis.
fn list(call: &Call, name: &'static str, default: i64, count: usize) -> Result<Vec<i64>> {
    let values = call.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
    let fine = values.len() == count && values.iter().all(|v| (0..LIMIT).contains(v));
    if fine { Ok(values) } else { Err(invalid(format!("attribute `{name}` is {values:?}"))) }
}

/// Adds the columns `[n, c * block, blocks]` into images `[n, c, image...]`.
fn col2im(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let [n, depth, blocks] = x.shape() else { return Err(invalid(format!("input {}", x.ty))) };
    let image = cx.dims_of(call.input(1)?, "image")?;
    let block = cx.dims_of(call.input(2)?, "block")?;
    let axes = image.len();
    if axes == 0 || block.len() != axes {
        return Err(invalid(format!("{axes} image extents, {} block extents", block.len())));
    }
    let dilations = list(call, "dilations", 1, axes)?;
    let strides = list(call, "strides", 1, axes)?;
    let pads = list(call, "pads", 0, 2 * axes)?;
    if strides.contains(&0) || dilations.contains(&0) {
        return Err(invalid(format!("strides {strides:?}, dilations {dilations:?}")));
    }
    let taps = dims::product(&block);
    let channels = dims::simplify(&depth.clone().floordiv(taps.clone().max(1)));
    let mut padded = vec![];
    let mut counts = vec![];
    for axis in 0..axes {
        let whole = dims::simplify(&(image[axis].clone() + (pads[axis] + pads[axes + axis])));
        let window = (block[axis].clone() - 1) * dilations[axis] + 1;
        let count = (whole.clone() - window).floordiv(strides[axis]) + 1;
        counts.push(dims::simplify(&count.max(0)));
        padded.push(whole);
    }
    cx.check_dim(blocks, &dims::product(&counts))?;
    cx.check_dim(depth, &dims::simplify(&(channels.clone() * taps)))?;
    // The flat position in the padded image of each element, `[block..., count...]`.
    let mut at = Tensor::dim(&Expr::i64(0));
    for axis in 0..axes {
        let mut offsets = vec![];
        let parts =
            [(&block[axis], dilations[axis], axis), (&counts[axis], strides[axis], axes + axis)];
        for (extent, step, place) in parts {
            let index = cx.iota(extent)?;
            let index = cx.binary_num(Binary::Mul, &index, step as f64)?;
            let mut shape = vec![Expr::i64(1); 2 * axes];
            shape[place] = extent.clone();
            offsets.push(cx.reshape(&index, &shape)?);
        }
        let along = cx.add(&offsets[0], &offsets[1])?;
        let outer = cx.mul(&at, &Tensor::dim(&padded[axis]))?;
        at = cx.add(&outer, &along)?;
    }
    let count = dims::product(block.iter().chain(&counts));
    let maps = dims::simplify(&(n.clone() * channels.clone()));
    let at = cx.reshape(&at, &[Expr::i64(1), count.clone()])?;
    let at = cx.broadcast(&at, &[maps.clone(), count.clone()])?;
    let updates = cx.reshape(x, &[maps.clone(), count])?;
    let empty = cx.filled(0.0, x.dtype(), &[maps, dims::product(&padded)])?;
    let scatter = Op::Scatter {
        kind: ScatterKind::Elements(1),
        reduce: ScatterReduce::Add,
        out_of_range: OutOfRange::Clamp,
    };
    let sum = cx.op(scatter, &[&empty, &at, &updates])?;
    let lead = [n.clone(), channels];
    let sum = cx.reshape(&sum, &[&lead[..], &padded].concat())?;
    let begin = [0, 0].iter().chain(&pads[..axes]).map(|p| Expr::i64(*p)).collect();
    let shape = [&lead[..], &image].concat();
    one(cx.strided(&sum, begin, shape, vec![1; axes + 2])?)
}

/// Puts each maximum back to the flat position that it came from.
fn max_unpool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, at) = (call.input(0)?, call.input(1)?);
    let axes = x.rank().saturating_sub(2);
    let kernel = call.ints("kernel_shape")?.ok_or_else(|| invalid("no `kernel_shape`"))?;
    if axes == 0 || kernel.len() != axes || kernel.iter().any(|k| !(1..LIMIT).contains(k)) {
        return Err(invalid(format!("kernel {kernel:?} for {}", x.ty)));
    }
    let strides = list(call, "strides", 1, axes)?;
    let pads = list(call, "pads", 0, 2 * axes)?;
    let mut shape = x.shape().to_vec();
    for axis in 0..axes {
        let extent = (shape[axis + 2].clone() - 1) * strides[axis] + kernel[axis]
            - (pads[axis] + pads[axes + axis]);
        shape[axis + 2] = dims::simplify(&extent.max(0));
    }
    let empty = cx.filled(0.0, x.dtype(), &[dims::product(&shape)])?;
    let count = [dims::product(x.shape())];
    let (values, places) = (cx.reshape(x, &count)?, cx.reshape(at, &count)?);
    let scatter = Op::Scatter {
        kind: ScatterKind::Elements(0),
        reduce: ScatterReduce::Replace,
        out_of_range: OutOfRange::Raise,
    };
    let flat = cx.op(scatter, &[&empty, &places, &values])?;
    let y = cx.reshape(&flat, &shape)?;
    let Some(wanted) = call.opt(2)? else { return one(y) };
    let wanted = cx.dims_of(wanted, "output")?;
    if wanted.len() != x.rank() {
        return Err(invalid(format!("{} output extents for {}", wanted.len(), x.ty)));
    }
    let missing = wanted.iter().zip(&shape).map(|(to, from)| to.clone() - from.clone());
    let after = missing.map(|n| dims::simplify(&n)).collect();
    let zero = cx.num(0.0, x.dtype())?;
    let before = vec![Expr::i64(0); x.rank()];
    one(cx.op(Op::Pad { mode: PadMode::Constant, before, after }, &[&y, &zero])?)
}

/// Larger matrices are refused: each column is a step of its own.
const MAX_MATRIX: i64 = 64;

/// Gaussian elimination with partial pivoting, a column at a time.
fn det(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let [lead @ .., rows, columns] = x.shape() else { return Err(invalid("needs matrices")) };
    let Some(n) = rows.as_int().filter(|n| columns.as_int() == Some(*n)) else {
        return Err(unsupported(format!("matrices of type {}", x.ty)));
    };
    if n > MAX_MATRIX {
        return Err(unsupported(format!("matrices of more than {MAX_MATRIX} rows")));
    }
    let batch = dims::product(lead);
    let work = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let wide = cx.cast(x, work)?;
    let mut rest = cx.reshape(&wide, &[batch.clone(), Expr::i64(n), Expr::i64(n)])?;
    let mut product = cx.filled(1.0, work, std::slice::from_ref(&batch))?;
    for size in (1..=n).rev() {
        let (pivot, next) = eliminated(cx, &rest, size)?;
        product = cx.mul(&product, &pivot)?;
        rest = next;
    }
    let y = cx.reshape(&product, lead)?;
    one(cx.cast(&y, x.dtype())?)
}

/// The factor of the determinant that the first column gives, and the matrices without it.
fn eliminated(cx: &mut ImportContext, x: &Tensor, size: i64) -> Result<(Tensor, Tensor)> {
    let (first, one) = (Expr::i64(0), Expr::i64(1));
    let column = cx.slice(x, 2, &first, &one)?;
    let column = cx.squeeze(&column, &[2])?;
    let magnitude = cx.unary(Unary::Abs, &column)?;
    let largest =
        Op::ArgReduce { kind: ArgReduceKind::Max, axis: 1, keep_dims: true, select_last: false };
    let at = cx.op(largest, &[&magnitude])?;
    let places = cx.iota(&Expr::i64(size))?;
    let hit = cx.binary(Binary::Equal, &places, &at)?;
    let zero = cx.num(0.0, x.dtype())?;
    // The row of the pivot, and its place taken by the first row.
    let marked = cx.unsqueeze(&hit, &[2])?;
    let only = cx.choose(&marked, x, &zero)?;
    let row = cx.reduce_keep_dims(ReduceKind::Sum, &only, &[1])?;
    let top = cx.slice(x, 1, &first, &one)?;
    let swapped = cx.choose(&marked, &top, x)?;
    let pivot = cx.slice(&row, 2, &first, &one)?;
    let stays = cx.binary(Binary::Equal, &at, &Tensor::dim(&Expr::i64(0)))?;
    let flat = cx.squeeze(&pivot, &[1, 2])?;
    let negated = cx.unary(Unary::Neg, &flat)?;
    let stays = cx.squeeze(&stays, &[1])?;
    let factor = cx.choose(&stays, &flat, &negated)?;
    if size == 1 {
        return Ok((factor, swapped));
    }
    let rest = Expr::i64(size - 1);
    let below = cx.slice(&swapped, 1, &one, &rest)?;
    let lead = cx.slice(&below, 2, &first, &one)?;
    let singular = cx.binary(Binary::Equal, &pivot, &zero)?;
    let unit = cx.num(1.0, x.dtype())?;
    let divisor = cx.choose(&singular, &unit, &pivot)?;
    let ratio = cx.div(&lead, &divisor)?;
    let taken = cx.mul(&ratio, &row)?;
    let left = cx.sub(&below, &taken)?;
    Ok((factor, cx.slice(&left, 2, &one, &rest)?))
}
