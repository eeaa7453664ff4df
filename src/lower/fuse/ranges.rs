//! Ranges: the least and the greatest element of a tensor become results of the kernel that writes it, with what is
//! computed of them alone (the scale and the zero point of DynamicQuantizeLinear).
//!
//! ```text
//! x = f(..)
//! most, least = max(x), min(x)         over all axes
//! scale = (most - least) / 255         x, scale, .. = one kernel
//! ```
//! Without that, two passes read a tensor that was just written, and each scalar has a kernel.
//!
//! Decision: docs/decisions/0110-ranges.md

use std::collections::{HashMap, HashSet};

use reflex_graph::{Body, Const, Func, Node, Op, ReduceKind, Value};
use reflex_tir::DType;

use super::groups::KernelGroup;
use super::pattern::{OpPattern, pattern};

/// Joins the groups of the ranges of tensors, and of scalars made of them, to the groups that write the tensors.
/// A kernel has no more than `max_members` operators but for those on scalars.
pub fn join_ranges(
    func: &Func,
    body: &Body,
    consts: &HashMap<Value, Const>,
    groups: &mut Vec<KernelGroup>,
    max_members: usize,
) {
    let scalars: Vec<bool> = groups.iter().map(|g| is_scalar(func, body, g)).collect();
    let mut gone = HashSet::new();
    for n in 0..groups.len() {
        let Some(x) = ranged(func, body, &groups[n]) else { continue };
        let joined = of_range(body, consts, groups, &scalars, x);
        let passes = joined.iter().filter(|g| reduces(body, &groups[**g], x)).count();
        if passes == 0 || groups[n].members.len() + passes > max_members {
            continue;
        }
        let mut members = groups[n].members.clone();
        joined.iter().for_each(|g| members.extend(&groups[*g].members));
        members.sort_unstable();
        members.dedup();
        let results = joined.iter().flat_map(|g| groups[*g].results.clone());
        let inside: HashSet<usize> = members.iter().copied().collect();
        let results = results.filter(|v| used_outside(body, &inside, *v)).collect::<Vec<_>>();
        groups[n].results.extend(results);
        groups[n].members = members;
        gone.extend(joined);
    }
    let mut at = 0;
    groups.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}

/// The tensor of float32 that a group writes element by element.
fn ranged(func: &Func, body: &Body, group: &KernelGroup) -> Option<Value> {
    let [x] = group.results[..] else { return None };
    let Node::Op { op, .. } = &body.bindings[group.at].node else { return None };
    let written = match pattern(op) {
        OpPattern::Elementwise | OpPattern::Injective | OpPattern::Anchor => {
            !matches!(op, Op::Registered(_))
        }
        OpPattern::Opaque => matches!(op, Op::LayerNorm { .. }),
        OpPattern::Concat | OpPattern::Reduce | OpPattern::View => false,
    };
    let ty = func.values[x].ty.as_tensor()?;
    (written && ty.dtype == DType::F32 && !ty.shape.is_empty()).then_some(x)
}

/// The groups of scalars that are functions of a tensor's range, in order.
fn of_range(
    body: &Body,
    consts: &HashMap<Value, Const>,
    groups: &[KernelGroup],
    scalars: &[bool],
    x: Value,
) -> Vec<usize> {
    let (mut found, mut known) = (vec![], HashSet::new());
    for (n, group) in groups.iter().enumerate().filter(|(n, _)| scalars[*n]) {
        let inside: HashSet<Value> =
            group.members.iter().flat_map(|m| &body.bindings[*m].outputs).copied().collect();
        let (mut depends, mut closed) = (false, true);
        for member in &group.members {
            let Node::Op { op, args } = &body.bindings[*member].node else { return vec![] };
            for arg in args {
                let range = *arg == x && is_extremum(op);
                depends |= range || known.contains(arg);
                // A tensor of one element is no scalar's operand unless it is constant.
                closed &= range
                    || known.contains(arg)
                    || inside.contains(arg)
                    || consts.contains_key(arg);
            }
        }
        if depends && closed {
            known.extend(inside);
            found.push(n);
        }
    }
    found
}

/// Whether all that a group computes is scalars.
fn is_scalar(func: &Func, body: &Body, group: &KernelGroup) -> bool {
    let outputs = group.members.iter().flat_map(|m| &body.bindings[*m].outputs);
    let scalar = |v: &Value| func.values[*v].ty.as_tensor().is_some_and(|t| t.shape.is_empty());
    let fuses = |m: &usize| match &body.bindings[*m].node {
        Node::Op { op, .. } => pattern(op) == OpPattern::Elementwise || is_extremum(op),
        _ => false,
    };
    outputs.into_iter().all(scalar) && group.members.iter().all(fuses)
}

/// Whether an operator takes the least or the greatest element.
fn is_extremum(op: &Op) -> bool {
    matches!(op, Op::Reduce { kind: ReduceKind::Max | ReduceKind::Min, .. })
}

/// Whether a group reads all of a tensor for its range.
fn reduces(body: &Body, group: &KernelGroup, x: Value) -> bool {
    group.members.iter().any(|m| match &body.bindings[*m].node {
        Node::Op { op, args } => is_extremum(op) && args[0] == x,
        _ => false,
    })
}

/// Whether something but the members uses a value.
fn used_outside(body: &Body, members: &HashSet<usize>, value: Value) -> bool {
    let mut used = body.results.contains(&value);
    for (at, binding) in body.bindings.iter().enumerate() {
        if !members.contains(&at) {
            binding.node.operands(&mut |v| used |= v == value);
        }
        binding
            .node
            .bodies()
            .into_iter()
            .for_each(|nested| nested.uses(&mut |v| used |= v == value));
    }
    used
}
