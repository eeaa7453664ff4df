//! Reductions, running sums, and the greatest elements.

use reflex_graph::{ArgReduceKind, Binary, Op, ReduceKind, ScanKind, Unary, Value, dims};
use reflex_tir::{DType, Expr};

use super::activation::as_float;
use super::table::{Results, Table, all, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

pub(super) const TABLE: Table = &[
    ("all", |cx, call| truth(cx, call, ReduceKind::Min)),
    ("amax", |cx, call| plain(cx, call, ReduceKind::Max)),
    ("amin", |cx, call| plain(cx, call, ReduceKind::Min)),
    ("any", |cx, call| truth(cx, call, ReduceKind::Max)),
    ("argmax", |cx, call| arg(cx, call, ArgReduceKind::Max)),
    ("argmin", |cx, call| arg(cx, call, ArgReduceKind::Min)),
    ("argsort", |cx, call| {
        let [_, indices] = sorted(cx, call)?;
        one(indices)
    }),
    ("count_nonzero", |cx, call| {
        let x = call.tensor("self")?;
        let set = cx.cast(x, DType::BOOL)?;
        let ones = cx.cast(set, DType::I64)?;
        let axes = call.axes("dim", cx.rank(x))?;
        one(cx.reduce(ReduceKind::Sum, ones, &axes, false)?)
    }),
    ("cumprod", |cx, call| scan(cx, call, ScanKind::Prod)),
    ("cumsum", |cx, call| scan(cx, call, ScanKind::Sum)),
    ("linalg_vector_norm", norm),
    ("logsumexp", logsumexp),
    ("max", |cx, call| extreme(cx, call, ReduceKind::Max, ArgReduceKind::Max)),
    ("mean", |cx, call| {
        let x = summand(cx, call)?;
        let x = as_float(cx, x)?;
        let (axes, keep) = over(cx, call, x)?;
        one(cx.widened(x, |cx, x| cx.reduce(ReduceKind::Mean, x, &axes, keep))?)
    }),
    ("min", |cx, call| extreme(cx, call, ReduceKind::Min, ArgReduceKind::Min)),
    ("norm", norm),
    ("numel", |cx, call| {
        let count = dims::product(&cx.shape(call.tensor("self")?));
        one(cx.dim_as(&count, DType::I64)?)
    }),
    ("prod", |cx, call| {
        let x = summand(cx, call)?;
        let (axes, keep) = over(cx, call, x)?;
        one(cx.widened(x, |cx, x| cx.reduce(ReduceKind::Prod, x, &axes, keep))?)
    }),
    ("sort", |cx, call| all(sorted(cx, call)?)),
    ("std", |cx, call| {
        let [_, variance] = moments(cx, call)?;
        one(cx.unary(Unary::Sqrt, variance)?)
    }),
    ("std_mean", |cx, call| {
        let [mean, variance] = moments(cx, call)?;
        all([cx.unary(Unary::Sqrt, variance)?, mean])
    }),
    ("sum", |cx, call| {
        let x = summand(cx, call)?;
        let (axes, keep) = over(cx, call, x)?;
        one(cx.widened(x, |cx, x| cx.reduce(ReduceKind::Sum, x, &axes, keep))?)
    }),
    ("topk", topk),
    ("var", |cx, call| {
        let [_, variance] = moments(cx, call)?;
        one(variance)
    }),
    ("var_mean", |cx, call| {
        let [mean, variance] = moments(cx, call)?;
        all([variance, mean])
    }),
];

/// The axes of a reduction, and whether they are kept.
fn over(cx: &ImportContext, call: &Call, x: Value) -> Result<(Vec<usize>, bool)> {
    Ok((call.axes("dim", cx.rank(x))?, call.flag("keepdim", false)?))
}

/// The operand of a sum or a product: integers as int64, unless a type is given.
fn summand(cx: &mut ImportContext, call: &Call) -> Result<Value> {
    let x = call.tensor("self")?;
    match call.dtype("dtype")? {
        Some(dtype) => cx.cast(x, dtype),
        None if cx.dtype(x).is_float() => Ok(x),
        None => cx.cast(x, DType::I64),
    }
}

/// A bool as an integer type that reductions know; others as they are.
fn countable(cx: &mut ImportContext, x: Value) -> Result<Value> {
    if cx.dtype(x) == DType::BOOL { cx.cast(x, DType::U8) } else { Ok(x) }
}

fn plain(cx: &mut ImportContext, call: &Call, kind: ReduceKind) -> Results {
    let x = call.tensor("self")?;
    let (axes, keep) = over(cx, call, x)?;
    let number = countable(cx, x)?;
    let y = cx.reduce(kind, number, &axes, keep)?;
    one(cx.cast(y, cx.dtype(x))?)
}

fn truth(cx: &mut ImportContext, call: &Call, kind: ReduceKind) -> Results {
    let x = call.tensor("self")?;
    let (axes, keep) = over(cx, call, x)?;
    let set = cx.cast(x, DType::BOOL)?;
    let number = countable(cx, set)?;
    let y = cx.reduce(kind, number, &axes, keep)?;
    // PyTorch keeps bytes as bytes.
    let dtype = if cx.dtype(x) == DType::U8 { DType::U8 } else { DType::BOOL };
    one(cx.cast(y, dtype)?)
}

fn arg_reduced(
    cx: &mut ImportContext,
    x: Value,
    kind: ArgReduceKind,
    axis: usize,
    keep_dims: bool,
) -> Result<Value> {
    let x = countable(cx, x)?;
    cx.op(Op::ArgReduce { kind, axis, keep_dims, select_last: false }, &[x])
}

fn arg(cx: &mut ImportContext, call: &Call, kind: ArgReduceKind) -> Results {
    let x = call.tensor("self")?;
    let rank = cx.rank(x);
    let keep = call.flag("keepdim", false)?;
    if rank == 0 {
        call.ignore(&["dim"]);
        return one(cx.num(0.0, DType::I64)?);
    }
    if call.has("dim") {
        let axis = call.axis("dim", 0, rank)?;
        return one(arg_reduced(cx, x, kind, axis, keep)?);
    }
    let flat = cx.reshape(x, &[dims::product(&cx.shape(x))])?;
    let y = arg_reduced(cx, flat, kind, 0, false)?;
    let shape = vec![Expr::i64(1); if keep { rank } else { 0 }];
    one(cx.reshape(y, &shape)?)
}

/// `max` and `min`: of all elements, of two tensors, or along an axis with the indices.
fn extreme(
    cx: &mut ImportContext,
    call: &Call,
    kind: ReduceKind,
    places: ArgReduceKind,
) -> Results {
    let x = call.tensor("self")?;
    if let Some(other) = call.opt("other")? {
        let f = if kind == ReduceKind::Max { Binary::Max } else { Binary::Min };
        let dtype = crate::dtype::promoted(cx.dtype(x), cx.dtype(other));
        let (a, b) = (cx.cast(x, dtype)?, cx.cast(other, dtype)?);
        return one(cx.binary(f, a, b)?);
    }
    let rank = cx.rank(x);
    if rank == 0 && call.has("dim") {
        call.ignore(&["dim", "keepdim"]);
        return all([x, cx.num(0.0, DType::I64)?]);
    }
    let keep = call.flag("keepdim", false)?;
    let number = countable(cx, x)?;
    let axes = if call.has("dim") { vec![call.axis("dim", 0, rank)?] } else { (0..rank).collect() };
    let values = cx.reduce(kind, number, &axes, keep)?;
    let values = cx.cast(values, cx.dtype(x))?;
    if !call.has("dim") {
        return one(values);
    }
    all([values, arg_reduced(cx, x, places, axes[0], keep)?])
}

fn scan(cx: &mut ImportContext, call: &Call, kind: ScanKind) -> Results {
    let x = summand(cx, call)?;
    let rank = cx.rank(x);
    let axis = call.axis("dim", 0, rank)?;
    if rank == 0 {
        return one(x);
    }
    let op = Op::Scan { kind, axis, exclusive: false, reverse: false };
    one(cx.widened(x, |cx, x| cx.op(op, &[x]))?)
}

/// Mean and variance.
fn moments(cx: &mut ImportContext, call: &Call) -> Result<[Value; 2]> {
    let x = call.tensor("self")?;
    let (axes, keep) = over(cx, call, x)?;
    let correction = match call.opt_number("correction")? {
        Some(number) => number.known().ok_or_else(|| unsupported("a symbolic correction"))?,
        None => f64::from(u8::from(call.flag("unbiased", true)?)),
    };
    let own = cx.dtype(x);
    let wide = cx.wide(x)?;
    let mean = cx.reduce(ReduceKind::Mean, wide, &axes, true)?;
    let centred = cx.sub(wide, mean)?;
    let square = cx.mul(centred, centred)?;
    let sum = cx.reduce(ReduceKind::Sum, square, &axes, keep)?;
    let count = axes.iter().map(|at| cx.dim(x, *at)).collect::<Result<Vec<Expr>>>()?;
    let count = cx.dim_as(&dims::product(&count), cx.dtype(wide))?;
    let freedom = cx.binary_num(Binary::Sub, count, correction)?;
    let freedom = cx.binary_num(Binary::Max, freedom, 0.0)?;
    let variance = cx.div(sum, freedom)?;
    let mean = cx.reduce(ReduceKind::Mean, wide, &axes, keep)?;
    Ok([cx.cast(mean, own)?, cx.cast(variance, own)?])
}

fn logsumexp(cx: &mut ImportContext, call: &Call) -> Results {
    let x = as_float(cx, call.tensor("self")?)?;
    let (axes, keep) = over(cx, call, x)?;
    one(cx.widened(x, |cx, x| {
        let most = cx.reduce(ReduceKind::Max, x, &axes, true)?;
        // The greatest may be infinite, which is no distance.
        let infinite = cx.unary(Unary::IsInf, most)?;
        let zero = cx.num(0.0, cx.dtype(x))?;
        let most = cx.choose(infinite, zero, most)?;
        let low = cx.sub(x, most)?;
        let exp = cx.unary(Unary::Exp, low)?;
        let sum = cx.reduce(ReduceKind::Sum, exp, &axes, true)?;
        let log = cx.unary(Unary::Log, sum)?;
        let y = cx.add(log, most)?;
        if keep { Ok(y) } else { cx.squeeze(y, &axes) }
    })?)
}

fn norm(cx: &mut ImportContext, call: &Call) -> Results {
    let name = if call.has("p") { "p" } else { "ord" };
    let order = call.float(name, 2.0)?;
    let x = match call.dtype("dtype")? {
        Some(dtype) => cx.cast(call.tensor("self")?, dtype)?,
        None => call.tensor("self")?,
    };
    let (axes, keep) = over(cx, call, x)?;
    one(cx.widened(x, |cx, x| {
        let size = cx.unary(Unary::Abs, x)?;
        if order == f64::INFINITY {
            return cx.reduce(ReduceKind::Max, size, &axes, keep);
        }
        if order == f64::NEG_INFINITY {
            return cx.reduce(ReduceKind::Min, size, &axes, keep);
        }
        if order == 0.0 {
            let set = cx.cast(x, DType::BOOL)?;
            let ones = cx.cast(set, cx.dtype(x))?;
            return cx.reduce(ReduceKind::Sum, ones, &axes, keep);
        }
        let powers = match order {
            1.0 => size,
            2.0 => cx.mul(x, x)?,
            _ => cx.binary_num(Binary::Pow, size, order)?,
        };
        let sum = cx.reduce(ReduceKind::Sum, powers, &axes, keep)?;
        match order {
            1.0 => Ok(sum),
            2.0 => cx.unary(Unary::Sqrt, sum),
            _ => cx.binary_num(Binary::Pow, sum, 1.0 / order),
        }
    })?)
}

fn extremes(
    cx: &mut ImportContext,
    x: Value,
    axis: usize,
    k: Expr,
    largest: bool,
) -> Result<[Value; 2]> {
    let own = cx.dtype(x);
    let number = countable(cx, x)?;
    let results = cx.ops(Op::TopK { axis, k, largest }, &[number])?;
    match results[..] {
        [values, indices] => Ok([cx.cast(values, own)?, indices]),
        _ => Err(invalid("values and indices")),
    }
}

fn topk(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let k = call.opt_dim("k")?.ok_or_else(|| invalid("no k"))?;
    let axis = call.axis("dim", -1, cx.rank(x))?;
    // The order is left open where the result need not be sorted.
    call.flag("sorted", true)?;
    all(extremes(cx, x, axis, k, call.flag("largest", true)?)?)
}

/// Elements in order, equal ones by their index, which is a stable order in both directions.
fn sorted(cx: &mut ImportContext, call: &Call) -> Result<[Value; 2]> {
    let x = call.tensor("self")?;
    let rank = cx.rank(x);
    let axis = call.axis("dim", -1, rank)?;
    call.ignore(&["stable"]);
    let descending = call.flag("descending", false)?;
    if rank == 0 {
        return Ok([x, cx.num(0.0, DType::I64)?]);
    }
    let count = cx.dim(x, axis)?;
    extremes(cx, x, axis, count, descending)
}
