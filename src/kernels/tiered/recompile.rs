//! The way to better code for one kernel.

use std::panic::{AssertUnwindSafe, catch_unwind};

use reflex_tir::codegen::ObjectFile;

/// Who asks for better code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A thread of the lowest priority.
    Background,
    /// A thread that waits for it.
    Awaited,
}

/// The work that is left when no kernel that was called waits for better code.
pub(crate) type WhenIdle = Box<dyn FnOnce() + Send>;

type Compile = Box<dyn Fn(usize, Urgency) -> Result<ObjectFile, String> + Send + Sync>;

/// Compiles kernels again, by number.
pub(crate) struct Recompile(Compile);

impl Recompile {
    pub(crate) fn new(
        compile: impl Fn(usize, Urgency) -> Result<ObjectFile, String> + Send + Sync + 'static,
    ) -> Recompile {
        Recompile(Box::new(compile))
    }

    /// Compiles kernel number `at`; an error says why it stays as it is.
    pub(super) fn run(&self, at: usize, urgency: Urgency) -> Result<ObjectFile, String> {
        let compiled = catch_unwind(AssertUnwindSafe(|| (self.0)(at, urgency)));
        compiled.unwrap_or_else(|_| Err("its compilation panicked".to_owned()))
    }
}
