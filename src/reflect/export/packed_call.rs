//! Calls of packed functions in kernels, as `T.call_packed` makes them in TVM.

use reflex_node::builder::{Builder, Given};
use reflex_node::graph::NodeId;
use reflex_tir::{Buffer, CallArg, DType, Expr, PackedCall};

use super::kernel::KernelExporter;
use super::prim::{self, prim_type};

impl KernelExporter<'_, '_> {
    pub(super) fn call_packed(&mut self, call: &PackedCall) -> NodeId {
        let mut args = vec![prim::string(&mut self.cx.b, &call.name)];
        for arg in &call.args {
            args.push(match arg {
                CallArg::Tensor(buffer) => self.stack_array(*buffer),
                CallArg::Scalar(value) => self.names.expr(&mut self.cx.b, value),
                CallArg::Text(text) => prim::string(&mut self.cx.b, text),
            });
        }
        let b = &mut self.cx.b;
        let ty = prim_type(b, DType::I32);
        let call = prim::call(b, "tirx.tvm_call_packed", args, ty);
        b.object("tirx.Evaluate", &[("value", Given::Node(call))])
    }

    /// A view of a whole buffer: data, shape, strides (none), rank, a zero of its type, offset.
    fn stack_array(&mut self, buffer: Buffer) -> NodeId {
        let node = self.buffer_node(buffer);
        let data = &self.func.buffers[buffer];
        let dims = self.names.exprs(&mut self.cx.b, &data.shape);
        let zero = self.names.expr(&mut self.cx.b, &Expr::constant(0.0, data.dtype));
        let rank = data.shape.len() as i64;
        let b = &mut self.cx.b;
        let element = prim_type(b, data.dtype);
        let data = pointer(b, element);
        let data = prim::call(b, "tirx.buffer_data", vec![node], data);
        let extents = prim_type(b, DType::I64);
        let extents = pointer(b, extents);
        let shape = prim::call(b, "tirx.tvm_stack_make_shape", dims, extents);
        let [none, rank] = [0, rank].map(|n| prim::int(b, n, DType::I32));
        let offset = prim::int64(b, 0);
        let void = b.object("ir.PrimType", &[("dtype", Given::DType(String::new()))]);
        let view = pointer(b, void);
        prim::call(
            b,
            "tirx.tvm_stack_make_array",
            vec![data, shape, none, rank, zero, offset],
            view,
        )
    }
}

fn pointer(b: &mut Builder, element: NodeId) -> NodeId {
    let scope = b.string("global");
    let fields = [("element_type", Given::Node(element)), ("storage_scope", Given::Node(scope))];
    b.object("ir.PointerType", &fields)
}
