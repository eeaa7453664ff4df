//! Reading traces, with the parser of Python that TVMScript is read with. Nothing is run.

use ruff_python_ast::{self as ast, Expr as Py, Stmt as PyStmt};
use ruff_text_size::{Ranged, TextRange};

use super::{Argument, Instruction, Trace, TraceError};
use crate::script::{check_nesting, line_of, path};

/// Reads every trace of a text: functions `def KERNEL(sch):`, beside imports.
pub fn parse_traces(text: &str) -> Result<Vec<Trace>, TraceError> {
    check_nesting(text).map_err(|e| TraceError { line: e.line, message: e.message })?;
    let parsed = ruff_python_parser::parse_module(text).map_err(|e| TraceError {
        line: line_of(text, e.location.start()),
        message: format!("not Python: {}", e.error),
    })?;
    let reader = Reader { text, schedule: String::new() };
    let mut traces: Vec<Trace> = vec![];
    for stmt in &parsed.syntax().body {
        match stmt {
            PyStmt::Import(_) | PyStmt::ImportFrom(_) => {}
            PyStmt::Expr(e) if matches!(*e.value, Py::StringLiteral(_)) => {}
            PyStmt::FunctionDef(def) => {
                let trace = Reader { text, schedule: reader.parameter(def)? }.function(def)?;
                if traces.iter().any(|t| t.kernel == trace.kernel) {
                    let message = format!("`{}` has two traces", trace.kernel);
                    return Err(reader.refuse(def, message));
                }
                traces.push(trace);
            }
            _ => return Err(reader.refuse(stmt, "expected `def KERNEL(sch):`")),
        }
    }
    Ok(traces)
}

/// Reads the call of a primitive, `sch.PRIMITIVE(...)`.
pub(super) fn parse_instruction(text: &str) -> Result<Instruction, TraceError> {
    // As the only statement of a trace, so that lines and messages are the same.
    let mut traces = parse_traces(&format!("def call(sch): {}", text.trim()))?;
    let mut found = traces.pop().map_or_else(Vec::new, |trace| trace.instructions);
    match (found.pop(), found.is_empty() && traces.is_empty()) {
        (Some(one), true) if one.results.is_empty() => Ok(one),
        _ => Err(TraceError {
            line: 1,
            message: "expected one call, `sch.PRIMITIVE(...)`".to_owned(),
        }),
    }
}

struct Reader<'t> {
    text: &'t str,
    /// The name of the schedule.
    schedule: String,
}

