//! Expressions: names, constants, tuples, operators between tensors, calls.

use reflex_tir::{DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py, Operator, UnaryOp};
use ruff_text_size::{Ranged, TextSize};

use super::args::{elements, int};
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::script::types::is_path;
use crate::{Binary, LeafExpr, Node, Op, TensorType, Type, Unary, Value};

/// Nesting of expressions that is read.
const MAX_DEPTH: usize = 128;

impl FuncParser<'_, '_> {
    pub fn expr(&mut self, e: &Py) -> Result<ParsedValue> {
        if self.depth >= MAX_DEPTH {
            return Err(self.source.refuse(e.start(), "this is nested too deeply"));
        }
        self.depth += 1;
        let item = self.expr_inner(e);
        self.depth -= 1;
        item
    }

    fn expr_inner(&mut self, e: &Py) -> Result<ParsedValue> {
        match e {
            Py::Name(name) => self.name(name),
            Py::Tuple(_) | Py::List(_) => {
                let items = self.values(e)?;
                Ok(ParsedValue::Value(self.tuple(items)))
            }
            Py::Subscript(s) => self.subscript(s),
            Py::Call(call) => self.call(call),
            Py::NumberLiteral(_) => self.number_value(e),
            Py::UnaryOp(u) if matches!(&*u.operand, Py::NumberLiteral(_)) => self.number_value(e),
            Py::Attribute(a) if self.function_value(e).is_some() => {
                let func = self.function_value(e).ok_or_else(|| self.source.unsupported(a))?;
                Ok(ParsedValue::Value(self.leaf(LeafExpr::Func(func), Type::Func)))
            }
            Py::BinOp(_) if !self.is_value(e) => {
                let value = self.dim_of(e)?;
                Ok(ParsedValue::Value(self.integer(value)))
            }
            Py::BinOp(b) => self.binary(b),
            Py::UnaryOp(u) if u.op == UnaryOp::USub => {
                let x = self.value(&u.operand)?;
                self.emit1(u.start(), Op::Unary(Unary::Neg), &[x])
            }
            Py::Attribute(a) if a.attr.as_str() == "shape" => {
                let x = self.value(&a.value)?;
                Ok(ParsedValue::Shape(self.tensor(a, x)?.shape))
            }
            _ => Err(self.source.unsupported(e)),
        }
    }

    /// An expression that is one value.
    pub fn value(&mut self, e: &Py) -> Result<Value> {
        let item = self.expr(e)?;
        self.single_value(item, e)
    }

    /// An item as one value.
    pub fn single_value(&mut self, item: ParsedValue, at: &Py) -> Result<Value> {
        match item {
            ParsedValue::Value(value) => Ok(value),
            ParsedValue::Values(values) => Ok(self.tuple(values)),
            ParsedValue::Shape(dims) => {
                let ty = Type::Shape(dims.clone());
                Ok(self.leaf(LeafExpr::Shape(dims), ty))
            }
            ParsedValue::ShapeOf(tensor) => {
                let name = "vm.builtin.tensor_to_shape".to_string();
                let node = Node::CallPacked { name, args: vec![tensor], ints: vec![] };
                Ok(self.b.bind_values(node, vec![Type::Object])[0])
            }
            ParsedValue::Class => Err(self.source.unsupported(at)),
        }
    }

    /// A value that is not a tensor.
    pub fn leaf(&mut self, leaf: LeafExpr, ty: Type) -> Value {
        self.sync_dims();
        self.b.bind_values(Node::Leaf(leaf), vec![ty])[0]
    }

    pub fn integer(&mut self, e: Expr) -> Value {
        self.leaf(LeafExpr::Int(e), Type::Prim(DType::I64))
    }

    /// A number by itself.
    fn number_value(&mut self, e: &Py) -> Result<ParsedValue> {
        Ok(ParsedValue::Value(match int(self.source, e) {
            Ok(value) => self.integer(Expr::i64(value)),
            Err(_) => {
                let value = super::args::float(self.source, e)?;
                self.leaf(LeafExpr::Float(value), Type::Prim(DType::F64))
            }
        }))
    }

