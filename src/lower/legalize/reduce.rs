//! Reductions, softmax, layer normalisation and running sums.

use std::collections::BTreeMap;

use reflex_graph::{ArgReduceKind, ReduceKind, ScanKind};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{BinOp, Block, BlockIter, Buffer, DType, Expr, Intrin, IterKind, Region, Stmt};

use crate::legalize::builder::{OpBuilder, compute_type, greatest, lowest};

/// Whether reduced axes stay in the result, with extent 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReducedAxes {
    /// They stay.
    Kept,
    /// They do not.
    Dropped,
}

/// Which of equal extremes counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The first one.
    First,
    /// The last one.
    Last,
}

/// The attributes of `Scan`.
pub struct Scan {
    /// Combination.
    pub kind: ScanKind,
    /// Axis of the sums or products.
    pub axis: usize,
    /// Without the element itself.
    pub exclusive: bool,
    /// From the end of the axis.
    pub reverse: bool,
}

/// `Reduce`.
pub fn reduce(cx: &mut OpBuilder<'_>, kind: ReduceKind, axes: &[usize], reduced: ReducedAxes) {
    let (x, out) = (cx.args[0].clone(), cx.outs[0].clone());
    let extents: Vec<Expr> = axes.iter().map(|a| x.shape[*a].clone()).collect();
    let read = cx.reader(0);
    let work = compute_type(x.dtype);
    let rank = x.shape.len();
    let element = |f: &FuncBuilder, i: &[Expr], k: &[Expr]| {
        read(f, &join(rank, axes, reduced, i, k)).cast(work)
    };
    let (init, combine) = reducer(kind, work);
    let reducer = Reducer { init, combine: &*combine };
    if kind != ReduceKind::Mean && work == out.dtype {
        cx.f.reduce_output("reduce", "y", out.dtype, out.shape, &extents, reducer, element);
        return;
    }
    let total =
        cx.f.reduce_stage("reduce", "total", work, out.shape.clone(), &extents, reducer, element);
    let count = extents.into_iter().fold(Expr::i64(1), |a, b| a * b);
    cx.f.output("finish", "y", out.dtype, out.shape, |f, i| {
        let total = f.at(total, i);
        let value = match kind {
            ReduceKind::Mean => total / to_type(count, work),
            _ => total,
        };
        value.cast(out.dtype)
    });
}

/// An integer as a value of `dtype`, folded when constant.
pub fn to_type(value: Expr, dtype: DType) -> Expr {
    match value.as_int() {
        Some(n) => Expr::constant(n as f64, dtype),
        None => value.cast(dtype),
    }
}

type Combine = Box<dyn Fn(Expr, Expr) -> Expr>;

fn reducer(kind: ReduceKind, dtype: DType) -> (Expr, Combine) {
    let bool = dtype == DType::BOOL;
    match kind {
        ReduceKind::Sum | ReduceKind::Mean => {
            (Expr::constant(0.0, dtype), Box::new(|a: Expr, b: Expr| a + b))
        }
        ReduceKind::Prod => (Expr::constant(1.0, dtype), Box::new(|a: Expr, b: Expr| a * b)),
        ReduceKind::Max if bool => (Expr::bool(false), Box::new(Expr::or)),
        ReduceKind::Min if bool => (Expr::bool(true), Box::new(Expr::and)),
        ReduceKind::Max => (lowest(dtype), Box::new(|a, b| Expr::binary(BinOp::Max, a, b))),
        ReduceKind::Min => (greatest(dtype), Box::new(|a, b| Expr::binary(BinOp::Min, a, b))),
    }
}

/// The operand's index from the result's index and the reduced axes' indices.
fn join(rank: usize, axes: &[usize], reduced: ReducedAxes, i: &[Expr], k: &[Expr]) -> Vec<Expr> {
    let mut kept = i.iter();
    let mut steps = k.iter();
    (0..rank)
        .map(|axis| match axes.contains(&axis) {
            true => {
                if reduced == ReducedAxes::Kept {
                    kept.next();
                }
                steps.next().expect("an index per reduced axis").clone()
            }
            false => kept.next().expect("an index per kept axis").clone(),
        })
        .collect()
}

