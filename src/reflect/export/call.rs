//! Calls of operators, from their text.
//!
//! The printer's column of the operator table says which operator of TVM an operator is, with which operands and
//! attributes. Its text is taken apart here, so that there is no second column to keep in step.

use reflex_graph::{Literal, Op, Value, print};
use reflex_node::builder::Given;
use reflex_node::graph::{NodeId, Value as Plain};
use reflex_node::table;
use reflex_tir::{DType, Expr, Var};
use ruff_python_ast::{self as ast, Expr as Py, Operator};

use super::func::FuncExporter;
use super::{literal_node, prim, types};
use crate::error::ReflectError;
use crate::table::attributes;

/// The names that the text has for values; it names dimensions `v0`, `v1` and so on.
const VALUE: &str = "value_";

impl FuncExporter<'_, '_> {
    /// The call of an operator, of a type.
    pub(super) fn operator(
        &mut self,
        op: &Op,
        args: &[Value],
        ty: NodeId,
    ) -> Result<NodeId, ReflectError> {
        let name = |value: Value| format!("{VALUE}{}", value.as_u32());
        let texts = print::op_calls(self.cx.module, self.func, &[(op, args)], &name);
        let text = texts.first().map_or("", String::as_str);
        let unknown = || ReflectError(format!("function {}: `{text:.80}`", self.func.name));
        let parsed = ruff_python_parser::parse_expression(text).map_err(|_| unknown())?;
        let Py::Call(call) = parsed.expr() else { return Err(unknown()) };
        let path = reflex_tir::script::path(&call.func).ok_or_else(unknown)?;
        let path = path.strip_prefix("R.").ok_or_else(unknown)?;
        let mut operands = vec![];
        for e in &call.arguments.args {
            operands.push(self.operand(e).ok_or_else(unknown)??);
        }
        let operator = format!("relax.{path}");
        let Some(key) = attributes(&operator).filter(|key| fits(*key, call)) else {
            return self.outside(path, operands, call, ty).ok_or_else(unknown);
        };
        let mut fields = vec![];
        for keyword in &call.arguments.keywords {
            let name = keyword.arg.as_ref().ok_or_else(unknown)?.as_str();
            fields.push((name, self.attribute(name, &keyword.value).ok_or_else(unknown)?));
        }
        let attrs = key.map_or(Given::None, |key| Given::Node(self.cx.b.object(key, &fields)));
        let op = self.cx.b.named("ir.Op", &operator);
        Ok(self.call(op, operands, attrs, vec![], ty))
    }

    /// A call of an operator that TVM lacks, or has without one of the attributes.
    fn outside(
        &mut self,
        path: &str,
        operands: Vec<NodeId>,
        call: &ast::ExprCall,
        ty: NodeId,
    ) -> Option<NodeId> {
        let mut attrs = vec![];
        for keyword in &call.arguments.keywords {
            let name = keyword.arg.as_ref()?.as_str();
            let value = match self.operand(&keyword.value) {
                Some(Ok(shape)) if matches!(keyword.value, Py::Call(_)) => shape,
                _ => match self.attribute("", &keyword.value)? {
                    Given::Node(id) => id,
                    Given::Value(value) => self.cx.b.value(&value),
                    Given::DType(_) | Given::None => self.cx.b.none(),
                },
            };
            attrs.extend([self.cx.b.string(name), value]);
        }
        let name = if path.contains('.') { path.to_owned() } else { format!("reflex.of.{path}") };
        Some(self.external(&name, operands, attrs, ty))
    }

    /// An operand: a value, a tuple, a shape, a constant or an integer.
    fn operand(&mut self, e: &Py) -> Option<Result<NodeId, ReflectError>> {
        Some(match e {
            Py::Name(name) if name.id.starts_with(VALUE) => {
                self.value(Value::from_u32(name.id.strip_prefix(VALUE)?.parse().ok()?))
            }
            Py::Tuple(tuple) => {
                let mut items = vec![];
                for e in &tuple.elts {
                    match self.operand(e)? {
                        Ok(item) => items.push(item),
                        error => return Some(error),
                    }
                }
                Ok(self.tuple_of(items))
            }
            Py::Call(call) => {
                let args = &call.arguments.args;
                match (reflex_tir::script::path(&call.func).as_deref(), &args[..]) {
                    (Some("R.shape"), [Py::List(list)]) => {
                        let dims: Option<Vec<NodeId>> =
                            list.elts.iter().map(|e| self.dim(e)).collect();
                        Ok(types::shape(&mut self.cx.b, dims?))
                    }
                    // The one that a reciprocal divides.
                    (Some("R.const"), [_, Py::StringLiteral(dtype)]) => {
                        let one = Literal::one(dtype.value.to_str().parse().ok()?)?;
                        Ok(literal_node(&mut self.cx.b, &one))
                    }
                    _ => Ok(self.dim(e)?),
                }
            }
            _ => Ok(self.dim(e)?),
        })
    }

