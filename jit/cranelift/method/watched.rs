//! Code that shows its calls to the session's instrument: a libcall before and one after each.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_vm::abi::{ERROR, RESUME, libcall};

use reflex_vm::decode::Source;
use reflex_vm::instrument::CallSite;

use super::MethodBody;

impl MethodBody<'_, '_> {
    /// Shows the call at `site` before it runs. The interpreter takes over when it is skipped, since facts
    /// about the registers assume that every call has run.
    pub(super) fn show_before(&mut self, site: &CallSite, args: &[Source]) {
        self.lend_args(args);
        let status = self.show(libcall::BEFORE_CALL, site);
        let (left, next) = (self.e.cold_block(), self.e.b.create_block());
        self.e.b.ins().brif(status, left, &[], next, &[]);
        self.e.b.switch_to_block(left);
        let failed = self.e.b.ins().icmp_imm_s(IntCC::Equal, status, i64::from(ERROR));
        let (error, resume) = (self.e.i32(i64::from(ERROR)), self.e.i32(i64::from(RESUME)));
        let status = self.e.b.ins().select(failed, error, resume);
        self.e.b.ins().return_(&[status]);
        self.e.b.switch_to_block(next);
    }

    /// Shows the call at `site`, which has run.
    pub(super) fn show_after(&mut self, site: &CallSite) {
        let status = self.show(libcall::AFTER_CALL, site);
        self.e.return_if_failed(status);
    }

    fn show(&mut self, libcall: usize, site: &CallSite) -> Value {
        let site = self.e.i64(std::ptr::from_ref(site) as i64);
        let args = [self.e.session, site];
        let call = self.e.call_libcall(libcall, &[types::I64; 2], Some(types::I32), &args);
        self.e.b.inst_results(call)[0]
    }

    /// Ends native code before the operation at `pc`, which the interpreter runs and shows.
    pub(super) fn leave_to_interpreter(&mut self, pc: u32) {
        self.e.set_pc(pc);
        self.e.return_status(RESUME);
    }
}
