//! The stand-in for `membarrier` on systems without it.

/// Returns true if the kernel has it.
pub fn is_offered() -> bool {
    false
}

/// Sends every thread through a fence; returns true if that was done.
pub fn all_threads() -> bool {
    false
}
