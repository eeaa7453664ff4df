//! Intermediate buffers in main memory, from the host's workspace allocator.

use reflex_runtime::abi::DLDevice;
use reflex_tir::{Buffer, Stmt};

use crate::error::Result;
use crate::print::Printer;

impl<'f> Printer<'_, 'f> {
    /// Runs `body` with workspace memory for `buffer`; a failed allocation leaves the function
    /// with -1 (the allocator has set the error).
    pub(crate) fn workspace(&mut self, buffer: Buffer, body: &'f Stmt) -> Result<()> {
        let data = &self.func.buffers[buffer];
        let bytes = self.workspace_bytes(buffer)?;
        let word = self.stored_word(data.dtype)?;
        let name = self.names.declare(&data.name);
        let (cpu, dtype) = (DLDevice::KIND_CPU, data.dtype);
        let (code, bits) = (dtype.code, dtype.bits);
        self.out.line(format!(
            "{word} *const {name} = ({word} *)__TVMBackendAllocWorkspace({cpu}, 0, {bytes}, {code}, {bits});"
        ));
        self.out.open(format!("if ({name} == 0)"));
        self.leave("-1");
        self.out.close();
        self.workspaces.push(name.clone());
        self.with_buffer(buffer, name.clone(), body)?;
        self.workspaces.pop();
        self.free_workspace(&name);
        Ok(())
    }

    /// Size of `buffer`, at least 1 (a size of 0 is no error and has no address). A product
    /// that overflows asks for everything, which the allocator refuses.
    fn workspace_bytes(&mut self, buffer: Buffer) -> Result<String> {
        let data = &self.func.buffers[buffer];
        let item = data.dtype.itemsize() as i64;
        let known = data.shape.iter().try_fold(item, |n, e| n.checked_mul(e.as_int()?));
        if let Some(bytes) = known {
            return Ok(bytes.max(1).to_string());
        }
        let bytes = self.names.declare("bytes");
        let most = self.names.declare("fits");
        self.out.line(format!("uint64_t {bytes} = {item};"));
        self.out.line(format!("bool {most} = true;"));
        for extent in &data.shape {
            let extent = self.expr(extent)?;
            let extent = extent.as_str();
            self.out.line(format!(
                "{most} &= (uint64_t)({extent}) == 0 || {bytes} <= UINT64_MAX / (uint64_t)({extent});"
            ));
            self.out.line(format!("{bytes} *= (uint64_t)({extent});"));
        }
        Ok(format!("!{most} ? UINT64_MAX : {bytes} != 0 ? {bytes} : 1"))
    }

    /// Gives a workspace back.
    pub(crate) fn free_workspace(&mut self, name: &str) {
        let cpu = DLDevice::KIND_CPU;
        self.out.line(format!("__TVMBackendFreeWorkspace({cpu}, 0, {name});"));
    }
}
