//! Calls by operator: assertions, printing, closures, packed functions that update their operands.

use ruff_python_ast::{self as ast, Expr as Py};

use super::args::elements;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use super::types::Annotation;
use crate::{LeafExpr, Node, Type, Value};

impl FuncParser<'_, '_> {
    /// `R.assert_op(condition, args, format=)` and `R.print(*args, format=)`.
    pub(super) fn said(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let mut format = None;
        let mut args = vec![];
        for e in &*call.arguments.args {
            match elements(e) {
                Some(items) => {
                    args.extend(items.iter().map(|e| self.value(e)).collect::<Result<Vec<_>>>()?);
                }
                None => args.push(self.value(e)?),
            }
        }
        for keyword in &*call.arguments.keywords {
            match keyword.arg.as_ref().map(|name| name.as_str()) {
                Some("format") => format = Some(self.text(&keyword.value)?),
                Some("format_args") if name == "assert_op" => {
                    let list = elements(&keyword.value);
                    for e in list.unwrap_or(std::slice::from_ref(&keyword.value)) {
                        args.push(self.value(e)?);
                    }
                }
                _ => return Err(self.source.unsupported(keyword)),
            }
        }
        // The condition stands before the format.
        let place = usize::from(name == "assert_op");
        if args.len() < place {
            return Err(self.source.unsupported(call));
        }
        let none = |p: &mut Self| p.leaf(LeafExpr::Str(String::new()), Type::Object);
        let format = format.unwrap_or_else(|| none(self));
        args.insert(place, format);
        let callee = format!("relax.run.{name}");
        Ok(ParsedValue::Value(self.packed(callee, args, vec![Type::Object])[0]))
    }

    fn text(&mut self, e: &Py) -> Result<Value> {
        match super::args::string(self.source, e) {
            Ok(text) => {
                let text = text.to_owned();
                Ok(self.leaf(LeafExpr::Str(text), Type::Object))
            }
            Err(_) => self.value(e),
        }
    }

    fn packed(&mut self, name: String, args: Vec<Value>, types: Vec<Type>) -> Vec<Value> {
        self.sync_dims();
        self.b.bind_values(Node::CallPacked { name, args, ints: vec![] }, types)
    }

    /// `R.make_closure(cls.f, (values,))`: what it captures are the last parameters of the function.
    pub(super) fn make_closure(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let [function, captured] = &*call.arguments.args else {
            return Err(self.source.unsupported(call));
        };
        let Some(func) = self.function_value(function) else {
            return Err(self.source.expected("a function of this module", function));
        };
        let mut args = vec![self.leaf(LeafExpr::Func(func), Type::Func)];
        for e in elements(captured).unwrap_or(std::slice::from_ref(captured)) {
            args.push(self.value(e)?);
        }
        let name = "vm.builtin.make_closure".to_owned();
        Ok(ParsedValue::Value(self.packed(name, args, vec![Type::Func])[0]))
    }

    /// `R.invoke_closure(closure, (values,), ty_args=)`.
    pub(super) fn invoke_closure(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let [closure, given] = &*call.arguments.args else {
            return Err(self.source.unsupported(call));
        };
        let mut args = vec![self.leaf(LeafExpr::VmState, Type::Object), self.value(closure)?];
        for e in elements(given).unwrap_or(std::slice::from_ref(given)) {
            args.push(self.value(e)?);
        }
        let out = self.result_annotation(call, &[])?;
        let (types, several) = match &out {
            Annotation::Tuple(items) => (self.complete_all(items, call)?, true),
            _ => (vec![self.dims.complete(out, "d", call)?], false),
        };
        let outputs = self.packed("vm.builtin.invoke_closure".to_owned(), args, types);
        Ok(if several { ParsedValue::Values(outputs) } else { ParsedValue::Value(outputs[0]) })
    }
}
