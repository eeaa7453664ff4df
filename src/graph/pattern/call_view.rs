//! Calls as the text of a module shows them.

use std::collections::HashMap;

use cranelift_entity::EntityRef;
use ruff_python_ast::Expr as Py;
use ruff_text_size::Ranged;

use crate::print;
use crate::registered::AttrValue;
use crate::script;
use crate::{Body, Func, Module, Node, Value};

/// A call of an operator.
#[derive(Clone, Debug)]
pub struct CallView {
    /// The operator's name, `relax.` before it.
    pub op: String,
    /// Its positional operands.
    pub(super) args: Vec<Operand>,
    /// Its attributes by name; those that are `None` are left out.
    pub attrs: Vec<(String, AttrValue)>,
}

impl CallView {
    /// Whether a value is among the operands that the text shows; a constant such as the zero of `relu` is not.
    pub fn shows(&self, value: Value) -> bool {
        fn among(operands: &[Operand], value: Value) -> bool {
            operands.iter().any(|operand| match operand {
                Operand::Value(shown) => *shown == value,
                Operand::Tuple(items) => among(items, value),
                Operand::Const | Operand::Shape(_) | Operand::Other => false,
            })
        }
        among(&self.args, value)
    }
}

/// An operand of a call.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Value(Value),
    Tuple(Vec<Operand>),
    /// A constant that only the text has.
    Const,
    /// Extents; one that is symbolic is `None`.
    Shape(Vec<Option<i64>>),
    Other,
}

/// The calls of operators of a body, by binding.
pub(super) fn views(module: &Module, func: &Func, body: &Body) -> HashMap<usize, CallView> {
    let ops = body.bindings.iter().enumerate().filter_map(|(at, binding)| match &binding.node {
        Node::Op { op, args } => Some((at, op, &args[..])),
        _ => None,
    });
    let (at, calls): (Vec<usize>, Vec<_>) = ops.map(|(at, op, args)| (at, (op, args))).unzip();
    let texts = print::op_calls(module, func, &calls, &name);
    at.into_iter().zip(texts).filter_map(|(at, text)| Some((at, view(&text)?))).collect()
}

fn name(value: Value) -> String {
    format!("v_{}", value.index())
}

fn view(text: &str) -> Option<CallView> {
    let parsed = ruff_python_parser::parse_expression(text).ok()?;
    let Py::Call(call) = parsed.expr() else { return None };
    let path = reflex_tir::script::path(&call.func)?;
    let op = format!("relax.{}", path.strip_prefix("R.")?);
    let args = call.arguments.args.iter().map(|e| operand(text, e)).collect();
    let mut attrs = vec![];
    for keyword in &call.arguments.keywords {
        let name = keyword.arg.as_ref()?.to_string();
        if let Some(value) = script::attr_value(text, &keyword.value) {
            attrs.push((name, value));
        }
    }
    Some(CallView { op, args, attrs })
}

fn operand(text: &str, e: &Py) -> Operand {
    match e {
        Py::Name(name) => match name.id.strip_prefix("v_").and_then(|n| n.parse().ok()) {
            Some(index) => Operand::Value(Value::new(index)),
            None => Operand::Other,
        },
        Py::Tuple(tuple) => Operand::Tuple(tuple.elts.iter().map(|e| operand(text, e)).collect()),
        Py::Call(call) => match reflex_tir::script::path(&call.func).as_deref() {
            Some("R.const") => Operand::Const,
            Some("R.shape") => match &*call.arguments.args {
                [Py::List(list)] => {
                    Operand::Shape(list.elts.iter().map(|e| size(text, e)).collect())
                }
                _ => Operand::Other,
            },
            _ => Operand::Other,
        },
        _ => Operand::Other,
    }
}

fn size(text: &str, e: &Py) -> Option<i64> {
    let range = e.range();
    text.get(range.start().into()..range.end().into())?.parse().ok()
}
