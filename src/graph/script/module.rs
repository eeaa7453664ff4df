//! Modules: symbols, metadata, and the functions of the class.

use std::collections::{HashMap, HashSet};

use cranelift_entity::EntityRef;
use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::Ranged;

use super::context::{GlobalFunc, GlobalFuncKind, ModuleContext};
use super::data::{data_type_call, data_types};
use super::memory::only_cpus;
use super::metadata;
use super::packed::packed_kernel;
use super::parser::FuncParser;
use super::signature::{is_vm_lowered, parameters, with_type_params};
use super::source::{Result, Source};
use super::types::{Annotation, SymbolicDims, is_path};
use crate::{FuncData, FuncId, Literal, Module, Type, verify};

/// Reads a file: imports, symbols, metadata, one class. `constants` are those of a table that is not in the text.
pub(super) fn module(
    source: Source<'_>,
    body: &[Stmt],
    constants: Option<Vec<Literal>>,
) -> Result<Module> {
    let mut cx = ModuleContext {
        symbols: HashSet::new(),
        class: String::new(),
        globals: HashMap::new(),
        constructors: HashMap::new(),
        constants,
        lifted: Default::default(),
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
    let mut module = Module::default();
    data_types(source, class, &mut module, &mut cx)?;
    let defs = definitions(source, class)?;
    globals(source, &defs, &mut cx)?;
    functions(source, &defs, &cx, module)
}

/// `n = TypeVar("n")` or `metadata = tvm.ir.load_json(...)`.
fn global(source: Source<'_>, assign: &ast::StmtAssign, cx: &mut ModuleContext) -> Result<()> {
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

/// A function of the class.
struct Definition<'a> {
    def: &'a ast::StmtFunctionDef,
    ir: Ir,
}

/// The IR that a function is in.
#[derive(Clone, Copy, PartialEq)]
enum Ir {
    /// Graph IR: `@R.function`.
    Relax,
    /// Loop IR: `@T.prim_func`.
    Tir,
}

/// The devices of a module.
const DEVICES: &str = "I.module_global_infos";

/// The functions of the class.
fn definitions<'a>(
    source: Source<'_>,
    class: &'a ast::StmtClassDef,
) -> Result<Vec<Definition<'a>>> {
    let mut defs = vec![];
    for stmt in &class.body {
        match stmt {
            Stmt::Pass(_) => {}
            stmt if data_type_call(stmt).is_some() => {}
            Stmt::Expr(e) if matches!(&*e.value, Py::Call(c) if is_path(&c.func, DEVICES)) => {
                only_cpus(source, &e.value)?;
            }
            Stmt::Expr(e) if e.value.is_string_literal_expr() => {}
            Stmt::FunctionDef(def) => {
                let decorator = def.decorator_list.iter().find_map(|d| match &d.expression {
                    Py::Call(call) => reflex_tir::script::path(&call.func),
                    e => reflex_tir::script::path(e),
                });
                match decorator.as_deref() {
                    Some("R.function") => defs.push(Definition { def, ir: Ir::Relax }),
                    Some("T.prim_func") => defs.push(Definition { def, ir: Ir::Tir }),
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
fn globals(source: Source<'_>, defs: &[Definition<'_>], cx: &mut ModuleContext) -> Result<()> {
    for Definition { def, ir } in defs {
        let kind = if *ir == Ir::Relax && is_vm_lowered(def) {
            let params = def.parameters.iter().map(|_| Type::Object).collect();
            GlobalFuncKind::Graph { params, result: Some(Annotation::Any) }
        } else if *ir == Ir::Relax {
            let symbols = with_type_params(&cx.symbols, def);
            let mut dims = SymbolicDims::new(source, &symbols);
            let params = parameters(source, def, &mut dims)?;
            let result = def.returns.as_deref().map(|e| dims.annotation(e)).transpose()?;
            GlobalFuncKind::Graph { params: params.into_iter().map(|(_, ty)| ty).collect(), result }
        } else if def.returns.is_some() {
            scalar_kernel(source, def)?
        } else {
            packed_kernel(source, def).unwrap_or(GlobalFuncKind::Kernel)
        };
        let member = GlobalFunc { id: FuncId::new(cx.count), kind };
        let has_id = matches!(member.kind, GlobalFuncKind::Kernel | GlobalFuncKind::Graph { .. });
        cx.count += usize::from(has_id);
        if cx.globals.insert(def.name.to_string(), member).is_some() {
            let message = format!("`{}` is defined twice", def.name);
            return Err(source.refuse(def.name.start(), message));
        }
    }
    Ok(())
}

/// A kernel of the form `def f(n: T.int64, ...) -> T.int64: return n * 2`.
fn scalar_kernel(source: Source<'_>, def: &ast::StmtFunctionDef) -> Result<GlobalFuncKind> {
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
    Ok(GlobalFuncKind::Scalar { params, value: value.ok_or_else(missing)? })
}

fn functions(
    source: Source<'_>,
    defs: &[Definition<'_>],
    cx: &ModuleContext,
    mut module: Module,
) -> Result<Module> {
    let symbols: Vec<String> = cx.symbols.iter().cloned().collect();
    for Definition { def, ir } in defs {
        if *ir == Ir::Relax {
            let symbols = with_type_params(&cx.symbols, def);
            let func = FuncParser::function(source, cx, &symbols, def, &mut module)?;
            module.funcs.push(FuncData::Graph(func));
        } else if matches!(cx.globals[def.name.as_str()].kind, GlobalFuncKind::Kernel) {
            let kernel = reflex_tir::script::parse_function(def, source.text, &symbols)
                .map_err(|e| source.at_line(e.line, e.message))?;
            module.funcs.push(FuncData::Prim(kernel));
        }
    }
    module.funcs.extend(cx.lifted.take().into_iter().flatten().map(FuncData::Graph));
    verify::verify(&module).map_err(|faults| {
        let fault = &faults[0];
        let definition = defs.iter().find(|d| d.def.name.as_str() == fault.func);
        let at = definition.map_or(Default::default(), |d| d.def.name.start());
        source.refuse(at, fault.to_string())
    })?;
    Ok(module)
}
