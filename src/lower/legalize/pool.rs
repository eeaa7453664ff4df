//! Pooling: a reduction over sliding windows that skips elements outside of the input.

use reflex_graph::{PoolAttrs, PoolKind};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{BinOp, DType, Expr, Intrin};

use crate::layout::flatten;
use crate::legalize::builder::{OpBuilder, compute_type, lowest};
use crate::legalize::reduce;

/// `Pool`.
pub fn pool(cx: &mut OpBuilder<'_>, attrs: &PoolAttrs) {
    match attrs.kind {
        PoolKind::Max { indices: false } => max(cx, attrs),
        PoolKind::Max { indices: true } => max_with_indices(cx, attrs),
        PoolKind::Average { count_pads: true } => average(cx, attrs, Divisor::WithPadding),
        PoolKind::Average { count_pads: false } => average(cx, attrs, Divisor::Inside),
        PoolKind::Lp(p) => lp(cx, attrs, p),
    }
}

/// Index of a window's element, and whether it is inside.
fn window(attrs: &PoolAttrs, shape: &[Expr], i: &[Expr], k: &[Expr]) -> (Vec<Expr>, Expr) {
    let mut at = i[..2].to_vec();
    let mut inside = Expr::bool(true);
    for d in 0..k.len() {
        let begin = attrs.pads_begin[d];
        let from = i[d + 2].clone() * attrs.strides[d] + k[d].clone() * attrs.dilations[d] - begin;
        if begin != 0 {
            inside = inside.and(from.clone().ge(0));
        }
        if begin != 0 || attrs.pads_end[d] != 0 || attrs.ceil {
            inside = inside.and(from.clone().lt(shape[d + 2].clone()));
        }
        at.push(from);
    }
    (at, inside)
}

fn extents(attrs: &PoolAttrs) -> Vec<Expr> {
    attrs.kernel.iter().map(|k| Expr::i64(*k)).collect()
}

/// An element of a window, the lowest value outside of the input.
fn max_element<'a>(
    attrs: &'a PoolAttrs,
    shape: &'a [Expr],
    read: impl Fn(&FuncBuilder, &[Expr]) -> Expr + 'a,
    dtype: DType,
) -> impl Fn(&FuncBuilder, &[Expr], &[Expr]) -> Expr + 'a {
    move |f, i, k| {
        let (at, inside) = window(attrs, shape, i, k);
        Expr::if_then_else(inside, read(f, &at).cast(dtype), lowest(dtype))
    }
}

fn max(cx: &mut OpBuilder<'_>, attrs: &PoolAttrs) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let (axes, work) = (extents(attrs), compute_type(x.dtype));
    let combine = |a, b| Expr::binary(BinOp::Max, a, b);
    let reducer = Reducer { init: lowest(work), combine: &combine };
    let (shape, element) = (out.shape.clone(), max_element(attrs, &x.shape, read, work));
    if work == x.dtype {
        cx.f.reduce_output("pool", "y", work, shape, &axes, reducer, element);
        return;
    }
    // The largest one so far stays as wide as registers compute.
    let largest = cx.f.reduce_stage("pool", "max", work, shape, &axes, reducer, element);
    cx.f.output("round", "y", out.dtype, out.shape, |f, i| f.at(largest, i).cast(out.dtype));
}

/// The maximum, then the first position in the input where it is.
fn max_with_indices(cx: &mut OpBuilder<'_>, attrs: &PoolAttrs) {
    let (x, out, axes) = (cx.args[0].clone(), cx.outs[0].clone(), extents(attrs));
    let element = max_element(attrs, &x.shape, cx.reader(0), x.dtype);
    let combine = |a, b| Expr::binary(BinOp::Max, a, b);
    let reducer = Reducer { init: lowest(x.dtype), combine: &combine };
    let y = cx.f.reduce_output("pool", "y", x.dtype, out.shape.clone(), &axes, reducer, &element);
    let none = Expr::i64(i64::MAX);
    let first = |a, b| Expr::binary(BinOp::Min, a, b);
    let reducer = Reducer { init: none.clone(), combine: &first };
    cx.f.reduce_output("where", "at", DType::I64, out.shape, &axes, reducer, |f, i, k| {
        let (at, inside) = window(attrs, &x.shape, i, k);
        let value = element(f, i, k);
        let hit = inside.and(value.equal(f.at(y, i)));
        Expr::select(hit, flatten(&x.shape, &at), none.clone())
    });
}

