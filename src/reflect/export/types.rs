//! Types of values.

use reflex_graph::Type;
use reflex_node::builder::{Builder, Given};
use reflex_node::graph::{NodeId, Value};
use reflex_tir::DType;

use super::int;
use super::prim::{Names, prim_type};

/// `relax.ShapeExpr` of dimensions, with its type.
pub(super) fn shape(b: &mut Builder, dims: Vec<NodeId>) -> NodeId {
    let ty = shape_type(b, dims.clone());
    let values = b.array(dims);
    b.object("relax.expr.ShapeExpr", &[("ty", Given::Node(ty)), ("values", Given::Node(values))])
}

/// The type of a shape.
pub(super) fn shape_type(b: &mut Builder, dims: Vec<NodeId>) -> NodeId {
    let rank = rank(dims.len());
    let values = b.array(dims);
    b.object("relax.ShapeType", &[("values", Given::Node(values)), ("ndim", rank)])
}

/// The type of a tensor.
pub(super) fn tensor(b: &mut Builder, dtype: DType, dims: Vec<NodeId>) -> NodeId {
    let rank = rank(dims.len());
    let (shape, dtype) = (shape(b, dims), prim_type(b, dtype));
    let fields = [("shape", Given::Node(shape)), ("dtype", Given::Node(dtype)), ("ndim", rank)];
    b.object("relax.TensorType", &fields)
}

/// The type of a tuple.
pub(super) fn tuple(b: &mut Builder, fields: Vec<NodeId>) -> NodeId {
    let fields = b.array(fields);
    b.object("ir.TupleType", &[("fields", Given::Node(fields))])
}

/// The type of a function.
pub(super) fn function(b: &mut Builder, params: Vec<NodeId>, ret: NodeId, is_pure: bool) -> NodeId {
    let params = b.array(params);
    let fields = [
        ("params", Given::Node(params)),
        ("ret", Given::Node(ret)),
        ("purity", Given::Value(Value::Bool(is_pure))),
    ];
    b.object("relax.FuncType", &fields)
}

/// `relax.AnyType`
pub(super) fn any(b: &mut Builder) -> NodeId {
    b.object("relax.AnyType", &[])
}

fn rank(rank: usize) -> Given {
    int(i64::try_from(rank).unwrap_or(i64::MAX))
}

impl Names {
    /// The node of a type. Dimensions that `known` does not have are left out, with the others of their shape.
    pub fn ty(
        &mut self,
        b: &mut Builder,
        ty: &Type,
        known: &dyn Fn(&[reflex_tir::Expr]) -> bool,
    ) -> NodeId {
        match ty {
            Type::Tensor(t) if known(&t.shape) => {
                let dims = self.exprs(b, &t.shape);
                tensor(b, t.dtype, dims)
            }
            Type::Tensor(t) => any_tensor(b, Some(t.dtype), Some(t.shape.len())),
            Type::AnyTensor { dtype, rank } => any_tensor(b, *dtype, *rank),
            Type::Shape(dims) if known(dims) => {
                let dims = self.exprs(b, dims);
                shape_type(b, dims)
            }
            Type::Shape(dims) => any_shape(b, Some(dims.len())),
            Type::AnyShape => any_shape(b, None),
            Type::Prim(dtype) => prim_type(b, *dtype),
            Type::Tuple(types) => {
                let types = types.iter().map(|ty| self.ty(b, ty, known)).collect();
                tuple(b, types)
            }
            Type::Func => {
                let ret = any(b);
                let fields =
                    [("ret", Given::Node(ret)), ("purity", Given::Value(Value::Bool(false)))];
                b.object("relax.FuncType", &fields)
            }
            Type::Object => any(b),
        }
    }
}

fn any_tensor(b: &mut Builder, dtype: Option<DType>, rank: Option<usize>) -> NodeId {
    let dtype = match dtype {
        Some(dtype) => Given::Node(prim_type(b, dtype)),
        None => Given::None,
    };
    let rank = rank.map_or(int(-1), self::rank);
    b.object("relax.TensorType", &[("dtype", dtype), ("ndim", rank)])
}

fn any_shape(b: &mut Builder, rank: Option<usize>) -> NodeId {
    b.object("relax.ShapeType", &[("ndim", rank.map_or(int(-1), self::rank))])
}
