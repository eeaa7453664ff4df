//! Closures: functions defined inside others, and calls of function values.
//!
//! An inner function becomes a function of the module, as in TVM's lambda lifting. The values it
//! captures become further parameters, which `vm.builtin.make_closure` binds last.
//!
//! Decision: docs/decisions/0027-non-tensor-data.md

use std::collections::HashMap;

use cranelift_entity::EntityRef;
use reflex_tir::{Expr, Var};
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::context::GlobalFuncKind;
use super::parser::{FuncParser, ParsedValue};
use super::signature::with_type_params;
use super::source::Result;
use super::types::{Annotation, is_path};
use crate::{Func, FuncId, LeafExpr, Node, Type, Value};

impl FuncParser<'_, '_> {
    /// `@R.function def inner(...)` inside a function.
    pub(super) fn nested(&mut self, def: &ast::StmtFunctionDef) -> Result<()> {
        let is_function = |d: &ast::Decorator| match &d.expression {
            Py::Call(call) => is_path(&call.func, "R.function"),
            e => is_path(e, "R.function"),
        };
        if !def.decorator_list.iter().any(is_function) {
            return Err(self.source.unsupported(def));
        }
        let name = self.free_name(def.name.as_str());
        let at = {
            let mut lifted = self.cx.lifted.borrow_mut();
            lifted.push(None);
            lifted.len() - 1
        };
        let captured = self.captured(def);
        // Names of dimensions around the function mean the same in it.
        let mut symbols = with_type_params(&self.dims.all_symbols(), def);
        symbols.extend(self.dims.order.iter().cloned());
        let outer: Vec<Option<String>> = (0..self.dims.order.len())
            .map(|n| self.dims.name_of(Var::new(n)).map(str::to_string))
            .collect();
        let types: Vec<Type> = captured
            .iter()
            .flat_map(|(_, item)| values_of(item))
            .map(|value| self.b.ty(value).clone())
            .collect();
        let module = self.b.module_mut();
        let mut inner = FuncParser::new(self.source, self.cx, &symbols, &name, module);
        inner.parameters(def)?;
        let dims = inner.enclosing_dims(&outer);
        inner.declare_captured(&captured, types, &dims);
        let func = Func { is_private: true, ..inner.rest(def)? };
        self.cx.lifted.borrow_mut()[at] = Some(func);
        let id = FuncId::new(self.cx.count + at);
        let mut closure = self.leaf(LeafExpr::Func(id), Type::Func);
        let bound: Vec<Value> = captured.iter().flat_map(|(_, item)| values_of(item)).collect();
        if !bound.is_empty() {
            let args = std::iter::once(closure).chain(bound).collect();
            let name = "vm.builtin.make_closure".to_string();
            let node = Node::CallPacked { name, args, ints: vec![] };
            closure = self.b.bind_values(node, vec![Type::Func])[0];
        }
        self.b.set_name(closure, def.name.as_str());
        self.define(def.name.as_str(), ParsedValue::Value(closure));
        Ok(())
    }

    /// Declares the dimensions of the enclosing function, by their names there, in this one.
    fn enclosing_dims(&mut self, names: &[Option<String>]) -> HashMap<Var, Expr> {
        let mut dims = HashMap::new();
        for (n, name) in names.iter().enumerate() {
            let dim = match name {
                Some(name) => Expr::var(self.dims.declare(name)),
                None => self.dims.fresh("d"),
            };
            dims.insert(Var::new(n), dim);
        }
        self.sync_dims();
        dims
    }

