//! Reports of slow calls: what the call did besides computing.

use std::time::{Duration, Instant};

/// Resources that the calling thread has used, as getrusage(2) counts them.
fn thread_usage() -> libc::rusage {
    // SAFETY: a rusage is plain integers, for which zeros are valid; the call writes one.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    }
}

/// Processor time of a thread in microseconds, in user and kernel mode.
fn processor_micros(usage: &libc::rusage) -> i64 {
    let micros = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    micros(usage.ru_utime) + micros(usage.ru_stime)
}

/// Counters of the calling thread before a call.
pub(super) struct CallWatch {
    start: Instant,
    usage: libc::rusage,
    /// State of the tier: a number that changes when it records or compiles something.
    tier: usize,
}

impl CallWatch {
    /// Starts to watch a call.
    pub(super) fn start(tier: usize) -> CallWatch {
        CallWatch { start: Instant::now(), usage: thread_usage(), tier }
    }

    /// Reports a call that took `threshold` or longer as a warning: the time, how much of it the
    /// thread was running, page faults, preemptions, and whether the tiers recorded or compiled
    /// something meanwhile.
    pub(super) fn finish(&self, threshold: Duration, function: &str, tier: usize) {
        let took = self.start.elapsed();
        if took < threshold {
            return;
        }
        let usage = thread_usage();
        tracing::warn!(
            function,
            micros = took.as_micros(),
            processor_micros = processor_micros(&usage) - processor_micros(&self.usage),
            page_faults = usage.ru_minflt - self.usage.ru_minflt,
            disk_page_faults = usage.ru_majflt - self.usage.ru_majflt,
            preemptions = usage.ru_nivcsw - self.usage.ru_nivcsw,
            tiers_compiled = tier != self.tier,
            "slow call"
        );
    }
}
