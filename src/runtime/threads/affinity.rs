//! The CPU affinity of helpers: a helper wakes up on another CPU than its caller's.
//!
//! The scheduler may wake a thread on the CPU of its waker. There the caller goes on with its own
//! tasks, and may have stolen the helper's too before the helper runs.

use std::mem::MaybeUninit;

use libc::{CPU_CLR, CPU_COUNT, CPU_EQUAL, cpu_set_t};

/// The CPUs that a helper's thread may run on.
pub(super) struct CpuAffinity {
    thread: libc::pid_t,
    /// The set that the host or the user chose.
    allowed: Option<cpu_set_t>,
    /// The set that was last set here: `allowed` less one CPU.
    set: Option<cpu_set_t>,
    /// The CPU that is excluded.
    excluded: libc::c_int,
}

impl CpuAffinity {
    /// The affinity of a thread that is not known yet, and is never changed.
    pub(super) const UNKNOWN: CpuAffinity =
        CpuAffinity { thread: 0, allowed: None, set: None, excluded: -1 };

    /// The affinity of the calling thread.
    pub(super) fn of_this_thread() -> CpuAffinity {
        if cfg!(miri) {
            return CpuAffinity::UNKNOWN;
        }
        // SAFETY: `gettid` takes no arguments and has no preconditions.
        let thread = unsafe { libc::gettid() };
        let allowed = affinity(thread);
        CpuAffinity { thread, allowed, set: allowed, excluded: -1 }
    }

    /// Excludes the CPU of the calling thread from the helper's affinity, unless it is the only one,
    /// and includes the one before again. A hint: if the system refuses, the affinity stays.
    pub(super) fn exclude_current_cpu(&mut self) {
        if self.allowed.is_none() {
            return;
        }
        // SAFETY: `sched_getcpu` takes no arguments and has no preconditions.
        let here = unsafe { libc::sched_getcpu() };
        if here != self.excluded && (0..libc::CPU_SETSIZE).contains(&here) {
            self.excluded = here;
            self.exclude(here as usize);
        }
    }

    fn exclude(&mut self, cpu: usize) {
        let now = affinity(self.thread);
        let as_set = |set: &cpu_set_t| now.as_ref().is_some_and(|now| same(now, set));
        if !self.set.as_ref().is_some_and(as_set) {
            // The host or the user has chosen anew.
            self.allowed = now;
        }
        self.set = self.allowed;
        let Some(mut rest) = self.allowed else { return };
        // SAFETY: the set is initialised, and the caller passes a number below CPU_SETSIZE.
        unsafe { CPU_CLR(cpu, &mut rest) };
        // SAFETY: the set is initialised, and the call only reads it.
        let rest = if unsafe { CPU_COUNT(&rest) } > 0 { rest } else { return };
        // SAFETY: the set is valid for the call.
        let outcome =
            unsafe { libc::sched_setaffinity(self.thread, size_of_val(&rest), &raw const rest) };
        if outcome == 0 {
            self.set = Some(rest);
        }
    }
}

/// The CPUs that a thread may run on, if the system tells.
fn affinity(thread: libc::pid_t) -> Option<cpu_set_t> {
    let mut set = MaybeUninit::<cpu_set_t>::zeroed();
    // SAFETY: the set is valid for the call, which writes it.
    let outcome =
        unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), set.as_mut_ptr()) };
    // SAFETY: the set was zeroed, which is a valid (empty) one, whether the call wrote it or not.
    let set = unsafe { set.assume_init() };
    (outcome == 0).then_some(set)
}

fn same(a: &cpu_set_t, b: &cpu_set_t) -> bool {
    // SAFETY: both sets are initialised, and the call only reads them.
    unsafe { CPU_EQUAL(a, b) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn affinity_excludes_the_caller_and_follows_the_host() {
        std::thread::scope(|scope| {
            let (sent, asked) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
            let idle = scope.spawn(move || {
                sent.0.send(CpuAffinity::of_this_thread()).unwrap();
                let _ = asked.1.recv();
            });
            let mut helper = sent.1.recv().unwrap();
            let allowed = helper.allowed.unwrap();
            let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
                // SAFETY: the set is initialised, and the number is below CPU_SETSIZE.
                .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) })
                .collect();
            for cpu in &cpus {
                helper.exclude(*cpu);
                let now = affinity(helper.thread).unwrap();
                // SAFETY: the set is initialised, and the number is below CPU_SETSIZE.
                let (there, count) = unsafe { (libc::CPU_ISSET(*cpu, &now), CPU_COUNT(&now)) };
                assert_eq!(there, cpus.len() == 1, "the only one stays");
                assert_eq!(
                    count as usize,
                    (cpus.len() - 1).max(1),
                    "the one before is included again"
                );
            }
            let mut one = allowed;
            // SAFETY: the set is initialised, and outlives the call.
            unsafe {
                cpus.iter().rev().skip(1).for_each(|cpu| CPU_CLR(*cpu, &mut one));
                libc::sched_setaffinity(helper.thread, size_of_val(&one), &raw const one);
            }
            helper.exclude(*cpus.last().unwrap());
            assert!(same(&affinity(helper.thread).unwrap(), &one), "the host chose the only one");
            drop(asked.0);
            idle.join().unwrap();
        });
    }
}
