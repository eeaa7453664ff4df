//! Operators whose result has as many elements as their data says: NonZero, Compress, Unique and
//! NonMaxSuppression.
//!
//! All of them come down to [`selected`]: the positions that a mask selects are written into a buffer
//! as long as the mask, their number is read as a new symbolic dimension, and the rest is cut off. So
//! every mode, plan and specialisation treats such results as it treats other symbolic shapes, and
//! memory is bounded by the operands'.

use reflex_graph::{
    ArgReduceKind, Binary, GatherKind, Op, OutOfRange, ReduceKind, ScanKind, ScatterKind,
    ScatterReduce, Unary, dims,
};
use reflex_tir::{DType, Expr};

use super::iterate::{Iterated, iterate};
use super::table::{Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("Compress", compress),
    ("NonMaxSuppression", non_max_suppression),
    ("NonZero", non_zero),
    ("Unique", unique),
];

/// Slices that Unique compares element by element have at most this many.
const MAX_COLUMNS: i64 = 256;

fn zeros(cx: &mut ImportContext, extent: &Expr) -> Result<Tensor> {
    cx.filled(0.0, DType::I64, &[dims::simplify(extent)])
}

/// `room` with `values` at `at`.
fn written(
    cx: &mut ImportContext,
    room: &Tensor,
    at: &Tensor,
    values: &Tensor,
    reduce: ScatterReduce,
) -> Result<Tensor> {
    let (kind, out_of_range) = (ScatterKind::Elements(0), OutOfRange::Clamp);
    cx.op(Op::Scatter { kind, reduce, out_of_range }, &[room, at, values])
}

/// The positions, in order, at which a mask `[n]` is true: int64 `[count]`.
pub(super) fn selected(cx: &mut ImportContext, mask: &Tensor) -> Result<Tensor> {
    let n = mask.shape()[0].clone();
    let marks = cx.cast(mask, DType::I64)?;
    let count = cx.reduce(ReduceKind::Sum, &marks, &[0])?;
    let count = cx.dims_of(&count, "selected")?[0].clone();
    let scan = Op::Scan { kind: ScanKind::Sum, axis: 0, exclusive: true, reverse: false };
    let before = cx.op(scan, &[&marks])?;
    // What is not selected goes behind everything.
    let place = cx.choose(mask, &before, &Tensor::dim(&n))?;
    let room = zeros(cx, &(n.clone() + 1))?;
    let positions = cx.iota(&n)?;
    let all = written(cx, &room, &place, &positions, ScatterReduce::Replace)?;
    cx.slice(&all, 0, &Expr::i64(0), &count)
}

fn flat(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    cx.reshape(x, &[dims::product(x.shape())])
}

fn non_zero(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    if x.rank() == 0 {
        return Err(unsupported("a scalar, whose result has no axes to name"));
    }
    let values = flat(cx, x)?;
    let mask = match x.dtype() {
        DType::BOOL => values,
        dtype => {
            let zero = cx.num(0.0, dtype)?;
            cx.binary(Binary::NotEqual, &values, &zero)?
        }
    };
    let at = selected(cx, &mask)?;
    let mut rows = vec![];
    for axis in 0..x.rank() {
        let inner = dims::product(&x.shape()[axis + 1..]);
        let row = cx.div(&at, &Tensor::dim(&dims::simplify(&inner.max(1))))?;
        let extent = dims::simplify(&x.shape()[axis].clone().max(1));
        let row = cx.binary(Binary::FloorMod, &row, &Tensor::dim(&extent))?;
        rows.push(cx.unsqueeze(&row, &[0])?);
    }
    one(cx.concat(&rows, 0)?)
}

fn compress(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, condition) = (call.input(0)?, call.input(1)?);
    if condition.dtype() != DType::BOOL || condition.rank() != 1 {
        return Err(invalid(format!("a condition of type {}", condition.ty)));
    }
    let (x, axis) = match call.has("axis") {
        true => (x.clone(), call.axis("axis", 0, x.rank())?),
        false => (flat(cx, x)?, 0),
    };
    let at = selected(cx, condition)?;
    one(cx.gather(GatherKind::Axis(axis), &x, &at)?)
}

