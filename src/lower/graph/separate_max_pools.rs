//! Maxima over large windows, one axis after the other.
//!
//! The maximum of a window is the maximum of its rows' maxima, so a pool of `a` by `b` elements takes
//! `a * b` comparisons for each result, or `a` for each element between and then `b` (separable
//! morphology; van Herk 1992 needs fewer still, in an order that vectors do not like). Done where it
//! halves the work; the spatial pyramids of detectors have windows of 5 to 13.

use reflex_graph::{Binding, Body, Func, Module, Node, Op, PoolAttrs, PoolKind, TensorType, Type};

use super::edit::{bind, each_binding, each_func};
use crate::LowerError;

/// Splits every max pool whose first axis is worth a pool of its own.
pub fn separate_max_pools(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |_, func| {
        let mut body = std::mem::take(&mut func.body);
        each_binding(func, &mut body, &mut separated);
        func.body = body;
        Ok(())
    })
}

fn separated(func: &mut Func, body: &mut Body, mut binding: Binding) {
    while let Some((attrs, axis)) = separable(&binding) {
        let first = only(&attrs, |d| d == axis);
        let rest = only(&attrs, |d| d != axis);
        let Node::Op { args, .. } = &binding.node else { break };
        let tensor = |value| func.values[value].ty.as_tensor().cloned();
        let (Some(x), Some(out)) = (tensor(args[0]), tensor(binding.outputs[0])) else { break };
        let mut shape = x.shape.clone();
        shape[2 + axis] = out.shape[2 + axis].clone();
        let ty = Type::Tensor(TensorType::new(x.dtype, shape));
        let node = Node::Op { op: Op::Pool(first), args: args.clone() };
        let (between, made) = bind(func, node, ty, &binding.source);
        body.bindings.push(made);
        binding.node = Node::Op { op: Op::Pool(rest), args: vec![between] };
    }
    body.bindings.push(binding);
}

/// The pool and the axis that is worth a pool of its own, before the others.
fn separable(binding: &Binding) -> Option<(PoolAttrs, usize)> {
    let Node::Op { op: Op::Pool(attrs), .. } = &binding.node else { return None };
    if attrs.kind != (PoolKind::Max { indices: false }) {
        return None;
    }
    let axis = attrs.kernel.iter().position(|k| *k > 1)?;
    let product = |list: &[i64]| list.iter().try_fold(1i64, |n, k| n.checked_mul(*k));
    let (kernel, strides) = (attrs.kernel[axis], attrs.strides[axis]);
    let (whole, steps) = (product(&attrs.kernel)?, product(&attrs.strides)? / strides);
    let (others, work) = (whole / kernel, kernel.checked_mul(steps)?.checked_add(whole / kernel)?);
    (others > 1 && work.checked_mul(2)? <= whole).then(|| (attrs.clone(), axis))
}

/// The pool over some of the axes.
fn only(attrs: &PoolAttrs, of: impl Fn(usize) -> bool) -> PoolAttrs {
    let pick = |list: &[i64], otherwise: i64| {
        let one = |(d, n): (usize, &i64)| if of(d) { *n } else { otherwise };
        list.iter().enumerate().map(one).collect::<Vec<i64>>()
    };
    PoolAttrs {
        kind: attrs.kind,
        kernel: pick(&attrs.kernel, 1),
        strides: pick(&attrs.strides, 1),
        pads_begin: pick(&attrs.pads_begin, 0),
        pads_end: pick(&attrs.pads_end, 0),
        dilations: pick(&attrs.dilations, 1),
        ceil: attrs.ceil,
    }
}