    /// The values of a list, or of a tuple.
    pub fn values(&mut self, e: &Py) -> Result<Vec<Value>> {
        if let Some(list) = elements(e) {
            return list.iter().map(|e| self.value(e)).collect();
        }
        let item = self.expr(e)?;
        self.fields(item, e.start())
    }

    /// The single values of an item: the fields of a tuple, or itself.
    pub fn fields(&mut self, item: ParsedValue, at: TextSize) -> Result<Vec<Value>> {
        match item {
            ParsedValue::Values(values) => Ok(values),
            ParsedValue::Value(value) if self.tuples.contains_key(&value) => {
                Ok(self.tuples[&value].clone())
            }
            ParsedValue::Value(value) => match self.b.ty(value).clone() {
                Type::Tuple(types) => {
                    let get = |(i, ty)| self.b.bind_values(Node::TupleGet(value, i), vec![ty])[0];
                    Ok(types.into_iter().enumerate().map(get).collect())
                }
                _ => Ok(vec![value]),
            },
            ParsedValue::Shape(_) | ParsedValue::ShapeOf(_) | ParsedValue::Class => {
                Err(self.source.refuse(at, "a tensor or a tuple is expected here"))
            }
        }
    }

    fn tuple(&mut self, items: Vec<Value>) -> Value {
        let types = items.iter().map(|v| self.b.ty(*v).clone()).collect();
        let tuple = self.b.bind_values(Node::Tuple(items.clone()), vec![Type::Tuple(types)])[0];
        self.tuples.insert(tuple, items);
        tuple
    }

    /// The type of an operand.
    pub fn tensor(&self, at: &impl Ranged, value: Value) -> Result<TensorType> {
        match self.b.ty(value) {
            Type::Tensor(ty) => Ok(ty.clone()),
            _ => {
                let text = self.source.shown(at);
                Err(self.source.refuse(at.start(), format!("an operand of `{text}` is no tensor")))
            }
        }
    }

    fn name(&mut self, name: &ast::ExprName) -> Result<ParsedValue> {
        let text = name.id.as_str();
        if let Some(item) = self.lookup(text) {
            // An integer parameter is a dimension.
            if let ParsedValue::Value(value) = item
                && matches!(self.b.ty(value), Type::Prim(_))
                && let Some(var) = self.dims.known(text)
            {
                return Ok(ParsedValue::Value(self.integer(Expr::var(var))));
            }
            return Ok(item);
        }
        if text == self.cx.class {
            return Ok(ParsedValue::Class);
        }
        Err(self.source.refuse(name.start(), format!("`{text}` is not defined")))
    }

    fn subscript(&mut self, s: &ast::ExprSubscript) -> Result<ParsedValue> {
        if let Py::Subscript(table) = &*s.value
            && is_path(&table.value, "metadata")
        {
            return self.metadata_entry(s, table).map(ParsedValue::Value);
        }
        let item = self.expr(&s.value)?;
        let index = usize::try_from(int(self.source, &s.slice)?).ok();
        let missing = || self.source.refuse(s.start(), "there is no such field");
        match item {
            ParsedValue::Values(values) => {
                Ok(ParsedValue::Value(*index.and_then(|i| values.get(i)).ok_or_else(missing)?))
            }
            ParsedValue::Value(value) if self.vm_lowered => {
                let index = index.ok_or_else(missing)?;
                let name = "vm.builtin.tuple_getitem".to_string();
                let ints = vec![Expr::i64(index as i64)];
                let node = Node::CallPacked { name, args: vec![value], ints };
                Ok(ParsedValue::Value(self.b.bind_values(node, vec![Type::Object])[0]))
            }
            ParsedValue::Value(value) => match (self.b.ty(value), index) {
                (Type::Tuple(types), Some(i)) if i < types.len() => {
                    let ty = types[i].clone();
                    Ok(ParsedValue::Value(
                        self.b.bind_values(Node::TupleGet(value, i), vec![ty])[0],
                    ))
                }
                _ => Err(missing()),
            },
            ParsedValue::Shape(_) | ParsedValue::ShapeOf(_) | ParsedValue::Class => {
                Err(self.source.unsupported(s))
            }
        }
    }

