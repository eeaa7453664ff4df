//! Tensors between convolutions that are stored as bfloat16.
//!
//! In precision `bf16` a convolution with VNNI-packed weights rounds its input. Where all readers
//! of a tensor do so, it is rounded once, where it is stored: a cast joins the kernel that computes
//! it, half the bytes are written and read, and two neighbouring channels are a VNNI pair in
//! memory, so that without padding nothing is copied. Operators that only choose among elements
//! (max pooling, slices, concatenations) give the same of rounded ones, so they pass them on. The
//! multiplied values stay the same, but for numbers next to the smallest normal one, which pairs
//! made of float32 have as zeros.
//!
//! Decision: docs/decisions/0041-bf16-storage.md

use std::collections::{HashMap, HashSet};

use reflex_graph::{Binding, Body, Func, Node, Op, PoolKind, TensorType, Type, Value};
use reflex_tir::DType;

use super::pattern::{OpPattern, pattern};
use super::propagate_layout::Layouts;
use crate::packing::panels::{PackedElements, Packing};

/// The packings of an operator's constants, whose sums are in blocks of so many channels.
type Packings<'a> = &'a dyn Fn(&Func, &Op, &[Value], i64) -> Vec<Packing>;

/// Rounds the tensors that only such convolutions read. Returns the values that are bfloat16 then.
pub fn store_rounded(
    func: &mut Func,
    body: &mut Body,
    layouts: &Layouts,
    packings: Packings<'_>,
) -> HashSet<Value> {
    let wanted = wanted(func, body, layouts, packings);
    let mut rounded = HashSet::new();
    // A tensor as its readers get it, where that is another value.
    let mut to: HashMap<Value, Value> = HashMap::new();
    for mut binding in std::mem::take(&mut body.bindings) {
        binding.node.operands_mut(&mut |v| *v = to.get(v).copied().unwrap_or(*v));
        let (Node::Op { op, args }, [value]) = (&mut binding.node, &binding.outputs[..]) else {
            body.bindings.push(binding);
            continue;
        };
        let value = *value;
        if !wanted.contains(&value) {
            body.bindings.push(binding);
            continue;
        }
        let source = binding.source.clone();
        match op {
            // Its operands that are read otherwise too are rounded as they are copied.
            Op::Concat { .. } => {
                let mut copies = vec![];
                for arg in args.iter_mut().filter(|v| !rounded.contains(*v)) {
                    let (copy, cast) = cast(func, *arg, &source);
                    body.bindings.push(cast);
                    copies.push(copy);
                    *arg = copy;
                }
                retype(func, value);
                rounded.extend(copies);
                rounded.insert(value);
            }
            op if passes_on(op) && rounded.contains(&args[0]) => {
                retype(func, value);
                rounded.insert(value);
            }
            // The cast is to become part of the kernel that computes the tensor.
            op if matches!(pattern(op), OpPattern::Elementwise | OpPattern::Anchor) => {
                let (stored, cast) = cast(func, value, &source);
                body.bindings.extend([binding, cast]);
                to.insert(value, stored);
                rounded.insert(stored);
                continue;
            }
            _ => {}
        }
        body.bindings.push(binding);
    }
    rounded
}

/// The tensors that every reader rounds, or passes on to such readers.
fn wanted(func: &Func, body: &Body, layouts: &Layouts, packings: Packings<'_>) -> HashSet<Value> {
    let mut wanted = HashSet::new();
    let mut others: HashSet<Value> = body.results.iter().copied().collect();
    for (at, binding) in body.bindings.iter().enumerate().rev() {
        for value in &binding.outputs {
            if others.contains(value) || layouts.of(*value).is_none() {
                wanted.remove(value);
            }
        }
        for nested in binding.node.bodies() {
            nested.uses(&mut |v| {
                others.insert(v);
            });
        }
        let rounds = match &binding.node {
            Node::Op { op: op @ Op::Conv(_), args } => {
                let pairs = |sums| packings(func, op, args, sums);
                let pairs = layouts.sums(at).map(pairs).unwrap_or_default();
                usize::from(
                    pairs.iter().any(|p| p.operand == 1 && p.elements == PackedElements::Bf16Pairs),
                )
            }
            Node::Op { op, args } if passes_on(op) && wanted.contains(&binding.outputs[0]) => {
                args.len()
            }
            _ => 0,
        };
        let mut n = 0;
        binding.node.operands(&mut |v| {
            let list = if n < rounds { &mut wanted } else { &mut others };
            list.insert(v);
            n += 1;
        });
    }
    wanted
}

/// Whether an operator's elements are some of its operands', also when these are rounded.
fn passes_on(op: &Op) -> bool {
    match op {
        Op::Pool(attrs) => attrs.kind == PoolKind::Max { indices: false },
        Op::Slice { .. } | Op::Concat { .. } => true,
        _ => false,
    }
}

fn rounded_type(func: &Func, value: Value) -> Type {
    Type::Tensor(TensorType::new(DType::BF16, func.tensor(value).shape.clone()))
}

fn retype(func: &mut Func, value: Value) {
    func.values[value].ty = rounded_type(func, value);
}

/// A value rounded to bfloat16.
fn cast(func: &mut Func, value: Value, source: &str) -> (Value, Binding) {
    let name = format!("{}_rounded", func.values[value].name);
    let stored = func.new_value(name, rounded_type(func, value));
    let node = Node::Op { op: Op::Cast(DType::BF16), args: vec![value] };
    (stored, Binding { outputs: vec![stored], node, source: source.to_owned() })
}
