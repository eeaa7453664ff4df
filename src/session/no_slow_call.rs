//! The stand-in for `slow_call` on systems that count no resources of threads: the report has the time.

use std::time::{Duration, Instant};

/// A call that is watched.
pub(super) struct CallWatch {
    start: Instant,
    /// State of the tier: a number that changes when it records or compiles something.
    tier: usize,
}

impl CallWatch {
    /// Starts to watch a call.
    pub(super) fn start(tier: usize) -> CallWatch {
        CallWatch { start: Instant::now(), tier }
    }

    /// Reports a call that took `threshold` or longer as a warning.
    pub(super) fn finish(&self, threshold: Duration, function: &str, tier: usize) {
        let took = self.start.elapsed();
        if took >= threshold {
            let (micros, tiers_compiled) = (took.as_micros(), tier != self.tier);
            tracing::warn!(function, micros, tiers_compiled, "slow call");
        }
    }
}
