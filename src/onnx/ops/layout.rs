//! Operators that move elements: joins, splits, slices, pads, tiles and permutations.

use reflex_graph::{Binary, Op, PadMode, dims};
use reflex_tir::{CmpOp, DType, Expr, Var};

use super::run_time_axes::{self, RunTimeSpans};
use super::table::{Table, all, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("CenterCropPad", center_crop_pad),
    ("Concat", concat),
    ("DepthToSpace", depth_to_space),
    ("Pad", pad),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", trilu),
];

/// Values this large in a slice mean "to the end".
const FAR: i64 = i32::MAX as i64;

/// Stands for a dimension while its slice is computed; no function has as many symbols.
const OPAQUE: u32 = u32::MAX - 1;

fn concat(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let inputs = call.tensors()?;
    let first = inputs.first().ok_or_else(|| invalid("no inputs"))?;
    let axis = match call.int_opt("axis")? {
        Some(value) => axis(value, first.rank())?,
        None => return Err(invalid("attribute `axis` is missing")),
    };
    one(cx.concat(&inputs, axis)?)
}

fn transpose(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let perm = match call.ints("perm")? {
        Some(perm) => perm.iter().map(|a| axis(*a, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).rev().collect(),
    };
    one(cx.transpose(x, &perm)?)
}

fn split(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axis = call.axis("axis", 0, x.rank())?;
    let extent = x.shape()[axis].clone();
    call.ignore(&["num_outputs"]);
    let parts = call.node.output.len() as i64;
    let sizes: Vec<Expr> = match call.ints("split")? {
        Some(sizes) => sizes.iter().map(|n| Expr::i64(*n)).collect(),
        None => match call.opt(1)? {
            Some(sizes) => cx.dims_of(sizes, "split")?,
            None => {
                // The last part is the smaller one when they cannot be equal.
                let size = dims::simplify(&extent.clone().ceildiv(parts));
                let last = dims::simplify(&(extent.clone() - size.clone() * (parts - 1)));
                let mut sizes = vec![size; parts as usize - 1];
                sizes.push(last);
                sizes
            }
        },
    };
    let sum = sizes.iter().cloned().reduce(|a, b| a + b).unwrap_or(Expr::i64(0));
    if sizes.len() as i64 != parts || dims::equal(&sum, &extent) == Some(false) {
        return Err(invalid(format!("{sizes:?} for {parts} parts of {extent:?} elements")));
    }
    let mut begin = Expr::i64(0);
    let mut outputs = vec![];
    for size in sizes {
        outputs.push(cx.slice(x, axis, &begin, &size)?);
        begin = begin + size;
    }
    all(outputs)
}

/// Start, end, axis and step lists of a slice.
struct Spans {
    starts: Tensor,
    ends: Tensor,
    axes: Vec<usize>,
    steps: Vec<i64>,
}

fn spans(cx: &mut ImportContext, call: &Call, rank: usize) -> Result<Spans> {
    let (starts, ends) = if call.opset < 10 {
        let list = |name| call.ints(name)?.ok_or_else(|| invalid(format!("no `{name}`")));
        (cx.ints(list("starts")?), cx.ints(list("ends")?))
    } else {
        (call.input(1)?.clone(), call.input(2)?.clone())
    };
    let count = starts.count().ok_or_else(|| unsupported("starts of unknown length"))?;
    let axes = match call.ints("axes")? {
        Some(axes) => Some(axes.to_vec()),
        None if rank == 1 && count == 1 => None,
        None => call.known_ints(3)?,
    };
    let axes = axes.unwrap_or_else(|| (0..count as i64).collect());
    let axes = axes.iter().map(|a| axis(*a, rank)).collect::<Result<Vec<usize>>>()?;
    let steps = call.known_ints(4)?.unwrap_or_else(|| vec![1; count]);
    if axes.len() != count || steps.len() != count || ends.count() != Some(count) {
        return Err(invalid("starts, ends, axes and steps differ in length"));
    }
    if steps.contains(&0) || steps.contains(&i64::MIN) {
        return Err(invalid(format!("steps {steps:?}")));
    }
    Ok(Spans { starts, ends, axes, steps })
}

fn slice(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let data = |index: usize| -> Result<Option<&Tensor>> {
        let given = call.opt(index)?;
        Ok(given.filter(|x| call.opset >= 10 && x.as_ints().is_none()))
    };
    let (axes, steps) = (data(3)?, data(4)?);
    // The only axis needs no name.
    let axes = axes.filter(|axes| !(x.rank() == 1 && axes.count() == Some(1)));
    if axes.is_some() || steps.is_some() {
        let (starts, ends) = (call.input(1)?, call.input(2)?);
        let (axes, steps) = (call.opt(3)?, call.opt(4)?);
        return one(run_time_axes::slice(cx, x, &RunTimeSpans { starts, ends, axes, steps })?);
    }
    let Spans { starts, ends, axes, steps } = spans(cx, call, x.rank())?;
    let known = starts.as_elements().is_some() && ends.as_elements().is_some();
    let mut begin = vec![Expr::i64(0); x.rank()];
    let mut extent = x.shape().to_vec();
    let mut stride = vec![1; x.rank()];
    for (i, axis) in axes.iter().enumerate() {
        let start = cx.slice(&starts, 0, &Expr::i64(i as i64), &Expr::i64(1))?;
        let end = cx.slice(&ends, 0, &Expr::i64(i as i64), &Expr::i64(1))?;
        let actual = &x.shape()[*axis];
        // A dimension is never negative, even where its expression could be: known bounds are
        // computed for a symbol that stands for it.
        let opaque = known && dims::decide(CmpOp::Ge, actual, &Expr::i64(0)) != Some(true);
        let dim = &if opaque { Expr::var(Var::from_u32(OPAQUE)) } else { actual.clone() };
        let real = |dim: &Expr| {
            let named = |v: Var| (v.as_u32() == OPAQUE).then(|| actual.clone());
            dims::simplify(&dim.substitute(&named))
        };
        let far = far(x, *axis);
        let first = bound(cx, &start, dim, steps[i], far)?;
        let last = bound(cx, &end, dim, steps[i], far)?;
        // Elements between: from `first` towards `last`, which is left out.
        let span = if steps[i] > 0 { cx.sub(&last, &first)? } else { cx.sub(&first, &last)? };
        let step = steps[i].abs();
        let up = cx.binary_num(Binary::Add, &span, (step - 1) as f64)?;
        let up = cx.binary_num(Binary::Max, &up, 0.0)?;
        let count = cx.binary_num(Binary::Div, &up, step as f64)?;
        extent[*axis] = real(&cx.dims_of(&count, "extent")?[0]);
        // A start is read at run time only where it is a valid index.
        let first = if steps[i] > 0 { first } else { cx.binary_num(Binary::Max, &first, 0.0)? };
        begin[*axis] = real(&cx.dims_of(&first, "begin")?[0]);
        stride[*axis] = steps[i];
    }
    one(cx.strided(x, begin, extent, stride)?)
}

/// Bounds from here on mean the end of an axis: exporters write 10^9 for it as well, which a
/// symbolic dimension cannot reach where the tensor would take more than four terabytes.
fn far(x: &Tensor, axis: usize) -> i64 {
    const SOME_FAR: i64 = 1_000_000_000;
    let others = x.shape().iter().enumerate().filter(|(i, _)| *i != axis);
    let others = others.filter_map(|(_, dim)| dim.as_int());
    let bytes = others.fold(x.dtype().itemsize() as f64, |bytes, dim| bytes * dim as f64);
    let symbolic = x.shape()[axis].as_int().is_none();
    if symbolic && bytes * SOME_FAR as f64 > 4e12 { SOME_FAR } else { FAR }
}

/// A start or end clamped as NumPy does: to `0..=dim` going up, `-1..=dim - 1` going down.
fn bound(
    cx: &mut ImportContext,
    given: &Tensor,
    dim: &Expr,
    step: i64,
    far: i64,
) -> Result<Tensor> {
    let (low, high) = if step > 0 { (0, dim.clone()) } else { (-1, dim.clone() - 1) };
    if let Some([value]) = given.as_ints().as_deref() {
        let end = match *value {
            value if value >= far => Some(high.clone()),
            value if value <= -far => Some(Expr::i64(low)),
            _ => None,
        };
        if let Some(end) = end {
            return Ok(Tensor::dims(&[end]));
        }
    }
    let given = cx.cast(given, DType::I64)?;
    let zero = Tensor::dim(&Expr::i64(0));
    let negative = cx.binary(Binary::Less, &given, &zero)?;
    let wrapped = cx.add(&given, &Tensor::dim(dim))?;
    let index = cx.choose(&negative, &wrapped, &given)?;
    let index = cx.binary(Binary::Max, &index, &Tensor::dim(&Expr::i64(low)))?;
    cx.binary(Binary::Min, &index, &Tensor::dim(&high))
}

pub(super) fn pad(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let mode = match call.text("mode", "constant")? {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let old = call.opset < 11;
    let data = if old { None } else { call.opt(3)?.filter(|axes| axes.as_ints().is_none()) };
    if let Some(axes) = data {
        let pads = pads_at(cx, call.input(1)?, axes, x.rank())?;
        let (before, after) = pads.split_at(x.rank());
        let value = call.opt(2)?.cloned();
        return one(padded(cx, x, mode, value, before.to_vec(), after.to_vec())?);
    }
    let pads: Vec<Expr> = if old {
        let pads = call.ints("pads")?.ok_or_else(|| invalid("no pads"))?;
        pads.iter().map(|p| Expr::i64(*p)).collect()
    } else {
        run_time_pads(cx, call.input(1)?)?
    };
    let value = if old {
        Some(cx.num(call.float("value", 0.0)?, x.dtype())?)
    } else {
        call.opt(2)?.cloned()
    };
    let axes = match if old { None } else { call.known_ints(3)? } {
        Some(axes) => axes.iter().map(|a| axis(*a, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    if pads.len() != axes.len() * 2 {
        return Err(invalid(format!("{} pads for {} axes", pads.len(), axes.len())));
    }
    let mut before = vec![Expr::i64(0); x.rank()];
    let mut after = before.clone();
    for (i, axis) in axes.iter().enumerate() {
        before[*axis] = pads[i].clone();
        after[*axis] = pads[axes.len() + i].clone();
    }
    one(padded(cx, x, mode, value, before, after)?)
}

/// The pads of all axes where those that are padded are data.
fn pads_at(cx: &mut ImportContext, pads: &Tensor, axes: &Tensor, rank: usize) -> Result<Vec<Expr>> {
    let count = axes.count().unwrap_or(0);
    if pads.rank() != 1 || pads.count() != Some(2 * count) {
        return Err(invalid(format!("pads {} for {count} axes", pads.ty)));
    }
    let axes = run_time_axes::axes_below(cx, axes, rank as i64)?;
    let pads = cx.cast(pads, DType::I64)?;
    let zeros = cx.ints(&vec![0; rank]);
    let mut sides = vec![];
    for first in [0, count] {
        let side = cx.slice(&pads, 0, &Expr::i64(first as i64), &Expr::i64(count as i64))?;
        sides.push(run_time_axes::put(cx, &zeros, &axes, &side)?);
    }
    let all = cx.concat(&sides, 0)?;
    run_time_pads(cx, &all)
}

/// Pads, which must be non-negative if they are known only at run time.
fn run_time_pads(cx: &mut ImportContext, pads: &Tensor) -> Result<Vec<Expr>> {
    if let Some(known) = pads.as_elements() {
        return Ok(known);
    }
    let pads = cx.cast(pads, DType::I64)?;
    let positive = cx.binary_num(Binary::Max, &pads, 0.0)?;
    let symbols = cx.dims_of(&positive, "pad")?;
    cx.check_elements(&pads, &symbols)?;
    Ok(symbols)
}

fn padded(
    cx: &mut ImportContext,
    x: &Tensor,
    mode: PadMode,
    value: Option<Tensor>,
    before: Vec<Expr>,
    after: Vec<Expr>,
) -> Result<Tensor> {
    if before.iter().chain(&after).all(|p| p.as_int() == Some(0)) {
        return Ok(x.clone());
    }
    let op = Op::Pad { mode, before, after };
    if mode != PadMode::Constant {
        return cx.op(op, &[x]);
    }
    let value = match value {
        Some(value) => cx.reshape(&value, &[])?,
        None => cx.num(0.0, x.dtype())?,
    };
    cx.op(op, &[x, &value])
}

fn center_crop_pad(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|a| axis(*a, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    let target = cx.dims_of(call.input(1)?, "shape")?;
    if target.len() != axes.len() {
        return Err(invalid("one extent per axis"));
    }
    let mut before = vec![Expr::i64(0); x.rank()];
    let mut after = before.clone();
    for (axis, target) in axes.iter().zip(target) {
        let extent = x.shape()[*axis].clone();
        let (more, less) = (target.clone() - extent.clone(), extent - target);
        // Half before, rounded down, also when cropping.
        let lead = more.clone().max(0).floordiv(2) - less.max(0).floordiv(2);
        before[*axis] = dims::simplify(&lead);
        after[*axis] = dims::simplify(&(more - lead));
    }
    one(padded(cx, x, PadMode::Constant, None, before, after)?)
}

fn tile(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let repeats = cx.dims_of(call.input(1)?, "repeats")?;
    if repeats.len() != x.rank() {
        return Err(invalid(format!("{} repeats for rank {}", repeats.len(), x.rank())));
    }
    // Each axis becomes (repeat, dimension) by broadcasting.
    let (mut split, mut wide, mut merged) = (vec![], vec![], vec![]);
    for (dim, repeat) in x.shape().iter().zip(&repeats) {
        let once = repeat.as_int() == Some(1);
        if !once {
            split.push(Expr::i64(1));
            wide.push(repeat.clone());
        }
        split.push(dim.clone());
        wide.push(dim.clone());
        merged.push(dim.clone() * repeat.clone());
    }
    let apart = cx.reshape(x, &split)?;
    let repeated = cx.broadcast(&apart, &wide)?;
    one(cx.reshape(&repeated, &merged)?)
}

fn block_size(call: &Call) -> Result<i64> {
    let size = call.int("blocksize", 0)?;
    if (1..1 << 16).contains(&size) { Ok(size) } else { Err(invalid(format!("blocksize {size}"))) }
}

fn depth_to_space(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let size = block_size(call)?;
    let [n, c, h, w] = x.shape() else { return Err(invalid("needs four axes")) };
    let (n, c, h, w) = (n.clone(), c.clone(), h.clone(), w.clone());
    let block = Expr::i64(size);
    let depth = dims::simplify(&c.floordiv(size * size));
    let (apart, perm): (Vec<Expr>, [usize; 6]) = match call.text("mode", "DCR")? {
        "DCR" => {
            let apart = [n.clone(), block.clone(), block, depth.clone(), h.clone(), w.clone()];
            (apart.to_vec(), [0, 3, 4, 1, 5, 2])
        }
        "CRD" => {
            let apart = [n.clone(), depth.clone(), block.clone(), block, h.clone(), w.clone()];
            (apart.to_vec(), [0, 1, 4, 2, 5, 3])
        }
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let apart = cx.reshape(x, &apart)?;
    let moved = cx.transpose(&apart, &perm)?;
    one(cx.reshape(&moved, &[n, depth, h * size, w * size])?)
}

fn space_to_depth(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let size = block_size(call)?;
    let perm: [usize; 6] = match call.text("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return Err(invalid(format!("mode `{other}`"))),
    };
    let [n, c, h, w] = x.shape() else { return Err(invalid("needs four axes")) };
    let (n, c, h, w) = (n.clone(), c.clone(), h.clone(), w.clone());
    let block = Expr::i64(size);
    let (rows, columns) = (h.floordiv(size), w.floordiv(size));
    let apart = [n.clone(), c.clone(), rows.clone(), block.clone(), columns.clone(), block];
    let apart = cx.reshape(x, &apart)?;
    let moved = cx.transpose(&apart, &perm)?;
    one(cx.reshape(&moved, &[n, c * (size * size), rows, columns])?)
}

pub(super) fn trilu(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let upper = call.flag_or_true("upper")?;
    let [.., rows, columns] = x.shape() else { return Err(invalid("needs a matrix")) };
    let diagonal = match call.opt(1)? {
        Some(k) => cx.reshape(k, &[])?,
        None => Tensor::dim(&Expr::i64(0)),
    };
    let (rows, columns) = (cx.iota(rows)?, cx.iota(columns)?);
    let rows = cx.unsqueeze(&rows, &[1])?;
    let shifted = cx.add(&rows, &diagonal)?;
    let f = if upper { Binary::GreaterEqual } else { Binary::LessEqual };
    let kept = cx.binary(f, &columns, &shifted)?;
    let zero = cx.num(0.0, x.dtype())?;
    one(cx.choose(&kept, x, &zero)?)
}
