//! The shape heap: one entry per symbolic dimension and per expression over them.
//!
//! Dimensions are stored by `match_shape` where they are bound. Expressions are computed by a
//! `shape_func` kernel over the heap, as TVM does, as soon as all their dimensions are known.

use std::collections::{BTreeSet, HashMap};

use reflex_graph::{Func, Node, Op, Type, Value, dims};
use reflex_tir::{BinOp, DType, Expr, ExprKind, Param, PrimFunc, Scope, Stmt, Var};

/// Which entry holds what.
pub struct ShapeHeap {
    slots: HashMap<Expr, usize>,
    /// Expressions other than variables, with the dimensions they mention.
    derived: Vec<(Expr, BTreeSet<Var>)>,
}

impl ShapeHeap {
    /// Lays out the heap of a function.
    pub fn of(func: &Func) -> ShapeHeap {
        let mut heap = ShapeHeap { slots: HashMap::new(), derived: vec![] };
        let mut types = func.params.clone();
        let mut exprs = vec![];
        func.body.walk(&mut |binding| {
            types.extend(&binding.outputs);
            match &binding.node {
                Node::CallTir { scalars, .. } => exprs.extend(scalars.iter().cloned()),
                Node::Leaf(_) => binding.node.dims(&mut |e| exprs.push(e.clone())),
                Node::CallPacked { ints, .. } => exprs.extend(ints.iter().cloned()),
                Node::MatchShape { dims, .. } => exprs.extend(dims.iter().cloned()),
                Node::Op { op: Op::Reshape(shape), args } => {
                    exprs.extend(reshape_counts(func, args[0], shape).into_iter().flatten());
                }
                Node::Loop(l) => types.extend([l.iter, l.cond_in].iter().chain(&l.carried)),
                _ => {}
            }
        });
        for value in types {
            match &func.values[value].ty {
                Type::Tensor(t) => exprs.extend(t.shape.iter().cloned()),
                Type::Shape(dims) => exprs.extend(dims.iter().cloned()),
                Type::AnyTensor { .. }
                | Type::AnyShape
                | Type::Prim(_)
                | Type::Tuple(_)
                | Type::Func
                | Type::Object => {}
            }
        }
        exprs.iter().for_each(|e| heap.add(e));
        heap
    }

    fn add(&mut self, e: &Expr) {
        let e = dims::simplify(e);
        if e.as_int().is_some() || self.slots.contains_key(&e) {
            return;
        }
        let mut vars = BTreeSet::new();
        e.visit(&mut |e| vars.extend(e.as_var()));
        for var in &vars {
            let next = self.slots.len();
            self.slots.entry(Expr::var(*var)).or_insert(next);
        }
        if e.as_var().is_none() {
            self.slots.insert(e.clone(), self.slots.len());
            self.derived.push((e, vars));
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The entry of an expression.
    pub fn slot(&self, e: &Expr) -> Option<usize> {
        self.slots.get(&dims::simplify(e)).copied()
    }

    /// The kernel that computes every expression which mentions one of `new` and otherwise
    /// only `known` dimensions.
    pub fn shape_func(
        &self,
        name: &str,
        new: &BTreeSet<Var>,
        known: &BTreeSet<Var>,
    ) -> Option<PrimFunc> {
        let ready = |vars: &BTreeSet<Var>| !vars.is_disjoint(new) && vars.is_subset(known);
        let list: Vec<&Expr> =
            self.derived.iter().filter(|(_, vars)| ready(vars)).map(|(e, _)| e).collect();
        if list.is_empty() {
            return None;
        }
        let mut func = PrimFunc::new(name);
        let heap =
            func.new_buffer("H", DType::I64, vec![Expr::i64(self.len() as i64)], Scope::Global);
        func.params = vec![Param::Buffer(heap)];
        func.num_outputs = 1;
        let entry = |e: &Expr| vec![Expr::i64(self.slots[e] as i64)];
        let load = |var: Var| Some(Expr::load(heap, entry(&Expr::var(var)), DType::I64));
        let store = |e: &&Expr| Stmt::store(heap, entry(e), guarded(e).substitute(&load));
        func.body = Stmt::Seq(list.iter().map(store).collect());
        Some(func)
    }
}

/// The element counts of a view and its source, where they are not known to be equal.
pub fn reshape_counts(func: &Func, source: Value, shape: &[Expr]) -> Option<[Expr; 2]> {
    let from = func.values[source].ty.as_tensor()?;
    let counts = [dims::product(&from.shape), dims::product(shape)];
    (dims::equal(&counts[0], &counts[1]) != Some(true)).then_some(counts)
}

/// The expression with every divisor at least 1: it is computed whether or not the branch
/// that needs it is taken, and must not trap. Dimensions are never negative.
fn guarded(e: &Expr) -> Expr {
    let e = e.map_children(&mut guarded);
    match e.kind() {
        ExprKind::Binary {
            op: op @ (BinOp::FloorDiv | BinOp::FloorMod | BinOp::Div | BinOp::Mod),
            a,
            b,
        } if b.as_int().is_none() => Expr::binary(*op, a.clone(), b.clone().max(1)),
        _ => e,
    }
}
