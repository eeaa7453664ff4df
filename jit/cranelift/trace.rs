//! Traces: straight runs of operations, through calls, as the interpreter saw them run.
//!
//! `record` watches the interpreter and hands each operation to `build`, which keeps track of
//! what is known about every register and writes `ir`: operations, guards, and exits. `optimise`
//! is the list of passes over it, and `codegen` turns the rest into machine code. Inlined calls
//! cost no dispatch, no clearing of registers and no return, and no frame where nobody looks.
//! Values that are not objects exist only as knowledge; an exit makes them real, exactly as the
//! interpreter would have them at the first operation that has not run.
//!
//! Not here: several iterations of a loop as one body.

use reflex_vm::tier::Bailout;

pub(crate) mod build;
pub(crate) mod codegen;
pub(crate) mod ir;
mod libcalls;
pub(crate) mod materialise;
pub(crate) mod optimise;
pub(crate) mod record;

/// A mistake of ours in a trace, which is then not compiled.
fn internal(what: &str) -> Bailout {
    Bailout::Codegen { message: format!("trace: {what}") }
}
