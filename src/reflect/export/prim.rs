//! Expressions of kernels and dimensions.

use std::collections::HashMap;

use reflex_node::builder::{Builder, Given};
use reflex_node::graph::{NodeId, Value};
use reflex_tir::script::identifier;
use reflex_tir::{BinOp, Buffer, DType, Expr, ExprKind, Intrin, Var};

use crate::table::{BINARY, BITS, COMPARE, EXTERNAL, INTRINSICS, right};

/// The nodes of the variables and buffers of a function.
#[derive(Default)]
pub(super) struct Names {
    pub vars: HashMap<Var, NodeId>,
    pub buffers: HashMap<Buffer, NodeId>,
    /// True for dimensions of a graph function, whose text has `n - 1` for `n + -1`.
    pub is_graph: bool,
}

/// `ir.PrimType`
pub(super) fn prim_type(b: &mut Builder, dtype: DType) -> NodeId {
    b.object("ir.PrimType", &[("dtype", Given::DType(dtype.to_string()))])
}

/// A variable.
pub(super) fn var(b: &mut Builder, name: &str, ty: NodeId) -> NodeId {
    let name = b.string(&identifier(name));
    b.object("ir.Var", &[("ty", Given::Node(ty)), ("name", Given::Node(name))])
}

/// A scalar variable.
pub(super) fn scalar(b: &mut Builder, name: &str, dtype: DType) -> NodeId {
    let ty = prim_type(b, dtype);
    var(b, name, ty)
}

/// An int64 constant.
pub(super) fn int64(b: &mut Builder, value: i64) -> NodeId {
    int(b, value, DType::I64)
}

/// An integer or bool constant.
pub(super) fn int(b: &mut Builder, value: i64, dtype: DType) -> NodeId {
    let ty = prim_type(b, dtype);
    b.object("ir.IntImm", &[("ty", Given::Node(ty)), ("value", Given::Value(Value::Int(value)))])
}

/// A floating-point constant.
pub(super) fn float(b: &mut Builder, value: f64, dtype: DType) -> NodeId {
    let ty = prim_type(b, dtype);
    let fields = [("ty", Given::Node(ty)), ("value", Given::Value(Value::Float(value)))];
    b.object("ir.FloatImm", &fields)
}

/// `ir.StringImm`
pub(super) fn string(b: &mut Builder, text: &str) -> NodeId {
    let ty = b.object("ir.StringType", &[]);
    let value = b.string(text);
    b.object("ir.StringImm", &[("ty", Given::Node(ty)), ("value", Given::Node(value))])
}

/// A call of an operator without attributes.
pub(super) fn call(b: &mut Builder, operator: &str, args: Vec<NodeId>, ty: NodeId) -> NodeId {
    let (op, args, none) = (b.named("ir.Op", operator), b.array(args), b.array(vec![]));
    let fields = [
        ("ty", Given::Node(ty)),
        ("op", Given::Node(op)),
        ("args", Given::Node(args)),
        ("ty_args", Given::Node(none)),
    ];
    b.object("ir.Call", &fields)
}

/// A call of the external function `reflex.NAME` in a kernel.
pub(super) fn external(b: &mut Builder, name: &str, args: Vec<NodeId>, ty: NodeId) -> NodeId {
    let mut all = vec![string(b, &format!("reflex.{name}"))];
    all.extend(args);
    call(b, "tirx.call_pure_extern", all, ty)
}

impl Names {
    /// Names of a graph function.
    pub fn of_graph() -> Names {
        Names { is_graph: true, ..Names::default() }
    }

    /// The nodes of expressions.
    pub fn exprs(&mut self, b: &mut Builder, list: &[Expr]) -> Vec<NodeId> {
        list.iter().map(|e| self.expr(b, e)).collect()
    }

    /// The node of an index, which widens to int64 by itself.
    pub fn index(&mut self, b: &mut Builder, e: &Expr) -> NodeId {
        match e.kind() {
            ExprKind::Cast { dtype: DType::I64, value } if value.dtype().is_int() => {
                self.expr(b, value)
            }
            _ => self.expr(b, e),
        }
    }

