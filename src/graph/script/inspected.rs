//! `R.inspect.*`: fields of a tensor's descriptor. Tensors are compact and begin at offset zero, and their types are
//! known, so each is a number when the text is read, or a dimension.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::Ranged;

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{LeafExpr, Type, dims};

impl FuncParser<'_, '_> {
    /// `name` is what stands after `inspect.`.
    pub(super) fn inspected(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "axis"])?;
        let x = self.value(args.need("x")?)?;
        let ty = self.tensor(call, x)?;
        let (field, dtype) = match name {
            "tensor_ndim" => (Expr::i64(ty.shape.len() as i64), DType::I32),
            "tensor_dtype_code" => (Expr::i64(ty.dtype.code.into()), DType::U8),
            "tensor_dtype_bits" => (Expr::i64(ty.dtype.bits.into()), DType::U8),
            "tensor_dtype_lanes" => (Expr::i64(ty.dtype.lanes.into()), DType::U16),
            "tensor_byte_offset" | "tensor_elem_offset" => (Expr::i64(0), DType::U64),
            "tensor_shape_i" | "tensor_stride_i" => {
                args.need("axis")?;
                let axis = self.axis(call.start(), args.int("axis", 0)?, ty.shape.len())?;
                let dim = match name {
                    "tensor_shape_i" => ty.shape[axis].clone(),
                    _ => dims::product(&ty.shape[axis + 1..]),
                };
                (dim, DType::I64)
            }
            _ => return Err(self.source.unsupported(call)),
        };
        Ok(ParsedValue::Value(self.leaf(LeafExpr::Int(field), Type::Prim(dtype))))
    }
}
