//! Calls of packed functions from text.

use ruff_python_ast::{Expr as Py, ExprCall};
use ruff_text_size::Ranged;

use super::parse::{Name, Parser, Read, path};
use crate::arith::Analyzer;
use crate::{Buffer, CallArg, PackedCall};

impl Parser<'_> {
    /// `T.call_packed("f", A, 3, "text")`, if it is that. A tensor is a buffer's name, or
    /// `T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(...), 0, ...)`, which is what TVM makes of it.
    pub fn packed_call(&mut self, e: &Py) -> Read<Option<PackedCall>> {
        let Py::Call(call) = e else { return Ok(None) };
        if path(&call.func).as_deref() != Some("T.call_packed") {
            return Ok(None);
        }
        let (Some((Py::StringLiteral(name), args)), []) =
            (call.arguments.args.split_first(), &call.arguments.keywords[..])
        else {
            return Err(self.unsupported(call));
        };
        let args = args.iter().map(|arg| self.packed_arg(arg)).collect::<Read<_>>()?;
        Ok(Some(PackedCall { name: name.value.to_str().to_owned(), args }))
    }

    fn packed_arg(&mut self, e: &Py) -> Read<CallArg> {
        match e {
            Py::StringLiteral(text) => Ok(CallArg::Text(text.value.to_str().to_owned())),
            Py::Name(name) if matches!(self.lookup(&name.id), Some(Name::Buffer(_))) => {
                self.named_buffer(e).map(CallArg::Tensor)
            }
            Py::Call(call) if path(&call.func).as_deref() == Some("T.tvm_stack_make_array") => {
                self.stack_array(call).map(CallArg::Tensor)
            }
            _ => self.expr(e).map(CallArg::Scalar),
        }
    }

    /// Data, shape, strides (none), rank, a zero of the element type, offset (none): a whole buffer.
    fn stack_array(&mut self, call: &ExprCall) -> Read<Buffer> {
        let [Py::Attribute(data), Py::Call(shape), strides, rank, element, offset] =
            &call.arguments.args[..]
        else {
            return Err(self.unsupported(call));
        };
        if data.attr.as_str() != "data"
            || path(&shape.func).as_deref() != Some("T.tvm_stack_make_shape")
        {
            return Err(self.unsupported(call));
        }
        let buffer = self.named_buffer(&data.value)?;
        let dims = shape.arguments.args.iter().map(|e| self.index(e)).collect::<Read<Vec<_>>>()?;
        let [strides, rank, offset] = [strides, rank, offset].map(|e| self.index(e));
        let [strides, rank, offset] = [strides?, rank?, offset?].map(|e| e.as_int());
        let element = self.expr(element)?.dtype();
        let own = &self.func.buffers[buffer];
        let facts = Analyzer::new();
        let same = own.shape.len() == dims.len()
            && own.shape.iter().zip(&dims).all(|(a, b)| facts.simplify(a) == facts.simplify(b));
        let fits = element == own.dtype;
        if !same || !fits || (strides, rank, offset) != (Some(0), Some(dims.len() as i64), Some(0))
        {
            let name = own.name.clone();
            return Err(self.refuse(call.start(), format!("a tensor that is not all of `{name}`")));
        }
        Ok(buffer)
    }
}
