//! Signatures: parameters, type parameters, and the two forms of Relax functions.

use std::collections::HashSet;

use ruff_python_ast::{self as ast, Expr as Py, Stmt};

use super::source::{Result, Source};
use super::types::{SymbolicDims, is_path};
use crate::Type;

/// Returns true if TVM has lowered the function for its virtual machine: every check and every
/// allocation is a call of its own, and types are erased. Such a function begins with its shape
/// heap.
pub(super) fn is_vm_lowered(def: &ast::StmtFunctionDef) -> bool {
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

/// The dimensions of `def f[n, m](...)` and the module's.
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
    dims: &mut SymbolicDims<'_>,
) -> Result<Vec<(String, Type)>> {
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
