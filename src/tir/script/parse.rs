//! Modules and function signatures from text.

use std::collections::HashMap;

use cranelift_entity::EntityRef;
use ruff_python_ast::{self as ast, Expr as Py, Stmt as PyStmt};
use ruff_text_size::{Ranged, TextSize};

use super::error::ScriptError;
use super::nesting::check_nesting;
use crate::verify::{IrForm, verify};
use crate::{Buffer, DType, Expr, Param, PrimFunc, Stmt, Var};

/// Nesting of expressions and statements that is read.
const MAX_DEPTH: usize = 128;

/// Reads a text that defines exactly one function.
pub fn parse(text: &str) -> Result<PrimFunc, ScriptError> {
    let mut funcs = parse_module(text)?;
    match funcs.len() {
        1 => Ok(funcs.remove(0)),
        n => Err(ScriptError { line: 1, message: format!("expected one function, found {n}") }),
    }
}

/// Reads every `@T.prim_func` of a text, inside `@I.ir_module` classes too. Other definitions
/// are refused; `R.function`s belong to the graph IR's parser.
pub fn parse_module(text: &str) -> Result<Vec<PrimFunc>, ScriptError> {
    check_nesting(text)?;
    let parsed = ruff_python_parser::parse_module(text).map_err(|e| ScriptError {
        line: line_of(text, e.location.start()),
        message: format!("not Python: {}", e.error),
    })?;
    let mut symbols = vec![];
    let mut funcs = vec![];
    definitions(&parsed.syntax().body, text, &mut symbols, &mut funcs)?;
    Ok(funcs)
}

/// Reads one function definition of a parsed module. `symbols` are the names that the module
/// declared as `TypeVar`s.
pub fn parse_function(
    def: &ast::StmtFunctionDef,
    text: &str,
    symbols: &[String],
) -> Result<PrimFunc, ScriptError> {
    let mut p = Parser::new(text, def.name.as_str(), symbols);
    p.function(def)?;
    let scheduled = {
        let mut found = false;
        p.func.body.visit(&mut |s| found |= matches!(s, Stmt::Block(_)));
        found
    };
    let form = if scheduled { IrForm::Scheduled } else { IrForm::Lowered };
    match verify(&p.func, form) {
        Ok(()) => Ok(p.func),
        Err(faults) => Err(p.refuse(def.name.range.start(), faults[0].to_string())),
    }
}

/// Reads one int64 expression over named variables, as a graph's dimensions are written.
pub fn parse_dim(e: &Py, text: &str, vars: &HashMap<String, Var>) -> Result<Expr, ScriptError> {
    let mut p = Parser::new(text, "", &[]);
    p.bare_int = DType::I64;
    for (name, var) in vars {
        while p.func.vars.len() <= var.index() {
            p.func.new_var("");
        }
        p.define(name, Name::Var(*var));
    }
    p.index(e)
}

/// Reads a condition over the variables of a function by name.
pub fn parse_condition(
    text: &str,
    func: &PrimFunc,
    vars: &HashMap<String, Var>,
) -> Result<Expr, ScriptError> {
    parse_over(text, func, vars, |p, e| p.condition(e))
}

/// Reads an int64 expression over the variables of a function by name.
pub fn parse_index(
    text: &str,
    func: &PrimFunc,
    vars: &HashMap<String, Var>,
) -> Result<Expr, ScriptError> {
    parse_over(text, func, vars, |p, e| p.index(e))
}