    /// An integer over dimensions.
    fn dim(&mut self, e: &Py) -> Option<NodeId> {
        if let Some(value) = integer(e) {
            return Some(prim::int64(&mut self.cx.b, value));
        }
        let pair = |p: &mut Self, key: &str, a: &Py, b: &Py| {
            let (a, b, ty) = (p.dim(a)?, p.dim(b)?, p.int64_type());
            let fields = [("ty", Given::Node(ty)), ("a", Given::Node(a)), ("b", Given::Node(b))];
            Some(p.cx.b.object(key, &fields))
        };
        match e {
            Py::Name(name) => {
                let var = Var::from_u32(name.id.strip_prefix('v')?.parse().ok()?);
                Some(self.names.expr(&mut self.cx.b, &Expr::var(var)))
            }
            Py::BinOp(binary) => {
                let key = match binary.op {
                    Operator::Add => "prim.Add",
                    Operator::Sub => "prim.Sub",
                    Operator::Mult => "prim.Mul",
                    Operator::FloorDiv => "prim.FloorDiv",
                    Operator::Mod => "prim.FloorMod",
                    _ => return None,
                };
                pair(self, key, &binary.left, &binary.right)
            }
            Py::Call(call) => {
                match (reflex_tir::script::path(&call.func).as_deref()?, &call.arguments.args[..]) {
                    ("T.min", [a, b]) => pair(self, "prim.Min", a, b),
                    ("T.max", [a, b]) => pair(self, "prim.Max", a, b),
                    ("T.truncdiv", [a, b]) => pair(self, "prim.Div", a, b),
                    ("T.truncmod", [a, b]) => pair(self, "prim.Mod", a, b),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The value of an attribute.
    fn attribute(&mut self, name: &str, e: &Py) -> Option<Given> {
        if let Some(value) = integer(e) {
            return Some(super::int(value));
        }
        if let Some(value) = real(e) {
            return Some(Given::Value(Plain::Float(value)));
        }
        Some(match e {
            Py::NoneLiteral(_) => Given::None,
            Py::BooleanLiteral(truth) => Given::Value(Plain::Bool(truth.value)),
            Py::StringLiteral(text) if matches!(name, "dtype" | "out_dtype") => {
                Given::DType(text.value.to_str().to_owned())
            }
            Py::StringLiteral(text) => Given::Value(Plain::Text(text.value.to_str().into())),
            Py::List(list) => {
                let mut items = vec![];
                for e in &list.elts {
                    items.push(match (name, self.attribute("", e)?) {
                        ("roi", Given::Value(Plain::Float(x))) => {
                            prim::float(&mut self.cx.b, x, DType::F32)
                        }
                        (_, Given::Value(value)) => self.cx.b.value(&value),
                        (_, Given::Node(id)) => id,
                        (_, Given::DType(_) | Given::None) => return None,
                    });
                }
                Given::Node(self.cx.b.array(items))
            }
            _ => return None,
        })
    }
}

/// Whether the type of attributes has those of a call.
fn fits(key: Option<&str>, call: &ast::ExprCall) -> bool {
    let fields = key.and_then(table::find).map_or(&[][..], |info| &info.fields);
    call.arguments.keywords.iter().all(|keyword| {
        let name = keyword.arg.as_ref().map(|name| name.as_str());
        name.is_some_and(|name| fields.iter().any(|field| field.name == name))
            && !matches!(&keyword.value, Py::StringLiteral(mode) if mode.value.to_str() == "raise")
    })
}

fn integer(e: &Py) -> Option<i64> {
    match e {
        Py::NumberLiteral(ast::ExprNumberLiteral { value: ast::Number::Int(i), .. }) => i.as_i64(),
        Py::UnaryOp(u) if u.op == ast::UnaryOp::USub => integer(&u.operand)?.checked_neg(),
        _ => None,
    }
}

fn real(e: &Py) -> Option<f64> {
    match e {
        Py::NumberLiteral(ast::ExprNumberLiteral { value: ast::Number::Float(x), .. }) => Some(*x),
        Py::UnaryOp(u) if u.op == ast::UnaryOp::USub => Some(-real(&u.operand)?),
        _ => None,
    }
}
