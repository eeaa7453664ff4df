//! Top-k by a binary heap whose root is the last of the kept elements, sorted in the end (Williams,
//! "Algorithm 232: Heapsort", 1964). Most elements of a long axis are turned away by one comparison.

use reflex_tir::builder::FuncBuilder;
use reflex_tir::{Buffer, DType, Expr, Intrin, Scope, Stmt};

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
    let [element, later, last] = ["j", "l", "e"].map(|name| cx.f.func_mut().new_var(name));
    let mut local =
        |name: &str, dtype| cx.f.func_mut().new_buffer(name, dtype, vec![1.into()], Scope::Local);
    let heap = Heap {
        values,
        indices,
        hole: local("hole", DType::I64),
        child: local("child", DType::I64),
        value: local("value", out.dtype),
        index: local("index", DType::I64),
        order,
    };
    let nest = loops(&mut cx.f, "i", &outer, |f, i| {
        let place = |at: Expr| [&i[..axis], &[at], &i[axis..]].concat();
        let take = |f: &FuncBuilder, j: Expr| {
            Stmt::Seq(vec![
                Stmt::store(heap.value, vec![0.into()], read(f, &place(j.clone()))),
                Stmt::store(heap.index, vec![0.into()], j),
            ])
        };
        let first = Expr::from(element);
        let add = Stmt::Seq(vec![take(f, first.clone()), heap.sift_up(f, &place, first)]);
        let fill = Stmt::serial(element, k.clone(), add);
        // A later element of the same value comes after the root.
        let j = k.clone() + Expr::from(later);
        let replace = Stmt::If {
            cond: precedes(read(f, &place(j.clone())), f.at(values, &place(0.into())), order),
            then: Box::new(Stmt::Seq(vec![take(f, j), heap.sift_down(f, &place, &k)])),
            otherwise: None,
        };
        let rest = Stmt::serial(later, (n.clone() - k.clone()).max(0), replace);
        let rest = Stmt::If { cond: k.clone().gt(0), then: Box::new(rest), otherwise: None };
        // The root, which is the last of those left, goes to their end.
        let end = k.clone() - 1 - Expr::from(last);
        let exchange = Stmt::Seq(vec![
            Stmt::store(heap.value, vec![0.into()], f.at(values, &place(end.clone()))),
            Stmt::store(heap.index, vec![0.into()], f.at(indices, &place(end.clone()))),
            Stmt::store(values, place(end.clone()), f.at(values, &place(0.into()))),
            Stmt::store(indices, place(end.clone()), f.at(indices, &place(0.into()))),
            heap.sift_down(f, &place, &end),
        ]);
        let sort = Stmt::serial(last, (k.clone() - 1).max(0), exchange);
        let locals = [heap.hole, heap.child, heap.value, heap.index];
        locals.into_iter().fold(Stmt::Seq(vec![fill, rest, sort]), |body, buffer| Stmt::Allocate {
            buffer,
            body: Box::new(body),
        })
    });
    cx.f.push(nest);
}

/// The kept elements as a binary heap: no element comes after its parent.
struct Heap {
    values: Buffer,
    indices: Buffer,
    /// Where the element that moves may go.
    hole: Buffer,
    /// The later child of the hole.
    child: Buffer,
    /// The element that moves.
    value: Buffer,
    index: Buffer,
    order: Order,
}

impl Heap {
    fn local(&self, f: &FuncBuilder, buffer: Buffer) -> Expr {
        f.at(buffer, &[Expr::i64(0)])
    }

    /// Whether the element that moves comes before the kept one at `at`.
    fn is_before_kept(&self, f: &FuncBuilder, place: &dyn Fn(Expr) -> Vec<Expr>, at: Expr) -> Expr {
        let moving = (self.local(f, self.value), self.local(f, self.index));
        comes_before(moving, self.kept(f, place, at), self.order)
    }

    fn kept(&self, f: &FuncBuilder, place: &dyn Fn(Expr) -> Vec<Expr>, at: Expr) -> (Expr, Expr) {
        (f.at(self.values, &place(at.clone())), f.at(self.indices, &place(at)))
    }

    fn set(&self, buffer: Buffer, value: Expr) -> Stmt {
        Stmt::store(buffer, vec![Expr::i64(0)], value)
    }

    /// Moves a kept element into the hole, and the hole to where that was.
    fn pull(&self, f: &FuncBuilder, place: &dyn Fn(Expr) -> Vec<Expr>, from: Expr) -> Stmt {
        let hole = self.local(f, self.hole);
        let (value, index) = self.kept(f, place, from.clone());
        Stmt::Seq(vec![
            Stmt::store(self.values, place(hole.clone()), value),
            Stmt::store(self.indices, place(hole), index),
            self.set(self.hole, from),
        ])
    }

    /// Puts the element that moves into the hole.
    fn put(&self, f: &FuncBuilder, place: &dyn Fn(Expr) -> Vec<Expr>) -> Stmt {
        let hole = self.local(f, self.hole);
        Stmt::Seq(vec![
            Stmt::store(self.values, place(hole.clone()), self.local(f, self.value)),
            Stmt::store(self.indices, place(hole), self.local(f, self.index)),
        ])
    }

    /// Adds the element as the last one of the heap, at `end`.
    fn sift_up(&self, f: &FuncBuilder, place: &dyn Fn(Expr) -> Vec<Expr>, end: Expr) -> Stmt {
        let hole = self.local(f, self.hole);
        let parent = (hole.clone() - 1).max(0).floordiv(2);
        let (value, index) = self.kept(f, place, parent.clone());
        let moving = (self.local(f, self.value), self.local(f, self.index));
        let moves = hole.gt(0).and(comes_before((value, index), moving, self.order));
        let walk = Stmt::While { cond: moves, body: Box::new(self.pull(f, place, parent)) };
        Stmt::Seq(vec![self.set(self.hole, end), walk, self.put(f, place)])
    }

    /// Puts the element in place of the root, among the first `count` elements.
    fn sift_down(&self, f: &FuncBuilder, place: &dyn Fn(Expr) -> Vec<Expr>, count: &Expr) -> Stmt {
        let (hole, child) = (self.local(f, self.hole), self.local(f, self.child));
        let right = child.clone() + 1;
        let left_is_earlier = comes_before(
            self.kept(f, place, child.clone()),
            self.kept(f, place, right.clone()),
            self.order,
        );
        let later = Stmt::If {
            cond: left_is_earlier,
            then: Box::new(self.set(self.child, right.clone())),
            otherwise: None,
        };
        let choose = Stmt::Seq(vec![
            self.set(self.child, hole * 2 + 1),
            Stmt::If { cond: right.lt(count.clone()), then: Box::new(later), otherwise: None },
        ]);
        let within = child.clone().min((count.clone() - 1).max(0));
        let moves = child.clone().lt(count.clone()).and(self.is_before_kept(f, place, within));
        let step = Stmt::Seq(vec![self.pull(f, place, child), choose.clone()]);
        Stmt::Seq(vec![
            self.set(self.hole, Expr::i64(0)),
            choose,
            Stmt::While { cond: moves, body: Box::new(step) },
            self.put(f, place),
        ])
    }
}

/// Whether an element, with its index, comes strictly before another one: equal values in the order of
/// their indices.
fn comes_before(a: (Expr, Expr), b: (Expr, Expr), order: Order) -> Expr {
    let later = precedes(b.0.clone(), a.0.clone(), order);
    precedes(a.0, b.0, order).or(later.logical_not().and(a.1.lt(b.1)))
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
