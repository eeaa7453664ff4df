//! Data types, and the operators on their values.
//!
//! `R.reflex.data_type("List", {"Cons": 2, "Nil": 0})` in the class defines a type by the names of its
//! constructors and their numbers of fields.
//!
//! `R.reflex.construct("List.Cons", x, xs)` builds a value, `R.reflex.is_constructor("List.Cons", v)`
//! tests it, and `R.reflex.field("List.Cons", v, 0)` reads a field.

use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::Ranged;

use super::args::{int, string};
use super::context::ModuleContext;
use super::parser::{FuncParser, ParsedValue};
use super::source::{Result, Source};
use super::types::is_path;
use crate::{Constructor, ConstructorRef, DataOp, DataTypeData, Module, Node, Type};

/// Reads the data types of the class.
pub(super) fn data_types(
    source: Source<'_>,
    class: &ast::StmtClassDef,
    module: &mut Module,
    cx: &mut ModuleContext,
) -> Result<()> {
    for stmt in &class.body {
        let Some(call) = data_type_call(stmt) else { continue };
        let [name, Py::Dict(dict)] = &*call.arguments.args else {
            return Err(source.unsupported(call));
        };
        let name = string(source, name)?.to_string();
        let mut constructors = vec![];
        for item in &dict.items {
            let Some(key) = &item.key else { return Err(source.unsupported(call)) };
            let arity = usize::try_from(int(source, &item.value)?);
            let arity = arity.map_err(|_| source.expected("a number of fields", &item.value))?;
            constructors.push(Constructor { name: string(source, key)?.to_string(), arity });
        }
        if module.data_types.values().any(|known| known.name == name) {
            return Err(source.refuse(call.start(), format!("`{name}` is defined twice")));
        }
        let names: Vec<String> =
            constructors.iter().map(|c| format!("{name}.{}", c.name)).collect();
        let data_type = module.data_types.push(DataTypeData { name, constructors });
        for (index, name) in names.into_iter().enumerate() {
            cx.constructors.insert(name, ConstructorRef { data_type, index });
        }
    }
    Ok(())
}

/// The call that defines a data type.
pub(super) fn data_type_call(stmt: &Stmt) -> Option<&ast::ExprCall> {
    let Stmt::Expr(e) = stmt else { return None };
    let call = e.value.as_call_expr()?;
    is_path(&call.func, "R.reflex.data_type").then_some(call)
}

impl FuncParser<'_, '_> {
    /// An operator on a value of a data type.
    pub(super) fn data(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let Some((first, rest)) = call.arguments.args.split_first() else {
            return Err(self.source.unsupported(call));
        };
        let Some(constructor) = self.cx.constructors.get(string(self.source, first)?).copied()
        else {
            return Err(self.source.expected("a constructor of the module", first));
        };
        let (op, operands, ty) = match (name, rest) {
            ("construct", _) => (DataOp::Construct, rest, Type::Object),
            ("is_constructor", [value]) => {
                (DataOp::Is, std::slice::from_ref(value), Type::Prim(reflex_tir::DType::BOOL))
            }
            ("field", [value, index]) => {
                let field = usize::try_from(int(self.source, index)?);
                let field = field.map_err(|_| self.source.expected("a field", index))?;
                (DataOp::Field(field), std::slice::from_ref(value), Type::Object)
            }
            _ => return Err(self.source.unsupported(call)),
        };
        let args = operands.iter().map(|e| self.value(e)).collect::<Result<_>>()?;
        let node = Node::Data { op, constructor, args };
        Ok(ParsedValue::Value(self.b.bind_values(node, vec![ty])[0]))
    }
}
