//! Intermediate buffers in main memory, from the host's workspace allocator.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_runtime::abi::DLDevice;
use reflex_tir::{Buffer, DType, Stmt};

use crate::emit::Emitter;
use crate::error::Result;
use crate::unit::POINTER;

const ALLOC: &str = "__TVMBackendAllocWorkspace";
const FREE: &str = "__TVMBackendFreeWorkspace";

impl Emitter<'_, '_, '_> {
    /// Runs `body` with workspace memory for `buffer`; a failed allocation leaves the function
    /// with -1 (the allocator has set the error).
    pub(crate) fn workspace(&mut self, buffer: Buffer, body: &Stmt) -> Result<()> {
        let dtype = self.func.buffers[buffer].dtype;
        let bytes = self.workspace_bytes(buffer)?;
        let pointer = self.alloc_workspace(bytes, dtype)?;
        let zero = self.i64(0);
        let null = self.b.ins().icmp(IntCC::Equal, pointer, zero);
        let null = self.b.ins().uextend(types::I32, null);
        let status = self.b.ins().ineg(null);
        self.check_status(status)?;
        self.workspaces.push(pointer);
        self.with_buffer(buffer, pointer, |e| e.stmt(body))?;
        self.workspaces.pop();
        self.free_workspace(pointer)
    }

    /// Size of `buffer`, at least 1 (a size of 0 is no error and has no address). A product
    /// that overflows asks for everything, which the allocator refuses.
    fn workspace_bytes(&mut self, buffer: Buffer) -> Result<Value> {
        let data = &self.func.buffers[buffer];
        let item = data.dtype.itemsize() as i64;
        let known = data.shape.iter().try_fold(item, |n, e| n.checked_mul(e.as_int()?));
        if let Some(bytes) = known {
            return Ok(self.i64(bytes.max(1)));
        }
        let mut bytes = self.i64(item);
        let zero = self.i64(0);
        let mut high = zero;
        for extent in &data.shape {
            let extent = self.uniform_int(extent, "a workspace's extent")?;
            let carry = self.b.ins().umulhi(bytes, extent);
            high = self.b.ins().bor(high, carry);
            bytes = self.b.ins().imul(bytes, extent);
        }
        let one = self.i64(1);
        let bytes = self.b.ins().umax(bytes, one);
        let all = self.i64(-1);
        let overflows = self.b.ins().icmp(IntCC::NotEqual, high, zero);
        Ok(self.b.ins().select(overflows, all, bytes))
    }

    fn alloc_workspace(&mut self, bytes: Value, dtype: DType) -> Result<Value> {
        let i32t = types::I32;
        let args = [
            self.i32(DLDevice::KIND_CPU),
            self.i32(0),
            bytes,
            self.i32(i32::from(dtype.code)),
            self.i32(i32::from(dtype.bits)),
        ];
        let params = [i32t, i32t, types::I64, i32t, i32t];
        self.call_slot(ALLOC, &params, POINTER, &args)
    }

    /// Gives a workspace back.
    pub(super) fn free_workspace(&mut self, pointer: Value) -> Result<()> {
        let args = [self.i32(DLDevice::KIND_CPU), self.i32(0), pointer];
        self.call_slot(FREE, &[types::I32, types::I32, POINTER], types::I32, &args)?;
        Ok(())
    }
}
