//! Operators that move elements without changing them, and tensors made from dimensions.

use reflex_graph::PadMode;
use reflex_tir::{DType, Expr, Stmt};

use crate::layout::flatten;
use crate::legalize::builder::OpBuilder;

/// `Reshape`: a flat access, since both sides are compact and row-major.
pub fn reshape(cx: &mut OpBuilder<'_>) {
    let (out, from, read) = (cx.outs[0].clone(), cx.args[0].clone(), cx.reader(0));
    let to = out.shape.clone();
    cx.f.output("reshape", "y", out.dtype, out.shape, |f, i| match from.shape.len() {
        0 => read(f, &[]),
        _ => read(f, &[flatten(&to, i)]),
    });
}

/// `Transpose`.
pub fn transpose(cx: &mut OpBuilder<'_>, perm: &[usize]) {
    let (out, read) = (cx.outs[0].clone(), cx.reader(0));
    cx.f.output("transpose", "y", out.dtype, out.shape, |f, i| {
        let mut at = vec![Expr::i64(0); perm.len()];
        for (to, from) in perm.iter().enumerate() {
            at[*from] = i[to].clone();
        }
        read(f, &at)
    });
}

/// `Broadcast`.
pub fn broadcast(cx: &mut OpBuilder<'_>) {
    let out = cx.outs[0].clone();
    let read = cx.broadcast_reader(0, &out.shape);
    cx.f.output("broadcast", "y", out.dtype, out.shape, |f, i| read(f, i));
}

/// `Concat`: one copy per operand.
pub fn concat(cx: &mut OpBuilder<'_>, axis: usize) {
    let out = cx.outs[0].clone();
    let y = cx.f.declare_output("y", out.dtype, out.shape);
    let mut offset = Expr::i64(0);
    for n in 0..cx.args.len() {
        let (shape, read) = (cx.args[n].shape.clone(), cx.reader(n));
        cx.f.fill(&format!("part{n}"), &shape, |f, at| {
            let mut to = at.to_vec();
            to[axis] = at[axis].clone() + offset.clone();
            Stmt::store(y, to, read(f, at))
        });
        offset = offset + shape[axis].clone();
    }
}

/// `Slice`.
pub fn slice(cx: &mut OpBuilder<'_>, begin: &[Expr], stride: &[i64]) {
    let (out, read, begin) = (cx.outs[0].clone(), cx.reader(0), cx.exprs(begin));
    cx.f.output("slice", "y", out.dtype, out.shape, |f, i| {
        let at: Vec<Expr> =
            (0..i.len()).map(|d| i[d].clone() * stride[d] + begin[d].clone()).collect();
        read(f, &at)
    });
}

/// `Pad`. Negative padding crops; the modes other than `Constant` map every index inside.
pub fn pad(cx: &mut OpBuilder<'_>, mode: PadMode, before: &[Expr]) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let before = cx.exprs(before);
    let fill = (cx.args.len() > 1).then(|| {
        let index = vec![Expr::i64(0); cx.args[1].shape.len()];
        cx.at(1, &index)
    });
    let fill = fill.unwrap_or_else(|| Expr::constant(0.0, out.dtype));
    cx.f.output("pad", "y", out.dtype, out.shape.clone(), |f, i| {
        let from: Vec<Expr> = i.iter().zip(&before).map(|(i, b)| i.clone() - b.clone()).collect();
        let grown =
            (0..i.len()).filter(|d| out.shape[*d] != x.shape[*d] || before[*d] != Expr::i64(0));
        let inside = grown.clone().fold(Expr::bool(true), |all, d| {
            let (at, n) = (from[d].clone(), x.shape[d].clone());
            all.and(at.clone().ge(0)).and(at.lt(n))
        });
        if mode == PadMode::Constant {
            return Expr::if_then_else(inside, read(f, &from), fill);
        }
        // The interior is a copy, which loops are partitioned for.
        let mut at = from.clone();
        for d in grown {
            let reach = (before[d].as_int(), out.shape[d].as_int(), x.shape[d].as_int());
            let once = matches!(reach, (Some(before), Some(to), Some(n)) if before < n && to - before < 2 * n);
            at[d] = match once && mode == PadMode::Reflect {
                true => reflected_once(from[d].clone(), &x.shape[d]),
                false => reflected(mode, from[d].clone(), &x.shape[d]),
            };
        }
        Expr::if_then_else(inside, read(f, &from), read(f, &at))
    });
}

/// The index of an element no further outside than there are elements inside.
fn reflected_once(i: Expr, n: &Expr) -> Expr {
    let last = n.clone() - 1;
    let above = last.clone() * 2 - i.clone();
    let at = Expr::select(i.clone().gt(last), above, i.clone());
    Expr::select(i.clone().lt(0), Expr::i64(0) - i, at)
}

fn reflected(mode: PadMode, i: Expr, n: &Expr) -> Expr {
    let last = n.clone() - 1;
    match mode {
        PadMode::Constant => i,
        PadMode::Edge => i.min(last).max(0),
        PadMode::Wrap => i.floormod(n.clone()),
        PadMode::Reflect => {
            // One period goes up to the last element and back: 2 (n - 1) steps, at least 1.
            let period = (last.clone() * 2).max(1);
            let at = i.floormod(period.clone());
            Expr::select(at.clone().gt(last), period - at.clone(), at)
        }
    }
}

/// `Iota`.
pub fn iota(cx: &mut OpBuilder<'_>) {
    let out = cx.outs[0].clone();
    cx.f.output("iota", "y", out.dtype, out.shape, |_, i| i[0].clone().cast(out.dtype));
}

/// `Dims`: one store per value.
pub fn dims(cx: &mut OpBuilder<'_>, values: &[Expr]) {
    let (out, values) = (cx.outs[0].clone(), cx.exprs(values));
    let y = cx.f.declare_output("y", DType::I64, out.shape.clone());
    let stores = values.into_iter().enumerate().map(|(n, value)| {
        let at = if out.shape.is_empty() { vec![] } else { vec![Expr::i64(n as i64)] };
        Stmt::store(y, at, value)
    });
    let stores = Stmt::Seq(stores.collect());
    cx.f.push(stores);
}