    fn metadata_entry(
        &mut self,
        s: &ast::ExprSubscript,
        table: &ast::ExprSubscript,
    ) -> Result<Value> {
        if super::args::string(self.source, &table.slice)? != "ir.GenericConst" {
            return Err(self.source.unsupported(s));
        }
        let index = usize::try_from(int(self.source, &s.slice)?).ok();
        let Some(constants) = &self.cx.constants else {
            let message = "the bytes of this constant are not in the text; print it with metadata";
            return Err(self.source.refuse(s.start(), message));
        };
        match index.and_then(|i| constants.get(i)) {
            Some(literal) => Ok(self.b.constant(literal.clone())),
            None => Err(self.source.refuse(s.start(), "there is no such constant")),
        }
    }

    fn binary(&mut self, b: &ast::ExprBinOp) -> Result<ParsedValue> {
        let op = match b.op {
            Operator::Add => Binary::Add,
            Operator::Sub => Binary::Sub,
            Operator::Mult => Binary::Mul,
            Operator::Div => Binary::Div,
            Operator::Pow => Binary::Pow,
            Operator::Mod => Binary::FloorMod,
            _ => return Err(self.source.unsupported(b)),
        };
        let (left, right) = (self.value(&b.left)?, self.value(&b.right)?);
        self.emit1(b.start(), Op::Binary(op), &[left, right])
    }

    /// Emits an operator; what inference refuses is an error here.
    pub fn emit(&mut self, at: TextSize, op: Op, args: &[Value]) -> Result<Vec<Value>> {
        self.sync_dims();
        if let Some(value) = args.iter().find(|v| self.b.ty(**v).as_tensor().is_none()) {
            let name = self.b.name(*value);
            return Err(self.source.refuse(at, format!("operand `{name}` is not a tensor")));
        }
        self.b.emit(op, args).map_err(|e| self.source.refuse(at, e.to_string()))
    }

    pub fn emit1(&mut self, at: TextSize, op: Op, args: &[Value]) -> Result<ParsedValue> {
        Ok(ParsedValue::Value(self.emit(at, op, args)?[0]))
    }

    /// Emits an operator of one result that other operators use.
    pub fn emit_value(&mut self, at: TextSize, op: Op, args: &[Value]) -> Result<Value> {
        Ok(self.emit(at, op, args)?[0])
    }

    pub fn unary(&mut self, at: TextSize, f: Unary, x: Value) -> Result<Value> {
        self.emit_value(at, Op::Unary(f), &[x])
    }

    /// `x op y` of two values.
    pub fn emit_binary(&mut self, at: TextSize, f: Binary, x: Value, y: Value) -> Result<Value> {
        self.emit_value(at, Op::Binary(f), &[x, y])
    }

    /// `x op c` with a number of the type of `x`.
    pub fn emit_binary_const(
        &mut self,
        at: TextSize,
        f: Binary,
        x: Value,
        c: f64,
    ) -> Result<Value> {
        let c = self.number(at, self.dtype_of(x), c)?;
        self.emit_binary(at, f, x, c)
    }

    /// The element type of a tensor; `void` of anything else, which no operator takes.
    pub fn dtype_of(&self, x: Value) -> DType {
        self.b.ty(x).as_tensor().map_or(DType::VOID, |t| t.dtype)
    }

    pub fn shape_of(&self, x: Value) -> Vec<Expr> {
        self.b.ty(x).as_tensor().map_or(vec![], |t| t.shape.clone())
    }
}
