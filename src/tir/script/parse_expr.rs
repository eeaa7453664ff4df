//! Expressions from text.
//!
//! A bare Python number takes the type of what it meets, as in TVM: the other operand, the
//! stored buffer, int64 as an index; int32 or float32 when it meets nothing.

use ruff_python_ast::{self as ast, BoolOp, Expr as Py, Operator, UnaryOp};
use ruff_text_size::{Ranged, TextSize};

use super::ops::CALLS;
use super::parse::{Name, Parser, Read, path, scalar_type};
use crate::{BinOp, CmpOp, DType, Expr, ExprKind, Intrin};

/// A value, or a number that has no type yet.
pub(super) enum Value {
    Int(i64),
    Float(f64),
    Typed(Expr),
}

impl Parser<'_> {
    /// An expression whose bare numbers keep their default type.
    pub fn expr(&mut self, e: &Py) -> Read<Expr> {
        let value = self.value(e)?;
        Ok(self.typed(value))
    }

    /// A number that meets nothing, with its default type.
    fn typed(&self, value: Value) -> Expr {
        match value {
            Value::Int(n) => Expr::int(n, self.bare_int),
            Value::Float(x) => Expr::float(x, DType::F32),
            Value::Typed(e) => e,
        }
    }

    /// An int64 expression: an index, an extent or a bound.
    pub fn index(&mut self, e: &Py) -> Read<Expr> {
        let at = e.start();
        match self.value(e)? {
            Value::Int(n) => Ok(Expr::i64(n)),
            Value::Typed(e) if e.dtype().is_int() || e.dtype().is_uint() => Ok(e.cast(DType::I64)),
            _ => Err(self.refuse(at, "an integer is expected here")),
        }
    }

    /// A bool expression.
    pub fn condition(&mut self, e: &Py) -> Read<Expr> {
        let at = e.start();
        match self.expr(e)? {
            cond if cond.dtype() == DType::BOOL => Ok(cond),
            other => Err(self.refuse(at, format!("a bool is expected, found {}", other.dtype()))),
        }
    }

    /// A value to be stored where `dtype` is held.
    pub fn expr_of(&mut self, e: &Py, dtype: DType) -> Read<Expr> {
        let at = e.start();
        match self.value(e)? {
            Value::Typed(e) if e.dtype() == DType::I64 && dtype.is_int() => Ok(e.cast(dtype)),
            Value::Typed(e) => Ok(e),
            number => self.number_as(number, dtype, at),
        }
    }

    fn number_as(&self, number: Value, dtype: DType, at: TextSize) -> Read<Expr> {
        match number {
            Value::Int(n) if dtype.is_float() => Ok(Expr::float(n as f64, dtype)),
            Value::Int(n) if dtype.is_int() || dtype.is_uint() => Ok(Expr::int(n, dtype)),
            Value::Float(x) if dtype.is_float() => Ok(Expr::float(x, dtype)),
            Value::Typed(e) => Ok(e),
            _ => Err(self.refuse(at, format!("this number cannot be {dtype}"))),
        }
    }

    pub fn value(&mut self, e: &Py) -> Read<Value> {
        self.deeper(e.start(), |p| p.value_inside(e))
    }

    fn value_inside(&mut self, e: &Py) -> Read<Value> {
        let found = match e {
            Py::NumberLiteral(n) => match &n.value {
                ast::Number::Int(i) => match i.as_i64() {
                    Some(i) => Value::Int(i),
                    None => return Err(self.refuse(e.start(), "this integer is too large")),
                },
                ast::Number::Float(x) => Value::Float(*x),
                ast::Number::Complex { .. } => return Err(self.unsupported(e)),
            },
            Py::BooleanLiteral(b) => Value::Typed(Expr::bool(b.value)),
            Py::Name(n) => match self.lookup(&n.id) {
                Some(Name::Var(var)) => {
                    let dtype = self.func.vars[var].dtype;
                    Value::Typed(Expr::new(ExprKind::Var { var, dtype }))
                }
                Some(Name::Buffer(b)) => match self.func.buffers[b].shape.is_empty() {
                    true => Value::Typed(self.func.load(b, vec![])),
                    false => return Err(self.refuse(e.start(), format!("`{}` is a buffer", n.id))),
                },
                Some(Name::Zero) => Value::Typed(Expr::i64(0)),
                None => return Err(self.refuse(e.start(), format!("`{}` is not defined", n.id))),
            },
            Py::Subscript(s) => {
                let (buffer, indices) = self.element(s)?;
                Value::Typed(self.func.load(buffer, indices))
            }
            Py::UnaryOp(u) => self.unary(u)?,
            Py::BinOp(b) => self.binary(b)?,
            Py::BoolOp(b) => {
                let mut values =
                    b.values.iter().map(|v| self.condition(v)).collect::<Read<Vec<_>>>()?;
                let first = values.remove(0);
                let join = if b.op == BoolOp::And { Expr::and } else { Expr::or };
                Value::Typed(values.into_iter().fold(first, join))
            }
            Py::Compare(c) => self.compare(c)?,
            Py::Call(call) => self.call(call)?,
            _ => return Err(self.unsupported(e)),
        };
        Ok(found)
    }

    /// `A[i, j]`, `A[()]`: the buffer and its indices.
    pub fn element(&mut self, s: &ast::ExprSubscript) -> Read<(crate::Buffer, Vec<Expr>)> {
        let Py::Name(name) = &*s.value else { return Err(self.unsupported(s)) };
        let Some(Name::Buffer(buffer)) = self.lookup(&name.id) else {
            return Err(self.refuse(s.start(), format!("buffer `{}` is not defined", name.id)));
        };
        let indices = match &*s.slice {
            Py::Tuple(t) => t.elts.iter().map(|i| self.index(i)).collect::<Read<_>>()?,
            one => vec![self.index(one)?],
        };
        Ok((buffer, indices))
    }

    fn unary(&mut self, u: &ast::ExprUnaryOp) -> Read<Value> {
        let at = u.start();
        if u.op == UnaryOp::Not {
            return Ok(Value::Typed(self.condition(&u.operand)?.logical_not()));
        }
        let overflow = |p: &Self| p.refuse(at, "this integer is too large");
        Ok(match (u.op, self.value(&u.operand)?) {
            (UnaryOp::USub, Value::Int(n)) => {
                Value::Int(n.checked_neg().ok_or_else(|| overflow(self))?)
            }
            (UnaryOp::USub, Value::Float(x)) => Value::Float(-x),
            (UnaryOp::USub, Value::Typed(e)) if !e.dtype().is_bool() => Value::Typed(-e),
            (UnaryOp::UAdd, v) => v,
            (UnaryOp::Invert, Value::Typed(e)) if !e.dtype().is_float() => {
                Value::Typed(Expr::call(Intrin::BitNot, vec![e]))
            }
            _ => return Err(self.unsupported(u)),
        })
    }

    fn binary(&mut self, b: &ast::ExprBinOp) -> Read<Value> {
        let (left, right) = (self.value(&b.left)?, self.value(&b.right)?);
        let op = match b.op {
            Operator::Add => Ok(BinOp::Add),
            Operator::Sub => Ok(BinOp::Sub),
            Operator::Mult => Ok(BinOp::Mul),
            Operator::Div => Ok(BinOp::Div),
            Operator::FloorDiv => Ok(BinOp::FloorDiv),
            Operator::Mod => Ok(BinOp::FloorMod),
            Operator::LShift => Err(Intrin::Shl),
            Operator::RShift => Err(Intrin::Shr),
            Operator::BitAnd => Err(Intrin::BitAnd),
            Operator::BitOr => Err(Intrin::BitOr),
            Operator::BitXor => Err(Intrin::BitXor),
            Operator::Pow | Operator::MatMult => return Err(self.unsupported(b)),
        };
        if let (Value::Int(x), Value::Int(y), Ok(op)) = (&left, &right, op) {
            // Folded as int64, where the constructor folds.
            let folded = Expr::binary(op, Expr::i64(*x), Expr::i64(*y)).as_int();
            return folded
                .filter(|_| op != BinOp::Div)
                .map(Value::Int)
                .ok_or_else(|| self.unsupported(b));
        }
        let (x, y) = self.unify(left, right, b.start())?;
        let float = x.dtype().is_float();
        let allowed = match op {
            // `/` of integers would be a float in Python and truncate in TVM: say which.
            Ok(BinOp::Div) => float,
            Ok(_) => !x.dtype().is_bool(),
            Err(_) => !float,
        };
        if !allowed {
            let message = format!("`{}` of {} is not supported", b.op.as_str(), x.dtype());
            return Err(self.refuse(b.start(), message));
        }
        Ok(Value::Typed(match op {
            Ok(op) => Expr::binary(op, x, y),
            Err(op) => Expr::call(op, vec![x, y]),
        }))
    }

    /// Two operands in one type.
    pub fn unify(&self, a: Value, b: Value, at: TextSize) -> Read<(Expr, Expr)> {
        match (a, b) {
            (Value::Typed(a), Value::Typed(b)) => {
                let (x, y) = (a.dtype(), b.dtype());
                match x == y {
                    true => Ok((a, b)),
                    // Narrow integers meet indices, which are int64 here.
                    false if x == DType::I64 && y.is_int() => Ok((a, b.cast(DType::I64))),
                    false if y == DType::I64 && x.is_int() => Ok((a.cast(DType::I64), b)),
                    false => Err(self.refuse(at, format!("operands of types {x} and {y}"))),
                }
            }
            (Value::Typed(a), number) => {
                let b = self.number_as(number, a.dtype(), at)?;
                Ok((a, b))
            }
            (number, Value::Typed(b)) => Ok((self.number_as(number, b.dtype(), at)?, b)),
            (Value::Int(a), Value::Int(b)) => {
                Ok((self.typed(Value::Int(a)), self.typed(Value::Int(b))))
            }
            (a, b) => {
                let float = |v| self.number_as(v, DType::F32, at);
                Ok((float(a)?, float(b)?))
            }
        }
    }

    fn compare(&mut self, c: &ast::ExprCompare) -> Read<Value> {
        let ([op], [right]) = (&c.ops[..], &c.comparators[..]) else {
            return Err(self.unsupported(c));
        };
        let op = match op {
            ast::CmpOp::Eq => CmpOp::Eq,
            ast::CmpOp::NotEq => CmpOp::Ne,
            ast::CmpOp::Lt => CmpOp::Lt,
            ast::CmpOp::LtE => CmpOp::Le,
            ast::CmpOp::Gt => CmpOp::Gt,
            ast::CmpOp::GtE => CmpOp::Ge,
            _ => return Err(self.unsupported(c)),
        };
        let (left, right) = (self.value(&c.left)?, self.value(right)?);
        let (a, b) = self.unify(left, right, c.start())?;
        Ok(Value::Typed(Expr::compare(op, a, b)))
    }

    fn call(&mut self, call: &ast::ExprCall) -> Read<Value> {
        let args = &call.arguments.args;
        if let Some(keyword) = call.arguments.keywords.first() {
            return Err(self.unsupported(&keyword.value));
        }
        if let (Py::Attribute(a), [Py::StringLiteral(dtype)]) = (&*call.func, &args[..])
            && a.attr.as_str() == "astype"
        {
            let dtype = self.dtype(dtype)?;
            return Ok(Value::Typed(self.expr(&a.value)?.cast(dtype)));
        }
        let Some(path) = path(&call.func) else { return Err(self.unsupported(call)) };
        if let (Some(dtype), [one]) = (scalar_type(&path), &args[..]) {
            return self.constant(dtype, one).map(Value::Typed);
        }
        let Some(name) = path.strip_prefix("T.") else { return Err(self.unsupported(call)) };
        match (name, &args[..]) {
            ("Cast", [Py::StringLiteral(dtype), value]) => {
                let dtype = self.dtype(dtype)?;
                let value = self.expr(value)?;
                // A cast that was written stays, but for constants and to the same type.
                Ok(Value::Typed(value.cast(dtype)))
            }
            ("reinterpret", [Py::StringLiteral(dtype), value]) => {
                let dtype = self.dtype(dtype)?;
                Ok(Value::Typed(self.expr(value)?.reinterpret(dtype)))
            }
            ("Select" | "if_then_else", [cond, a, b]) => {
                let cond = self.condition(cond)?;
                let (a, b) = (self.value(a)?, self.value(b)?);
                let (a, b) = self.unify(a, b, call.start())?;
                Ok(Value::Typed(match name {
                    "Select" => Expr::select(cond, a, b),
                    _ => Expr::if_then_else(cond, a, b),
                }))
            }
            ("likely", [one]) => self.value(one),
            ("And", [a, b]) => Ok(Value::Typed(self.condition(a)?.and(self.condition(b)?))),
            ("Or", [a, b]) => Ok(Value::Typed(self.condition(a)?.or(self.condition(b)?))),
            ("Not", [a]) => Ok(Value::Typed(self.condition(a)?.logical_not())),
            (_, [a, b]) if infix(name).is_some() => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let (a, b) = self.unify(a, b, call.start())?;
                let op = infix(name).expect("checked");
                Ok(Value::Typed(Expr::binary(op, a, b)))
            }
            ("ceildiv", [a, b]) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let (a, b) = self.unify(a, b, call.start())?;
                let one = Expr::int(1, b.dtype());
                Ok(Value::Typed(Expr::binary(BinOp::FloorDiv, a + (b.clone() - one), b)))
            }
            ("rsqrt" | "sigmoid", [x]) => match self.expr(x)? {
                x if x.dtype().is_float() => Ok(Value::Typed(written_out(name, x))),
                _ => Err(self.unsupported(call)),
            },
            _ => self.intrinsic(name, call),
        }
    }

    fn intrinsic(&mut self, name: &str, call: &ast::ExprCall) -> Read<Value> {
        let Some((_, op)) = CALLS.iter().find(|(n, _)| *n == name) else {
            return Err(self.unsupported(call));
        };
        let args = &call.arguments.args;
        if let (Intrin::DotBf16 | Intrin::DotI8 { .. } | Intrin::DotI16, [a, b, c]) =
            (op, &args[..])
        {
            let words = [self.expr_of(a, DType::U32)?, self.expr_of(b, DType::U32)?];
            let sum = if *op == Intrin::DotBf16 { DType::F32 } else { DType::I32 };
            let operands = [&words[..], &[self.expr_of(c, sum)?]].concat();
            return Ok(Value::Typed(Expr::call(*op, operands)));
        }
        let mut values = args.iter().map(|a| self.value(a)).collect::<Read<Vec<_>>>()?;
        let dtype = values.iter().find_map(|v| match v {
            Value::Typed(e) => Some(e.dtype()),
            _ => None,
        });
        let whole = values.iter().all(|v| matches!(v, Value::Int(_))) && op.takes_integers();
        let dtype = dtype.unwrap_or(if whole { DType::I32 } else { DType::F32 });
        let operands = values.drain(..).map(|v| self.number_as(v, dtype, call.start()));
        let operands = operands.collect::<Read<Vec<_>>>()?;
        if operands.len() != op.arity() {
            let message = format!("`T.{name}` takes {} operands", op.arity());
            return Err(self.refuse(call.start(), message));
        }
        Ok(Value::Typed(Expr::call(*op, operands)))
    }

    fn dtype(&self, text: &ast::ExprStringLiteral) -> Read<DType> {
        text.value.to_str().parse().map_err(|e| self.refuse(text.start(), format!("{e}")))
    }

    /// `T.float32(1)`, `T.int64(-1)`, `T.bool(True)`, `T.float32("inf")`, `T.int64(x)`.
    fn constant(&mut self, dtype: DType, value: &Py) -> Read<Expr> {
        if let Py::StringLiteral(text) = value {
            let x = match text.value.to_str() {
                "inf" => f64::INFINITY,
                "-inf" => f64::NEG_INFINITY,
                "nan" => f64::NAN,
                _ => return Err(self.unsupported(value)),
            };
            return self.number_as(Value::Float(x), dtype, value.start());
        }
        if let (Py::NumberLiteral(n), DType::U64) = (value, dtype)
            && let ast::Number::Int(i) = &n.value
        {
            let bits = i.as_u64().ok_or_else(|| self.unsupported(value))?;
            return Ok(Expr::int(bits as i64, DType::U64));
        }
        match self.value(value)? {
            Value::Typed(e) => Ok(e.cast(dtype)),
            Value::Int(n) if dtype == DType::BOOL => Ok(Expr::bool(n != 0)),
            number => self.number_as(number, dtype, value.start()),
        }
    }
}

/// The definition of a function that has no operation of its own.
fn written_out(name: &str, x: Expr) -> Expr {
    let one = Expr::float(1.0, x.dtype());
    match name {
        "rsqrt" => one / Expr::call(Intrin::Sqrt, vec![x]),
        _ => one.clone() / (one + Expr::call(Intrin::Exp, vec![-x])),
    }
}

fn infix(name: &str) -> Option<BinOp> {
    Some(match name {
        "min" => BinOp::Min,
        "max" => BinOp::Max,
        "floordiv" => BinOp::FloorDiv,
        "floormod" => BinOp::FloorMod,
        "truncdiv" | "Div" => BinOp::Div,
        "truncmod" | "Mod" | "fmod" => BinOp::Mod,
        "Add" => BinOp::Add,
        "Sub" => BinOp::Sub,
        "Mul" => BinOp::Mul,
        _ => return None,
    })
}
