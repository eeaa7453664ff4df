//! Modules: symbols, metadata, and the functions of the class.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use cranelift_entity::EntityRef;
use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::Ranged;

use super::func::FuncParser;
use super::metadata;
use super::packed::{Given, packed};
use super::types::{Dims, Written, is_path};
use super::{Read, Source};
use crate::{Func, FuncData, FuncId, Literal, Module, Type, verify};

/// What the functions of a module see of it.
pub(super) struct Context {
    /// Names declared as `TypeVar`.
    pub symbols: HashSet<String>,
    /// The class and its functions.
    pub class: String,
    pub members: HashMap<String, Member>,
    /// Constants of the metadata table.
    pub constants: Option<Vec<Literal>>,
    /// Functions that were defined inside of others, after those of the class.
    pub lifted: RefCell<Vec<Option<Func>>>,
    /// How many functions the class has.
    pub count: usize,
}

/// A function of the class, before any body has been read.
pub(super) struct Member {
    pub id: FuncId,
    pub kind: MemberKind,
}

pub(super) enum MemberKind {
    Kernel,
    /// A kernel that gives back an integer computed from its own; it has no id.
    Integer {
        params: Vec<String>,
        value: Box<Py>,
    },
    /// A kernel that is a call of a packed function; it has no id either.
    Packed {
        params: usize,
        name: String,
        args: Vec<Given>,
    },
    /// Types over dimensions of the function's own.
    Graph {
        params: Vec<Type>,
        result: Option<Written>,
    },
}

/// Reads a file: imports, symbols, metadata, one class.
pub(super) fn module(source: Source<'_>, body: &[Stmt]) -> Read<Module> {
    let mut cx = Context {
        symbols: HashSet::new(),
        class: String::new(),
        members: HashMap::new(),
        constants: None,
        lifted: RefCell::new(vec![]),
        count: 0,
    };
    let mut found = None;
    for stmt in body {
        match stmt {
            Stmt::Import(_) | Stmt::ImportFrom(_) | Stmt::Pass(_) => {}
            Stmt::Expr(e) if e.value.is_string_literal_expr() => {}
            Stmt::Assign(assign) => global(source, assign, &mut cx)?,
            Stmt::ClassDef(class) if found.is_none() => found = Some(class),
            Stmt::ClassDef(class) => {
                return Err(source.refuse(class.start(), "a second module is not supported"));
            }
            _ => return Err(source.unsupported(stmt)),
        }
    }
    let Some(class) = found else {
        return Err(source.at_line(1, "there is no `@I.ir_module` class"));
    };
    let is_module = |d: &ast::Decorator| match &d.expression {
        Py::Call(call) => is_path(&call.func, "I.ir_module"),
        e => is_path(e, "I.ir_module"),
    };
    if !class.decorator_list.iter().any(is_module) {
        return Err(source.refuse(class.name.start(), "the class has no `@I.ir_module`"));
    }
    cx.class = class.name.to_string();
    let defs = definitions(source, class)?;
    members(source, &defs, &mut cx)?;
    functions(source, &defs, &cx)
}

/// `n = TypeVar("n")` or `metadata = tvm.ir.load_json(...)`.
fn global(source: Source<'_>, assign: &ast::StmtAssign, cx: &mut Context) -> Read<()> {
    if let ([Py::Name(name)], Py::Call(call)) = (&assign.targets[..], &*assign.value) {
        let argument = match &*call.arguments.args {
            [Py::StringLiteral(text)] if call.arguments.keywords.is_empty() => Some(text),
            _ => None,
        };
        let function = reflex_tir::script::path(&call.func);
        match (function.as_deref(), argument) {
            (Some("TypeVar" | "typing.TypeVar" | "T.int64"), _) => {
                cx.symbols.insert(name.id.to_string());
                return Ok(());
            }
            (Some("tvm.ir.load_json"), Some(json)) if name.id.as_str() == "metadata" => {
                let constants = metadata::constants(json.value.to_str())
                    .map_err(|message| source.refuse(assign.start(), message))?;
                cx.constants = Some(constants);
                return Ok(());
            }
            _ => {}
        }
    }
    Err(source.unsupported(assign))
}

/// The functions of the class and which IR each is in.
fn definitions<'a>(
    source: Source<'_>,
    class: &'a ast::StmtClassDef,
) -> Read<Vec<(&'a ast::StmtFunctionDef, bool)>> {
    let mut defs = vec![];
    for stmt in &class.body {
        match stmt {
            Stmt::Pass(_) => {}
            Stmt::Expr(e) if e.value.is_string_literal_expr() => {}
            Stmt::FunctionDef(def) => {
                let decorator = def.decorator_list.iter().find_map(|d| match &d.expression {
                    Py::Call(call) => reflex_tir::script::path(&call.func),
                    e => reflex_tir::script::path(e),
                });
                match decorator.as_deref() {
                    Some("R.function") => defs.push((def, true)),
                    Some("T.prim_func") => defs.push((def, false)),
                    _ => {
                        return Err(source.refuse(
                            def.name.start(),
                            format!("`{}` is neither `R.function` nor `T.prim_func`", def.name),
                        ));
                    }
                }
            }
            _ => return Err(source.unsupported(stmt)),
        }
    }
    Ok(defs)
}

