//! Functions: parameters, statements and results.

use std::collections::HashSet;

use reflex_tir::{DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::Ranged;

use super::args::{Args, elements, string};
use super::context::ModuleContext;
use super::parser::{FuncParser, ParsedValue};
use super::signature::{is_vm_lowered, parameters};
use super::source::{Result, Source};
use super::types::{Annotation, ShapeAnnotation, is_path};
use crate::{Func, Module, Node, Type, Value, dims};

/// Attributes that ask for the calls of a function to be inlined: TVM's for that, and its mark of functions
/// that are one kernel, which is what our own fusion makes of them.
const INLINE_ATTRS: [&str; 2] = ["Inline", "Primitive"];

/// Attributes of functions that say nothing the engine needs to hear.
const SILENT_ATTRS: [&str; 6] = [
    "global_symbol",
    "num_input",
    "relax.force_pure",
    "tir_var_upper_bound",
    "tir_var_lower_bound",
    "tir_non_negative_var",
];

impl<'s, 'm> FuncParser<'s, 'm> {
    /// Reads one definition of the class; constants go into `module`.
    pub fn function(
        source: Source<'s>,
        cx: &'s ModuleContext,
        symbols: &'s HashSet<String>,
        def: &ast::StmtFunctionDef,
        module: &'m mut Module,
    ) -> Result<Func> {
        let mut p = FuncParser::new(source, cx, symbols, def.name.as_str(), module);
        p.vm_lowered = is_vm_lowered(def);
        p.parameters(def)?;
        p.rest(def)
    }

    /// Declares the parameters. An integer among them is a dimension too.
    pub(super) fn parameters(&mut self, def: &ast::StmtFunctionDef) -> Result<()> {
        if self.vm_lowered {
            for param in def.parameters.iter_non_variadic_params() {
                let name = param.parameter.name.as_str();
                let value = self.b.param_of(name, Type::Object);
                self.define(name, ParsedValue::Value(value));
            }
            return Ok(());
        }
        let params = parameters(self.source, def, &mut self.dims)?;
        self.sync_dims();
        let mut integers = vec![];
        for (name, ty) in params {
            let integer = ty == Type::Prim(DType::I64);
            let value = self.b.param_of(name.clone(), ty);
            self.define(&name, ParsedValue::Value(value));
            if integer {
                integers.push((name, value));
            }
        }
        for (name, value) in integers {
            let dims = vec![Expr::var(self.dims.declare(&name))];
            self.sync_dims();
            let ty = Type::Prim(DType::I64);
            self.b.bind_values(Node::MatchShape { value, dims }, vec![ty]);
        }
        Ok(())
    }

    /// Reads the body of a function whose parameters are declared.
    pub(super) fn rest(mut self, def: &ast::StmtFunctionDef) -> Result<Func> {
        let refuse = |message| Err(self.source.refuse(def.name.start(), message));
        let Some((Stmt::Return(last), body)) = def.body.split_last() else {
            return refuse("the function does not end in a `return`");
        };
        self.statements(body)?;
        let results = match last.value.as_deref() {
            Some(e) => self.results(e)?,
            None => vec![],
        };
        self.sync_dims();
        let defaults = || (0..results.len()).map(|i| format!("output{i}")).collect();
        let names = self.result_names.take().unwrap_or_else(defaults);
        if names.len() != results.len() {
            let message = "there is not one result name per result";
            return Err(self.source.refuse(def.name.start(), message));
        }
        let inline = self.inline;
        let func = self.b.finish_detached(results, names);
        Ok(Func { is_private: is_private(def), inline, ..func })
    }

    pub(super) fn statements(&mut self, body: &[Stmt]) -> Result<()> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::Pass(_) => Ok(()),
            Stmt::Assign(a) => match &a.targets[..] {
                [Py::Name(name)] => self.assign(name.id.as_str(), None, &a.value),
                [Py::Tuple(names)] => self.unpack(names, &a.value),
                _ => Err(self.source.unsupported(a)),
            },
            Stmt::AnnAssign(a) => match (&*a.target, &a.value) {
                (Py::Name(name), Some(value)) => {
                    self.assign(name.id.as_str(), Some(&a.annotation), value)
                }
                _ => Err(self.source.unsupported(a)),
            },
            Stmt::Expr(e) => self.effect(&e.value),
            Stmt::With(w) => self.with_block(w),
            Stmt::If(i) => self.choose(i),
            Stmt::FunctionDef(def) => self.nested(def),
            _ => Err(self.source.unsupported(stmt)),
        }
    }

    /// A call that is not bound to a name.
    fn effect(&mut self, e: &Py) -> Result<()> {
        match e {
            Py::StringLiteral(_) => Ok(()),
            Py::Call(call) if is_path(&call.func, "R.func_attr") => self.func_attr(call),
            // Values of a dataflow block are visible after it anyway.
            Py::Call(call) if is_path(&call.func, "R.output") => Ok(()),
            Py::Call(_) => self.expr(e).map(|_| ()),
            _ => Err(self.source.unsupported(e)),
        }
    }

    fn func_attr(&mut self, call: &ast::ExprCall) -> Result<()> {
        let args = Args::bind(self.source, call, &["attrs"])?;
        let Py::Dict(attrs) = args.need("attrs")? else {
            return Err(self.source.unsupported(call));
        };
        for item in &attrs.items {
            let key = match &item.key {
                Some(key) => string(self.source, key)?,
                None => return Err(self.source.unsupported(call)),
            };
            if key == "reflex.result_names" {
                let Some(names) = elements(&item.value) else {
                    return Err(self.source.expected("a list", &item.value));
                };
                let names = names.iter().map(|e| string(self.source, e).map(str::to_string));
                self.result_names = Some(names.collect::<Result<_>>()?);
            } else if INLINE_ATTRS.contains(&key) {
                self.inline |= is_true(&item.value);
            } else if !SILENT_ATTRS.contains(&key) {
                let message = format!("the function attribute `{key}` is not supported");
                return Err(self.source.refuse(item.value.start(), message));
            }
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, annotation: Option<&Py>, value: &Py) -> Result<()> {
        if let Py::Call(call) = value
            && is_path(&call.func, "T.int64")
            && call.arguments.is_empty()
        {
            self.dims.declare(name);
            self.sync_dims();
            return Ok(());
        }
        let declared = match annotation {
            Some(e) if !self.vm_lowered => Some(self.dims.annotation(e)?),
            _ => None,
        };
        self.sync_dims();
        let item = self.annotated_expr(value, declared.as_ref())?;
        self.check(&item, declared.as_ref(), value)?;
        self.bind_name(name, item);
        Ok(())
    }

    fn unpack(&mut self, names: &ast::ExprTuple, value: &Py) -> Result<()> {
        let item = self.expr(value)?;
        let fields = self.fields(item, value.start())?;
        if fields.len() != names.elts.len() {
            let message = format!("{} names for {} values", names.elts.len(), fields.len());
            return Err(self.source.refuse(value.start(), message));
        }
        for (name, field) in names.elts.iter().zip(fields) {
            match name {
                Py::Name(name) => self.bind_name(name.id.as_str(), ParsedValue::Value(field)),
                _ => return Err(self.source.unsupported(name)),
            }
        }
        Ok(())
    }

    /// Gives what has no name yet this one.
    pub(super) fn bind_name(&mut self, name: &str, item: ParsedValue) {
        if let ParsedValue::Value(value) = &item
            && self.b.name(*value).is_empty()
        {
            self.b.set_name(*value, name);
        }
        if name != "_" {
            self.define(name, item);
        }
    }

    /// Compares what was inferred with the annotation. Where they may differ, inference holds.
    fn check(&self, item: &ParsedValue, declared: Option<&Annotation>, at: &Py) -> Result<()> {
        let Some(declared) = declared else { return Ok(()) };
        let fits = match (item, declared) {
            (ParsedValue::Value(value), declared) => agrees(self.b.ty(*value), declared),
            (ParsedValue::Values(values), Annotation::Tuple(items)) => {
                let types = values.iter().map(|v| self.b.ty(*v));
                values.len() == items.len() && types.zip(items).all(|(t, w)| agrees(t, w))
            }
            (ParsedValue::Values(values), _) => {
                matches!(declared, Annotation::Any) || values.is_empty()
            }
            (ParsedValue::Shape(dims), Annotation::Shape(ShapeAnnotation::Dims(other))) => {
                same_dims(dims, other)
            }
            (ParsedValue::Shape(_) | ParsedValue::ShapeOf(_), declared) => {
                matches!(declared, Annotation::Shape(_))
            }
            (ParsedValue::Class, _) => false,
        };
        if fits {
            return Ok(());
        }
        let found = match item {
            ParsedValue::Value(value) => format!("{:?}", self.b.ty(*value)),
            ParsedValue::Values(values) => {
                format!("{:?}", values.iter().map(|v| self.b.ty(*v)).collect::<Vec<_>>())
            }
            ParsedValue::Shape(_) | ParsedValue::ShapeOf(_) | ParsedValue::Class => {
                "no tensor".to_string()
            }
        };
        let text = self.source.shown(at);
        let message = format!("`{text}` is {found}, which is not the type that is written");
        Err(self.source.refuse(at.start(), message))
    }

    /// The results of a function: those of a tuple one by one.
    pub(super) fn results(&mut self, e: &Py) -> Result<Vec<Value>> {
        match e {
            _ if self.vm_lowered => Ok(vec![self.value(e)?]),
            Py::Tuple(t) => t.elts.iter().map(|e| self.value(e)).collect(),
            _ => {
                let item = self.expr(e)?;
                match item {
                    ParsedValue::Shape(_) | ParsedValue::ShapeOf(_) => {
                        Ok(vec![self.single_value(item, e)?])
                    }
                    _ => self.fields(item, e.start()),
                }
            }
        }
    }
}