fn parse_over(
    text: &str,
    func: &PrimFunc,
    vars: &HashMap<String, Var>,
    read: impl FnOnce(&mut Parser<'_>, &Py) -> Read<Expr>,
) -> Result<Expr, ScriptError> {
    check_nesting(text)?;
    let parsed = ruff_python_parser::parse_expression(text).map_err(|e| ScriptError {
        line: line_of(text, e.location.start()),
        message: format!("not Python: {}", e.error),
    })?;
    let mut p = Parser::new(text, "", &[]);
    p.bare_int = DType::I64;
    p.func.vars = func.vars.clone();
    for (name, var) in vars {
        p.define(name, Name::Var(*var));
    }
    read(&mut p, &parsed.syntax().body)
}

fn definitions(
    body: &[PyStmt],
    text: &str,
    symbols: &mut Vec<String>,
    funcs: &mut Vec<PrimFunc>,
) -> Result<(), ScriptError> {
    for stmt in body {
        let refuse = |message: &str| {
            Err(ScriptError { line: line_of(text, stmt.start()), message: message.into() })
        };
        match stmt {
            PyStmt::Import(_) | PyStmt::ImportFrom(_) | PyStmt::Pass(_) => {}
            PyStmt::Assign(a) => match (&a.targets[..], type_var(&a.value)) {
                ([Py::Name(_)], Some(name)) => symbols.push(name),
                _ => {
                    return refuse("only `name = TypeVar(\"name\")` is accepted outside functions");
                }
            },
            PyStmt::ClassDef(class) => definitions(&class.body, text, symbols, funcs)?,
            PyStmt::FunctionDef(def) => {
                let mut paths = def.decorator_list.iter().map(|d| match &d.expression {
                    Py::Call(call) => path(&call.func),
                    other => path(other),
                });
                if !paths.any(|p| p.as_deref() == Some("T.prim_func")) {
                    return refuse("only functions with `@T.prim_func` are accepted");
                }
                funcs.push(parse_function(def, text, symbols)?);
            }
            PyStmt::Expr(e) if matches!(*e.value, Py::StringLiteral(_)) => {}
            _ => return refuse("this statement is not accepted outside functions"),
        }
    }
    Ok(())
}

fn type_var(value: &Py) -> Option<String> {
    let Py::Call(call) = value else { return None };
    let name = path(&call.func)?;
    match (&*name, &call.arguments.args[..]) {
        ("TypeVar" | "typing.TypeVar", [Py::StringLiteral(s)]) => Some(s.value.to_str().into()),
        _ => None,
    }
}

/// `T.axis.spatial` as one string.
pub fn path(e: &Py) -> Option<String> {
    match e {
        Py::Name(n) => Some(n.id.to_string()),
        Py::Attribute(a) => {
            let (Py::Name(_) | Py::Attribute(_)) = &*a.value else { return None };
            Some(format!("{}.{}", path(&a.value)?, a.attr))
        }
        _ => None,
    }
}

/// The line of a position in a text, from 1.
pub fn line_of(text: &str, at: TextSize) -> usize {
    let end = usize::from(at).min(text.len());
    1 + text.as_bytes()[..end].iter().filter(|b| **b == b'\n').count()
}

#[derive(Clone, Copy)]
pub(super) enum Name {
    Var(Var),
    Buffer(Buffer),
    /// The element offset of a buffer, which must be 0.
    Zero,
}

pub(super) struct Parser<'s> {
    text: &'s str,
    pub func: PrimFunc,
    pub scopes: Vec<HashMap<String, Name>>,
    /// Names that a shape may introduce.
    pub symbols: Vec<String>,
    /// Ranges of the loops around.
    pub loops: HashMap<Var, (Expr, Expr)>,
    /// Parameters that `T.match_buffer` will make tensors.
    pub handles: HashMap<String, usize>,
    pub depth: usize,
    pub num_outputs: Option<usize>,
    /// Type of a bare integer that meets nothing which has a type.
    pub bare_int: DType,
}

pub(super) type Read<T> = Result<T, ScriptError>;

/// A block that says nothing of what it does: no iterators, no regions, and no blocks inside.
fn is_opaque(b: &crate::Block) -> bool {
    let mut plain = b.iters.is_empty() && b.reads.is_empty() && b.writes.is_empty();
    plain &= b.predicate.as_int() == Some(1);
    b.body.visit(&mut |s| plain &= !matches!(s, Stmt::Block(_)));
    plain
}

