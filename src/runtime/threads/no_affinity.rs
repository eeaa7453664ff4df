//! The stand-in for `affinity` on systems that choose the CPUs of threads themselves.

/// The CPUs that a helper's thread may run on: any.
pub(super) struct CpuAffinity;

impl CpuAffinity {
    /// The affinity of a thread that is not known yet.
    pub(super) const UNKNOWN: CpuAffinity = CpuAffinity;

    /// The affinity of the calling thread.
    pub(super) fn of_this_thread() -> CpuAffinity {
        CpuAffinity
    }

    /// Does nothing.
    pub(super) fn exclude_current_cpu(&mut self) {}
}
