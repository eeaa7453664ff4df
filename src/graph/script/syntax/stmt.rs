//! Statements as written: what is accepted, and their text.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use ruff_python_ast::{self as ast, Expr as Py, Stmt};

use super::expr::{self, ExprPrinter};
use super::{tvm_compat, type_vars, unsupported};
use crate::script::source::{Result, Source};

/// Refuses what TVMScript has no statement for.
pub(super) fn accept(source: Source<'_>, body: &[Stmt]) -> Result<()> {
    body.iter().try_for_each(|stmt| accept_one(source, stmt))
}

fn accept_one(source: Source<'_>, stmt: &Stmt) -> Result<()> {
    let one = |e: &Py| expr::accept(source, e);
    match stmt {
        Stmt::Import(_) | Stmt::ImportFrom(_) | Stmt::Pass(_) => Ok(()),
        Stmt::Break(_) | Stmt::Continue(_) => Ok(()),
        Stmt::Expr(e) => one(&e.value),
        Stmt::Return(r) => r.value.iter().try_for_each(|e| one(e)),
        Stmt::Assign(a) => a.targets.iter().try_for_each(one).and_then(|()| one(&a.value)),
        Stmt::AnnAssign(a) => {
            one(&a.target)?;
            one(&a.annotation)?;
            a.value.iter().try_for_each(|e| one(e))
        }
        Stmt::Assert(a) => {
            one(&a.test)?;
            a.msg.iter().try_for_each(|e| one(e))
        }
        Stmt::If(i) => {
            one(&i.test)?;
            accept(source, &i.body)?;
            i.elif_else_clauses.iter().try_for_each(|clause| {
                clause.test.iter().try_for_each(one)?;
                accept(source, &clause.body)
            })
        }
        Stmt::While(w) if w.orelse.is_empty() => {
            one(&w.test).and_then(|()| accept(source, &w.body))
        }
        Stmt::For(f) if f.orelse.is_empty() && !f.is_async => {
            one(&f.target)?;
            one(&f.iter)?;
            accept(source, &f.body)
        }
        Stmt::With(w) if !w.is_async => {
            for item in &w.items {
                one(&item.context_expr)?;
                item.optional_vars.iter().try_for_each(|e| one(e))?;
            }
            accept(source, &w.body)
        }
        Stmt::FunctionDef(def) if !def.is_async => {
            accept_signature(source, def)?;
            accept(source, &def.body)
        }
        Stmt::ClassDef(class) if class.arguments.is_none() => {
            class.decorator_list.iter().try_for_each(|d| one(&d.expression))?;
            accept(source, &class.body)
        }
        _ => unsupported(source, stmt),
    }
}

fn accept_signature(source: Source<'_>, def: &ast::StmtFunctionDef) -> Result<()> {
    let one = |e: &Py| expr::accept(source, e);
    def.decorator_list.iter().try_for_each(|d| one(&d.expression))?;
    def.returns.iter().try_for_each(|e| one(e))?;
    let p = &*def.parameters;
    if p.vararg.is_some() || p.kwarg.is_some() || !p.kwonlyargs.is_empty() {
        return unsupported(source, p);
    }
    for param in p.posonlyargs.iter().chain(&p.args) {
        if let Some(default) = &param.default {
            return unsupported(source, &**default);
        }
        param.parameter.annotation.iter().try_for_each(|e| one(e))?;
    }
    Ok(())
}

/// The text of a module.
pub(super) fn print(source: Source<'_>, body: &[Stmt]) -> String {
    let symbols = type_vars(body);
    let mut out = String::new();
    if !symbols.is_empty() {
        out += "# from typing import TypeVar\n";
    }
    out += "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\
            # from tvm.script import relax as R\n\n";
    let exprs = ExprPrinter { source, names: HashMap::new() };
    let mut p = Printer { exprs, symbols, out, indent: 0 };
    p.block(body);
    p.out
}

