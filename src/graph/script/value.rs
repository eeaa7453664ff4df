//! Expressions: names, constants, tuples, operators between tensors, calls.

use reflex_tir::{DType, Expr};
use ruff_python_ast::{self as ast, Expr as Py, Operator, UnaryOp};
use ruff_text_size::{Ranged, TextSize};

use super::Read;
use super::args::{elements, int};
use super::func::FuncParser;
use super::types::is_path;
use crate::{Binary, LeafExpr, Node, Op, TensorType, Type, Unary, Value};

/// Nesting of expressions that is read.
const MAX_DEPTH: usize = 128;

/// What a name or an expression stands for.
#[derive(Clone)]
pub(super) enum Item {
    /// A value of the function.
    Value(Value),
    /// Several values that Relax has as one tuple.
    Several(Vec<Value>),
    /// A shape.
    Shape(Vec<Expr>),
    /// The elements of a 1-D tensor as a shape that is not known yet.
    ShapeOf(Value),
    /// The class, through which its functions are called.
    Members,
}

impl FuncParser<'_, '_> {
    pub fn item(&mut self, e: &Py) -> Read<Item> {
        if self.depth >= MAX_DEPTH {
            return Err(self.source.refuse(e.start(), "this is nested too deeply"));
        }
        self.depth += 1;
        let item = self.item_inside(e);
        self.depth -= 1;
        item
    }

    fn item_inside(&mut self, e: &Py) -> Read<Item> {
        match e {
            Py::Name(name) => self.name(name),
            Py::Tuple(_) | Py::List(_) => {
                let items = self.values(e)?;
                Ok(Item::Value(self.tuple(items)))
            }
            Py::Subscript(s) => self.subscript(s),
            Py::Call(call) => self.call(call),
            Py::NumberLiteral(_) => self.number_value(e),
            Py::UnaryOp(u) if matches!(&*u.operand, Py::NumberLiteral(_)) => self.number_value(e),
            Py::Attribute(a) if self.function_value(e).is_some() => {
                let func = self.function_value(e).ok_or_else(|| self.source.unsupported(a))?;
                Ok(Item::Value(self.leaf(LeafExpr::Func(func), Type::Func)))
            }
            Py::BinOp(_) if !self.is_value(e) => {
                let value = self.dim_of(e)?;
                Ok(Item::Value(self.integer(value)))
            }
            Py::BinOp(b) => self.binary(b),
            Py::UnaryOp(u) if u.op == UnaryOp::USub => {
                let x = self.value(&u.operand)?;
                self.emit1(u.start(), Op::Unary(Unary::Neg), &[x])
            }
            Py::Attribute(a) if a.attr.as_str() == "shape" => {
                let x = self.value(&a.value)?;
                Ok(Item::Shape(self.tensor(a, x)?.shape))
            }
            _ => Err(self.source.unsupported(e)),
        }
    }

    /// An expression that is one value.
    pub fn value(&mut self, e: &Py) -> Read<Value> {
        let item = self.item(e)?;
        self.item_value(item, e)
    }

    /// An item as one value.
    pub fn item_value(&mut self, item: Item, at: &Py) -> Read<Value> {
        match item {
            Item::Value(value) => Ok(value),
            Item::Several(values) => Ok(self.tuple(values)),
            Item::Shape(dims) => {
                let ty = Type::Shape(dims.clone());
                Ok(self.leaf(LeafExpr::Shape(dims), ty))
            }
            Item::ShapeOf(tensor) => {
                let name = "vm.builtin.tensor_to_shape".to_string();
                let node = Node::CallPacked { name, args: vec![tensor], ints: vec![] };
                Ok(self.b.bind_values(node, vec![Type::Object])[0])
            }
            Item::Members => Err(self.source.unsupported(at)),
        }
    }

    /// A value that is no tensor.
    pub fn leaf(&mut self, leaf: LeafExpr, ty: Type) -> Value {
        self.sync_dims();
        self.b.bind_values(Node::Leaf(leaf), vec![ty])[0]
    }

    pub fn integer(&mut self, e: Expr) -> Value {
        self.leaf(LeafExpr::Int(e), Type::Prim(DType::I64))
    }

    /// A number by itself.
    fn number_value(&mut self, e: &Py) -> Read<Item> {
        Ok(Item::Value(match int(self.source, e) {
            Ok(value) => self.integer(Expr::i64(value)),
            Err(_) => {
                let value = super::args::float(self.source, e)?;
                self.leaf(LeafExpr::Float(value), Type::Prim(DType::F64))
            }
        }))
    }

    /// The values of a list, or of a tuple.
    pub fn values(&mut self, e: &Py) -> Read<Vec<Value>> {
        if let Some(list) = elements(e) {
            return list.iter().map(|e| self.value(e)).collect();
        }
        let item = self.item(e)?;
        self.fields(item, e.start())
    }

