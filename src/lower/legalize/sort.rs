//! Top-k by insertion into the sorted result: most elements are turned away by one comparison
//! with the last kept one. Quadratic only when nearly everything is kept.

use reflex_tir::{DType, Expr, Intrin, Scope, Stmt};

use crate::legalize::builder::{OpBuilder, loops};

/// The order of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The largest first.
    Descending,
    /// The smallest first.
    Ascending,
}

/// `TopK`.
pub fn top_k(cx: &mut OpBuilder<'_>, axis: usize, order: Order) {
    let (x, out, read) = (cx.args[0].clone(), cx.outs[0].clone(), cx.reader(0));
    let values = cx.f.declare_output("values", out.dtype, out.shape.clone());
    let indices = cx.f.declare_output("indices", DType::I64, out.shape.clone());
    let (n, k) = (x.shape[axis].clone(), out.shape[axis].clone());
    let mut outer = x.shape.clone();
    outer.remove(axis);
    let element = cx.f.func_mut().new_var("j");
    // Elements kept so far are min(j, k); `hole` walks down from there to where x[j] belongs.
    let state = cx.f.func_mut().new_buffer("hole", DType::I64, vec![1.into()], Scope::Local);
    let nest = loops(&mut cx.f, "i", &outer, |f, i| {
        let place = |at: Expr| [&i[..axis], &[at], &i[axis..]].concat();
        let j = Expr::from(element);
        let value = read(f, &place(j.clone()));
        let hole = f.at(state, &[Expr::i64(0)]);
        let above = hole.clone() - 1;
        let kept = f.at(values, &place(above.clone().max(0)));
        let moves = hole.clone().gt(0).and(precedes(value.clone(), kept.clone(), order));
        let set_hole = |e: Expr| Stmt::store(state, vec![Expr::i64(0)], e);
        // Shift one down, unless it falls off the end.
        let shift = Stmt::If {
            cond: hole.clone().lt(k.clone()),
            then: Box::new(Stmt::Seq(vec![
                Stmt::store(values, place(hole.clone()), kept),
                Stmt::store(indices, place(hole.clone()), f.at(indices, &place(above.clone()))),
            ])),
            otherwise: None,
        };
        let walk =
            Stmt::While { cond: moves, body: Box::new(Stmt::Seq(vec![shift, set_hole(above)])) };
        let put = Stmt::If {
            cond: hole.clone().lt(k.clone()),
            then: Box::new(Stmt::Seq(vec![
                Stmt::store(values, place(hole.clone()), value),
                Stmt::store(indices, place(hole), j.clone()),
            ])),
            otherwise: None,
        };
        let body = Stmt::Seq(vec![set_hole(j.min(k.clone())), walk, put]);
        Stmt::Allocate { buffer: state, body: Box::new(Stmt::serial(element, n.clone(), body)) }
    });
    cx.f.push(nest);
}

/// Whether `a` comes strictly before `b`; NaN is the largest value.
fn precedes(a: Expr, b: Expr, order: Order) -> Expr {
    let (high, low) = match order {
        Order::Descending => (a, b),
        Order::Ascending => (b, a),
    };
    let above = high.clone().gt(low.clone());
    if !high.dtype().is_float() {
        return above;
    }
    let nan = |e: Expr| Expr::call(Intrin::IsNan, vec![e]);
    above.or(nan(high).and(nan(low).logical_not()))
}