    /// Declares one parameter for each captured value. `types` are those of the values in the
    /// enclosing function, whose dimensions `dims` translates.
    fn declare_captured(
        &mut self,
        captured: &[(String, ParsedValue)],
        types: Vec<Type>,
        dims: &HashMap<Var, Expr>,
    ) {
        let mut types = types.into_iter();
        for (name, item) in captured {
            let mut param = |inner: &mut Self| {
                let ty = inner.translate(&types.next().unwrap_or(Type::Object), dims);
                inner.b.param_of(name.clone(), ty)
            };
            let item = match item {
                ParsedValue::Value(_) => ParsedValue::Value(param(self)),
                ParsedValue::ShapeOf(_) => ParsedValue::ShapeOf(param(self)),
                ParsedValue::Values(list) => {
                    ParsedValue::Values(list.iter().map(|_| param(self)).collect())
                }
                ParsedValue::Shape(shape) => {
                    ParsedValue::Shape(shape.iter().map(|e| self.translate_dim(e, dims)).collect())
                }
                ParsedValue::Class => ParsedValue::Class,
            };
            self.define(name, item);
        }
    }

    /// `outer_inner`, as TVM names a lifted function.
    fn free_name(&self, inner: &str) -> String {
        let name = format!("{}_{inner}", self.b.func_name());
        let lifted = self.cx.lifted.borrow().len();
        match self.cx.globals.contains_key(&name) || lifted > 0 {
            true => format!("{name}_{lifted}"),
            false => name,
        }
    }

    /// The names that an inner function captures from the enclosing one, by first mention.
    fn captured(&self, def: &ast::StmtFunctionDef) -> Vec<(String, ParsedValue)> {
        struct Names(Vec<String>);
        impl Visitor<'_> for Names {
            fn visit_expr(&mut self, e: &Py) {
                if let Py::Name(name) = e
                    && !self.0.iter().any(|n| n == name.id.as_str())
                {
                    self.0.push(name.id.to_string());
                }
                walk_expr(self, e);
            }
        }
        let mut names = Names(vec![]);
        names.visit_body(&def.body);
        let own = |name: &str| {
            def.parameters.iter_non_variadic_params().any(|p| p.parameter.name.as_str() == name)
        };
        let found = names.0.into_iter().filter(|name| !own(name));
        found.filter_map(|name| self.lookup(&name).map(|item| (name, item))).collect()
    }

    /// `f(x, y)` where `f` is a value.
    pub(super) fn call_value(
        &mut self,
        call: &ast::ExprCall,
        callee: Value,
        declared: Option<&Annotation>,
    ) -> Result<ParsedValue> {
        let callable = self.vm_lowered || *self.b.ty(callee) == Type::Func;
        if !callable || !call.arguments.keywords.is_empty() {
            return Err(self.source.unsupported(call));
        }
        let declared = if self.vm_lowered { Some(&Annotation::Any) } else { declared };
        let Some(declared) = declared else {
            let text = self.source.shown(call);
            let message = format!("the result of `{text}` has no type: annotate it");
            return Err(self.source.refuse(call.start(), message));
        };
        let mut args = vec![self.leaf(LeafExpr::VmState, Type::Object), callee];
        for e in &*call.arguments.args {
            args.push(self.value(e)?);
        }
        let (types, several) = match declared {
            Annotation::Tuple(items) => (self.complete_all(items, call)?, true),
            one => (vec![self.dims.complete(one.clone(), "d", call)?], false),
        };
        self.sync_dims();
        let name = "vm.builtin.invoke_closure".to_string();
        let outputs = self.b.bind_values(Node::CallPacked { name, args, ints: vec![] }, types);
        Ok(if several { ParsedValue::Values(outputs) } else { ParsedValue::Value(outputs[0]) })
    }

    /// The graph function that `cls.f` is.
    pub(super) fn function_value(&self, e: &Py) -> Option<FuncId> {
        let (_, member) = self.global_func(e)?;
        matches!(member.kind, GlobalFuncKind::Graph { .. }).then_some(member.id)
    }
}

/// The values that an item consists of.
fn values_of(item: &ParsedValue) -> Vec<Value> {
    match item {
        ParsedValue::Value(value) | ParsedValue::ShapeOf(value) => vec![*value],
        ParsedValue::Values(values) => values.clone(),
        ParsedValue::Shape(_) | ParsedValue::Class => vec![],
    }
}