/// The rows of a matrix in order, and what is known of them.
struct Sorted {
    /// Row that each one came from.
    source: Tensor,
    /// Bool: it differs from the one before.
    first: Tensor,
}

fn unique(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let in_order = call.flag_or_true("sorted")?;
    let axis = match call.has("axis") {
        true => Some(call.axis("axis", 0, x.rank())?),
        false => None,
    };
    unique_elements(cx, x, axis, in_order)
}

/// Unique elements, or slices along an axis, in order or by first occurrence; where each was first, where each element
/// went, and how many there are of each.
pub(super) fn unique_elements(
    cx: &mut ImportContext,
    x: &Tensor,
    axis: Option<usize>,
    in_order: bool,
) -> Result<Vec<OnnxValue>> {
    let (rows, perm) = match axis {
        None => (flat(cx, x)?, vec![0]),
        Some(axis) => {
            let mut perm: Vec<usize> = (0..x.rank()).collect();
            perm.remove(axis);
            perm.insert(0, axis);
            (cx.transpose(x, &perm)?, perm)
        }
    };
    let n = rows.shape()[0].clone();
    let columns = dims::product(&rows.shape()[1..]);
    let matrix = cx.reshape(&rows, &[n.clone(), columns])?;
    let sorted = sorted(cx, &matrix)?;
    let marks = cx.cast(&sorted.first, DType::I64)?;
    let scan = Op::Scan { kind: ScanKind::Sum, axis: 0, exclusive: false, reverse: false };
    let group = cx.op(scan, &[&marks])?;
    let group = cx.binary_num(Binary::Sub, &group, 1.0)?;
    let at = selected(cx, &sorted.first)?;
    let count = at.shape()[0].clone();
    let mut indices = cx.take(&sorted.source, &at, 0)?;
    let room = zeros(cx, &n)?;
    let mut inverse = written(cx, &room, &sorted.source, &group, ScatterReduce::Replace)?;
    let ones = cx.filled(1.0, DType::I64, std::slice::from_ref(&n))?;
    let room = zeros(cx, &count)?;
    let mut counts = written(cx, &room, &group, &ones, ScatterReduce::Add)?;
    if !in_order {
        // By first occurrence instead.
        let order = Op::TopK { axis: 0, k: count.clone(), largest: false };
        let order = cx.ops(order, &[&indices])?.remove(1);
        indices = cx.take(&indices, &order, 0)?;
        counts = cx.take(&counts, &order, 0)?;
        let positions = cx.iota(&count)?;
        let places = written(cx, &room, &order, &positions, ScatterReduce::Replace)?;
        inverse = cx.take(&places, &inverse, 0)?;
    }
    let values = cx.take(&rows, &indices, 0)?;
    let mut back = vec![0; perm.len()];
    for (to, from) in perm.iter().enumerate() {
        back[*from] = to;
    }
    all(vec![cx.transpose(&values, &back)?, indices, inverse, counts])
}

