//! Products of 16-bit floats, computed from operands in float32.
//!
//! They are computed in float32 and rounded once as it is. With conversions as operators, those of constants are
//! folded, those of feature maps move into the epilogues that store them, and what is left is a product of float32, with
//! the layouts, panels and transforms that such products have. Constants that would grow too large stay narrow, and their
//! products with them. GPUs multiply 16-bit floats themselves.
//!
//! Decision: docs/decisions/0093-half-products.md

use std::collections::HashMap;

use reflex_graph::{Binding, Body, Const, Func, Module, Node, Op, TensorType, Type, Value};
use reflex_tir::DType;

use super::edit::{bind, constants, each_func};
use crate::LowerError;

/// Widens the operands of matrix multiplications and convolutions. `max_bytes`: the largest constant in float32.
pub fn widen_half_products(module: &mut Module, max_bytes: usize) -> Result<(), LowerError> {
    each_func(module, |module, func| {
        let mut body = std::mem::take(&mut func.body);
        let known = constants(&body);
        let fits = |value: &Value| fits(module, &known, *value, max_bytes);
        in_body(func, &mut body, &fits);
        func.body = body;
        Ok(())
    })
}

fn fits(module: &Module, known: &HashMap<Value, Const>, value: Value, max_bytes: usize) -> bool {
    let Some(constant) = known.get(&value) else { return true };
    let count: i64 = module.consts[*constant].shape().iter().product();
    usize::try_from(count).is_ok_and(|count| count <= max_bytes / DType::F32.itemsize())
}

fn in_body(func: &mut Func, body: &mut Body, fits: &impl Fn(&Value) -> bool) {
    for mut binding in std::mem::take(&mut body.bindings) {
        for nested in binding.node.bodies_mut() {
            in_body(func, nested, fits);
        }
        match widens(func, &binding).filter(|args| args.iter().all(fits)) {
            Some(args) => widened(func, body, binding, args),
            None => body.bindings.push(binding),
        }
    }
}

/// The operands of a product of 16-bit floats.
fn widens(func: &Func, binding: &Binding) -> Option<Vec<Value>> {
    let Node::Op { op: Op::MatMul | Op::Conv(_), args } = &binding.node else { return None };
    let halves = args.iter().chain(&binding.outputs).all(|v| func.tensor(*v).dtype.is_half());
    halves.then(|| args.clone())
}

fn widened(func: &mut Func, body: &mut Body, binding: Binding, args: Vec<Value>) {
    let Binding { outputs, node, source } = binding;
    let Node::Op { op, .. } = node else { return };
    let mut convert = |func: &mut Func, op: Op, args: Vec<Value>, like: Value, dtype: DType| {
        let ty = TensorType::new(dtype, func.tensor(like).shape.clone());
        let (value, made) = bind(func, Node::Op { op, args }, Type::Tensor(ty), &source);
        body.bindings.push(made);
        value
    };
    let mut wide = vec![];
    for arg in args {
        wide.push(convert(func, Op::Cast(DType::F32), vec![arg], arg, DType::F32));
    }
    let (result, half) = (outputs[0], func.tensor(outputs[0]).dtype);
    let product = convert(func, op, wide, result, DType::F32);
    let node = Node::Op { op: Op::Cast(half), args: vec![product] };
    body.bindings.push(Binding { outputs, node, source });
}