/// Numbers the functions and reads the signatures, so that calls may come before definitions.
fn members(
    source: Source<'_>,
    defs: &[(&ast::StmtFunctionDef, bool)],
    cx: &mut Context,
) -> Read<()> {
    for (def, graph) in defs {
        let kind = if *graph && is_machine_form(def) {
            let params = def.parameters.iter().map(|_| Type::Object).collect();
            MemberKind::Graph { params, result: Some(Written::Any) }
        } else if *graph {
            let symbols = with_type_params(&cx.symbols, def);
            let mut dims = Dims::new(source, &symbols);
            let params = parameters(source, def, &mut dims)?;
            let result = def.returns.as_deref().map(|e| dims.written(e)).transpose()?;
            MemberKind::Graph { params: params.into_iter().map(|(_, ty)| ty).collect(), result }
        } else if def.returns.is_some() {
            integer(source, def)?
        } else {
            packed(source, def).unwrap_or(MemberKind::Kernel)
        };
        let member = Member { id: FuncId::new(cx.count), kind };
        let called = matches!(member.kind, MemberKind::Kernel | MemberKind::Graph { .. });
        cx.count += usize::from(called);
        if cx.members.insert(def.name.to_string(), member).is_some() {
            let message = format!("`{}` is defined twice", def.name);
            return Err(source.refuse(def.name.start(), message));
        }
    }
    Ok(())
}

/// Whether a function is what TVM's pipeline leaves: every check and every allocation is a call
/// of its own, and types say nothing more. Such a function begins with its shape heap.
pub(super) fn is_machine_form(def: &ast::StmtFunctionDef) -> bool {
    def.body.iter().any(|stmt| {
        let Stmt::AnnAssign(ast::StmtAnnAssign { target, value: Some(value), .. }) = stmt else {
            return false;
        };
        let (Py::Name(name), Py::Call(call)) = (&**target, &**value) else { return false };
        let heap = match &*call.arguments.args {
            [] => is_path(&call.func, "R.null_value"),
            [Py::StringLiteral(builtin), ..] => {
                is_path(&call.func, "R.call_builtin_with_ctx")
                    && builtin.value.to_str() == "vm.builtin.alloc_shape_heap"
            }
            _ => false,
        };
        heap && name.id.starts_with("shape_heap")
    })
}

/// A kernel of the form `def f(n: T.int64, ...) -> T.int64: return n * 2`.
fn integer(source: Source<'_>, def: &ast::StmtFunctionDef) -> Read<MemberKind> {
    let is_attr = |e: &Py| matches!(e, Py::Call(call) if is_path(&call.func, "T.func_attr"));
    let mut value = None;
    for stmt in &def.body {
        match stmt {
            Stmt::Expr(e) if is_attr(&e.value) => {}
            Stmt::Return(ast::StmtReturn { value: Some(e), .. }) if value.is_none() => {
                value = Some(e.clone());
            }
            _ => return Err(source.unsupported(stmt)),
        }
    }
    let mut params = vec![];
    for param in def.parameters.iter_non_variadic_params() {
        let integer = param.parameter.annotation.as_deref().is_some_and(|e| is_path(e, "T.int64"));
        if !integer {
            return Err(source.unsupported(param));
        }
        params.push(param.parameter.name.to_string());
    }
    let missing = || source.refuse(def.name.start(), "the kernel does not return what it says");
    Ok(MemberKind::Integer { params, value: value.ok_or_else(missing)? })
}

/// The dimensions of `def f[n, m](...)` beside the module's.
pub(super) fn with_type_params(
    symbols: &HashSet<String>,
    def: &ast::StmtFunctionDef,
) -> HashSet<String> {
    let own = def.type_params.iter().flat_map(|p| p.type_params.iter());
    symbols.iter().cloned().chain(own.map(|p| p.name().to_string())).collect()
}

/// Names and types of the parameters.
pub(super) fn parameters(
    source: Source<'_>,
    def: &ast::StmtFunctionDef,
    dims: &mut Dims<'_>,
) -> Read<Vec<(String, Type)>> {
    let p = &*def.parameters;
    if p.vararg.is_some() || p.kwarg.is_some() || !p.kwonlyargs.is_empty() {
        return Err(source.unsupported(p));
    }
    let mut params = vec![];
    for param in p.posonlyargs.iter().chain(&p.args) {
        let name = param.parameter.name.as_str();
        let annotation = match (&param.parameter.annotation, &param.default) {
            (Some(annotation), None) => annotation,
            _ => return Err(source.unsupported(param)),
        };
        params.push((name.to_string(), dims.ty(annotation, name)?));
    }
    Ok(params)
}

fn functions(
    source: Source<'_>,
    defs: &[(&ast::StmtFunctionDef, bool)],
    cx: &Context,
) -> Read<Module> {
    let mut module = Module::default();
    let symbols: Vec<String> = cx.symbols.iter().cloned().collect();
    for (def, graph) in defs {
        if *graph {
            let symbols = with_type_params(&cx.symbols, def);
            let func = FuncParser::function(source, cx, &symbols, def, &mut module)?;
            module.funcs.push(FuncData::Graph(func));
        } else if matches!(cx.members[def.name.as_str()].kind, MemberKind::Kernel) {
            let kernel = reflex_tir::script::parse_function(def, source.text, &symbols)
                .map_err(|e| source.at_line(e.line, e.message))?;
            module.funcs.push(FuncData::Prim(kernel));
        }
    }
    module.funcs.extend(cx.lifted.take().into_iter().flatten().map(FuncData::Graph));
    verify::verify(&module).map_err(|faults| {
        let fault = &faults[0];
        let def = defs.iter().find(|(def, _)| def.name.as_str() == fault.func);
        let at = def.map_or(Default::default(), |(def, _)| def.name.start());
        source.refuse(at, fault.to_string())
    })?;
    Ok(module)
}
