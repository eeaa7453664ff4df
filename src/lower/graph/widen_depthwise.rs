//! Depthwise convolutions of 8-bit integers, computed in float32.
//!
//! A sum has as many products as the kernel has positions. As long as it fits into the 24 bits of float32's significand, so do the
//! partial sums, in any order, and every multiply-add is exact. With conversions as operators, those of weights are
//! folded, those of feature maps move into the epilogues that store them, and what is left has the blocked layouts and planes that
//! depthwise convolutions of floats have. Dot products of integers sum over channels, of which a depthwise convolution
//! has one. GPUs multiply the integers.
//!
//! Decision: docs/decisions/0103-integer-convolutions.md

use reflex_graph::{Binding, Func, Module, Node, Op};
use reflex_tir::DType;

use super::edit::{each_binding, each_func, in_float32};
use crate::LowerError;

/// The least magnitude that float32 does not count up to.
const EXACT: i64 = 1 << 24;

/// Widens the operands of depthwise convolutions of 8-bit integers.
pub fn widen_depthwise(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |_, func| {
        let mut body = std::mem::take(&mut func.body);
        each_binding(func, &mut body, &mut |func, body, binding| match &binding.node {
            Node::Op { op: Op::ConvInteger(attrs), .. } if is_exact(func, &binding) => {
                let op = Op::Conv(attrs.clone());
                in_float32(func, body, binding, op);
            }
            _ => body.bindings.push(binding),
        });
        func.body = body;
        Ok(())
    })
}

/// Whether a binding is a convolution with one channel in each group, whose sums float32 holds.
fn is_exact(func: &Func, binding: &Binding) -> bool {
    let Node::Op { op: Op::ConvInteger(attrs), args } = &binding.node else { return false };
    let [x, w] = [args[0], args[1]].map(|value| func.tensor(value));
    let greatest = |dtype| match dtype {
        DType::U8 => Some(255),
        DType::I8 => Some(128),
        _ => None,
    };
    let (Some(a), Some(b)) = (greatest(x.dtype), greatest(w.dtype)) else { return false };
    let taps = w.shape[1..].iter().try_fold(a * b, |n: i64, k| n.checked_mul(k.as_int()?));
    attrs.groups > 1 && w.shape[1].as_int() == Some(1) && taps.is_some_and(|most| most < EXACT)
}
