//! Kernels in two tiers: Cranelift's run at once, and LLVM's replace them while calls go on.
//!
//! Callers have one address for a packed entry (`entry`) and one for a raw entry
//! ([`reflex_codemem::call_cells`]), so that the interpreter, compiled functions and traces call new
//! code without being compiled again. Packed calls hold the code that they run. Raw entries are
//! called by machine code of sessions alone, so replaced code is retired in the programs whose
//! sessions may be inside, as evicted traces are.
//!
//! Decision: docs/decisions/0073-tiered-kernels.md

mod background;
mod entry;
mod recompile;
mod signal;
mod state;
mod table;

use std::sync::Arc;

use reflex_tir::codegen::ObjectFile;

pub(crate) use recompile::{Recompile, Urgency, WhenIdle};
pub use state::KernelState;
pub(crate) use table::TieredKernels;

use crate::error::Result;
use crate::tier_policy::KernelSwaps;

/// Loads objects, found by their names without `suffix`; `work` gives the operations of a call. Those from
/// Cranelift are compiled by `recompile` in the background, once they are called; then `when_idle` is run.
pub(crate) fn start(
    objects: &[ObjectFile],
    suffix: &str,
    work: impl Fn(&str) -> u64,
    recompile: Recompile,
    swaps: KernelSwaps,
    when_idle: Option<WhenIdle>,
) -> Result<Arc<TieredKernels>> {
    let recompile = Arc::new(recompile);
    let kernels = TieredKernels::load(objects, suffix, work, recompile.clone(), swaps)?;
    background::start(&kernels, &recompile, when_idle);
    Ok(kernels)
}