    /// The node of an expression.
    pub fn expr(&mut self, b: &mut Builder, e: &Expr) -> NodeId {
        match e.kind() {
            ExprKind::Int { value, dtype } => int(b, *value, *dtype),
            ExprKind::Float { bits, dtype } => float(b, f64::from_bits(*bits), *dtype),
            ExprKind::Var { var, dtype } => match self.vars.get(var) {
                Some(known) => *known,
                // What nothing defines is a verifier's fault.
                None => {
                    let made = scalar(b, &var.to_string(), *dtype);
                    self.vars.insert(*var, made);
                    made
                }
            },
            ExprKind::Binary { op, a, b: right } => self.binary(b, *op, a, right),
            ExprKind::Compare { op, a, b: other } => {
                let key = right(COMPARE, op).expect("the table has every comparison");
                self.pair(b, key, a, other, DType::BOOL)
            }
            ExprKind::And(x, y) => self.pair(b, "prim.And", x, y, DType::BOOL),
            ExprKind::Or(x, y) => self.pair(b, "prim.Or", x, y, DType::BOOL),
            ExprKind::Not(x) => {
                let (ty, x) = (prim_type(b, DType::BOOL), self.expr(b, x));
                b.object("prim.Not", &[("ty", Given::Node(ty)), ("a", Given::Node(x))])
            }
            ExprKind::Select { cond, on_true, on_false } => {
                let (cond, x, y) =
                    (self.expr(b, cond), self.expr(b, on_true), self.expr(b, on_false));
                select(b, cond, x, y, e.dtype())
            }
            ExprKind::Cast { dtype, value } => {
                let (ty, value) = (prim_type(b, *dtype), self.expr(b, value));
                b.object("prim.Cast", &[("ty", Given::Node(ty)), ("value", Given::Node(value))])
            }
            ExprKind::Load { buffer, indices, dtype } => {
                let indices = self.indices(b, indices);
                let (source, ty) = (self.buffer(*buffer), prim_type(b, *dtype));
                let fields = [
                    ("ty", Given::Node(ty)),
                    ("source", source),
                    ("indices", Given::Node(indices)),
                ];
                b.object("ir.TensorLoad", &fields)
            }
            ExprKind::Call { op, args, dtype } => self.call(b, *op, args, *dtype),
        }
    }

    /// The array of indices.
    pub fn indices(&mut self, b: &mut Builder, indices: &[Expr]) -> NodeId {
        let indices = indices.iter().map(|i| self.index(b, i)).collect();
        b.array(indices)
    }

    /// The variable of a buffer; nothing if no statement has it yet, which is a verifier's fault.
    pub fn buffer(&self, buffer: Buffer) -> Given {
        self.buffers.get(&buffer).map_or(Given::None, |id| Given::Node(*id))
    }

    fn pair(&mut self, b: &mut Builder, key: &str, x: &Expr, y: &Expr, dtype: DType) -> NodeId {
        let (ty, x, y) = (prim_type(b, dtype), self.expr(b, x), self.expr(b, y));
        b.object(key, &[("ty", Given::Node(ty)), ("a", Given::Node(x)), ("b", Given::Node(y))])
    }

    fn binary(&mut self, b: &mut Builder, op: BinOp, x: &Expr, y: &Expr) -> NodeId {
        let dtype = x.dtype();
        if let (true, BinOp::Add, Some(value)) = (self.is_graph, op, y.as_int())
            && value < 0
            && value > i64::MIN
        {
            return self.pair(b, "prim.Sub", x, &Expr::int(-value, y.dtype()), dtype);
        }
        let external_name = match op {
            BinOp::Mod if dtype.is_float() => {
                let (ty, x, y) = (prim_type(b, dtype), self.expr(b, x), self.expr(b, y));
                return call(b, "tirx.fmod", vec![x, y], ty);
            }
            BinOp::FloorDiv if dtype.is_float() => Some("floordiv"),
            BinOp::FloorMod if dtype.is_float() => Some("floormod"),
            _ => None,
        };
        if let Some(name) = external_name {
            let (ty, x, y) = (prim_type(b, dtype), self.expr(b, x), self.expr(b, y));
            return external(b, name, vec![x, y], ty);
        }
        let key = right(BINARY, &op).expect("the table has all arithmetic");
        self.pair(b, key, x, y, dtype)
    }

    fn call(&mut self, b: &mut Builder, op: Intrin, args: &[Expr], dtype: DType) -> NodeId {
        if let (Some(key), [x, y]) = (right(BITS, &op), args) {
            return self.pair(b, key, x, y, dtype);
        }
        let ty = prim_type(b, dtype);
        if let (Intrin::BitNot, [x]) = (op, args) {
            let x = self.expr(b, x);
            return b.object("prim.BitwiseNot", &[("ty", Given::Node(ty)), ("a", Given::Node(x))]);
        }
        let nodes = self.exprs(b, args);
        match (op, &nodes[..]) {
            // How TVM reads the absolute value of an integer.
            (Intrin::Abs, [x]) if !dtype.is_float() => {
                let zero = int(b, 0, dtype);
                let (bool_type, two) = (prim_type(b, DType::BOOL), |ty, a, b| {
                    [("ty", Given::Node(ty)), ("a", Given::Node(a)), ("b", Given::Node(b))]
                });
                let is_positive = b.object("prim.GE", &two(bool_type, *x, zero));
                let negated = b.object("prim.Sub", &two(ty, zero, *x));
                select(b, is_positive, *x, negated, dtype)
            }
            _ => match (right(INTRINSICS, &op), right(EXTERNAL, &op)) {
                (Some(operator), _) => call(b, operator, nodes, ty),
                (None, Some(name)) => external(b, name, nodes, ty),
                (None, None) => unreachable!("the table has every intrinsic"),
            },
        }
    }
}

fn select(b: &mut Builder, cond: NodeId, x: NodeId, y: NodeId, dtype: DType) -> NodeId {
    let ty = prim_type(b, dtype);
    let fields = [
        ("ty", Given::Node(ty)),
        ("condition", Given::Node(cond)),
        ("true_value", Given::Node(x)),
        ("false_value", Given::Node(y)),
    ];
    b.object("prim.Select", &fields)
}
