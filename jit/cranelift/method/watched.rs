//! Code that shows its calls to the session's instrument: a libcall before and one after each.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use reflex_vm::abi::{ERROR, RESUME, libcall};
use reflex_vm::decode::Op;

use super::MethodBody;

/// Returns true for operations that are calls in bytecode.
pub(super) fn is_call(op: &Op) -> bool {
    match op {
        Op::CallPacked { .. }
        | Op::CallVm { .. }
        | Op::Builtin { .. }
        | Op::InvokeClosure { .. }
        | Op::Copy { .. }
        | Op::Kill { .. } => true,
        Op::Goto { .. } | Op::LoopBack { .. } | Op::Branch { .. } | Op::Ret { .. } => false,
    }
}

impl MethodBody<'_, '_> {
    /// Shows the call at `pc` before it runs. The interpreter takes over when it is skipped, since facts
    /// about the registers assume that every call has run.
    pub(super) fn show_before(&mut self, pc: u32) {
        let status = self.e.call_at(libcall::BEFORE_CALL, pc);
        let (left, next) = (self.e.cold_block(), self.e.b.create_block());
        self.e.b.ins().brif(status, left, &[], next, &[]);
        self.e.b.switch_to_block(left);
        let failed = self.e.b.ins().icmp_imm_s(IntCC::Equal, status, i64::from(ERROR));
        let (error, resume) = (self.e.i32(i64::from(ERROR)), self.e.i32(i64::from(RESUME)));
        let status = self.e.b.ins().select(failed, error, resume);
        self.e.b.ins().return_(&[status]);
        self.e.b.switch_to_block(next);
    }

    /// Ends native code before the operation at `pc`, which the interpreter runs and shows.
    pub(super) fn leave_to_interpreter(&mut self, pc: u32) {
        self.e.set_pc(pc);
        self.e.return_status(RESUME);
    }
}
