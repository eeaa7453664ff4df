//! Brings loops to their canonical form: `while cond { body }` over carried values.
//!
//! The trip count becomes a carried counter and part of the condition; a scan output becomes
//! a carried tensor that grows by one slice per iteration. After this pass a loop has no
//! `max_trips`, no scan outputs, and its body uses neither `iter` nor `cond_in`.
//!
//! Decision: docs/decisions/0024-graph-loops.md

use std::sync::Arc;

use reflex_graph::{
    Binary, Binding, Body, Func, Literal, Loop, Module, Node, Op, TensorType, Type, Value,
};
use reflex_tir::{DType, Expr};

use super::edit::{bind, each_func, new_constant};
use crate::LowerError;

/// Canonicalises every loop.
pub fn canonicalize_loops(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |module, func| {
        let mut body = std::mem::take(&mut func.body);
        let result = in_body(module, func, &mut body);
        func.body = body;
        result
    })
}

fn in_body(module: &mut Module, func: &mut Func, body: &mut Body) -> Result<(), LowerError> {
    for mut binding in std::mem::take(&mut body.bindings) {
        for nested in binding.node.bodies_mut() {
            in_body(module, func, nested)?;
        }
        let Binding { outputs, node, source } = binding;
        match node {
            Node::Loop(l) if !is_canonical(&l, &outputs) => {
                let mut cx = LoopCanonicalizer { module, func, source: &source, before: vec![] };
                let binding = cx.canonical(*l, outputs)?;
                body.bindings.append(&mut cx.before);
                body.bindings.push(binding);
            }
            node => body.bindings.push(Binding { outputs, node, source }),
        }
    }
    Ok(())
}

fn is_canonical(l: &Loop, outputs: &[Value]) -> bool {
    l.max_trips.is_none() && l.cond.is_some() && outputs.len() == l.init.len()
}

struct LoopCanonicalizer<'a> {
    module: &'a mut Module,
    func: &'a mut Func,
    source: &'a str,
    /// Bindings that go before the loop.
    before: Vec<Binding>,
}

fn scalar(dtype: DType) -> Type {
    Type::Tensor(TensorType::new(dtype, vec![]))
}