/// `ArgReduce`: the extreme, then the first or last index where it is. NaN is an extreme.
pub fn arg_reduce(
    cx: &mut OpBuilder<'_>,
    kind: ArgReduceKind,
    axis: usize,
    reduced: ReducedAxes,
    ties: Ties,
) {
    let (x, out) = (cx.args[0].clone(), cx.outs[0].clone());
    let extents = [x.shape[axis].clone()];
    let (rank, read) = (x.shape.len(), cx.reader(0));
    let kind = match kind {
        ArgReduceKind::Max => ReduceKind::Max,
        ArgReduceKind::Min => ReduceKind::Min,
    };
    let (init, combine) = reducer(kind, x.dtype);
    let element =
        |f: &FuncBuilder, i: &[Expr], k: &[Expr]| read(f, &join(rank, &[axis], reduced, i, k));
    let best = cx.f.reduce_stage(
        "best",
        "best",
        x.dtype,
        out.shape.clone(),
        &extents,
        Reducer { init, combine: &*combine },
        element,
    );
    let last = extents[0].clone() - 1;
    let (init, op) = match ties {
        Ties::Last => (Expr::i64(0), BinOp::Max),
        Ties::First => (last.clone(), BinOp::Min),
    };
    let reducer = Reducer { init: init.clone(), combine: &|a, b| Expr::binary(op, a, b) };
    cx.f.reduce_output("arg", "y", DType::I64, out.shape, &extents, reducer, |f, i, k| {
        let value = element(f, i, k);
        let mut hit = value.clone().equal(f.at(best, i));
        if x.dtype.is_float() {
            hit = hit.or(Expr::call(Intrin::IsNan, vec![value]));
        }
        Expr::select(hit, k[0].clone(), init)
    });
}

/// `Softmax`: maximum, exponentials, their sum, quotient.
pub fn softmax(cx: &mut OpBuilder<'_>, axis: usize) {
    let parts = SoftmaxParts::write(cx, axis);
    let out = cx.outs[0].clone();
    cx.f.output("normalize", "y", out.dtype, out.shape, |f, i| {
        let sum = f.at(parts.sum, &without(axis, i));
        (f.at(parts.exp, i) / sum).cast(out.dtype)
    });
}

/// `LogSoftmax`: the logarithm of the quotient, without the quotient.
pub fn log_softmax(cx: &mut OpBuilder<'_>, axis: usize) {
    let parts = SoftmaxParts::write(cx, axis);
    let (work, read, out) = (compute_type(cx.args[0].dtype), cx.reader(0), cx.outs[0].clone());
    cx.f.output("normalize", "y", out.dtype, out.shape, |f, i| {
        let sum = f.at(parts.sum, &without(axis, i));
        let shifted = read(f, i).cast(work) - f.at(parts.max, &without(axis, i));
        (shifted - Expr::call(Intrin::Log, vec![sum])).cast(out.dtype)
    });
}

/// The stages before a softmax's last one.
struct SoftmaxParts {
    /// The maximum of each row.
    max: Buffer,
    /// Exponentials of the elements less the maximum.
    exp: Buffer,
    /// Their sum, by row.
    sum: Buffer,
}

impl SoftmaxParts {
    fn write(cx: &mut OpBuilder<'_>, axis: usize) -> SoftmaxParts {
        let (x, read) = (cx.args[0].clone(), cx.reader(0));
        let work = compute_type(x.dtype);
        let (extents, rank) = ([x.shape[axis].clone()], x.shape.len());
        let row = without(axis, &x.shape);
        let full = |i: &[Expr], k: &[Expr]| join(rank, &[axis], ReducedAxes::Dropped, i, k);
        let (init, combine) = reducer(ReduceKind::Max, work);
        let max = cx.f.reduce_stage(
            "max",
            "max",
            work,
            row.clone(),
            &extents,
            Reducer { init, combine: &*combine },
            |f, i, k| read(f, &full(i, k)).cast(work),
        );
        let exp = cx.f.stage("exp", "exp", work, x.shape.clone(), |f, i| {
            let shifted = read(f, i).cast(work) - f.at(max, &without(axis, i));
            Expr::call(Intrin::Exp, vec![shifted])
        });
        let (init, combine) = reducer(ReduceKind::Sum, work);
        let reducer = Reducer { init, combine: &*combine };
        let sum = cx.f.reduce_stage("sum", "sum", work, row, &extents, reducer, |f, i, k| {
            f.at(exp, &full(i, k))
        });
        SoftmaxParts { max, exp, sum }
    }
}

/// `list` without its entry for `axis`.
fn without(axis: usize, list: &[Expr]) -> Vec<Expr> {
    list.iter().enumerate().filter(|(a, _)| *a != axis).map(|(_, e)| e.clone()).collect()
}

