//! Blocks with a body of their own: dataflow blocks, branches and loops.

use std::collections::HashMap;

use reflex_tir::{DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::{Ranged, TextSize};

use super::args::{Args, elements};
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use super::types::{Annotation, ShapeAnnotation, is_path};
use crate::{Body, Loop, Node, TensorType, Type, Value, dims};

/// A branch of an `if` that has been read.
struct Branch {
    name: String,
    body: Body,
    declared: Option<Annotation>,
}

impl FuncParser<'_, '_> {
    pub(super) fn with_block(&mut self, w: &ast::StmtWith) -> Result<()> {
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
    pub(super) fn choose(&mut self, i: &ast::StmtIf) -> Result<()> {
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
        let declared = then.declared.or(otherwise.declared);
        let types = self.join(&then.body.results, &otherwise.body.results, declared, i)?;
        let count = types.len();
        let node = Node::If { cond, then: then.body, otherwise: otherwise.body };
        let outputs = self.b.bind_values(node, types);
        let item =
            if count == 1 { ParsedValue::Value(outputs[0]) } else { ParsedValue::Values(outputs) };
        self.bind_name(&then.name, item);
        Ok(())
    }

    fn branch(&mut self, body: &[Stmt], at: TextSize, suffix: &str) -> Result<Branch> {
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
        let declared = match annotation {
            Some(e) if !self.vm_lowered => Some(self.dims.annotation(e)?),
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
        Ok(Branch { name, body, declared })
    }

    /// Types of an `if`: a dimension in which the branches differ becomes a new symbol.
    fn join(
        &mut self,
        then: &[Value],
        otherwise: &[Value],
        declared: Option<Annotation>,
        at: &ast::StmtIf,
    ) -> Result<Vec<Type>> {
        let mut annotations = match declared {
            Some(Annotation::Tuple(items)) if items.len() == then.len() => items,
            Some(one) if then.len() == 1 => vec![one],
            _ => vec![],
        }
        .into_iter();
        let mut types = vec![];
        for (a, b) in then.iter().zip(otherwise) {
            let (a, b) = (self.b.ty(*a).clone(), self.b.ty(*b).clone());
            let annotation = annotations.next();
            let declared = match &annotation {
                Some(Annotation::Tensor { dims: ShapeAnnotation::Dims(dims), .. }) => Some(dims),
                _ => None,
            };
            types.push(match (a, b) {
                (a, b) if a == b && declared.is_none() => a,
                (Type::Tensor(a), Type::Tensor(b))
                    if a.dtype == b.dtype && a.shape.len() == b.shape.len() =>
                {
                    let shape = match declared.filter(|dims| dims.len() == a.shape.len()) {
                        Some(dims) => dims.clone(),
                        None => self.join_dims(&a.shape, &b.shape),
                    };
                    Type::Tensor(TensorType::new(a.dtype, shape))
                }
                (a, b) if a == b => a,
                _ if self.vm_lowered => Type::Object,
                (Type::Object, _) | (_, Type::Object) => Type::Object,
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
    fn run_loop(&mut self, call: &ast::ExprCall, names: Option<&Py>, body: &[Stmt]) -> Result<()> {
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
        let params = self.loop_params(types, names)?;
        let NextIteration { name, annotation, results } = self.loop_body(call, body)?;
        let outputs = self.dims.ty(annotation, name)?;
        self.sync_dims();
        self.scopes.pop();
        let body = self.b.close(results);
        let types = match outputs {
            Type::Tuple(types) if body.results.len() != 2 => types,
            one => vec![one],
        };
        let (iter, cond_in, carried) = (params[0], params[1], params[2..].to_vec());
        let node = Loop { max_trips, cond, init, iter, cond_in, carried, body };
        let outputs = self.b.bind_values(Node::Loop(Box::new(node)), types);
        let item = match outputs.as_slice() {
            [one] => ParsedValue::Value(*one),
            _ => ParsedValue::Values(outputs),
        };
        self.bind_name(name, item);
        Ok(())
    }

    /// Declares the parameters of a loop body: iteration, condition, then the carried values.
    fn loop_params(&mut self, carried: &[Py], names: &[Py]) -> Result<Vec<Value>> {
        let scalar = |dtype| Type::Tensor(TensorType::new(dtype, vec![]));
        let mut types = vec![scalar(DType::I64), scalar(DType::BOOL)];
        for ty in carried {
            types.push(self.dims.ty(ty, "d")?);
        }
        self.sync_dims();
        let mut params = vec![];
        for (name, ty) in names.iter().zip(types) {
            let Py::Name(name) = name else { return Err(self.source.unsupported(name)) };
            let value = self.b.value_of(name.id.as_str(), ty);
            self.define(name.id.as_str(), ParsedValue::Value(value));
            params.push(value);
        }
        Ok(params)
    }

    /// Reads the statements of a loop up to its `R.reflex.next`.
    fn loop_body<'a>(
        &mut self,
        call: &ast::ExprCall,
        body: &'a [Stmt],
    ) -> Result<NextIteration<'a>> {
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
        Ok(NextIteration { name: name.id.as_str(), annotation: &last.annotation, results })
    }
}

/// `name: annotation = R.reflex.next(...)`, the end of a loop body.
struct NextIteration<'a> {
    name: &'a str,
    annotation: &'a Py,
    /// Next condition, next carried values, scan values.
    results: Vec<Value>,
}
