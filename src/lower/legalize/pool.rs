//! Pooling: a reduction over windows that skips what is outside the input.

use reflex_graph::{PoolAttrs, PoolKind};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{BinOp, DType, Expr, Intrin};

use super::{Cx, compute_type, flatten, lowest};

/// `Pool`.
pub fn pool(cx: &mut Cx<'_>, attrs: &PoolAttrs) {
    match attrs.kind {
        PoolKind::Max { indices } => max(cx, attrs, indices),
        PoolKind::Average { count_pads } => average(cx, attrs, count_pads),
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

fn max(cx: &mut Cx<'_>, attrs: &PoolAttrs, indices: bool) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let element = |dtype: DType| {
        let (shape, read) = (&x.shape, &read);
        move |f: &FuncBuilder, i: &[Expr], k: &[Expr]| {
            let (at, inside) = window(attrs, shape, i, k);
            Expr::if_then_else(inside, read(f, &at).cast(dtype), lowest(dtype))
        }
    };
    let combine = |a, b| Expr::binary(BinOp::Max, a, b);
    let reducer = |dtype| Reducer { init: lowest(dtype), combine: &combine };
    let (axes, work) = (extents(attrs), compute_type(x.dtype));
    if !indices && work != x.dtype {
        // The largest one so far stays as wide as registers compute.
        let shape = out.shape.clone();
        let largest =
            cx.f.reduce_stage("pool", "max", work, shape, &axes, reducer(work), element(work));
        cx.f.output("round", "y", out.dtype, out.shape, |f, i| f.at(largest, i).cast(out.dtype));
        return;
    }
    let (shape, given) = (out.shape.clone(), x.dtype);
    let y = cx.f.reduce_output("pool", "y", given, shape, &axes, reducer(given), element(given));
    if !indices {
        return;
    }
    let none = Expr::i64(i64::MAX);
    let first = |a, b| Expr::binary(BinOp::Min, a, b);
    let reducer = Reducer { init: none.clone(), combine: &first };
    cx.f.reduce_output("where", "at", DType::I64, out.shape, &axes, reducer, |f, i, k| {
        let (at, inside) = window(attrs, &x.shape, i, k);
        let value = element(given)(f, i, k);
        let hit = inside.and(value.equal(f.at(y, i)));
        Expr::select(hit, flatten(&x.shape, &at), none.clone())
    });
}

fn average(cx: &mut Cx<'_>, attrs: &PoolAttrs, count_pads: bool) {
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
        let count = window_size(attrs, count_pads, &x.shape, i);
        let value = f.at(sum, i) / super::reduce::to_type(count, work);
        value.cast(out.dtype)
    });
}

/// How many of a window's elements are inside the input, or inside its padding.
fn window_size(attrs: &PoolAttrs, count_pads: bool, shape: &[Expr], i: &[Expr]) -> Expr {
    let mut count = Expr::i64(1);
    for d in 0..attrs.kernel.len() {
        let (kernel, dilation) = (attrs.kernel[d], attrs.dilations[d]);
        let (begin, end) = (attrs.pads_begin[d], attrs.pads_end[d]);
        let whole = !attrs.ceil && (count_pads || (begin == 0 && end == 0));
        if whole {
            count = count * kernel;
            continue;
        }
        let start = i[d + 2].clone() * attrs.strides[d] - begin;
        let (low, high) = match count_pads {
            true => (Expr::i64(-begin), shape[d + 2].clone() + end),
            false => (Expr::i64(0), shape[d + 2].clone()),
        };
        let first = (low - start.clone()).ceildiv(dilation).max(0);
        let past = (high - start).ceildiv(dilation).min(kernel);
        count = count * (past - first);
    }
    count
}

fn lp(cx: &mut Cx<'_>, attrs: &PoolAttrs, p: u32) {
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