impl LoopCanonicalizer<'_> {
    fn constant(&mut self, literal: Literal) -> Value {
        let binding = new_constant(self.module, self.func, "", literal);
        let value = binding.outputs[0];
        self.before.push(binding);
        value
    }

    fn canonical(&mut self, mut l: Loop, outputs: Vec<Value>) -> Result<Binding, LowerError> {
        let carried = l.init.len();
        let truth = Literal::new(DType::BOOL, vec![], Arc::new([1u8])).expect("one bool");
        let yes = self.constant(truth);
        // The condition inside the body is always true.
        l.body.uses_mut(&mut |v| {
            if *v == l.cond_in {
                *v = yes;
            }
        });
        let scans = l.body.results.split_off(1 + carried);
        let mut outer = outputs[..carried].to_vec();
        let mut cond = l.cond.unwrap_or(yes);
        let mut counted = l.max_trips.is_some();
        l.body.uses(&mut |v| counted |= v == l.iter);
        counted |= scans.contains(&l.iter);
        if counted {
            cond = self.count(&mut l, cond);
            outer.push(self.func.new_value("trips", scalar(DType::I64)));
        }
        for (slice, output) in scans.into_iter().zip(&outputs[carried..]) {
            self.stack(&mut l, slice, *output)?;
            outer.push(*output);
        }
        l.max_trips = None;
        l.cond = Some(cond);
        let source = self.source.to_string();
        Ok(Binding { outputs: outer, node: Node::Loop(Box::new(l)), source })
    }

    /// Carries the iteration number. Returns the condition before the first iteration.
    fn count(&mut self, l: &mut Loop, cond: Value) -> Value {
        let [zero, one] = [0, 1].map(|v| self.constant(Literal::from_i64(vec![], &[v])));
        let (source, func) = (self.source, &mut *self.func);
        let mut inside = std::mem::take(&mut l.body.bindings);
        let op = |to: &mut Vec<Binding>, func: &mut Func, op, args: &[Value], ty| {
            let node = Node::Op { op, args: args.to_vec() };
            let (value, binding) = bind(func, node, ty, source);
            to.push(binding);
            value
        };
        let add = Op::Binary(Binary::Add);
        let next = op(&mut inside, func, add, &[l.iter, one], scalar(DType::I64));
        let mut first = cond;
        if let Some(most) = l.max_trips {
            let most = as_scalar(&mut self.before, func, most, source);
            let mut both = |to: &mut Vec<Binding>, at: Value, cond: Value| {
                let cond = as_scalar(to, func, cond, source);
                let less = Op::Binary(Binary::Less);
                let less = op(to, func, less, &[at, most], scalar(DType::BOOL));
                op(to, func, Op::Binary(Binary::And), &[cond, less], scalar(DType::BOOL))
            };
            first = both(&mut self.before, zero, cond);
            l.body.results[0] = both(&mut inside, next, l.body.results[0]);
        }
        l.body.bindings = inside;
        l.init.push(zero);
        l.carried.push(l.iter);
        l.body.results.push(next);
        l.iter = self.func.new_value("iter", scalar(DType::I64));
        first
    }

    /// Carries a scan output: empty at first, one slice longer after each iteration.
    fn stack(&mut self, l: &mut Loop, slice: Value, output: Value) -> Result<(), LowerError> {
        let types = (&self.func.values[slice].ty, &self.func.values[output].ty);
        let (Type::Tensor(slice_type), Type::Tensor(ty)) = types else {
            return Err(LowerError::unsupported("a scan output that is not a tensor"));
        };
        let (slice_type, dtype) = (slice_type.clone(), ty.dtype);
        let rest = ty.shape[1..].to_vec();
        let with = |first: Expr| {
            let mut shape = vec![first];
            shape.extend(rest.iter().cloned());
            shape
        };
        let tensor = |shape| Type::Tensor(TensorType::new(dtype, shape));
        let zero = Literal::new(dtype, vec![], Arc::new(vec![0u8; dtype.itemsize()]));
        let zero = zero.ok_or_else(|| LowerError::unsupported(format!("a scan of {dtype}")))?;
        let zero = self.constant(zero);
        let (none, one) = (with(Expr::i64(0)), with(Expr::i64(1)));
        let empty = Node::Op { op: Op::Broadcast(none.clone()), args: vec![zero] };
        let (empty, binding) = bind(self.func, empty, tensor(none), self.source);
        self.before.push(binding);
        let count = Expr::var(self.func.new_sym("trip"));
        let so_far = self.func.new_value("stacked", tensor(with(count.clone())));
        let mut add = |node, ty| {
            let (value, binding) = bind(self.func, node, ty, self.source);
            l.body.bindings.push(binding);
            value
        };
        // The slice must have the output's dimensions, which the function knows outside of the
        // loop.
        let slice = match slice_type.shape == rest {
            true => slice,
            false => add(Node::MatchCast(slice), tensor(rest.clone())),
        };
        let row = Node::Op { op: Op::Reshape(one.clone()), args: vec![slice] };
        let row = add(row, tensor(one));
        let join = Node::Op { op: Op::Concat { axis: 0 }, args: vec![so_far, row] };
        let longer = add(join, tensor(with(count + 1)));
        l.init.push(empty);
        l.carried.push(so_far);
        l.body.results.push(longer);
        Ok(())
    }
}

/// A tensor of one element without axes.
fn as_scalar(to: &mut Vec<Binding>, func: &mut Func, value: Value, source: &str) -> Value {
    let ty = func.tensor(value).clone();
    if ty.shape.is_empty() {
        return value;
    }
    let node = Node::Op { op: Op::Reshape(vec![]), args: vec![value] };
    let (value, binding) = bind(func, node, scalar(ty.dtype), source);
    to.push(binding);
    value
}
