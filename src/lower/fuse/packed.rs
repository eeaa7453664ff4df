//! Operators from outside that are packed functions become calls of them: the operands, then the
//! attributes.

use reflex_graph::registered::{AttrValue, RegisteredCode};
use reflex_graph::{Binding, Body, Func, FuncData, LeafExpr, Module, Node, Op, Type, Value};
use reflex_tir::{DType, Expr};

/// Replaces them in every function.
pub(super) fn call_packed(module: &mut Module) {
    for data in module.funcs.values_mut() {
        if let FuncData::Graph(func) = data {
            let mut body = std::mem::take(&mut func.body);
            replace(func, &mut body);
            func.body = body;
        }
    }
}

fn replace(func: &mut Func, body: &mut Body) {
    for mut binding in std::mem::take(&mut body.bindings) {
        for nested in binding.node.bodies_mut() {
            replace(func, nested);
        }
        let call = match &binding.node {
            Node::Op { op: Op::Registered(op), args } => match &op.code {
                RegisteredCode::Packed(name) => {
                    Some((name.clone(), args.clone(), op.attrs.clone()))
                }
                RegisteredCode::Kernel(_) => None,
            },
            _ => None,
        };
        if let Some((name, mut args, attrs)) = call {
            for (attr, value) in attrs {
                let (leaf, ty) = leaf(value);
                args.push(bind(func, body, attr, leaf, ty));
            }
            binding.node = Node::CallPacked { name, args, ints: vec![] };
        }
        body.bindings.push(binding);
    }
}

fn bind(func: &mut Func, body: &mut Body, name: String, leaf: LeafExpr, ty: Type) -> Value {
    let value = func.new_value(name, ty);
    let (outputs, node, source) = (vec![value], Node::Leaf(leaf), String::new());
    body.bindings.push(Binding { outputs, node, source });
    value
}

fn leaf(value: AttrValue) -> (LeafExpr, Type) {
    match value {
        AttrValue::Int(value) => (LeafExpr::Int(Expr::i64(value)), Type::Prim(DType::I64)),
        AttrValue::Bool(value) => (LeafExpr::Int(Expr::i64(value.into())), Type::Prim(DType::I64)),
        AttrValue::Float(value) => (LeafExpr::Float(value), Type::Prim(DType::F64)),
        AttrValue::Str(text) => (LeafExpr::Str(text), Type::Object),
        AttrValue::Ints(list) => {
            let dims: Vec<Expr> = list.into_iter().map(Expr::i64).collect();
            (LeafExpr::Shape(dims.clone()), Type::Shape(dims))
        }
        // Refused when the operator is registered.
        AttrValue::Floats(_) => (LeafExpr::Null, Type::Object),
    }
}
