//! Which tensors between convolutions are stored as bfloat16.
//!
//! In precision `bf16` a convolution whose weights are pairs rounds its input. Where all that read a
//! tensor do so, it is rounded once, where it is stored: a cast joins the kernel that computes it,
//! half the bytes are written and read, and two channels side by side are a pair in memory, so that
//! without padding nothing is copied. What is multiplied stays the same, but for numbers next to
//! the smallest normal one, which a pair made of float32 has as zeros.

use std::collections::{HashMap, HashSet};

use reflex_graph::{Binding, Body, Func, Node, Op, TensorType, Type, Value};
use reflex_tir::DType;

use super::kind::{Kind, kind};
use super::layout::Layouts;
use crate::legalize::Packing;

/// How the constants of an operator are packed, whose sums are in blocks of so many channels.
type Packings<'a> = &'a dyn Fn(&Func, &Op, &[Value], i64) -> Vec<Packing>;

/// Rounds the tensors that only such convolutions read; their new values.
pub fn store_rounded(
    func: &mut Func,
    body: &mut Body,
    layouts: &Layouts,
    packings: Packings<'_>,
) -> HashSet<Value> {
    let mut users: HashMap<Value, Vec<Option<usize>>> = HashMap::new();
    for (at, binding) in body.bindings.iter().enumerate() {
        binding.node.operands(&mut |v| users.entry(v).or_default().push(Some(at)));
        for nested in binding.node.bodies() {
            nested.uses(&mut |v| users.entry(v).or_default().push(None));
        }
    }
    body.results.iter().for_each(|v| users.entry(*v).or_default().push(None));
    let rounds = |value: Value, user: &Option<usize>| {
        let Some(at) = *user else { return false };
        let Node::Op { op: op @ Op::Conv(_), args } = &body.bindings[at].node else { return false };
        let image = args[0] == value && !args[1..].contains(&value);
        let Some(sums) = layouts.sums(at).filter(|_| image) else { return false };
        packings(func, op, args, sums).iter().any(|p| p.operand == 1 && p.pairs)
    };
    // The cast is to become part of the kernel that computes the tensor.
    let computes = |op: &Op| matches!(kind(op), Kind::Elementwise | Kind::Anchor);
    let stored = |binding: &Binding| match (&binding.node, &binding.outputs[..]) {
        (Node::Op { op, .. }, [value]) if computes(op) && layouts.of(*value).is_some() => {
            users.get(value)?.iter().all(|user| rounds(*value, user)).then_some(*value)
        }
        _ => None,
    };
    let chosen: HashSet<Value> = body.bindings.iter().filter_map(stored).collect();
    let mut to: HashMap<Value, Value> = HashMap::new();
    for value in body.bindings.iter().flat_map(|b| &b.outputs).filter(|v| chosen.contains(v)) {
        let shape = func.tensor(*value).shape.clone();
        let name = format!("{}_rounded", func.values[*value].name);
        let ty = Type::Tensor(TensorType::new(DType::BF16, shape));
        to.insert(*value, func.new_value(name, ty));
    }
    let old = std::mem::take(&mut body.bindings);
    for mut binding in old {
        binding.node.operands_mut(&mut |v| *v = to.get(v).copied().unwrap_or(*v));
        let casts: Vec<Binding> = binding
            .outputs
            .iter()
            .filter_map(|v| {
                let node = Node::Op { op: Op::Cast(DType::BF16), args: vec![*v] };
                let source = binding.source.clone();
                Some(Binding { outputs: vec![*to.get(v)?], node, source })
            })
            .collect();
        body.bindings.push(binding);
        body.bindings.extend(casts);
    }
    to.into_values().collect()
}