    /// The single values of an item: the fields of a tuple, or itself.
    pub fn fields(&mut self, item: Item, at: TextSize) -> Read<Vec<Value>> {
        match item {
            Item::Several(values) => Ok(values),
            Item::Value(value) if self.tuples.contains_key(&value) => {
                Ok(self.tuples[&value].clone())
            }
            Item::Value(value) => match self.b.ty(value).clone() {
                Type::Tuple(types) => {
                    let get = |(i, ty)| self.b.bind_values(Node::TupleGet(value, i), vec![ty])[0];
                    Ok(types.into_iter().enumerate().map(get).collect())
                }
                _ => Ok(vec![value]),
            },
            Item::Shape(_) | Item::ShapeOf(_) | Item::Members => {
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
    pub fn tensor(&self, at: &impl Ranged, value: Value) -> Read<TensorType> {
        match self.b.ty(value) {
            Type::Tensor(ty) => Ok(ty.clone()),
            _ => {
                let text = self.source.shown(at);
                Err(self.source.refuse(at.start(), format!("an operand of `{text}` is no tensor")))
            }
        }
    }

    fn name(&mut self, name: &ast::ExprName) -> Read<Item> {
        let text = name.id.as_str();
        if let Some(item) = self.lookup(text) {
            // An integer parameter is a dimension.
            if let Item::Value(value) = item
                && matches!(self.b.ty(value), Type::Prim(_))
                && let Some(var) = self.dims.known(text)
            {
                return Ok(Item::Value(self.integer(Expr::var(var))));
            }
            return Ok(item);
        }
        if text == self.cx.class {
            return Ok(Item::Members);
        }
        Err(self.source.refuse(name.start(), format!("`{text}` is not defined")))
    }

    fn subscript(&mut self, s: &ast::ExprSubscript) -> Read<Item> {
        if let Py::Subscript(table) = &*s.value
            && is_path(&table.value, "metadata")
        {
            return self.metadata_entry(s, table).map(Item::Value);
        }
        let item = self.item(&s.value)?;
        let index = usize::try_from(int(self.source, &s.slice)?).ok();
        let missing = || self.source.refuse(s.start(), "there is no such field");
        match item {
            Item::Several(values) => {
                Ok(Item::Value(*index.and_then(|i| values.get(i)).ok_or_else(missing)?))
            }
            Item::Value(value) if self.machine => {
                let index = index.ok_or_else(missing)?;
                let name = "vm.builtin.tuple_getitem".to_string();
                let ints = vec![Expr::i64(index as i64)];
                let node = Node::CallPacked { name, args: vec![value], ints };
                Ok(Item::Value(self.b.bind_values(node, vec![Type::Object])[0]))
            }
            Item::Value(value) => match (self.b.ty(value), index) {
                (Type::Tuple(types), Some(i)) if i < types.len() => {
                    let ty = types[i].clone();
                    Ok(Item::Value(self.b.bind_values(Node::TupleGet(value, i), vec![ty])[0]))
                }
                _ => Err(missing()),
            },
            Item::Shape(_) | Item::ShapeOf(_) | Item::Members => Err(self.source.unsupported(s)),
        }
    }

    fn metadata_entry(
        &mut self,
        s: &ast::ExprSubscript,
        table: &ast::ExprSubscript,
    ) -> Read<Value> {
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

    fn binary(&mut self, b: &ast::ExprBinOp) -> Read<Item> {
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
    pub fn emit(&mut self, at: TextSize, op: Op, args: &[Value]) -> Read<Vec<Value>> {
        self.sync_dims();
        if let Some(value) = args.iter().find(|v| self.b.ty(**v).as_tensor().is_none()) {
            let name = self.b.name(*value);
            return Err(self.source.refuse(at, format!("operand `{name}` is not a tensor")));
        }
        self.b.emit(op, args).map_err(|e| self.source.refuse(at, e.to_string()))
    }

    pub fn emit1(&mut self, at: TextSize, op: Op, args: &[Value]) -> Read<Item> {
        Ok(Item::Value(self.emit(at, op, args)?[0]))
    }

    /// Emits an operator of one result that other operators use.
    pub fn step(&mut self, at: TextSize, op: Op, args: &[Value]) -> Read<Value> {
        Ok(self.emit(at, op, args)?[0])
    }

    pub fn unary(&mut self, at: TextSize, f: Unary, x: Value) -> Read<Value> {
        self.step(at, Op::Unary(f), &[x])
    }

    /// `x op y` of two values.
    pub fn pair(&mut self, at: TextSize, f: Binary, x: Value, y: Value) -> Read<Value> {
        self.step(at, Op::Binary(f), &[x, y])
    }

    /// `x op c` with a number of the type of `x`.
    pub fn with(&mut self, at: TextSize, f: Binary, x: Value, c: f64) -> Read<Value> {
        let c = self.number(at, self.dtype_of(x), c)?;
        self.pair(at, f, x, c)
    }

    /// The element type of a tensor; `void` of anything else, which no operator takes.
    pub fn dtype_of(&self, x: Value) -> DType {
        self.b.ty(x).as_tensor().map_or(DType::VOID, |t| t.dtype)
    }

    pub fn shape_of(&self, x: Value) -> Vec<Expr> {
        self.b.ty(x).as_tensor().map_or(vec![], |t| t.shape.clone())
    }
}
