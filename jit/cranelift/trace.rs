//! Traces: linear sequences of operations, through calls, as the interpreter ran them.
//!
//! `record` follows the interpreter and passes each operation to `build`, which tracks facts about
//! every register and writes `ir`: operations, guards, and snapshots. `optimise` is the list of
//! passes over it, and `codegen` emits the machine code. Inlined calls need no dispatch, no clearing
//! of registers and no return, and no frame unless host code runs inside them. Scalars live in
//! machine registers; a side exit stores them as its snapshot says. The interpreter then finds the
//! state that it would have at the first operation that has not run (deoptimisation).
//!
//! Not in this module: several iterations of a loop as one body (unrolling).

use reflex_vm::tier::Bailout;

pub(crate) mod build;
pub(crate) mod codegen;
pub(crate) mod ir;
mod libcalls;
pub(crate) mod materialise;
pub(crate) mod optimise;
pub(crate) mod record;

/// A bailout for a bug in this crate: the trace is not compiled.
fn internal(what: &str) -> Bailout {
    Bailout::Codegen { message: format!("trace: {what}") }
}
