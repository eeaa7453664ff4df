//! Reports of slow calls: what the call did besides computing.

use std::time::{Duration, Instant};

use super::Session;
use crate::error::Result;

/// Counters of the calling thread before a call.
struct Before {
    start: Instant,
    usage: libc::rusage,
    tier: usize,
}

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

/// Runs `call`; if it takes `threshold` or longer, reports it as a warning: the time, how much of
/// it the thread was running, page faults, preemptions, and whether the tiers recorded or compiled
/// something meanwhile.
pub(super) fn watched(
    session: &mut Session,
    threshold: Duration,
    func: u32,
    call: impl FnOnce(&mut Session) -> Result<()>,
) -> Result<()> {
    let tier = session.plain.tier_progress();
    let before = Before { start: Instant::now(), usage: thread_usage(), tier };
    let outcome = call(session);
    let took = before.start.elapsed();
    if took >= threshold {
        let usage = thread_usage();
        tracing::warn!(
            function = session.plain.vm.program().name(func),
            micros = took.as_micros(),
            processor_micros = processor_micros(&usage) - processor_micros(&before.usage),
            page_faults = usage.ru_minflt - before.usage.ru_minflt,
            disk_page_faults = usage.ru_majflt - before.usage.ru_majflt,
            preemptions = usage.ru_nivcsw - before.usage.ru_nivcsw,
            tiers_compiled = session.plain.tier_progress() != before.tier,
            failed = outcome.is_err(),
            "slow call"
        );
    }
    outcome
}
