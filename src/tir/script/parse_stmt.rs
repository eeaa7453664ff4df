//! Statements from text.

use std::collections::BTreeMap;

use ruff_python_ast::{self as ast, Expr as Py, Stmt as PyStmt};
use ruff_text_size::Ranged;

use super::parse::{Name, Parser, Read, path, scalar_type};
use crate::arith::Analyzer;
use crate::thread::{BarrierScope, ThreadAxis};
use crate::{Buffer, Expr, For, ForKind, IndexCheck, Stmt, Var, VarData};

/// The contribution of one statement of a suite.
enum SuiteItem {
    Plain(Stmt),
    Let(Var, Expr),
    Allocate(Buffer),
}

impl Parser<'_> {
    /// The statements of one indented suite, in names of their own.
    pub fn suite(&mut self, body: &[PyStmt]) -> Read<Stmt> {
        self.scoped(|p| p.statements(body))
    }

    /// Statements in the names of the suite already open; a binding spans what follows it.
    pub fn statements(&mut self, body: &[PyStmt]) -> Read<Stmt> {
        let mut steps = vec![];
        for stmt in body {
            if let Some(step) = self.deeper(stmt.start(), |p| p.statement(stmt))? {
                steps.push(step);
            }
        }
        let mut tail: Vec<Stmt> = vec![];
        for step in steps.into_iter().rev() {
            match step {
                // Built back to front, turned round when a binding or the suite closes it.
                SuiteItem::Plain(stmt) => tail.push(stmt),
                SuiteItem::Let(var, value) => {
                    let body = Box::new(sequence(std::mem::take(&mut tail)));
                    tail.push(Stmt::Let { var, value, body });
                }
                SuiteItem::Allocate(buffer) => {
                    let body = Box::new(sequence(std::mem::take(&mut tail)));
                    tail.push(Stmt::Allocate { buffer, body });
                }
            }
        }
        Ok(sequence(tail))
    }

    fn statement(&mut self, stmt: &PyStmt) -> Read<Option<SuiteItem>> {
        let plain = |stmt| Ok(Some(SuiteItem::Plain(stmt)));
        match stmt {
            PyStmt::For(f) => plain(self.for_loop(f)?),
            PyStmt::While(w) if w.orelse.is_empty() => {
                let cond = self.condition(&w.test)?;
                plain(Stmt::While { cond, body: Box::new(self.suite(&w.body)?) })
            }
            PyStmt::If(i) => plain(self.conditional(&i.test, &i.body, &i.elif_else_clauses)?),
            PyStmt::With(w) => match &w.items[..] {
                [ast::WithItem { context_expr: Py::Call(call), .. }] if is_silent(call) => {
                    plain(self.suite(&w.body)?)
                }
                _ => plain(self.sblock(w)?),
            },
            PyStmt::Assign(a) => match &a.targets[..] {
                [Py::Subscript(target)] => plain(self.store(target, &a.value)?),
                [Py::Name(name)] => self.definition(name, &a.value, stmt),
                _ => Err(self.unsupported(stmt)),
            },
            PyStmt::AnnAssign(a) => match (&*a.target, &a.value) {
                (Py::Name(name), Some(value)) => self.scalar(name, &a.annotation, value),
                _ => Err(self.unsupported(stmt)),
            },
            PyStmt::Expr(e) => match self.effect(&e.value)? {
                Some(stmt) => plain(stmt),
                None if self.directive(&e.value)? => Ok(None),
                None => plain(Stmt::nop()),
            },
            PyStmt::Pass(_) => plain(Stmt::nop()),
            _ => Err(self.unsupported(stmt)),
        }
    }

    /// A call that is a statement, if it is one.
    fn effect(&mut self, e: &Py) -> Read<Option<Stmt>> {
        if let Some(call) = self.packed_call(e)? {
            return Ok(Some(Stmt::CallPacked(call)));
        }
        Ok(self.tile(e)?.map(Stmt::Tile).or(barrier(e)))
    }

    /// `T.func_attr({...})` and `T.check_indices(...)` are consumed; `T.evaluate(0)` does nothing.
    fn directive(&mut self, e: &Py) -> Read<bool> {
        let Py::Call(call) = e else { return Err(self.unsupported(e)) };
        match (path(&call.func).as_deref(), &call.arguments.args[..]) {
            (Some("T.func_attr"), [attrs]) => {
                let mut attrs = self.func_attrs(attrs)?;
                if let Some(name) = attrs.remove("global_symbol") {
                    self.func.name = name;
                }
                if let Some(count) = attrs.remove("reflex.num_outputs") {
                    self.num_outputs = count.parse().ok();
                }
                self.func.attrs.extend(attrs);
                Ok(true)
            }
            (Some("T.check_indices"), [indices, Py::List(bounds), Py::StringLiteral(node)]) => {
                let buffer = self.named_buffer(indices)?;
                let bounds = bounds.elts.iter().map(|e| self.index(e)).collect::<Read<_>>()?;
                let node = node.value.to_str().to_owned();
                self.func.checks.push(IndexCheck { buffer, bounds, node });
                Ok(true)
            }
            _ if is_silent(call) => Ok(true),
            (Some("T.evaluate"), [Py::NumberLiteral(_)]) => Ok(false),
            _ => Err(self.unsupported(e)),
        }
    }

    /// `name = T.alloc_buffer(...)` and other calls that declare.
    fn definition(
        &mut self,
        name: &ast::ExprName,
        value: &Py,
        stmt: &PyStmt,
    ) -> Read<Option<SuiteItem>> {
        let name = name.id.as_str();
        let Py::Call(call) = value else { return Err(self.unsupported(stmt)) };
        let function = path(&call.func).unwrap_or_default();
        let scope = match &*function {
            "T.match_buffer" => {
                self.match_buffer(name, call)?;
                return Ok(None);
            }
            "T.int64" | "T.int32" if call.arguments.args.is_empty() => {
                let var = self.func.new_var(name);
                self.define(name, Name::Var(var));
                return Ok(None);
            }
            "T.decl_buffer" => {
                self.another_name(name, call)?;
                return Ok(None);
            }
            "T.sblock_alloc_buffer" => {
                self.block_allocation(name, call)?;
                return Ok(None);
            }
            "T.alloc_buffer" => None,
            "T.alloc_local" => Some(crate::Scope::Local),
            "T.alloc_shared" => Some(crate::Scope::Shared),
            _ => return Err(self.unsupported(stmt)),
        };
        let buffer = self.buffer(name, &call.arguments, call.start())?;
        if let Some(scope) = scope {
            self.func.buffers[buffer].scope = scope;
        }
        self.define(name, Name::Buffer(buffer));
        Ok(Some(SuiteItem::Allocate(buffer)))
    }

    /// `name = T.sblock_alloc_buffer(...)`: the function's, unless the block being read takes it.
    pub fn block_allocation(&mut self, name: &str, call: &ast::ExprCall) -> Read<()> {
        let buffer = self.buffer(name, &call.arguments, call.start())?;
        self.func.allocs.push(buffer);
        self.define(name, Name::Buffer(buffer));
        Ok(())
    }

    /// `x: T.let[T.float32] = value`, a scalar that never changes.
    fn scalar(
        &mut self,
        name: &ast::ExprName,
        annotation: &Py,
        value: &Py,
    ) -> Read<Option<SuiteItem>> {
        let inner = match annotation {
            Py::Subscript(s) if path(&s.value).as_deref() == Some("T.let") => &*s.slice,
            _ => return Err(self.unsupported(annotation)),
        };
        let Some(dtype) = path(inner).as_deref().and_then(scalar_type) else {
            return Err(self.unsupported(annotation));
        };
        let value = self.expr_of(value, dtype)?;
        let data = VarData { name: name.id.as_str().into(), dtype: value.dtype() };
        let var = self.func.vars.push(data);
        self.define(&name.id, Name::Var(var));
        Ok(Some(SuiteItem::Let(var, value)))
    }

    fn store(&mut self, target: &ast::ExprSubscript, value: &Py) -> Read<Stmt> {
        let (buffer, indices) = self.element(target)?;
        let value = self.expr_of(value, self.func.buffers[buffer].dtype)?;
        Ok(Stmt::store(buffer, indices, value))
    }

    fn conditional(
        &mut self,
        test: &Py,
        body: &[PyStmt],
        clauses: &[ast::ElifElseClause],
    ) -> Read<Stmt> {
        let cond = self.condition(test)?;
        let then = Box::new(self.suite(body)?);
        let otherwise = match clauses.split_first() {
            None => None,
            Some((clause, rest)) => Some(Box::new(match &clause.test {
                None => self.suite(&clause.body)?,
                Some(test) => {
                    self.deeper(test.start(), |p| p.conditional(test, &clause.body, rest))?
                }
            })),
        };
        Ok(Stmt::If { cond, then, otherwise })
    }

    fn for_loop(&mut self, f: &ast::StmtFor) -> Read<Stmt> {
        let Py::Call(call) = &*f.iter else { return Err(self.unsupported(&*f.iter)) };
        if !f.orelse.is_empty() || f.is_async {
            return Err(self.unsupported(f));
        }
        let names: Vec<&ast::ExprName> = match &*f.target {
            Py::Name(n) => vec![n],
            Py::Tuple(t) => {
                let names = t.elts.iter().map(|e| match e {
                    Py::Name(n) => Ok(n),
                    other => Err(self.unsupported(other)),
                });
                names.collect::<Read<_>>()?
            }
            other => return Err(self.unsupported(other)),
        };
        let args = &call.arguments.args;
        let function = path(&call.func).unwrap_or_default();
        let (kind, annotations) = self.loop_kind(&function, call)?;
        if function == "T.grid" {
            if names.len() != args.len() || names.is_empty() {
                return Err(self.unsupported(call));
            }
            let extents = args.iter().map(|e| self.index(e)).collect::<Read<Vec<_>>>()?;
            return self.nest(&names, &extents, &f.body);
        }
        let ([name], min, end) = match (&names[..], &args[..]) {
            ([name], [end]) => ([*name], Expr::i64(0), self.index(end)?),
            ([name], [min, end]) => ([*name], self.index(min)?, self.index(end)?),
            _ => return Err(self.unsupported(call)),
        };
        let extent = match min.as_int() {
            Some(0) => end,
            _ => Analyzer::new().simplify(&(end - min.clone())),
        };
        let var = self.func.new_var(name.id.as_str());
        self.loops.insert(var, (min.clone(), extent.clone()));
        let body = self.scoped(|p| {
            p.define(&name.id, Name::Var(var));
            p.suite(&f.body)
        })?;
        Ok(Stmt::For(Box::new(For { var, min, extent, kind, annotations, body })))
    }

    /// The loops of one `T.grid`.
    fn nest(&mut self, names: &[&ast::ExprName], extents: &[Expr], body: &[PyStmt]) -> Read<Stmt> {
        let vars: Vec<Var> = names.iter().map(|n| self.func.new_var(n.id.as_str())).collect();
        let body = self.scoped(|p| {
            for ((name, var), extent) in names.iter().zip(&vars).zip(extents) {
                p.define(&name.id, Name::Var(*var));
                p.loops.insert(*var, (Expr::i64(0), extent.clone()));
            }
            p.suite(body)
        })?;
        let loops = vars.into_iter().zip(extents).rev();
        Ok(loops.fold(body, |body, (var, n)| Stmt::serial(var, n.clone(), body)))
    }

    fn loop_kind(
        &self,
        function: &str,
        call: &ast::ExprCall,
    ) -> Read<(ForKind, BTreeMap<String, String>)> {
        let mut annotations = BTreeMap::new();
        let mut axis = None;
        for keyword in &call.arguments.keywords {
            match (keyword.arg.as_ref().map(|a| a.as_str()), &keyword.value) {
                (Some("annotations"), value) => annotations = self.dict(value)?,
                (Some("thread"), Py::StringLiteral(s)) => {
                    let refused = |why| self.refuse(keyword.value.start(), why);
                    axis = Some(s.value.to_str().parse::<ThreadAxis>().map_err(refused)?);
                }
                (_, value) => return Err(self.unsupported(value)),
            }
        }
        let kind = match (function, axis) {
            ("range" | "T.serial" | "T.grid", None) => ForKind::Serial,
            ("T.parallel", None) => ForKind::Parallel,
            ("T.vectorized", None) => ForKind::Vectorized,
            ("T.unroll", None) => ForKind::Unrolled,
            ("T.thread_binding", Some(axis)) => ForKind::ThreadBinding(axis),
            _ => return Err(self.unsupported(call)),
        };
        Ok((kind, annotations))
    }
}

