//! Counters of how often a piece of code runs. They outlive the code.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of one piece of code, kept when the code is gone.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Times that the code was entered; generated code counts here.
    pub(crate) runs: AtomicU64,
    evicted: AtomicBool,
}

impl Usage {
    /// Times that the code was entered.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns true if the code was evicted.
    pub(crate) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Notes that the code was evicted.
    pub(crate) fn mark_evicted(&self) {
        self.evicted.store(true, Ordering::Relaxed);
    }
}
