//! CPU kernels around their bodies: entry points, threads, workspaces.

pub mod failure;
mod index_checks;
mod packed_call;
mod packed_entry;
mod parallel;
mod raw_entry;
mod tensor_checks;
mod workspace;

use cranelift_codegen::ir::{InstBuilder, Value};

use crate::emit::Emitter;
use crate::error::Result;
use crate::unit::Unit;

/// Emits the raw and the packed entry.
pub fn build(unit: &mut Unit<'_>) -> Result<()> {
    let raw = raw_entry::build(unit)?;
    packed_entry::build(unit, raw)
}

impl Emitter<'_, '_, '_> {
    /// Leaves the function with `status`, releasing what it holds.
    fn leave(&mut self, status: Value) -> Result<()> {
        self.release_registers()?;
        for workspace in self.workspaces.clone().into_iter().rev() {
            self.free_workspace(workspace)?;
        }
        self.b.ins().return_(&[status]);
        Ok(())
    }

    /// Leaves with `status` unless it is 0.
    fn check_status(&mut self, status: Value) -> Result<()> {
        let failed = self.cold_block();
        let after = self.b.create_block();
        self.b.ins().brif(status, failed, &[], after, &[]);
        self.b.switch_to_block(failed);
        self.leave(status)?;
        self.b.switch_to_block(after);
        Ok(())
    }
}
