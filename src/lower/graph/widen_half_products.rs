//! Products of 16-bit floats, computed from operands in float32.
//!
//! They are computed in float32 and rounded once as it is. With conversions as operators, those of constants are
//! folded, those of feature maps move into the epilogues that store them, and what is left is a product of float32, with
//! the layouts, panels and transforms that such products have. Constants that would grow too large stay narrow, and their
//! products with them. GPUs multiply 16-bit floats themselves.
//!
//! Decision: docs/decisions/0093-half-products.md

use std::collections::HashMap;

use reflex_graph::{Binding, Const, Func, Module, Node, Op, Value};
use reflex_tir::DType;

use super::edit::{constants, each_binding, each_func, in_float32};
use crate::LowerError;

/// Widens the operands of matrix multiplications and convolutions. `max_bytes`: the largest constant in float32.
pub fn widen_half_products(module: &mut Module, max_bytes: usize) -> Result<(), LowerError> {
    each_func(module, |module, func| {
        let mut body = std::mem::take(&mut func.body);
        let known = constants(&body);
        each_binding(func, &mut body, &mut |func, body, binding| {
            let fits = |value: &Value| fits(module, &known, *value, max_bytes);
            match &binding.node {
                Node::Op { op, args } if widens(func, &binding) && args.iter().all(fits) => {
                    let op = op.clone();
                    in_float32(func, body, binding, op);
                }
                _ => body.bindings.push(binding),
            }
        });
        func.body = body;
        Ok(())
    })
}

fn fits(module: &Module, known: &HashMap<Value, Const>, value: Value, max_bytes: usize) -> bool {
    let Some(constant) = known.get(&value) else { return true };
    let count: i64 = module.consts[*constant].shape().iter().product();
    usize::try_from(count).is_ok_and(|count| count <= max_bytes / DType::F32.itemsize())
}

/// Whether a binding is a product of 16-bit floats.
fn widens(func: &Func, binding: &Binding) -> bool {
    let Node::Op { op: Op::MatMul | Op::Conv(_), args } = &binding.node else { return false };
    args.iter().chain(&binding.outputs).all(|v| func.tensor(*v).dtype.is_half())
}
