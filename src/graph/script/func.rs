//! Functions: signature, statements, branches and loops.

use std::collections::{HashMap, HashSet};

use reflex_tir::{DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::{Ranged, TextSize};

use super::args::{Args, elements, string};
use super::module::{Context, is_machine_form, parameters};
use super::types::{Dims, Known, Written, is_path};
use super::value::Item;
use super::{Read, Source};
use crate::builder::FuncBuilder;
use crate::{Body, Func, Loop, Module, Node, TensorType, Type, Value, dims};

/// Attributes of functions that say nothing the engine needs to hear.
const SILENT_ATTRS: [&str; 7] = [
    "global_symbol",
    "num_input",
    "Primitive",
    "relax.force_pure",
    "tir_var_upper_bound",
    "tir_var_lower_bound",
    "tir_non_negative_var",
];

/// A function that is being read.
pub(super) struct FuncParser<'s, 'm> {
    pub source: Source<'s>,
    pub cx: &'s Context,
    pub b: FuncBuilder<'m>,
    pub dims: Dims<'s>,
    /// Dimensions that the builder knows.
    synced: usize,
    scopes: Vec<HashMap<String, Item>>,
    result_names: Option<Vec<String>>,
    /// Fields of the tuples that were made here.
    pub tuples: HashMap<Value, Vec<Value>>,
    /// Expressions around the one that is read.
    pub depth: usize,
    /// Whether the function is what TVM's pipeline leaves, where types say nothing.
    pub machine: bool,
}

impl<'s, 'm> FuncParser<'s, 'm> {
    /// Reads one definition of the class; constants go into `module`.
    pub fn function(
        source: Source<'s>,
        cx: &'s Context,
        symbols: &'s HashSet<String>,
        def: &ast::StmtFunctionDef,
        module: &'m mut Module,
    ) -> Read<Func> {
        let mut p = FuncParser::new(source, cx, symbols, def.name.as_str(), module);
        p.machine = is_machine_form(def);
        p.parameters(def)?;
        p.rest(def)
    }

    /// A function without parameters or body so far.
    pub(super) fn new(
        source: Source<'s>,
        cx: &'s Context,
        symbols: &'s HashSet<String>,
        name: &str,
        module: &'m mut Module,
    ) -> FuncParser<'s, 'm> {
        FuncParser {
            source,
            cx,
            b: FuncBuilder::new(module, name),
            dims: Dims::new(source, symbols),
            synced: 0,
            scopes: vec![HashMap::new()],
            result_names: None,
            tuples: HashMap::new(),
            depth: 0,
            machine: false,
        }
    }

    /// Declares the parameters. An integer among them is a dimension too.
    pub(super) fn parameters(&mut self, def: &ast::StmtFunctionDef) -> Read<()> {
        if self.machine {
            for param in def.parameters.iter_non_variadic_params() {
                let name = param.parameter.name.as_str();
                let value = self.b.param_of(name, Type::Object);
                self.define(name, Item::Value(value));
            }
            return Ok(());
        }
        let params = parameters(self.source, def, &mut self.dims)?;
        self.sync_dims();
        let mut integers = vec![];
        for (name, ty) in params {
            let integer = ty == Type::Prim(DType::I64);
            let value = self.b.param_of(name.clone(), ty);
            self.define(&name, Item::Value(value));
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
    pub(super) fn rest(mut self, def: &ast::StmtFunctionDef) -> Read<Func> {
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
        Ok(self.b.finish_detached(results, names))
    }

    /// Makes the builder's dimensions those of the text.
    pub fn sync_dims(&mut self) {
        for name in &self.dims.order[self.synced..] {
            self.b.sym(name.clone());
        }
        self.synced = self.dims.order.len();
    }

    pub fn lookup(&self, name: &str) -> Option<Item> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    pub(super) fn define(&mut self, name: &str, item: Item) {
        self.scopes.last_mut().expect("a scope is open").insert(name.to_string(), item);
    }

    fn statements(&mut self, body: &[Stmt]) -> Read<()> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &Stmt) -> Read<()> {
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
    fn effect(&mut self, e: &Py) -> Read<()> {
        match e {
            Py::StringLiteral(_) => Ok(()),
            Py::Call(call) if is_path(&call.func, "R.func_attr") => self.func_attr(call),
            // Values of a dataflow block are visible after it anyway.
            Py::Call(call) if is_path(&call.func, "R.output") => Ok(()),
            Py::Call(_) => self.item(e).map(|_| ()),
            _ => Err(self.source.unsupported(e)),
        }
    }

    fn func_attr(&mut self, call: &ast::ExprCall) -> Read<()> {
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
                self.result_names = Some(names.collect::<Read<_>>()?);
            } else if !SILENT_ATTRS.contains(&key) {
                let message = format!("the function attribute `{key}` is not supported");
                return Err(self.source.refuse(item.value.start(), message));
            }
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, annotation: Option<&Py>, value: &Py) -> Read<()> {
        if let Py::Call(call) = value
            && is_path(&call.func, "T.int64")
            && call.arguments.is_empty()
        {
            self.dims.declare(name);
            self.sync_dims();
            return Ok(());
        }
        let written = match annotation {
            Some(e) if !self.machine => Some(self.dims.written(e)?),
            _ => None,
        };
        self.sync_dims();
        let item = self.annotated_item(value, written.as_ref())?;
        self.check(&item, written.as_ref(), value)?;
        self.bind_name(name, item);
        Ok(())
    }

    fn unpack(&mut self, names: &ast::ExprTuple, value: &Py) -> Read<()> {
        let item = self.item(value)?;
        let fields = self.fields(item, value.start())?;
        if fields.len() != names.elts.len() {
            let message = format!("{} names for {} values", names.elts.len(), fields.len());
            return Err(self.source.refuse(value.start(), message));
        }
        for (name, field) in names.elts.iter().zip(fields) {
            match name {
                Py::Name(name) => self.bind_name(name.id.as_str(), Item::Value(field)),
                _ => return Err(self.source.unsupported(name)),
            }
        }
        Ok(())
    }

    /// Gives what has no name yet this one.
    fn bind_name(&mut self, name: &str, item: Item) {
        if let Item::Value(value) = &item
            && self.b.name(*value).is_empty()
        {
            self.b.set_name(*value, name);
        }
        if name != "_" {
            self.define(name, item);
        }
    }

    /// Compares what was inferred with what is written. Where they may differ, inference holds.
    fn check(&self, item: &Item, written: Option<&Written>, at: &Py) -> Read<()> {
        let Some(written) = written else { return Ok(()) };
        let fits = match (item, written) {
            (Item::Value(value), written) => agrees(self.b.ty(*value), written),
            (Item::Several(values), Written::Tuple(items)) => {
                let types = values.iter().map(|v| self.b.ty(*v));
                values.len() == items.len() && types.zip(items).all(|(t, w)| agrees(t, w))
            }
            (Item::Several(values), _) => matches!(written, Written::Any) || values.is_empty(),
            (Item::Shape(dims), Written::Shape(Known::Dims(other))) => same_dims(dims, other),
            (Item::Shape(_) | Item::ShapeOf(_), written) => matches!(written, Written::Shape(_)),
            (Item::Members, _) => false,
        };
        if fits {
            return Ok(());
        }
        let found = match item {
            Item::Value(value) => format!("{:?}", self.b.ty(*value)),
            Item::Several(values) => {
                format!("{:?}", values.iter().map(|v| self.b.ty(*v)).collect::<Vec<_>>())
            }
            Item::Shape(_) | Item::ShapeOf(_) | Item::Members => "no tensor".to_string(),
        };
        let text = self.source.shown(at);
        let message = format!("`{text}` is {found}, which is not the type that is written");
        Err(self.source.refuse(at.start(), message))
    }

    /// The results of a function: those of a tuple one by one.
    fn results(&mut self, e: &Py) -> Read<Vec<Value>> {
        match e {
            _ if self.machine => Ok(vec![self.value(e)?]),
            Py::Tuple(t) => t.elts.iter().map(|e| self.value(e)).collect(),
            _ => {
                let item = self.item(e)?;
                match item {
                    Item::Shape(_) | Item::ShapeOf(_) => Ok(vec![self.item_value(item, e)?]),
                    _ => self.fields(item, e.start()),
                }
            }
        }
    }

    fn with_block(&mut self, w: &ast::StmtWith) -> Read<()> {
        let [item] = &w.items[..] else { return Err(self.source.unsupported(w)) };
        match &item.context_expr {
            Py::Call(call) if is_path(&call.func, "R.dataflow") => self.statements(&w.body),
            Py::Call(call) if is_path(&call.func, "R.reflex.loop") => {
                self.run_loop(call, item.optional_vars.as_deref(), &w.body)
            }
            other => Err(self.source.unsupported(other)),
        }
    }

    /// `if c: ... y = a` / `else: ... y = b`: the last name of both branches is the result.
    fn choose(&mut self, i: &ast::StmtIf) -> Read<()> {
        let [other] = &i.elif_else_clauses[..] else {
            return Err(self.source.refuse(i.start(), "an `if` needs exactly one `else`"));
        };
        if other.test.is_some() {
            return Err(self.source.refuse(other.start(), "`elif` is not supported"));
        }
        let cond = self.value(&i.test)?;
        let then = self.branch(&i.body, i.start(), "then")?;
        let otherwise = self.branch(&other.body, other.start(), "else")?;
        if then.name != otherwise.name || then.body.results.len() != otherwise.body.results.len() {
            let message = "the branches do not end in one name of one type";
            return Err(self.source.refuse(i.start(), message));
        }
        let written = then.written.or(otherwise.written);
        let types = self.join(&then.body.results, &otherwise.body.results, written, i)?;
        let count = types.len();
        let node = Node::If { cond, then: then.body, otherwise: otherwise.body };
        let outputs = self.b.bind_values(node, types);
        let item = if count == 1 { Item::Value(outputs[0]) } else { Item::Several(outputs) };
        self.bind_name(&then.name, item);
        Ok(())
    }

    fn branch(&mut self, body: &[Stmt], at: TextSize, suffix: &str) -> Read<Branch> {
        let refuse = |p: &Self| p.source.refuse(at, "a branch does not end in an assignment");
        let Some((last, rest)) = body.split_last() else { return Err(refuse(self)) };
        let (name, annotation, value) = match last {
            Stmt::Assign(a) => match &a.targets[..] {
                [Py::Name(name)] => (name.id.to_string(), None, &*a.value),
                _ => return Err(refuse(self)),
            },
            Stmt::AnnAssign(a) => match (&*a.target, a.value.as_deref()) {
                (Py::Name(name), Some(value)) => (name.id.to_string(), Some(&*a.annotation), value),
                _ => return Err(refuse(self)),
            },
            _ => return Err(refuse(self)),
        };
        self.b.open();
        self.scopes.push(HashMap::new());
        self.statements(rest)?;
        let written = match annotation {
            Some(e) if !self.machine => Some(self.dims.written(e)?),
            _ => None,
        };
        self.sync_dims();
        let results = self.results(value)?;
        for result in &results {
            if self.b.name(*result).is_empty() && self.b.as_constant(*result).is_none() {
                self.b.set_name(*result, format!("{name}_{suffix}"));
            }
        }
        self.scopes.pop();
        let body = self.b.close(results);
        Ok(Branch { name, body, written })
    }

    /// Types of an `if`: where the branches differ in an extent, it is a new dimension.
    fn join(
        &mut self,
        then: &[Value],
        otherwise: &[Value],
        written: Option<Written>,
        at: &ast::StmtIf,
    ) -> Read<Vec<Type>> {
        let mut annotations = match written {
            Some(Written::Tuple(items)) if items.len() == then.len() => items,
            Some(one) if then.len() == 1 => vec![one],
            _ => vec![],
        }
        .into_iter();
        let mut types = vec![];
        for (a, b) in then.iter().zip(otherwise) {
            let (a, b) = (self.b.ty(*a).clone(), self.b.ty(*b).clone());
            let annotation = annotations.next();
            let written = match &annotation {
                Some(Written::Tensor { dims: Known::Dims(dims), .. }) => Some(dims),
                _ => None,
            };
            types.push(match (a, b) {
                (a, b) if a == b && written.is_none() => a,
                (Type::Tensor(a), Type::Tensor(b))
                    if a.dtype == b.dtype && a.shape.len() == b.shape.len() =>
                {
                    let shape = match written.filter(|dims| dims.len() == a.shape.len()) {
                        Some(dims) => dims.clone(),
                        None => self.join_dims(&a.shape, &b.shape),
                    };
                    Type::Tensor(TensorType::new(a.dtype, shape))
                }
                (a, b) if a == b => a,
                _ if self.machine => Type::Object,
                (a, b) => {
                    let message = format!("the branches give {a:?} and {b:?}");
                    return Err(self.source.refuse(at.start(), message));
                }
            });
        }
        self.sync_dims();
        Ok(types)
    }

    fn join_dims(&mut self, a: &[Expr], b: &[Expr]) -> Vec<Expr> {
        let join = |(a, b): (&Expr, &Expr)| match dims::equal(a, b) {
            Some(true) => a.clone(),
            _ => self.dims.fresh("d"),
        };
        a.iter().zip(b).map(join).collect()
    }

    /// `with R.reflex.loop(trips, cond, init, ty_args=...) as (i, c, x...)`, which ends in
    /// `out = R.reflex.next(cond, carried, scans)`.
    fn run_loop(&mut self, call: &ast::ExprCall, names: Option<&Py>, body: &[Stmt]) -> Read<()> {
        let args = Args::bind(self.source, call, &["max_trips", "cond", "init", "ty_args"])?;
        let max_trips = args.get("max_trips").map(|e| self.value(e)).transpose()?;
        let cond = args.get("cond").map(|e| self.value(e)).transpose()?;
        let init = self.values(args.need("init")?)?;
        let types = elements(args.need("ty_args")?).unwrap_or_default();
        let names = names.and_then(elements).unwrap_or_default();
        if types.len() != init.len() || names.len() != init.len() + 2 {
            let message = "a loop has as many types and names as values, and two names more";
            return Err(self.source.refuse(call.start(), message));
        }
        self.b.open();
        self.scopes.push(HashMap::new());
        let scalar = |dtype| Type::Tensor(TensorType::new(dtype, vec![]));
        let mut all = vec![scalar(reflex_tir::DType::I64), scalar(reflex_tir::DType::BOOL)];
        for ty in types {
            all.push(self.dims.ty(ty, "d")?);
        }
        self.sync_dims();
        let mut values = vec![];
        for (name, ty) in names.iter().zip(all) {
            let Py::Name(name) = name else { return Err(self.source.unsupported(name)) };
            let value = self.b.value_of(name.id.as_str(), ty);
            self.define(name.id.as_str(), Item::Value(value));
            values.push(value);
        }
        let refuse = |p: &Self| {
            p.source.refuse(call.start(), "a loop ends in `out: type = R.reflex.next(...)`")
        };
        let Some((Stmt::AnnAssign(last), rest)) = body.split_last() else {
            return Err(refuse(self));
        };
        let (Py::Name(name), Some(Py::Call(next))) = (&*last.target, last.value.as_deref()) else {
            return Err(refuse(self));
        };
        if !is_path(&next.func, "R.reflex.next") {
            return Err(refuse(self));
        }
        self.statements(rest)?;
        let next = Args::bind(self.source, next, &["cond", "carried", "scans"])?;
        let mut results = vec![self.value(next.need("cond")?)?];
        results.extend(self.values(next.need("carried")?)?);
        results.extend(self.values(next.need("scans")?)?);
        let outputs = self.dims.ty(&last.annotation, name.id.as_str())?;
        self.sync_dims();
        self.scopes.pop();
        let body = self.b.close(results);
        let types = match outputs {
            Type::Tuple(types) if body.results.len() != 2 => types,
            one => vec![one],
        };
        let (iter, cond_in, carried) = (values[0], values[1], values[2..].to_vec());
        let node = Loop { max_trips, cond, init, iter, cond_in, carried, body };
        let outputs = self.b.bind_values(Node::Loop(Box::new(node)), types);
        let item = match outputs.as_slice() {
            [one] => Item::Value(*one),
            _ => Item::Several(outputs),
        };
        self.bind_name(name.id.as_str(), item);
        Ok(())
    }
}

struct Branch {
    name: String,
    body: Body,
    written: Option<Written>,
}

fn same_dims(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| dims::equal(a, b) != Some(false))
}

/// Whether a type may be what is written.
fn agrees(ty: &Type, written: &Written) -> bool {
    match (ty, written) {
        (Type::Tensor(t), Written::Tensor { dtype, dims }) => {
            dtype.is_none_or(|dtype| dtype == t.dtype)
                && match dims {
                    Known::Dims(dims) => same_dims(&t.shape, dims),
                    Known::Rank(rank) => *rank == t.shape.len(),
                    Known::Nothing => true,
                }
        }
        (Type::Tuple(types), Written::Tuple(items)) => {
            types.len() == items.len() && types.iter().zip(items).all(|(t, w)| agrees(t, w))
        }
        (Type::Shape(dims), Written::Shape(Known::Dims(other))) => same_dims(dims, other),
        (Type::Shape(dims), Written::Shape(Known::Rank(rank))) => dims.len() == *rank,
        (Type::Shape(_), Written::Shape(Known::Nothing)) => true,
        (Type::Prim(dtype), Written::Prim(other)) => dtype == other,
        (_, Written::Any) => true,
        (Type::Object, _) => true,
        (Type::Func, Written::Func) => true,
        (Type::AnyTensor { .. }, Written::Tensor { .. }) => true,
        (Type::AnyShape, Written::Shape(_)) => true,
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
