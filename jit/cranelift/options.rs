//! Options of a tier: thresholds, limits, and when code is compiled.

use std::sync::Arc;
use std::time::Duration;

use crate::forced_exits::ForcedExits;

/// Thresholds and limits of a tier.
#[derive(Clone, Debug)]
pub struct TierOptions {
    /// Arrivals that make a function entry or a loop hot (LuaJIT: `hotloop`).
    pub threshold: u32,
    /// A hot site is recorded once it has been hot for this long per operation of its function.
    /// Recording an operation costs about a microsecond, and should not show. Applies only where
    /// code is compiled in the background; zero means no delay.
    pub record_delay: Duration,
    /// Failures of one guard (LuaJIT: `hotexit`) after which a side trace is recorded there, or the
    /// function is compiled as a method, unless they are rare among the runs of the trace. Rounded
    /// up to a power of two.
    pub exit_threshold: u32,
    /// Recordings of one site before it is blacklisted.
    pub max_attempts: u32,
    /// Most instructions of a trace (LuaJIT: `maxrecord`). A function whose run is longer is
    /// compiled as a method instead, and a side trace ends in an exit.
    pub trace_limit: usize,
    /// Code-cache budget: most bytes of machine code at any time. The coldest code is evicted for
    /// what is hot. What still does not fit stays with the interpreter.
    pub code_cache_limit: usize,
    /// Functions and traces of more Cranelift instructions are compiled without optimisation. So
    /// are those of more than a few hundred instructions that are mostly calls: that takes a third
    /// of the time. Other long code is up to four times slower without optimisation.
    pub optimise_limit: usize,
    /// Methods of more operations are split into several machine functions that jump to each other.
    pub body_limit: usize,
    /// Makes guards of traces fail, for tests.
    pub forced_exits: Option<Arc<ForcedExits>>,
    /// When traces are compiled.
    pub compile_mode: CompileMode,
}

/// When traces are compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompileMode {
    /// On a thread of the tier, while the interpreter runs.
    #[default]
    Background,
    /// As soon as they are recorded, for runs that must be repeatable.
    Synchronous,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self {
            threshold: 50,
            record_delay: Duration::from_micros(15),
            exit_threshold: 512,
            max_attempts: 3,
            trace_limit: 1000,
            code_cache_limit: 64 << 20,
            optimise_limit: 1_000_000,
            body_limit: 128,
            forced_exits: None,
            compile_mode: CompileMode::default(),
        }
    }
}