/// The elements that an average counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Divisor {
    /// Those inside of the input or of its padding.
    WithPadding,
    /// Those inside of the input.
    Inside,
}

fn average(cx: &mut OpBuilder<'_>, attrs: &PoolAttrs, divisor: Divisor) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let work = compute_type(x.dtype);
    let zero = Expr::constant(0.0, work);
    let add = |a: Expr, b: Expr| a + b;
    let reducer = Reducer { init: zero.clone(), combine: &add };
    let shape = out.shape.clone();
    let sum = cx.f.reduce_stage("pool", "sum", work, shape, &extents(attrs), reducer, |f, i, k| {
        let (at, inside) = window(attrs, &x.shape, i, k);
        Expr::if_then_else(inside, read(f, &at).cast(work), zero.clone())
    });
    cx.f.output("divide", "y", out.dtype, out.shape, |f, i| {
        let count = window_size(attrs, divisor, &x.shape, i);
        let value = f.at(sum, i) / reduce::to_type(count, work);
        value.cast(out.dtype)
    });
}

/// Number of a window's elements that the average counts.
fn window_size(attrs: &PoolAttrs, divisor: Divisor, shape: &[Expr], i: &[Expr]) -> Expr {
    let mut count = Expr::i64(1);
    for d in 0..attrs.kernel.len() {
        let (kernel, dilation) = (attrs.kernel[d], attrs.dilations[d]);
        let (begin, end) = (attrs.pads_begin[d], attrs.pads_end[d]);
        let whole = !attrs.ceil && (divisor == Divisor::WithPadding || (begin == 0 && end == 0));
        if whole {
            count = count * kernel;
            continue;
        }
        let start = i[d + 2].clone() * attrs.strides[d] - begin;
        let (low, high) = match divisor {
            Divisor::WithPadding => (Expr::i64(-begin), shape[d + 2].clone() + end),
            Divisor::Inside => (Expr::i64(0), shape[d + 2].clone()),
        };
        let first = (low - start.clone()).ceildiv(dilation).max(0);
        let past = (high - start).ceildiv(dilation).min(kernel);
        count = count * (past - first);
    }
    count
}

fn lp(cx: &mut OpBuilder<'_>, attrs: &PoolAttrs, p: u32) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let work = compute_type(x.dtype);
    let zero = Expr::constant(0.0, work);
    let add = |a: Expr, b: Expr| a + b;
    let reducer = Reducer { init: zero.clone(), combine: &add };
    let power = |x: Expr| match p {
        1 => Expr::call(Intrin::Abs, vec![x]),
        2 => x.clone() * x,
        _ => {
            let base = Expr::call(Intrin::Abs, vec![x]);
            Expr::call(Intrin::Pow, vec![base, Expr::constant(f64::from(p), work)])
        }
    };
    let shape = out.shape.clone();
    let sum = cx.f.reduce_stage("pool", "sum", work, shape, &extents(attrs), reducer, |f, i, k| {
        let (at, inside) = window(attrs, &x.shape, i, k);
        Expr::if_then_else(inside, power(read(f, &at).cast(work)), zero.clone())
    });
    cx.f.output("root", "y", out.dtype, out.shape, |f, i| {
        let sum = f.at(sum, i);
        let root = match p {
            1 => sum,
            2 => Expr::call(Intrin::Sqrt, vec![sum]),
            _ => Expr::call(Intrin::Pow, vec![sum, Expr::constant(1.0 / f64::from(p), work)]),
        };
        root.cast(out.dtype)
    });
}
