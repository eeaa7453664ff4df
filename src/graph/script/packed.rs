//! Kernels that are one call of a packed function on their own tensors, as TVM makes of sorting:
//!
//! ```text
//! with T.sblock("sort_cpu"):
//!     T.reads()
//!     T.writes()
//!     T.call_packed("f", T.tvm_stack_make_array(x.data, T.tvm_stack_make_shape(3, n), ...), 1)
//! ```
//!
//! Such a kernel is not compiled: a call of it becomes a call of the function.

use reflex_tir::Expr;
use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::Ranged;

use super::args::{elements, int, string};
use super::context::{GlobalFuncKind, PackedArg};
use super::parser::{FuncParser, ParsedValue};
use super::source::{Result, Source};
use super::types::is_path;
use crate::{LeafExpr, Node, Type, Value};

/// The packed call that is the whole body of a kernel, if there is one.
pub(super) fn packed_kernel(
    source: Source<'_>,
    def: &ast::StmtFunctionDef,
) -> Option<GlobalFuncKind> {
    let call = only_call(&def.body)?;
    let params: Vec<(&str, &Py)> = def
        .parameters
        .iter_non_variadic_params()
        .map(|p| Some((p.parameter.name.as_str(), p.parameter.annotation.as_deref()?)))
        .collect::<Option<_>>()?;
    let (name, list) = call.arguments.args.split_first()?;
    let name = string(source, name).ok()?.to_string();
    // Other names of the parameters, by the parameters' annotations.
    let others = def.body.iter().filter_map(buffer_alias).filter_map(|(other, of)| {
        let param = params.iter().position(|(name, _)| *name == of)?;
        Some((other, param))
    });
    let own = params.iter().enumerate().map(|(at, (name, _))| (*name, at));
    let names: Vec<(&str, usize)> = own.chain(others).collect();
    let args =
        list.iter().map(|e| packed_arg(source, e, &params, &names)).collect::<Option<_>>()?;
    Some(GlobalFuncKind::Packed { params: params.len(), name, args })
}

/// `B = T.decl_buffer(..., data=A.data)`: both names.
fn buffer_alias(stmt: &Stmt) -> Option<(&str, &str)> {
    let Stmt::Assign(assign) = stmt else { return None };
    let ([Py::Name(name)], Py::Call(call)) = (&assign.targets[..], &*assign.value) else {
        return None;
    };
    let data = call.arguments.find_keyword("data").filter(|_| is_path(&call.func, "T.decl_buffer"));
    let Py::Attribute(data) = &data?.value else { return None };
    let of = data.value.as_name_expr().filter(|_| data.attr.as_str() == "data")?;
    Some((name.id.as_str(), of.id.as_str()))
}

/// The only call in a body, annotations aside.
fn only_call(body: &[Stmt]) -> Option<&ast::ExprCall> {
    const SILENT: [&str; 3] = ["T.func_attr", "T.reads", "T.writes"];
    let mut found = None;
    for stmt in body {
        let call = match stmt {
            Stmt::Assign(_) => {
                buffer_alias(stmt)?;
                continue;
            }
            Stmt::Expr(e) => e.value.as_call_expr()?,
            Stmt::With(w) => match &w.items[..] {
                [item]
                    if ["T.sblock", "T.block"]
                        .iter()
                        .any(|name| is_call(&item.context_expr, name)) =>
                {
                    only_call(&w.body)?
                }
                _ => return None,
            },
            _ => return None,
        };
        if SILENT.iter().any(|name| is_path(&call.func, name)) {
            continue;
        }
        if found.is_some() || !is_path(&call.func, "T.call_packed") {
            return None;
        }
        found = Some(call);
    }
    found
}

fn is_call(e: &Py, path: &str) -> bool {
    matches!(e, Py::Call(call) if is_path(&call.func, path))
}

fn packed_arg(
    source: Source<'_>,
    e: &Py,
    params: &[(&str, &Py)],
    names: &[(&str, usize)],
) -> Option<PackedArg> {
    let Py::Call(call) = e else {
        return match e {
            Py::StringLiteral(text) => Some(PackedArg::Text(text.value.to_str().to_string())),
            _ => Some(PackedArg::Int(int(source, e).ok()?)),
        };
    };
    match (&*call.func, &*call.arguments.args) {
        (callee, [Py::BooleanLiteral(truth)]) if is_path(callee, "T.bool") => {
            Some(PackedArg::Int(i64::from(truth.value)))
        }
        // Data, shape, strides (none), rank, element type, offset: the tensor as it came.
        (callee, [Py::Attribute(data), Py::Call(shape), strides, ..])
            if is_path(callee, "T.tvm_stack_make_array")
                && is_path(&shape.func, "T.tvm_stack_make_shape")
                && data.attr.as_str() == "data"
                && int(source, strides) == Ok(0) =>
        {
            let name = data.value.as_name_expr()?.id.as_str();
            let (_, index) = *names.iter().find(|(known, _)| *known == name)?;
            let buffer = params[index].1.as_call_expr()?;
            let own = elements(buffer.arguments.args.first()?)?;
            let same = own.len() == shape.arguments.args.len()
                && own.iter().zip(&shape.arguments.args).all(|(a, b)| same_dim(source, a, b));
            same.then_some(PackedArg::Param(index))
        }
        _ => Some(PackedArg::Int(int(source, e).ok()?)),
    }
}

fn same_dim(source: Source<'_>, a: &Py, b: &Py) -> bool {
    match (a, b) {
        (Py::Name(a), Py::Name(b)) => a.id == b.id,
        _ => int(source, a).is_ok_and(|a| int(source, b) == Ok(a)),
    }
}

impl FuncParser<'_, '_> {
    /// A call of such a kernel.
    pub(super) fn call_packed_kernel(
        &mut self,
        call: &ast::ExprCall,
        params: usize,
        name: &str,
        args: &[PackedArg],
    ) -> Result<ParsedValue> {
        let tensors: Vec<Value> =
            call.arguments.args.iter().map(|e| self.value(e)).collect::<Result<_>>()?;
        if tensors.len() != params {
            let message = format!("`{name}` is called for {params} tensors, not {}", tensors.len());
            return Err(self.source.refuse(call.start(), message));
        }
        let args = args.iter().map(|given| match given {
            PackedArg::Param(index) => tensors[*index],
            PackedArg::Int(value) => self.integer(Expr::i64(*value)),
            PackedArg::Text(text) => self.leaf(LeafExpr::Str(text.clone()), Type::Object),
        });
        let args = args.collect();
        self.b.bind_values(Node::CallPacked { name: name.to_string(), args, ints: vec![] }, vec![]);
        Ok(ParsedValue::Values(vec![]))
    }
}
