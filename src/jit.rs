//! The types of the tier for VM functions that the interface of this crate shows. Without the feature `jit`
//! they are there, and there is nothing of what they describe.

#[cfg(feature = "jit")]
pub use reflex_cranelift::{CompileMode, Overview, TierOptions};

#[cfg(not(feature = "jit"))]
pub use absent::{CompileMode, Overview, TierOptions};

#[cfg(not(feature = "jit"))]
mod absent {
    use std::fmt;
    use std::time::Duration;

    use serde::Serialize;

    /// When traces are compiled.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum CompileMode {
        /// On a thread of the tier, while the interpreter runs.
        #[default]
        Background,
        /// As soon as they are recorded, for runs that must be repeatable.
        Synchronous,
    }

    /// Code and counts by function: there are none.
    #[derive(Clone, Debug, Serialize)]
    pub enum Overview {}

    impl fmt::Display for Overview {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }

    /// Thresholds and limits, which nothing reads.
    #[derive(Default)]
    pub struct TierOptions {
        pub threshold: u32,
        pub record_delay: Duration,
        pub exit_threshold: u32,
        pub max_attempts: u32,
        pub trace_limit: usize,
        pub code_cache_limit: usize,
        pub compile_mode: CompileMode,
    }
}