struct Printer<'s> {
    exprs: ExprPrinter<'s>,
    /// Names that the module declares.
    symbols: HashSet<String>,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn suite(&mut self, body: &[Stmt]) {
        self.indent += 1;
        self.block(body);
        self.indent -= 1;
    }

    fn block(&mut self, body: &[Stmt]) {
        for (n, stmt) in body.iter().enumerate() {
            if n > 0 && matches!(stmt, Stmt::FunctionDef(_)) {
                self.out.push('\n');
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let w = &self.exprs;
        match stmt {
            // TVM's parser knows the names by itself.
            Stmt::Import(_) | Stmt::ImportFrom(_) => {}
            Stmt::Pass(_) => self.line("pass"),
            Stmt::Break(_) => self.line("break"),
            Stmt::Continue(_) => self.line("continue"),
            Stmt::Expr(e) => self.line(&w.expr(&e.value)),
            Stmt::Return(r) => {
                let value = r.value.as_ref().map_or(String::new(), |e| format!(" {}", w.expr(e)));
                self.line(&format!("return{value}"));
            }
            Stmt::Assign(a) => {
                let targets = a.targets.iter().fold(String::new(), |mut text, e| {
                    let _ = write!(text, "{} = ", assigned(w, e));
                    text
                });
                self.line(&format!("{targets}{}", w.expr(&a.value)));
            }
            Stmt::AnnAssign(a) => {
                let value = a.value.as_ref();
                let value = value.map_or(String::new(), |e| format!(" = {}", assigned(w, e)));
                let ty = tvm_compat::annotation(w, &a.annotation);
                self.line(&format!("{}: {ty}{value}", w.expr(&a.target)));
            }
            Stmt::Assert(a) => {
                let message = a.msg.as_ref().map_or(String::new(), |e| format!(", {}", w.inner(e)));
                self.line(&format!("assert {}{message}", w.inner(&a.test)));
            }
            Stmt::If(i) => {
                self.line(&format!("if {}:", w.expr(&i.test)));
                self.suite(&i.body);
                for clause in &i.elif_else_clauses {
                    self.clause(clause);
                }
            }
            Stmt::While(l) => {
                self.line(&format!("while {}:", w.expr(&l.test)));
                self.suite(&l.body);
            }
            Stmt::For(l) => {
                self.line(&format!("for {} in {}:", assigned(w, &l.target), w.expr(&l.iter)));
                self.suite(&l.body);
            }
            Stmt::With(l) => {
                let items: Vec<String> = l.items.iter().map(|item| with_item(w, item)).collect();
                self.line(&format!("with {}:", items.join(", ")));
                self.suite(&l.body);
            }
            Stmt::FunctionDef(def) => self.function(def),
            Stmt::ClassDef(class) => self.class(class),
            // Nothing else is accepted.
            _ => self.line(&w.source.shown(stmt)),
        }
    }

    fn class(&mut self, class: &ast::StmtClassDef) {
        for decorator in &class.decorator_list {
            self.line(&format!("@{}", self.exprs.expr(&decorator.expression)));
        }
        self.line(&format!("class {}:", class.name));
        self.suite(&class.body);
    }

    fn clause(&mut self, clause: &ast::ElifElseClause) {
        match &clause.test {
            Some(test) => self.line(&format!("elif {}:", self.exprs.expr(test))),
            None => self.line("else:"),
        }
        self.suite(&clause.body);
    }

    fn function(&mut self, def: &ast::StmtFunctionDef) {
        for decorator in &def.decorator_list {
            self.line(&format!("@{}", self.exprs.expr(&decorator.expression)));
        }
        let outer = self.exprs.names.clone();
        self.exprs.names.extend(tvm_compat::clashes(def, &self.symbols));
        let w = &self.exprs;
        let own = def.type_params.as_ref().map_or(String::new(), |params| {
            let names = params.type_params.iter().map(|p| p.name().to_string());
            format!("[{}]", names.collect::<Vec<_>>().join(", "))
        });
        let p = &*def.parameters;
        let params = p.posonlyargs.iter().chain(&p.args).map(|param| {
            let ty = param
                .parameter
                .annotation
                .as_ref()
                .map_or(String::new(), |e| format!(": {}", tvm_compat::annotation(w, e)));
            format!("{}{ty}", param.parameter.name)
        });
        let params: Vec<String> = params.collect();
        let returns = def.returns.as_deref().filter(|e| tvm_compat::readable(e));
        let returns =
            returns.map_or(String::new(), |e| format!(" -> {}", tvm_compat::annotation(w, e)));
        self.line(&format!("def {}{own}({}){returns}:", def.name, params.join(", ")));
        self.suite(&def.body);
        self.exprs.names = outer;
    }
}

fn with_item(w: &ExprPrinter<'_>, item: &ast::WithItem) -> String {
    let context = w.inner(&item.context_expr);
    match &item.optional_vars {
        Some(names) => format!("{context} as {}", w.inner(names)),
        None => context,
    }
}

/// A side of an assignment: the items of a tuple without parentheses.
fn assigned(w: &ExprPrinter<'_>, e: &Py) -> String {
    match e {
        Py::Tuple(t) if t.elts.len() > 1 => w.exprs(&t.elts),
        _ => w.expr(e),
    }
}