fn same_dims(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| dims::equal(a, b) != Some(false))
}

/// Whether a type may be the annotation.
fn agrees(ty: &Type, declared: &Annotation) -> bool {
    match (ty, declared) {
        (Type::Tensor(t), Annotation::Tensor { dtype, dims }) => {
            dtype.is_none_or(|dtype| dtype == t.dtype)
                && match dims {
                    ShapeAnnotation::Dims(dims) => same_dims(&t.shape, dims),
                    ShapeAnnotation::Rank(rank) => *rank == t.shape.len(),
                    ShapeAnnotation::Unknown => true,
                }
        }
        (Type::Tuple(types), Annotation::Tuple(items)) => {
            types.len() == items.len() && types.iter().zip(items).all(|(t, w)| agrees(t, w))
        }
        (Type::Shape(dims), Annotation::Shape(ShapeAnnotation::Dims(other))) => {
            same_dims(dims, other)
        }
        (Type::Shape(dims), Annotation::Shape(ShapeAnnotation::Rank(rank))) => dims.len() == *rank,
        (Type::Shape(_), Annotation::Shape(ShapeAnnotation::Unknown)) => true,
        (Type::Prim(dtype), Annotation::Prim(other)) => dtype == other,
        (_, Annotation::Any) => true,
        (Type::Object, _) => true,
        (Type::Func, Annotation::Func) => true,
        (Type::AnyTensor { .. }, Annotation::Tensor { .. }) => true,
        (Type::AnyShape, Annotation::Shape(_)) => true,
        (
            Type::Tensor(_)
            | Type::AnyTensor { .. }
            | Type::AnyShape
            | Type::Tuple(_)
            | Type::Shape(_)
            | Type::Prim(_)
            | Type::Func,
            _,
        ) => false,
    }
}

/// Returns true for `True` and numbers other than 0, alone or in `T.bool(...)` and the like.
fn is_true(e: &Py) -> bool {
    match e {
        Py::BooleanLiteral(value) => value.value,
        Py::NumberLiteral(number) => match &number.value {
            ast::Number::Int(value) => value.as_u64() != Some(0),
            _ => true,
        },
        Py::Call(call) => call.arguments.args.first().is_some_and(is_true),
        _ => false,
    }
}

/// Returns true if the function is marked `@R.function(private=True)`.
fn is_private(def: &ast::StmtFunctionDef) -> bool {
    def.decorator_list.iter().any(|decorator| match &decorator.expression {
        Py::Call(call) => call.arguments.find_keyword("private").is_some_and(|k| is_true(&k.value)),
        _ => false,
    })
}