impl<'s> Parser<'s> {
    fn new(text: &'s str, name: &str, symbols: &[String]) -> Parser<'s> {
        Parser {
            text,
            func: PrimFunc::new(name),
            scopes: vec![HashMap::new()],
            symbols: symbols.to_vec(),
            loops: HashMap::new(),
            handles: HashMap::new(),
            depth: 0,
            num_outputs: None,
            bare_int: DType::I32,
        }
    }

    pub fn refuse(&self, at: TextSize, message: impl Into<String>) -> ScriptError {
        ScriptError { line: line_of(self.text, at), message: message.into() }
    }

    /// An error that shows the refused form itself.
    pub fn unsupported(&self, form: &impl Ranged) -> ScriptError {
        let range = form.range();
        let text = self.text.get(range.start().into()..range.end().into()).unwrap_or("");
        let first: String = text.lines().next().unwrap_or("").chars().take(80).collect();
        self.refuse(range.start(), format!("`{first}` is not supported"))
    }

    /// Runs `f` one level deeper, within the limit.
    pub fn deeper<T>(&mut self, at: TextSize, f: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.refuse(at, "this is nested too deeply"));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Runs `f` with names of its own.
    pub fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.scopes.push(HashMap::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    pub fn define(&mut self, name: &str, what: Name) {
        self.scopes.last_mut().expect("a scope is open").insert(name.to_string(), what);
    }

    pub fn lookup(&self, name: &str) -> Option<Name> {
        self.scopes.iter().rev().find_map(|s| s.get(name)).copied()
    }

    fn function(&mut self, def: &ast::StmtFunctionDef) -> Read<()> {
        self.decorators(def)?;
        if let Some(params) = &def.type_params {
            self.symbols.extend(params.type_params.iter().map(|p| p.name().to_string()));
        }
        let p = &*def.parameters;
        if p.vararg.is_some() || p.kwarg.is_some() || !p.kwonlyargs.is_empty() {
            return Err(self.unsupported(p));
        }
        let params = || p.posonlyargs.iter().chain(&p.args);
        // Dimensions of a buffer may be over numbers that are passed behind it.
        params().for_each(|param| self.number(&param.parameter));
        for param in params() {
            if let Some(default) = &param.default {
                return Err(self.unsupported(&**default));
            }
            self.parameter(&param.parameter)?;
        }
        let body = self.suite(&def.body)?;
        if let Some((name, _)) = self.handles.iter().next() {
            let message = format!("handle `{name}` has no `T.match_buffer`");
            return Err(self.refuse(def.name.range.start(), message));
        }
        self.func.body = match body {
            Stmt::Block(b)
                if b.iters.is_empty()
                    && b.init.is_none()
                    && (b.name == "root" || is_opaque(&b)) =>
            {
                self.func.allocs.extend(b.allocs);
                b.body
            }
            body => body,
        };
        self.func.num_outputs =
            self.num_outputs.unwrap_or_else(|| super::print::written_outputs(&self.func));
        Ok(())
    }

    fn decorators(&mut self, def: &ast::StmtFunctionDef) -> Read<()> {
        for decorator in &def.decorator_list {
            let Py::Call(call) = &decorator.expression else { continue };
            for keyword in &call.arguments.keywords {
                let name = keyword.arg.as_ref().map(|a| a.as_str());
                let on = matches!(&keyword.value, Py::BooleanLiteral(b) if b.value);
                match name {
                    Some("s_tir") => {}
                    Some("private") if on => {
                        self.func.attrs.insert("private".into(), "True".into());
                    }
                    Some("private" | "check_well_formed") => {}
                    _ => return Err(self.unsupported(&keyword.value)),
                }
            }
        }
        Ok(())
    }

    /// Declares a parameter that is a number.
    fn number(&mut self, param: &ast::Parameter) {
        let path = param.annotation.as_deref().and_then(path);
        if let Some(dtype) = path.as_deref().and_then(scalar_type)
            && dtype != DType::HANDLE
        {
            let name = param.name.as_str();
            let var = self.func.vars.push(crate::VarData { name: name.into(), dtype });
            self.define(name, Name::Var(var));
        }
    }

    fn parameter(&mut self, param: &ast::Parameter) -> Read<()> {
        let name = param.name.as_str();
        let Some(annotation) = param.annotation.as_deref() else {
            return Err(self.refuse(param.range.start(), format!("`{name}` has no type")));
        };
        if let Py::Call(call) = annotation {
            if path(&call.func).as_deref() != Some("T.Buffer") {
                return Err(self.unsupported(annotation));
            }
            let buffer = self.buffer(name, &call.arguments, annotation.start())?;
            self.func.params.push(Param::Buffer(buffer));
            self.define(name, Name::Buffer(buffer));
            return Ok(());
        }
        let Some(dtype) = path(annotation).as_deref().and_then(scalar_type) else {
            return Err(self.unsupported(annotation));
        };
        if dtype == DType::HANDLE {
            // Takes its position in the call order; the buffer follows.
            let at = self.func.params.len();
            self.func.params.push(Param::Scalar(Var::from_u32(u32::MAX - 1)));
            self.handles.insert(name.to_string(), at);
            return Ok(());
        }
        match self.lookup(name) {
            Some(Name::Var(var)) if !self.func.params.contains(&Param::Scalar(var)) => {
                self.func.params.push(Param::Scalar(var));
                Ok(())
            }
            _ => Err(self.refuse(param.range.start(), format!("`{name}` is there twice"))),
        }
    }
}

/// The type that `T.float32` and its like name.
pub(super) fn scalar_type(path: &str) -> Option<DType> {
    let dtype = path.strip_prefix("T.")?.parse::<DType>().ok()?;
    (dtype != DType::VOID && dtype.is_scalar()).then_some(dtype)
}
