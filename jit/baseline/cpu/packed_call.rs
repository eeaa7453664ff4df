//! Calls of packed functions from kernels: looked up through the library's context when first reached, called by the
//! packed-function convention, with views of tensors on the stack.
//!
//! Decision: docs/decisions/0089-packed-calls-in-kernels.md

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use cranelift_module::Module;
use reflex_runtime::abi::{self, DLDevice, type_index};
use reflex_tir::{Buffer, CallArg, DType, PackedCall};

use crate::cpu::failure::Failure;
use crate::emit::Emitter;
use crate::error::Result;
use crate::unit::POINTER;

const LOOK_UP: &str = "__TVMFFIEnvModLookupFromImports";
const CALL: &str = "__TVMFFIFunctionCall";
const CONTEXT: &str = "__tvm_ffi__library_ctx";

impl Emitter<'_, '_, '_> {
    /// Calls a packed function; a failure leaves the kernel with -1 and the function's error.
    pub(crate) fn call_packed(&mut self, call: &PackedCall) -> Result<()> {
        let args = self.stack_memory((call.args.len() * abi::ANY_SIZE) as u32);
        for (i, arg) in call.args.iter().enumerate() {
            let (kind, payload) = self.packed_arg(arg)?;
            self.any(args, i * abi::ANY_SIZE, kind, payload);
        }
        let result = self.stack_memory(abi::ANY_SIZE as u32);
        let zero = self.i64(0);
        self.any(result, 0, type_index::NONE, zero);
        let function = self.packed_function(&call.name)?;
        let count = self.i32(call.args.len() as i32);
        let params = [POINTER, POINTER, types::I32, POINTER];
        let operands = [function, args, count, result];
        let status = self.call_slot(CALL, &params, types::I32, &operands)?;
        self.check_status(status)?;
        self.refuse_object(&call.name, result)
    }

    /// The function, from the variable that keeps it. Threads that are here at once write the same pointer.
    fn packed_function(&mut self, name: &str) -> Result<Value> {
        let kept = self.unit.kept_function(name)?;
        let kept = self.unit.module.declare_data_in_func(kept, self.b.func);
        let kept = self.b.ins().symbol_value(POINTER, kept);
        let known = self.load_at(POINTER, kept, 0);
        let (look_up, found) = (self.cold_block(), self.b.create_block());
        let function = self.b.append_block_param(found, POINTER);
        self.b.ins().brif(known, found, &[BlockArg::Value(known)], look_up, &[]);

        self.b.switch_to_block(look_up);
        let out = self.stack_memory(8);
        let (context, name) = (self.pointer_in_slot(CONTEXT)?, self.text(name)?);
        let params = [POINTER, POINTER, POINTER];
        let status = self.call_slot(LOOK_UP, &params, types::I32, &[context, name, out])?;
        self.check_status(status)?;
        let new = self.load_at(POINTER, out, 0);
        self.store_at(new, kept, 0);
        self.b.ins().jump(found, &[BlockArg::Value(new)]);
        self.b.switch_to_block(found);
        Ok(function)
    }

    /// The kind of a value and its payload.
    fn packed_arg(&mut self, arg: &CallArg) -> Result<(i32, Value)> {
        Ok(match arg {
            CallArg::Tensor(buffer) => (type_index::DL_TENSOR_PTR, self.tensor_view(*buffer)?),
            CallArg::Text(text) => (type_index::RAW_STR, self.text(text)?),
            CallArg::Scalar(value) if value.dtype().is_float() => {
                let value = self.expr(&value.clone().cast(DType::F64))?.uniform("an argument")?;
                (type_index::FLOAT, value)
            }
            CallArg::Scalar(value) => {
                let kind = match value.dtype() {
                    DType::BOOL => type_index::BOOL,
                    _ => type_index::INT,
                };
                (kind, self.uniform_int(&value.clone().cast(DType::I64), "an argument")?)
            }
        })
    }

    /// A `DLTensor` of a whole buffer, on the stack.
    fn tensor_view(&mut self, buffer: Buffer) -> Result<Value> {
        let func = self.func;
        let data = &func.buffers[buffer];
        let rank = data.shape.len();
        let base = self.base(buffer)?;
        let view = self.stack_memory(abi::DLTENSOR_SIZE as u32);
        let dims = self.stack_memory(2 * rank as u32 * 8);
        let mut stride = self.i64(1);
        for (d, extent) in data.shape.iter().enumerate().rev() {
            let extent = self.uniform_int(extent, "an extent")?;
            self.store_at(extent, dims, d as i32 * 8);
            self.store_at(stride, dims, (rank + d) as i32 * 8);
            stride = self.b.ins().imul(stride, extent);
        }
        let dtype = u32::from(data.dtype.code)
            | u32::from(data.dtype.bits) << 8
            | u32::from(data.dtype.lanes) << 16;
        let step = self.i64(rank as i64 * 8);
        let strides = self.b.ins().iadd(dims, step);
        let fields = [
            (abi::DLTENSOR_DATA, base),
            (abi::DLTENSOR_DEVICE, self.i32(DLDevice::KIND_CPU)),
            (abi::DLTENSOR_DEVICE + 4, self.i32(0)),
            (abi::DLTENSOR_NDIM, self.i32(rank as i32)),
            (abi::DLTENSOR_DTYPE, self.i32(dtype as i32)),
            (abi::DLTENSOR_SHAPE, dims),
            (abi::DLTENSOR_STRIDES, strides),
            (abi::DLTENSOR_BYTE_OFFSET, self.i64(0)),
        ];
        for (at, value) in fields {
            self.store_at(value, view, at as i32);
        }
        Ok(view)
    }

    /// Leaves with an error if the function returned an object, which nothing here would release.
    fn refuse_object(&mut self, name: &str, result: Value) -> Result<()> {
        let kind = self.load_at(types::I32, result, 0);
        let first = self.i32(type_index::STATIC_OBJECT_BEGIN);
        let object = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, kind, first);
        let (refused, after) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(object, refused, &[], after, &[]);
        self.b.switch_to_block(refused);
        let message = self.text(&PackedCall::returned_object(name))?;
        let status = self.fail(Failure::Type, &[message])?;
        self.leave(status)?;
        self.b.switch_to_block(after);
        Ok(())
    }

    fn any(&mut self, base: Value, at: usize, kind: i32, payload: Value) {
        let (kind, zero) = (self.i32(kind), self.i32(0));
        self.store_at(kind, base, at as i32);
        self.store_at(zero, base, at as i32 + 4);
        self.store_at(payload, base, (at + abi::ANY_PAYLOAD) as i32);
    }
}
