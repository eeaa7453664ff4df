//! Functions as values: those that are defined inside of others, and calls of what is held in a
//! value.
//!
//! An inner function becomes one of the module. What it takes from around it are further
//! parameters, which its closure binds last, as TVM's lambda lifting does.

use std::collections::HashMap;

use cranelift_entity::EntityRef;
use reflex_tir::{Expr, Var};
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::Read;
use super::func::FuncParser;
use super::module::{MemberKind, with_type_params};
use super::types::{Written, is_path};
use super::value::Item;
use crate::{FuncId, LeafExpr, Node, Type, Value};

impl FuncParser<'_, '_> {
    /// `@R.function def inner(...)` inside a function.
    pub(super) fn nested(&mut self, def: &ast::StmtFunctionDef) -> Read<()> {
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
        let mut known: HashMap<Var, Expr> = HashMap::new();
        for (n, name) in outer.iter().enumerate() {
            let dim = match name {
                Some(name) => Expr::var(inner.dims.declare(name)),
                None => inner.dims.fresh("d"),
            };
            known.insert(Var::new(n), dim);
        }
        inner.sync_dims();
        let mut types = types.into_iter();
        for (name, item) in &captured {
            let mut take = |inner: &mut FuncParser<'_, '_>| {
                let ty = inner.translate(&types.next().unwrap_or(Type::Object), &known);
                inner.b.param_of(name.clone(), ty)
            };
            let item = match item {
                Item::Value(_) => Item::Value(take(&mut inner)),
                Item::ShapeOf(_) => Item::ShapeOf(take(&mut inner)),
                Item::Several(list) => {
                    Item::Several(list.iter().map(|_| take(&mut inner)).collect())
                }
                Item::Shape(dims) => {
                    Item::Shape(dims.iter().map(|e| inner.translate_dim(e, &known)).collect())
                }
                Item::Members => Item::Members,
            };
            inner.define(name, item);
        }
        let func = inner.rest(def)?;
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
        self.define(def.name.as_str(), Item::Value(closure));
        Ok(())
    }

    /// `outer_inner`, as TVM names a lifted function.
    fn free_name(&self, inner: &str) -> String {
        let name = format!("{}_{inner}", self.b.func_name());
        let lifted = self.cx.lifted.borrow().len();
        match self.cx.members.contains_key(&name) || lifted > 0 {
            true => format!("{name}_{lifted}"),
            false => name,
        }
    }

    /// What an inner function mentions of what is around it, by first mention.
    fn captured(&self, def: &ast::StmtFunctionDef) -> Vec<(String, Item)> {
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
        written: Option<&Written>,
    ) -> Read<Item> {
        let callable = self.machine || *self.b.ty(callee) == Type::Func;
        if !callable || !call.arguments.keywords.is_empty() {
            return Err(self.source.unsupported(call));
        }
        let written = if self.machine { Some(&Written::Any) } else { written };
        let Some(written) = written else {
            let text = self.source.shown(call);
            let message = format!("the result of `{text}` has no type: annotate it");
            return Err(self.source.refuse(call.start(), message));
        };
        let mut args = vec![self.leaf(LeafExpr::VmState, Type::Object), callee];
        for e in &*call.arguments.args {
            args.push(self.value(e)?);
        }
        let (types, several) = match written {
            Written::Tuple(items) => (self.complete_all(items, call)?, true),
            one => (vec![self.dims.complete(one.clone(), "d", call)?], false),
        };
        self.sync_dims();
        let name = "vm.builtin.invoke_closure".to_string();
        let outputs = self.b.bind_values(Node::CallPacked { name, args, ints: vec![] }, types);
        Ok(if several { Item::Several(outputs) } else { Item::Value(outputs[0]) })
    }

    /// The graph function that `cls.f` is.
    pub(super) fn function_value(&self, e: &Py) -> Option<FuncId> {
        let (_, member) = self.member(e)?;
        matches!(member.kind, MemberKind::Graph { .. }).then_some(member.id)
    }
}

/// The values that an item consists of.
fn values_of(item: &Item) -> Vec<Value> {
    match item {
        Item::Value(value) | Item::ShapeOf(value) => vec![*value],
        Item::Several(values) => values.clone(),
        Item::Shape(_) | Item::Members => vec![],
    }
}