/// Rows of `[n, columns]` in lexicographic order, equal ones as they were.
fn sorted(cx: &mut ImportContext, x: &Tensor) -> Result<Sorted> {
    let columns = x.shape()[1].as_int().filter(|n| *n <= MAX_COLUMNS);
    let columns = columns.ok_or_else(|| {
        unsupported(format!("slices of {:?} elements, more than {MAX_COLUMNS}", x.shape()[1]))
    })?;
    let n = x.shape()[0].clone();
    let mut source = cx.iota(&n)?;
    // A stable sort by each column, the last one first.
    for column in (0..columns).rev() {
        let keys = cx.slice(x, 1, &Expr::i64(column), &Expr::i64(1))?;
        let keys = cx.squeeze(&keys, &[1])?;
        let keys = cx.take(&keys, &source, 0)?;
        let order = Op::TopK { axis: 0, k: n.clone(), largest: false };
        let order = cx.ops(order, &[&keys])?.remove(1);
        source = cx.take(&source, &order, 0)?;
    }
    let rows = cx.take(x, &source, 0)?;
    let positions = cx.iota(&n)?;
    let before = cx.binary_num(Binary::Sub, &positions, 1.0)?;
    let before = cx.binary_num(Binary::Max, &before, 0.0)?;
    let previous = cx.take(&rows, &before, 0)?;
    let mut differs = cx.binary(Binary::NotEqual, &rows, &previous)?;
    if x.dtype().is_float() {
        // NaN is one value.
        let (a, b) = (cx.unary(Unary::IsNan, &rows)?, cx.unary(Unary::IsNan, &previous)?);
        let both = cx.binary(Binary::And, &a, &b)?;
        let not_both = cx.unary(Unary::Not, &both)?;
        differs = cx.binary(Binary::And, &differs, &not_both)?;
    }
    let differs = cx.cast(&differs, DType::I64)?;
    let different = cx.reduce(ReduceKind::Sum, &differs, &[1])?;
    let zero = Tensor::dim(&Expr::i64(0));
    let different = cx.binary(Binary::Greater, &different, &zero)?;
    let start = cx.binary(Binary::Equal, &positions, &zero)?;
    Ok(Sorted { source, first: cx.binary(Binary::Or, &different, &start)? })
}

/// The boxes of a suppression, each part `[batches, classes, boxes]`.
struct Boxes {
    low: [Tensor; 2],
    high: [Tensor; 2],
    area: Tensor,
}

fn non_max_suppression(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let sized = boxes.rank() == 3 && scores.rank() == 3 && boxes.shape()[2].as_int() == Some(4);
    if !sized || !boxes.dtype().is_float() || scores.dtype() != boxes.dtype() {
        return Err(invalid(format!("boxes {} with scores {}", boxes.ty, scores.ty)));
    }
    let threshold = |cx: &mut ImportContext, index: usize| match call.opt(index)? {
        Some(given) => {
            let given = cx.reshape(given, &[])?;
            cx.cast(&given, scores.dtype()).map(Some)
        }
        None => Ok(None),
    };
    let overlap = match threshold(cx, 3)? {
        Some(given) => given,
        None => cx.num(0.0, scores.dtype())?,
    };
    let least = threshold(cx, 4)?;
    let [batches, classes, count] = [0, 1, 2].map(|i| scores.shape()[i].clone());
    let most = match call.opt(2)? {
        Some(most) => cx.reshape(most, &[])?,
        None => Tensor::dim(&Expr::i64(0)),
    };
    let most = cx.cast(&most, DType::I64)?;
    let most = cx.binary_num(Binary::Max, &most, 0.0)?;
    let most = cx.binary(Binary::Min, &most, &Tensor::dim(&count))?;
    let most = cx.dims_of(&most, "selected")?[0].clone();
    let centred = call.flag("center_point_box")?;
    let boxes = corners(cx, boxes, scores.shape(), centred)?;
    let alive = match least {
        Some(least) => cx.binary(Binary::Greater, scores, &least)?,
        None => cx.filled(1.0, DType::BOOL, scores.shape())?,
    };
    let done = iterate(cx, &most, &[alive], |cx, _, carried| {
        picked(cx, scores, &boxes, &carried[0], &overlap)
    })?;
    // In the order of batches, classes and choices.
    let mut lists = vec![];
    for stacked in &done.stacked {
        let list = cx.squeeze(stacked, &[3])?;
        let list = cx.transpose(&list, &[1, 2, 0])?;
        lists.push(cx.reshape(&list, &[dims::product([&batches, &classes, &most])])?);
    }
    let at = selected(cx, &lists[1])?;
    let box_index = cx.take(&lists[0], &at, 0)?;
    let step = Tensor::dim(&dims::simplify(&most.max(1)));
    let class = cx.div(&at, &step)?;
    let classes = Tensor::dim(&dims::simplify(&classes.max(1)));
    let batch = cx.div(&class, &classes)?;
    let class = cx.binary(Binary::FloorMod, &class, &classes)?;
    let mut columns = vec![];
    for column in [batch, class, box_index] {
        columns.push(cx.unsqueeze(&column, &[1])?);
    }
    one(cx.concat(&columns, 1)?)
}

