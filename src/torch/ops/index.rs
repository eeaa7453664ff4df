//! Slices, and elements that are picked or replaced by indices.

use reflex_graph::{Binary, GatherKind, Op, OutOfRange, ScatterKind, ScatterReduce, Value, dims};
use reflex_tir::{DType, Expr};

use super::arithmetic::operand;
use super::table::{Results, Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{Number, TorchValue};

pub(super) const TABLE: Table = &[
    ("_index_put_impl", index_put),
    ("_unsafe_index", index),
    ("_unsafe_index_put", index_put),
    ("diagonal", diagonal),
    ("embedding", |cx, call| {
        call.ignore(&["padding_idx", "scale_grad_by_freq", "sparse"]);
        let (table, indices) = (call.tensor("weight")?, call.tensor("indices")?);
        one(cx.gather(GatherKind::Axis(0), table, indices)?)
    }),
    ("flip", flip),
    ("gather", |cx, call| {
        let x = call.tensor("self")?;
        let at = call.axis("dim", 0, cx.rank(x))?;
        call.ignore(&["sparse_grad"]);
        one(cx.gather(GatherKind::Elements(at), x, call.tensor("index")?)?)
    }),
    ("index", index),
    ("index_put", index_put),
    ("index_select", |cx, call| {
        let x = call.tensor("self")?;
        let at = call.axis("dim", 0, cx.rank(x))?;
        one(cx.gather(GatherKind::Axis(at), x, call.tensor("index")?)?)
    }),
    ("narrow", |cx, call| {
        let x = call.tensor("self")?;
        let at = call.axis("dim", 0, cx.rank(x))?;
        let start = call.opt_dim("start")?.ok_or_else(|| unsupported("a start in a tensor"))?;
        let length = call.opt_dim("length")?.ok_or_else(|| invalid("no length"))?;
        let begin = cx.bound(&start, &cx.dim(x, at)?);
        one(cx.slice(x, at, &begin, &length)?)
    }),
    ("one_hot", one_hot),
    ("roll", roll),
    ("scatter", scatter),
    ("scatter_add", |cx, call| scattered(cx, call, ScatterReduce::Add)),
    ("scatter_reduce", scatter_reduce),
    ("select", select),
    ("select_scatter", select_scatter),
    ("slice", slice),
    ("slice_scatter", slice_scatter),
    ("take_along_dim", |cx, call| {
        let x = call.tensor("self")?;
        let at = call.axis("dim", 0, cx.rank(x))?;
        one(cx.gather(GatherKind::Elements(at), x, call.tensor("indices")?)?)
    }),
    ("tril", |cx, call| triangle(cx, call, Binary::LessEqual)),
    ("triu", |cx, call| triangle(cx, call, Binary::GreaterEqual)),
];

/// The first element, the number of elements and the step of a slice.
fn span(cx: &ImportContext, call: &Call, extent: &Expr) -> Result<(Expr, Expr, i64)> {
    let step = call.int("step", 1)?;
    if step < 1 {
        return Err(invalid(format!("a step of {step}")));
    }
    let begin = call.opt_dim("start")?.unwrap_or(Expr::i64(0));
    let begin = cx.bound(&begin, extent);
    let end = match call.opt_dim("end")? {
        Some(end) => cx.bound(&end, extent),
        None => extent.clone(),
    };
    let count = cx.count_between(&begin, &end, step);
    Ok((begin, count, step))
}

fn slice(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", 0, cx.rank(x))?;
    let (begin, count, step) = span(cx, call, &cx.dim(x, at)?)?;
    one(cx.strided(x, at, &begin, &count, step)?)
}

/// The index along an axis, from 0.
fn position(cx: &ImportContext, call: &Call, extent: &Expr) -> Result<Expr> {
    let index = call.opt_dim("index")?.ok_or_else(|| invalid("no index"))?;
    Ok(match index.as_int() {
        Some(index) if index < 0 => dims::simplify(&(extent.clone() + index)),
        Some(_) => index,
        None => cx.bound(&index, extent),
    })
}

fn select(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", 0, cx.rank(x))?;
    let begin = position(cx, call, &cx.dim(x, at)?)?;
    let item = cx.slice(x, at, &begin, &Expr::i64(1))?;
    one(cx.squeeze(item, &[at])?)
}

/// `x` with the elements from `begin` on replaced by `new`.
fn replaced(
    cx: &mut ImportContext,
    x: Value,
    new: Value,
    at: usize,
    begin: &Expr,
) -> Result<Value> {
    let end = dims::simplify(&(begin.clone() + cx.dim(new, at)?));
    let rest = dims::simplify(&(cx.dim(x, at)? - end.clone()));
    let mut parts = vec![];
    if begin.as_int() != Some(0) {
        parts.push(cx.slice(x, at, &Expr::i64(0), begin)?);
    }
    parts.push(cx.cast(new, cx.dtype(x))?);
    if rest.as_int() != Some(0) {
        parts.push(cx.slice(x, at, &end, &rest)?);
    }
    cx.concat(&parts, at)
}

fn select_scatter(cx: &mut ImportContext, call: &Call) -> Results {
    let (x, new) = (call.tensor("self")?, call.tensor("src")?);
    let at = call.axis("dim", 0, cx.rank(x))?;
    let begin = position(cx, call, &cx.dim(x, at)?)?;
    let mut shape = cx.shape(x);
    shape.remove(at);
    let new = cx.broadcast(new, &shape)?;
    let new = cx.unsqueeze(new, &[at])?;
    one(replaced(cx, x, new, at, &begin)?)
}

fn slice_scatter(cx: &mut ImportContext, call: &Call) -> Results {
    let (x, new) = (call.tensor("self")?, call.tensor("src")?);
    let at = call.axis("dim", 0, cx.rank(x))?;
    let (begin, count, step) = span(cx, call, &cx.dim(x, at)?)?;
    if step != 1 {
        return Err(unsupported("a slice of every other element that is written to"));
    }
    let mut shape = cx.shape(x);
    shape[at] = count;
    let new = cx.broadcast(new, &shape)?;
    one(replaced(cx, x, new, at, &begin)?)
}

/// The tensors among indices with their axes.
fn given(cx: &ImportContext, call: &Call) -> Result<Vec<(usize, Value)>> {
    let list = call.opt_tensors("indices")?;
    let given: Vec<(usize, Value)> =
        list.into_iter().enumerate().filter_map(|(at, x)| Some((at, x?))).collect();
    if given.iter().any(|(_, x)| matches!(cx.dtype(*x), DType::BOOL | DType::U8)) {
        return Err(unsupported(
            "a mask as indices: the count of its elements is known to a run only",
        ));
    }
    match given.is_empty() {
        true => Err(invalid("no indices")),
        false => Ok(given),
    }
}

/// Coordinates of the indexed axes in the last axis, and the order that brings these axes to the front.
fn coordinates(
    cx: &mut ImportContext,
    given: &[(usize, Value)],
    rank: usize,
) -> Result<(Value, Vec<usize>)> {
    let shapes: Vec<Vec<Expr>> = given.iter().map(|(_, x)| cx.shape(*x)).collect();
    let shape = cx.broadcast_shape(&shapes)?;
    let mut columns = vec![];
    for (_, index) in given {
        let index = cx.cast(*index, DType::I64)?;
        let index = cx.broadcast(index, &shape)?;
        columns.push(cx.unsqueeze(index, &[shape.len()])?);
    }
    let coordinates = cx.concat(&columns, shape.len())?;
    let first = given.iter().map(|(at, _)| *at);
    let rest = (0..rank).filter(|at| !given.iter().any(|(known, _)| known == at));
    Ok((coordinates, first.chain(rest).collect()))
}

/// The place of the indices' axes in the result: that of the first indexed axis if these are neighbours, else the front.
fn place(given: &[(usize, Value)]) -> usize {
    let first = given[0].0;
    let neighbours = given.iter().enumerate().all(|(i, (at, _))| *at == first + i);
    if neighbours { first } else { 0 }
}

fn index(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let given = given(cx, call)?;
    if let [(at, indices)] = given[..] {
        return one(cx.gather(GatherKind::Axis(at), x, indices)?);
    }
    let rank = cx.rank(x);
    let (coordinates, perm) = coordinates(cx, &given, rank)?;
    let front = cx.transpose(x, &perm)?;
    let found = cx.gather(GatherKind::Nd { batch_dims: 0 }, front, coordinates)?;
    let (axes, place) = (cx.rank(coordinates) - 1, place(&given));
    // The axes before the place are behind those of the indices.
    let order: Vec<usize> =
        (axes..axes + place).chain(0..axes).chain(axes + place..cx.rank(found)).collect();
    one(cx.transpose(found, &order)?)
}

fn index_put(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    call.ignore(&["unsafe"]);
    let values = cx.cast(call.tensor("values")?, cx.dtype(x))?;
    let reduce = match call.flag("accumulate", false)? {
        true => ScatterReduce::Add,
        false => ScatterReduce::Replace,
    };
    let list = call.opt_tensors("indices")?;
    if let [Some(mask)] = list[..]
        && cx.dtype(mask) == DType::BOOL
        && reduce == ScatterReduce::Replace
        && cx.rank(values) == 0
    {
        let missing = cx.rank(x).saturating_sub(cx.rank(mask));
        let axes: Vec<usize> = (cx.rank(mask)..cx.rank(mask) + missing).collect();
        let mask = cx.unsqueeze(mask, &axes)?;
        return one(cx.choose(mask, values, x)?);
    }
    let given = given(cx, call)?;
    let rank = cx.rank(x);
    let (coordinates, perm) = coordinates(cx, &given, rank)?;
    let front = cx.transpose(x, &perm)?;
    let shape = cx.shape(coordinates);
    let (axes, place) = (shape.len() - 1, place(&given));
    let rest = cx.shape(front)[given.len()..].to_vec();
    // The values have the order of an indexed result.
    let wanted = [&rest[..place], &shape[..axes], &rest[place..]].concat();
    let values = cx.broadcast(values, &wanted)?;
    let order: Vec<usize> =
        (place..place + axes).chain(0..place).chain(place + axes..wanted.len()).collect();
    let values = cx.transpose(values, &order)?;
    let out_of_range = OutOfRange::Raise;
    let op = Op::Scatter { kind: ScatterKind::Nd, reduce, out_of_range };
    let written = cx.op(op, &[front, coordinates, values])?;
    let mut back = vec![0; rank];
    perm.iter().enumerate().for_each(|(to, from)| back[*from] = to);
    one(cx.transpose(written, &back)?)
}

fn scatter(cx: &mut ImportContext, call: &Call) -> Results {
    let reduce = match call.text("reduce", "")? {
        "" => ScatterReduce::Replace,
        "add" => ScatterReduce::Add,
        "multiply" => ScatterReduce::Mul,
        other => return Err(invalid(format!("reduce `{other}`"))),
    };
    scattered(cx, call, reduce)
}

fn scatter_reduce(cx: &mut ImportContext, call: &Call) -> Results {
    if !call.flag("include_self", true)? {
        return Err(unsupported("include_self of false"));
    }
    let reduce = match call.text("reduce", "")? {
        "sum" => ScatterReduce::Add,
        "prod" => ScatterReduce::Mul,
        "amax" => ScatterReduce::Max,
        "amin" => ScatterReduce::Min,
        other => return Err(unsupported(format!("reduce `{other}`"))),
    };
    scattered(cx, call, reduce)
}

fn scattered(cx: &mut ImportContext, call: &Call, reduce: ScatterReduce) -> Results {
    let x = call.tensor("self")?;
    let at = call.axis("dim", 0, cx.rank(x))?;
    let indices = cx.indices(call.tensor("index")?)?;
    let shape = cx.shape(indices);
    let dtype = cx.dtype(x);
    let updates = match (call.get("src"), call.get("value")) {
        (Some(TorchValue::Tensor(src)), _) => {
            // The updates may have more elements than there are indices.
            let mut part = cx.cast(*src, dtype)?;
            for (axis, count) in shape.iter().enumerate() {
                part = cx.slice(part, axis, &Expr::i64(0), count)?;
            }
            part
        }
        (_, Some(value)) => {
            let value = operand(cx, value, dtype)?;
            cx.broadcast(value, &shape)?
        }
        _ => return Err(invalid("no updates")),
    };
    let (kind, out_of_range) = (ScatterKind::Elements(at), OutOfRange::Raise);
    one(cx.op(Op::Scatter { kind, reduce, out_of_range }, &[x, indices, updates])?)
}

fn flip(cx: &mut ImportContext, call: &Call) -> Results {
    let mut x = call.tensor("self")?;
    let rank = cx.rank(x);
    for at in call.opt_ints("dims")?.unwrap_or_default() {
        let at = crate::call::axis(at, rank)?;
        let count = cx.dim(x, at)?;
        let last = dims::simplify(&(count.clone() - 1));
        x = cx.strided(x, at, &last, &count, -1)?;
    }
    one(x)
}

fn roll(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let shape = cx.shape(x);
    let shifts = call.opt_ints("shifts")?.unwrap_or_default();
    let given = call.opt_ints("dims")?.unwrap_or_default();
    let (mut y, axes) = match given.is_empty() {
        true => (cx.reshape(x, &[dims::product(&shape)])?, vec![0]),
        false => {
            let axes = given.iter().map(|a| crate::call::axis(*a, shape.len()));
            (x, axes.collect::<Result<Vec<usize>>>()?)
        }
    };
    if axes.len() != shifts.len() {
        return Err(invalid("as many shifts as axes are needed"));
    }
    for (at, shift) in axes.into_iter().zip(shifts) {
        let count = cx.dim(y, at)?;
        let known = count.as_int().filter(|n| *n > 0);
        let known = known.ok_or_else(|| unsupported("rolling along a symbolic extent"))?;
        let cut = Expr::i64(known - shift.rem_euclid(known));
        let tail = cx.slice(y, at, &cut, &(count - cut.clone()))?;
        let head = cx.slice(y, at, &Expr::i64(0), &cut)?;
        y = cx.concat(&[tail, head], at)?;
    }
    one(cx.reshape(y, &shape)?)
}

/// Where `column f row + diagonal`, else 0.
fn triangle(cx: &mut ImportContext, call: &Call, f: Binary) -> Results {
    let x = call.tensor("self")?;
    let rank = cx.rank(x);
    if rank < 2 {
        return Err(invalid("a triangle of a vector"));
    }
    let diagonal = call.opt_dim("diagonal")?.unwrap_or(Expr::i64(0));
    let rows = cx.iota(&cx.dim(x, rank - 2)?)?;
    let rows = cx.unsqueeze(rows, &[1])?;
    let shift = cx.number(&Number::Int(diagonal), DType::I64)?;
    let rows = cx.add(rows, shift)?;
    let columns = cx.iota(&cx.dim(x, rank - 1)?)?;
    let inside = cx.binary(f, columns, rows)?;
    let zero = cx.num(0.0, cx.dtype(x))?;
    one(cx.choose(inside, x, zero)?)
}

fn diagonal(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let rank = cx.rank(x);
    let (a, b) = (call.axis("dim1", 0, rank)?, call.axis("dim2", 1, rank)?);
    let offset = call.int("offset", 0)?;
    if a == b {
        return Err(invalid("a diagonal of one axis"));
    }
    let rest = (0..rank).filter(|i| *i != a && *i != b);
    let perm: Vec<usize> = [a, b].into_iter().chain(rest).collect();
    let front = cx.transpose(x, &perm)?;
    let known = |at: usize| {
        let extent = cx.dim(x, at)?.as_int();
        extent.ok_or_else(|| unsupported("a diagonal along a symbolic extent"))
    };
    let (rows, columns) = (known(a)?, known(b)?);
    let (down, right) = (offset.saturating_neg().max(0), offset.max(0));
    let count = rows.saturating_sub(down).min(columns.saturating_sub(right)).max(0);
    if count > 1 << 20 {
        return Err(unsupported(format!("a diagonal of {count} elements")));
    }
    let row: Vec<i64> = (0..count).map(|i| i + down).collect();
    let column: Vec<i64> = (0..count).map(|i| i + right).collect();
    let (row, column) = (cx.ints(&row), cx.ints(&column));
    let (row, column) = (cx.unsqueeze(row, &[1])?, cx.unsqueeze(column, &[1])?);
    let at = cx.concat(&[row, column], 1)?;
    let found = cx.gather(GatherKind::Nd { batch_dims: 0 }, front, at)?;
    let order: Vec<usize> = (1..rank - 1).chain([0]).collect();
    one(cx.transpose(found, &order)?)
}

fn one_hot(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let classes = call.opt_dim("num_classes")?.filter(|n| n.as_int() != Some(-1));
    let classes = classes.ok_or_else(|| unsupported("classes that only the data say"))?;
    let rank = cx.rank(x);
    let wide = cx.unsqueeze(x, &[rank])?;
    let wide = cx.cast(wide, DType::I64)?;
    let numbers = cx.iota(&classes)?;
    let same = cx.binary(Binary::Equal, wide, numbers)?;
    one(cx.cast(same, DType::I64)?)
}
