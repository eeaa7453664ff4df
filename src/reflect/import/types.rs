//! Types of values as text.

use reflex_node::graph::NodeId;
use reflex_tir::script::string;

use super::Writer;
use super::reader::Read;

/// The part of the text that a type is written in.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Position {
    /// A signature is evaluated by Python, where a dimension knows no arithmetic.
    Signature,
    Body,
}

impl Writer<'_> {
    /// A type of a value.
    pub(super) fn ty(&mut self, ty: NodeId, position: Position) -> Read<String> {
        self.deeper(ty, |w| w.ty_inside(ty, position))
    }

    fn ty_inside(&mut self, ty: NodeId, position: Position) -> Read<String> {
        Ok(match self.nodes.key(ty) {
            "relax.TensorType" => return self.tensor_type(ty, position),
            "relax.ShapeType" => match self.nodes.optional(ty, "values")? {
                Some(values) => {
                    let values = self.nodes.items(values)?;
                    format!("R.Shape([{}])", self.dims(&values, position)?)
                }
                None => match self.nodes.child_int(ty, "ndim")? {
                    rank if rank >= 0 => format!("R.Shape(ndim={rank})"),
                    _ => "R.Shape".to_owned(),
                },
            },
            "ir.PrimType" => format!("R.Prim(\"{}\")", self.nodes.dtype(ty)?),
            "ir.TupleType" => {
                let fields = self.nodes.list(ty, "fields")?;
                if fields.is_empty() {
                    return Ok("R.Tuple".to_owned());
                }
                let fields: Vec<String> =
                    fields.iter().map(|field| self.ty(*field, position)).collect::<Read<_>>()?;
                format!("R.Tuple({})", fields.join(", "))
            }
            "relax.FuncType" => "R.Callable".to_owned(),
            "relax.AnyType" | "ir.StringType" => "R.Any".to_owned(),
            key => return Err(format!("the type {key:.64}")),
        })
    }

    fn tensor_type(&mut self, ty: NodeId, position: Position) -> Read<String> {
        if let Some(device) = self.nodes.optional(ty, "vdevice")? {
            return Err(format!("{:.64} of a tensor", self.nodes.key(device)));
        }
        let dtype = match self.nodes.optional(ty, "dtype")? {
            Some(dtype) => Some(format!("dtype=\"{}\"", self.nodes.dtype(dtype)?)),
            None => None,
        };
        let shape = self.nodes.optional(ty, "shape")?;
        let shape = shape.filter(|shape| self.nodes.key(*shape) == "relax.expr.ShapeExpr");
        if let Some(shape) = shape {
            let dims = self.nodes.list(shape, "values")?;
            let comma = if dims.len() == 1 { "," } else { "" };
            let dims = self.dims(&dims, position)?;
            let rest = dtype.map_or(String::new(), |dtype| format!(", {dtype}"));
            return Ok(format!("R.Tensor(({dims}{comma}){rest})"));
        }
        let rank = self.nodes.child_int(ty, "ndim")?;
        let rank = (rank >= 0).then(|| format!("ndim={rank}"));
        let known: Vec<String> = dtype.into_iter().chain(rank).collect();
        Ok(match known.is_empty() {
            true => "R.Tensor".to_owned(),
            false => format!("R.Tensor({})", known.join(", ")),
        })
    }

    /// Dimensions, separated by commas.
    pub(super) fn dims(&mut self, dims: &[NodeId], position: Position) -> Read<String> {
        let mut texts = vec![];
        for dim in dims {
            let text = self.prim(*dim)?;
            let is_plain =
                matches!(self.nodes.key(*dim), "ir.IntImm" | "ir.Var" | "relax.expr.DataflowVar");
            texts.push(match position == Position::Signature && !is_plain {
                true => string(&text.replace('"', "'")),
                false => text,
            });
        }
        Ok(texts.join(", "))
    }

    /// `R.shape([...])`
    pub(super) fn shape(&mut self, shape: NodeId) -> Read<String> {
        let dims = self.nodes.list(shape, "values")?;
        Ok(format!("R.shape([{}])", self.dims(&dims, Position::Body)?))
    }

    /// Names the dimensions below a node that have no name, and returns the new names.
    pub(super) fn name_dims(&mut self, below: NodeId) -> Read<Vec<String>> {
        let mut found = vec![];
        self.nodes.reached(below, &mut |nodes, id| {
            if nodes.key(id) == "ir.Var" && nodes.is_scalar(id) {
                found.push(id);
            }
        })?;
        let mut names = vec![];
        for var in found {
            if self.names.get(var).is_none() {
                let hint = self.nodes.child_text(var, "name")?;
                names.push(self.names.define(var, hint));
            }
        }
        Ok(names)
    }
}