fn corners(cx: &mut ImportContext, boxes: &Tensor, shape: &[Expr], centred: bool) -> Result<Boxes> {
    let mut part = |index: i64| -> Result<Tensor> {
        let part = cx.slice(boxes, 2, &Expr::i64(index), &Expr::i64(1))?;
        cx.transpose(&part, &[0, 2, 1])
    };
    let parts = [part(0)?, part(1)?, part(2)?, part(3)?];
    let (mut low, mut high) = (vec![], vec![]);
    for axis in 0..2 {
        let (a, b) = (&parts[axis], &parts[axis + 2]);
        let (from, to) = if centred {
            let half = cx.binary_num(Binary::Mul, b, 0.5)?;
            (cx.sub(a, &half)?, cx.add(a, &half)?)
        } else {
            // Corners may come in either order.
            (cx.binary(Binary::Min, a, b)?, cx.binary(Binary::Max, a, b)?)
        };
        low.push(from);
        high.push(to);
    }
    let (width, height) = (cx.sub(&high[0], &low[0])?, cx.sub(&high[1], &low[1])?);
    let area = cx.mul(&width, &height)?;
    let mut wide = |x: &Tensor| cx.broadcast(x, shape);
    Ok(Boxes {
        low: [wide(&low[0])?, wide(&low[1])?],
        high: [wide(&high[0])?, wide(&high[1])?],
        area: wide(&area)?,
    })
}

/// Takes the best box of each batch and class, and suppresses those that overlap it too much.
fn picked(
    cx: &mut ImportContext,
    scores: &Tensor,
    boxes: &Boxes,
    alive: &Tensor,
    threshold: &Tensor,
) -> Result<Iterated> {
    let never = cx.num(f64::NEG_INFINITY, scores.dtype())?;
    let left = cx.choose(alive, scores, &never)?;
    let best =
        Op::ArgReduce { kind: ArgReduceKind::Max, axis: 2, keep_dims: true, select_last: false };
    let best = cx.op(best, &[&left])?;
    let mut own = |x: &Tensor| {
        let (kind, out_of_range) = (GatherKind::Elements(2), OutOfRange::Clamp);
        cx.op(Op::Gather { kind, out_of_range }, &[x, &best])
    };
    let (valid, area) = (own(alive)?, own(&boxes.area)?);
    let own_low = [own(&boxes.low[0])?, own(&boxes.low[1])?];
    let own_high = [own(&boxes.high[0])?, own(&boxes.high[1])?];
    let mut sides = vec![];
    for axis in 0..2 {
        let from = cx.binary(Binary::Max, &boxes.low[axis], &own_low[axis])?;
        let to = cx.binary(Binary::Min, &boxes.high[axis], &own_high[axis])?;
        let side = cx.sub(&to, &from)?;
        sides.push(cx.binary_num(Binary::Max, &side, 0.0)?);
    }
    let shared = cx.mul(&sides[0], &sides[1])?;
    let both = cx.add(&boxes.area, &area)?;
    let union = cx.sub(&both, &shared)?;
    let ratio = cx.div(&shared, &union)?;
    let zero = cx.num(0.0, scores.dtype())?;
    let mut over = cx.binary(Binary::Greater, &ratio, threshold)?;
    // Boxes without an area overlap nothing.
    for size in [&shared, &boxes.area, &area] {
        let some = cx.binary(Binary::Greater, size, &zero)?;
        over = cx.binary(Binary::And, &over, &some)?;
    }
    let places = cx.iota(&scores.shape()[2])?;
    let itself = cx.binary(Binary::Equal, &places, &best)?;
    let gone = cx.binary(Binary::Or, &over, &itself)?;
    let kept = cx.unary(Unary::Not, &gone)?;
    let alive = cx.binary(Binary::And, alive, &kept)?;
    Ok(Iterated { carried: vec![alive], stacked: vec![best, valid] })
}