/// `T.tvm_storage_sync("shared")` and its like.
fn barrier(e: &Py) -> Option<Stmt> {
    let Py::Call(call) = e else { return None };
    let [Py::StringLiteral(scope)] = &call.arguments.args[..] else { return None };
    let known = [BarrierScope::Block, BarrierScope::Warp];
    let found = known.into_iter().find(|known| known.name() == scope.value.to_str());
    let named = path(&call.func).as_deref() == Some("T.tvm_storage_sync");
    found.filter(|_| named).map(Stmt::Barrier)
}

/// `T.attr({"pragma_scope": "seq"})`, how TVM is to compile what follows: in order, which is how
/// it is written.
fn is_silent(call: &ast::ExprCall) -> bool {
    let (Some("T.attr"), [Py::Dict(attrs)]) =
        (path(&call.func).as_deref(), &call.arguments.args[..])
    else {
        return false;
    };
    let text = |e: &Py| e.as_string_literal_expr().map(|s| s.value.to_str().to_string());
    let items =
        attrs.items.iter().map(|item| (item.key.as_ref().and_then(text), text(&item.value)));
    items.eq([(Some("pragma_scope".to_string()), Some("seq".to_string()))])
}

/// Statements that were collected back to front, as one.
fn sequence(reversed: Vec<Stmt>) -> Stmt {
    let mut list = reversed;
    list.reverse();
    // Doing nothing among others says nothing.
    if list.len() > 1 {
        list.retain(|s| !matches!(s, Stmt::Seq(l) if l.is_empty()));
    }
    match list.len() {
        1 => list.remove(0),
        _ => Stmt::Seq(list),
    }
}
