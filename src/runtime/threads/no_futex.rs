//! The stand-in for `futex` on systems with a single thread, which nothing wakes up.

use std::sync::atomic::AtomicU32;

/// Returns at once, as if woken up.
pub(super) fn wait(_word: &AtomicU32, _expected: u32) {}

/// Does nothing: no thread sleeps.
pub(super) fn wake(_word: *const AtomicU32) {}
