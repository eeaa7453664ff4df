//! Intermediate buffers in main memory, from the host's workspace allocator.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::values::{IntValue, PointerValue};
use reflex_runtime::abi::DLDevice;
use reflex_tir::{Buffer, Stmt};

use crate::emit::Emitter;
use crate::emit::ir::result_of;
use crate::error::Result;

const ALLOC: &str = "__TVMBackendAllocWorkspace";
const FREE: &str = "__TVMBackendFreeWorkspace";

impl<'c> Emitter<'_, 'c> {
    /// Runs `body` with workspace memory for `buffer`; a failed allocation leaves the function
    /// with -1 (the allocator has set the error).
    pub(crate) fn workspace(&mut self, buffer: Buffer, body: &Stmt) -> Result<()> {
        let data = &self.func.buffers[buffer];
        let bytes = self.workspace_bytes(buffer)?;
        let pointer = self.alloc_workspace(bytes, data.dtype)?;
        let null = self.ir.builder.build_is_null(pointer, "")?;
        let status = self.ir.builder.build_int_s_extend(null, self.ir.context.i32_type(), "")?;
        self.check_status(status)?;
        self.workspaces.push(pointer);
        let outer = self.buffers.insert(buffer, pointer);
        self.stmt(body)?;
        match outer {
            Some(pointer) => self.buffers.insert(buffer, pointer),
            None => self.buffers.remove(&buffer),
        };
        self.workspaces.pop();
        self.free_workspace(pointer)
    }

    /// Size of `buffer`, at least 1 (a size of 0 is no error and has no address). A product
    /// that overflows asks for everything, which the allocator refuses.
    fn workspace_bytes(&mut self, buffer: Buffer) -> Result<IntValue<'c>> {
        let data = &self.func.buffers[buffer];
        let item = data.dtype.itemsize() as i64;
        let known = data.shape.iter().try_fold(item, |n, e| n.checked_mul(e.as_int()?));
        if let Some(bytes) = known {
            return Ok(self.ir.i64(bytes.max(1)));
        }
        let mut bytes = self.ir.i64(item);
        let mut overflows = self.ir.context.bool_type().const_zero();
        for extent in &data.shape {
            let extent = self.uniform_int(extent, "workspace extent")?;
            let b = &self.ir.builder;
            let i64t = self.ir.context.i64_type().into();
            let args = [bytes.into(), extent.into()];
            let product = self.ir.intrinsic("llvm.umul.with.overflow", &[i64t], &args)?;
            let product = result_of(product)?.into_struct_value();
            bytes = b.build_extract_value(product, 0, "")?.into_int_value();
            let carry = b.build_extract_value(product, 1, "")?.into_int_value();
            overflows = b.build_or(overflows, carry, "")?;
        }
        let one = self.ir.i64(1);
        let bytes = self.ir.pure_intrinsic("llvm.umax", &[bytes.into(), one.into()])?;
        let all = self.ir.i64(-1);
        Ok(self.ir.select(overflows.into(), all.into(), bytes)?.into_int_value())
    }

    fn alloc_workspace(
        &self,
        bytes: IntValue<'c>,
        dtype: reflex_tir::DType,
    ) -> Result<PointerValue<'c>> {
        let (i32t, i64t) = (self.ir.context.i32_type(), self.ir.context.i64_type());
        let params = [i32t.into(), i32t.into(), i64t.into(), i32t.into(), i32t.into()];
        let signature = self.ir.ptr().fn_type(&params, false);
        let args = [
            self.ir.i32(DLDevice::KIND_CPU).into(),
            self.ir.i32(0).into(),
            bytes.into(),
            self.ir.i32(i32::from(dtype.code)).into(),
            self.ir.i32(i32::from(dtype.bits)).into(),
        ];
        let function = self.slot(ALLOC)?;
        let call = self.ir.builder.build_indirect_call(signature, function, &args, "")?;
        let noalias = Attribute::get_named_enum_kind_id("noalias");
        let attribute = self.ir.context.create_enum_attribute(noalias, 0);
        call.add_attribute(AttributeLoc::Return, attribute);
        Ok(result_of(call)?.into_pointer_value())
    }

    /// Gives a workspace back.
    pub(super) fn free_workspace(&self, pointer: PointerValue<'c>) -> Result<()> {
        let i32t = self.ir.context.i32_type();
        let params = [i32t.into(), i32t.into(), self.ir.ptr().into()];
        let signature = i32t.fn_type(&params, false);
        let args = [self.ir.i32(DLDevice::KIND_CPU).into(), self.ir.i32(0).into(), pointer.into()];
        let function = self.slot(FREE)?;
        self.ir.builder.build_indirect_call(signature, function, &args, "")?;
        Ok(())
    }
}