/// `LayerNorm`: `(x - mean) * (1 / sqrt(var + epsilon)) * scale + bias`.
pub fn layer_norm(cx: &mut OpBuilder<'_>, axis: usize, epsilon: f64) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let work = compute_type(x.dtype);
    let (row, extents) = (x.shape[..axis].to_vec(), x.shape[axis..].to_vec());
    let count = to_type(extents.iter().cloned().fold(Expr::i64(1), |a, b| a * b), work);
    let add = |a: Expr, b: Expr| a + b;
    let zero = Expr::constant(0.0, work);
    let reducer = || Reducer { init: zero.clone(), combine: &add };
    let full = |i: &[Expr], k: &[Expr]| [i, k].concat();
    let total =
        cx.f.reduce_stage("sum", "sum", work, row.clone(), &extents, reducer(), |f, i, k| {
            read(f, &full(i, k)).cast(work)
        });
    let mean = cx.f.stage("mean", "mean", work, row.clone(), |f, i| f.at(total, i) / count.clone());
    let squares = cx.f.reduce_stage(
        "squares",
        "squares",
        work,
        row.clone(),
        &extents,
        reducer(),
        |f, i, k| {
            let centred = read(f, &full(i, k)).cast(work) - f.at(mean, i);
            centred.clone() * centred
        },
    );
    let scale_by = cx.f.stage("rstd", "rstd", work, row, |f, i| {
        let variance = f.at(squares, i) / count.clone();
        let root = Expr::call(Intrin::Sqrt, vec![variance + Expr::float(epsilon, work)]);
        Expr::constant(1.0, work) / root
    });
    let scale = cx.broadcast_reader(1, &x.shape);
    let bias = (cx.args.len() > 2).then(|| cx.broadcast_reader(2, &x.shape));
    cx.f.output("normalize", "y", out.dtype, out.shape, |f, i| {
        let centred = read(f, i).cast(work) - f.at(mean, &i[..axis]);
        let y = centred * f.at(scale_by, &i[..axis]) * scale(f, i).cast(work);
        let y = match &bias {
            Some(bias) => y + bias(f, i).cast(work),
            None => y,
        };
        y.cast(out.dtype)
    });
}

/// `Scan`: each element from the one before it, in order along the axis.
pub fn scan(cx: &mut OpBuilder<'_>, attrs: &Scan) {
    let Scan { kind, axis, exclusive, reverse } = *attrs;
    let (out, read) = (cx.outs[0].clone(), cx.reader(0));
    let buffer = cx.f.declare_output("y", out.dtype, out.shape.clone());
    let (mut loops, mut iters, mut at) = (vec![], vec![], vec![]);
    for (n, extent) in out.shape.iter().enumerate() {
        let func = cx.f.func_mut();
        let outer = func.new_var(format!("i{n}"));
        let var = func.new_var(format!("v_i{n}"));
        let kind = if n == axis { IterKind::Opaque } else { IterKind::Spatial };
        iters.push(BlockIter { var, extent: extent.clone(), kind, value: outer.into() });
        loops.push((outer, extent.clone()));
        at.push(Expr::from(var));
    }
    let along = |step: Expr| {
        let mut at = at.clone();
        at[axis] = match reverse {
            true => out.shape[axis].clone() - 1 - step,
            false => step,
        };
        at
    };
    let step = at[axis].clone();
    let (here, before) = (along(step.clone()), along(step.clone() - 1));
    let (name, neutral) = match kind {
        ScanKind::Sum => ("cumsum", 0.0),
        ScanKind::Prod => ("cumprod", 1.0),
    };
    let neutral = Expr::constant(neutral, out.dtype);
    let previous = cx.f.at(buffer, &before);
    let previous = Expr::if_then_else(step.clone().gt(0), previous, neutral.clone());
    let element = match exclusive {
        true => Expr::if_then_else(step.gt(0), read(&cx.f, &before), neutral),
        false => read(&cx.f, &here),
    };
    let point = |b, at: &[Expr]| Region {
        buffer: b,
        ranges: at.iter().map(|i| (i.clone(), Expr::i64(1))).collect(),
    };
    let block = Block {
        name: name.into(),
        iters,
        predicate: Expr::bool(true),
        reads: vec![point(cx.buffer(0), &here)],
        writes: vec![point(buffer, &here)],
        init: None,
        allocs: vec![],
        annotations: BTreeMap::new(),
        body: Stmt::store(
            buffer,
            here,
            match kind {
                ScanKind::Sum => previous + element,
                ScanKind::Prod => previous * element,
            },
        ),
    };
    let nest = loops
        .into_iter()
        .rev()
        .fold(Stmt::Block(Box::new(block)), |body, (var, n)| Stmt::serial(var, n, body));
    cx.f.push(nest);
}
