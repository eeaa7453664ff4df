//! Data types: nested classes, and the operators on their values.
//!
//! ```text
//! class List:
//!     Cons = R.reflex.constructor(2)
//!     Nil = R.reflex.constructor(0)
//! ```
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
        let Stmt::ClassDef(def) = stmt else { continue };
        let mut constructors = vec![];
        for stmt in &def.body {
            match stmt {
                Stmt::Pass(_) => {}
                Stmt::Assign(assign) => constructors.push(constructor(source, assign)?),
                _ => return Err(source.unsupported(stmt)),
            }
        }
        let name = def.name.to_string();
        if module.data_types.values().any(|known| known.name == name) {
            return Err(source.refuse(def.name.start(), format!("`{name}` is defined twice")));
        }
        let names: Vec<String> = constructors.iter().map(|c| format!("{name}.{}", c.name)).collect();
        let data_type = module.data_types.push(DataTypeData { name, constructors });
        for (index, name) in names.into_iter().enumerate() {
            cx.constructors.insert(name, ConstructorRef { data_type, index });
        }
    }
    Ok(())
}

/// `Cons = R.reflex.constructor(2)`
fn constructor(source: Source<'_>, assign: &ast::StmtAssign) -> Result<Constructor> {
    let ([Py::Name(name)], Py::Call(call)) = (&assign.targets[..], &*assign.value) else {
        return Err(source.unsupported(assign));
    };
    match &*call.arguments.args {
        [arity] if is_path(&call.func, "R.reflex.constructor") => {
            let fields = usize::try_from(int(source, arity)?);
            let arity = fields.map_err(|_| source.expected("a number of fields", arity))?;
            Ok(Constructor { name: name.id.to_string(), arity })
        }
        _ => Err(source.unsupported(assign)),
    }
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
