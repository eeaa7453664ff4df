//! Result coalescing: a call or an allocation writes its result to the register that takes it from the result slot.
//!
//! The register is empty until then, so the callee finds None in it, as in the slot.

use reflex_vm::program::Program;

use super::super::ir::{BuiltinResult, Ins, Trace};

/// Merges a call with the instruction that takes its result.
pub(super) fn coalesce_results(_: &Program, trace: &mut Trace) {
    let old = std::mem::take(&mut trace.code);
    let mut code: Vec<Ins> = Vec::with_capacity(old.len());
    for ins in old {
        let joined = match (code.last_mut(), &ins) {
            (
                Some(
                    Ins::CallPacked { frame: of, dst: to @ None, .. }
                    | Ins::CallFunction { frame: of, dst: to @ None, .. }
                    | Ins::Allocate { frame: of, dst: to @ None, .. },
                ),
                Ins::TakeResult { frame, dst },
            ) if of == frame => {
                *to = Some(*dst);
                true
            }
            (
                Some(Ins::CallBuiltin {
                    frame: of, taken, result: to @ BuiltinResult::Slot, ..
                }),
                Ins::TakeResult { frame, dst },
            ) if of == frame && !taken.contains(dst) => {
                *to = BuiltinResult::Reg(*dst);
                true
            }
            _ => false,
        };
        if !joined {
            code.push(ins);
        }
    }
    trace.code = code;
}