impl Reader<'_> {
    fn refuse(&self, at: &impl Ranged, message: impl Into<String>) -> TraceError {
        TraceError { line: line_of(self.text, at.start()), message: message.into() }
    }

    fn source(&self, range: TextRange) -> &str {
        self.text.get(range.start().into()..range.end().into()).unwrap_or("")
    }

    fn parameter(&self, def: &ast::StmtFunctionDef) -> Result<String, TraceError> {
        match &def.parameters.args[..] {
            [one] if def.parameters.len() == 1 => Ok(one.parameter.name.to_string()),
            _ => Err(self.refuse(def, "a trace has one parameter, the schedule")),
        }
    }

    fn function(&self, def: &ast::StmtFunctionDef) -> Result<Trace, TraceError> {
        let mut instructions = vec![];
        for stmt in &def.body {
            match stmt {
                PyStmt::Pass(_) => {}
                PyStmt::Expr(e) if matches!(*e.value, Py::StringLiteral(_)) => {}
                PyStmt::Expr(e) => instructions.push(self.instruction(stmt, vec![], &e.value)?),
                PyStmt::Assign(a) => {
                    let [target] = &a.targets[..] else {
                        return Err(self.refuse(stmt, "results are named once"));
                    };
                    let results = self.results(target)?;
                    instructions.push(self.instruction(stmt, results, &a.value)?);
                }
                _ => {
                    let message = "a trace has calls of primitives alone, one for each statement";
                    return Err(self.refuse(stmt, message));
                }
            }
        }
        Ok(Trace { kernel: def.name.to_string(), instructions })
    }

    fn results(&self, target: &Py) -> Result<Vec<String>, TraceError> {
        let items = match target {
            Py::Tuple(tuple) => &tuple.elts[..],
            Py::List(list) => &list.elts[..],
            one => std::slice::from_ref(one),
        };
        let name = |e: &Py| match e {
            Py::Name(name) => Ok(name.id.to_string()),
            other => Err(self.refuse(other, "a result gets a name")),
        };
        items.iter().map(name).collect()
    }

    fn instruction(
        &self,
        at: &PyStmt,
        results: Vec<String>,
        value: &Py,
    ) -> Result<Instruction, TraceError> {
        let form = || self.refuse(at, format!("expected `{}.PRIMITIVE(...)`", self.schedule));
        let Py::Call(call) = value else { return Err(form()) };
        let callee = path(&call.func).ok_or_else(form)?;
        let (object, primitive) = callee.split_once('.').ok_or_else(form)?;
        if object != self.schedule {
            return Err(form());
        }
        let mut args = vec![];
        for arg in &call.arguments.args {
            args.push((None, self.argument(arg)?));
        }
        for keyword in &call.arguments.keywords {
            let Some(name) = &keyword.arg else { return Err(form()) };
            args.push((Some(name.to_string()), self.argument(&keyword.value)?));
        }
        let (line, primitive) = (line_of(self.text, at.start()), primitive.to_owned());
        Ok(Instruction { line, results, primitive, args })
    }

    fn argument(&self, e: &Py) -> Result<Argument, TraceError> {
        let refuse = || {
            let text = self.source(e.range()).lines().next().unwrap_or("");
            self.refuse(e, format!("`{text}` is no argument of a primitive"))
        };
        Ok(match e {
            Py::NoneLiteral(_) => Argument::None,
            Py::BooleanLiteral(b) => Argument::Bool(b.value),
            Py::StringLiteral(s) => Argument::Str(s.value.to_str().to_owned()),
            Py::Name(name) => Argument::Name(name.id.to_string()),
            Py::NumberLiteral(n) => match &n.value {
                ast::Number::Int(i) => Argument::Int(i.as_i64().ok_or_else(refuse)?),
                ast::Number::Float(_) => Argument::Float(self.source(e.range()).to_owned()),
                ast::Number::Complex { .. } => return Err(refuse()),
            },
            Py::UnaryOp(u) if u.op == ast::UnaryOp::USub => match self.argument(&u.operand)? {
                Argument::Int(n) => Argument::Int(-n),
                Argument::Float(text) => Argument::Float(format!("-{text}")),
                _ => return Err(refuse()),
            },
            Py::List(list) => Argument::List(self.arguments(&list.elts)?),
            Py::Tuple(tuple) => Argument::List(self.arguments(&tuple.elts)?),
            Py::Lambda(lambda) => self.index_map(lambda)?,
            // `tvm.tir.IndexMap.from_func(lambda i, j: ...)`
            Py::Call(call) => {
                let is_map = path(&call.func).is_some_and(|p| p.ends_with("IndexMap.from_func"));
                match call.arguments.args.first() {
                    Some(Py::Lambda(lambda)) if is_map => self.index_map(lambda)?,
                    _ => return Err(refuse()),
                }
            }
            _ => return Err(refuse()),
        })
    }

    fn arguments(&self, items: &[Py]) -> Result<Vec<Argument>, TraceError> {
        items.iter().map(|item| self.argument(item)).collect()
    }

    fn index_map(&self, lambda: &ast::ExprLambda) -> Result<Argument, TraceError> {
        let params = lambda.parameters.as_deref().map_or(&[][..], |p| &p.args);
        let count = lambda.parameters.as_deref().map_or(0, |p| p.len());
        if count != params.len() {
            return Err(self.refuse(lambda, "an index map has plain parameters"));
        }
        let params = params.iter().map(|p| p.parameter.name.to_string()).collect();
        let body = match &*lambda.body {
            Py::Tuple(tuple) => &tuple.elts[..],
            Py::List(list) => &list.elts[..],
            one => std::slice::from_ref(one),
        };
        let body = body.iter().map(|e| self.source(e.range()).to_owned()).collect();
        Ok(Argument::Lambda { params, body })
    }
}
