//! Calls of packed functions from kernels: looked up through the library's context when first reached, called by the
//! packed-function convention, with views of tensors on the stack.
//!
//! Decision: docs/decisions/0089-packed-calls-in-kernels.md

use inkwell::IntPredicate;
use inkwell::module::Linkage;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};
use reflex_runtime::abi::{self, DLDevice, DLTensorLayout, type_index};
use reflex_tir::{Buffer, CallArg, DType, Expr, PackedCall};

use crate::emit::Emitter;
use crate::emit::ir::result_of;
use crate::error::{CodegenError, Result};

const LOOK_UP: &str = "__TVMFFIEnvModLookupFromImports";
const CALL: &str = "__TVMFFIFunctionCall";
const CONTEXT: &str = "__tvm_ffi__library_ctx";

impl<'c> Emitter<'_, 'c> {
    /// Calls a packed function; a failure leaves the kernel with -1 and the function's error.
    pub(crate) fn call_packed(&mut self, call: &PackedCall) -> Result<()> {
        let args = self.memory(call.args.len() * abi::ANY_SIZE)?;
        for (i, arg) in call.args.iter().enumerate() {
            let (kind, payload) = self.packed_arg(arg)?;
            self.put_any(args, i * abi::ANY_SIZE, kind, payload)?;
        }
        let result = self.memory(abi::ANY_SIZE)?;
        self.put_any(result, 0, type_index::NONE, self.ir.i64(0).into())?;
        let function = self.packed_function(&call.name)?;
        let (i32t, ptr) = (self.ir.context.i32_type(), self.ir.ptr());
        let signature = i32t.fn_type(&[ptr.into(), ptr.into(), i32t.into(), ptr.into()], false);
        let count = self.ir.i32(call.args.len() as i32);
        let operands = [function.into(), args.into(), count.into(), result.into()];
        let callee = self.slot(CALL)?;
        let status = self.ir.builder.build_indirect_call(signature, callee, &operands, "")?;
        self.check_status(result_of(status)?.into_int_value())?;
        self.refuse_object(&call.name, result)
    }

    /// The function, from the variable that keeps it.
    fn packed_function(&mut self, name: &str) -> Result<PointerValue<'c>> {
        let ptr = self.ir.ptr();
        let symbol = format!("reflex.packed.{name}");
        let kept = self.ir.module.get_global(&symbol).unwrap_or_else(|| {
            let kept = self.ir.module.add_global(ptr, None, &symbol);
            kept.set_initializer(&ptr.const_null());
            kept.set_linkage(Linkage::Internal);
            kept
        });
        let kept = kept.as_pointer_value();
        // Threads that are here at once write the same pointer; a volatile access is not torn or moved.
        let known = self.ir.builder.build_load(ptr, kept, "")?;
        set_volatile(known)?;
        let known = known.into_pointer_value();
        let from = self.ir.here()?;
        let look_up = self.ir.block(self.function, "look_up");
        let found = self.ir.block(self.function, "found");
        let is_new = self.ir.builder.build_is_null(known, "")?;
        self.ir.builder.build_conditional_branch(is_new, look_up, found)?;

        self.ir.builder.position_at_end(look_up);
        let out = self.memory(8)?;
        let name = self.ir.builder.build_global_string_ptr(name, "")?.as_pointer_value();
        let i32t = self.ir.context.i32_type();
        let signature = i32t.fn_type(&[ptr.into(), ptr.into(), ptr.into()], false);
        let operands = [self.slot(CONTEXT)?.into(), name.into(), out.into()];
        let callee = self.slot(LOOK_UP)?;
        let status = self.ir.builder.build_indirect_call(signature, callee, &operands, "")?;
        self.check_status(result_of(status)?.into_int_value())?;
        let new = self.ir.builder.build_load(ptr, out, "")?.into_pointer_value();
        let store = self.ir.builder.build_store(kept, new)?;
        store.set_volatile(true).map_err(|e| CodegenError::new(e.to_string()))?;
        let looked_up = self.ir.here()?;
        self.ir.builder.build_unconditional_branch(found)?;

        self.ir.builder.position_at_end(found);
        let phi = self.ir.builder.build_phi(ptr, "")?;
        phi.add_incoming(&[(&known, from), (&new, looked_up)]);
        Ok(phi.as_basic_value().into_pointer_value())
    }

    /// The kind of a value and its payload.
    fn packed_arg(&mut self, arg: &CallArg) -> Result<(i32, BasicValueEnum<'c>)> {
        Ok(match arg {
            CallArg::Tensor(buffer) => {
                (type_index::DL_TENSOR_PTR, self.tensor_view(*buffer)?.into())
            }
            CallArg::Text(text) => {
                let text = self.ir.builder.build_global_string_ptr(text, "")?;
                (type_index::RAW_STR, text.as_pointer_value().into())
            }
            CallArg::Scalar(value) if value.dtype().is_float() => {
                let value = self.expr(&value.clone().cast(DType::F64))?;
                (type_index::FLOAT, value.uniform("an argument")?)
            }
            CallArg::Scalar(value) => {
                let kind = match value.dtype() {
                    DType::BOOL => type_index::BOOL,
                    _ => type_index::INT,
                };
                (kind, self.uniform_int(&value.clone().cast(DType::I64), "an argument")?.into())
            }
        })
    }

    /// A `DLTensor` of a whole buffer, on the stack.
    fn tensor_view(&mut self, buffer: Buffer) -> Result<PointerValue<'c>> {
        let data = &self.func.buffers[buffer];
        let rank = data.shape.len();
        let layout = DLTensorLayout::of(self.instructions.pointer_bytes);
        let (view, base) = (self.memory(layout.size)?, self.base(buffer)?);
        let dims = self.memory(2 * rank * 8)?;
        let shape: Vec<Expr> = data.shape.clone();
        let mut stride = self.ir.i64(1);
        for (d, extent) in shape.iter().enumerate().rev() {
            let extent = self.uniform_int(extent, "an extent")?;
            self.put(dims, d * 8, extent.into())?;
            self.put(dims, (rank + d) * 8, stride.into())?;
            stride = self.ir.builder.build_int_mul(stride, extent, "")?;
        }
        let dtype = u32::from(data.dtype.code)
            | u32::from(data.dtype.bits) << 8
            | u32::from(data.dtype.lanes) << 16;
        let strides = self.ir.offset_bytes(dims, self.ir.i64(rank as i64 * 8))?;
        let fields: [(usize, BasicValueEnum<'c>); 8] = [
            (abi::DLTENSOR_DATA, base.into()),
            (layout.device, self.ir.i32(DLDevice::KIND_CPU).into()),
            (layout.device + 4, self.ir.i32(0).into()),
            (layout.ndim, self.ir.i32(rank as i32).into()),
            (layout.dtype, self.ir.i32(dtype as i32).into()),
            (layout.shape, dims.into()),
            (layout.strides, strides.into()),
            (layout.byte_offset, self.ir.i64(0).into()),
        ];
        for (at, value) in fields {
            self.put(view, at, value)?;
        }
        Ok(view)
    }

    /// Leaves with an error if the function returned an object, which nothing here would release.
    fn refuse_object(&self, name: &str, result: PointerValue<'c>) -> Result<()> {
        let kind = self.ir.builder.build_load(self.ir.context.i32_type(), result, "")?;
        let first = self.ir.i32(type_index::STATIC_OBJECT_BEGIN);
        let plain = self.ir.builder.build_int_compare(
            IntPredicate::SLT,
            kind.into_int_value(),
            first,
            "",
        )?;
        let refused = self.ir.block(self.function, "object");
        let after = self.ir.block(self.function, "returned");
        self.ir.builder.build_conditional_branch(plain, after, refused)?;
        self.ir.builder.position_at_end(refused);
        self.leave(self.fail_object(name)?)?;
        self.ir.builder.position_at_end(after);
        Ok(())
    }

    fn fail_object(&self, name: &str) -> Result<IntValue<'c>> {
        let kind = self.ir.builder.build_global_string_ptr("TypeError", "")?.as_pointer_value();
        let message = PackedCall::returned_object(name);
        let message = self.ir.builder.build_global_string_ptr(&message, "")?.as_pointer_value();
        self.call_shared("reflex.fail", &[kind.into(), message.into()])
    }

    /// Memory of this function, aligned to 8 bytes.
    fn memory(&self, bytes: usize) -> Result<PointerValue<'c>> {
        self.alloca(self.ir.context.i8_type().array_type(bytes as u32), 8)
    }

    fn put_any(
        &self,
        base: PointerValue<'c>,
        at: usize,
        kind: i32,
        payload: BasicValueEnum<'c>,
    ) -> Result<()> {
        self.put(base, at, self.ir.i32(kind).into())?;
        self.put(base, at + 4, self.ir.i32(0).into())?;
        // A pointer may be less than the payload.
        self.put(base, at + abi::ANY_PAYLOAD, self.ir.i64(0).into())?;
        self.put(base, at + abi::ANY_PAYLOAD, payload)
    }

    fn put(&self, base: PointerValue<'c>, at: usize, value: BasicValueEnum<'c>) -> Result<()> {
        let address = self.ir.offset_bytes(base, self.ir.i64(at as i64))?;
        self.ir.builder.build_store(address, value)?;
        Ok(())
    }
}

fn set_volatile(loaded: BasicValueEnum<'_>) -> Result<()> {
    let missing = || CodegenError::new("a load is no instruction");
    let load = loaded.as_instruction_value().ok_or_else(missing)?;
    load.set_volatile(true).map_err(|e| CodegenError::new(e.to_string()))
}
