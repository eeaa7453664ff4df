//! A lock that is tried and never waited for.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that handles on several threads refer to. One thread at a time uses it; another one is
/// refused meanwhile, and so is a callback of its user.
pub(super) struct TryLock<T> {
    value: UnsafeCell<T>,
    busy: AtomicBool,
}

// SAFETY: `with` gives out one exclusive reference at a time, to the thread that set the flag.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(super) fn new(value: T) -> TryLock<T> {
        TryLock { value: UnsafeCell::new(value), busy: AtomicBool::new(false) }
    }

    /// Runs `body` on the value, if it is not in use. A panic in it leaves the value usable, as an
    /// error does.
    #[inline]
    pub(super) fn try_with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        struct Idle<'a>(&'a AtomicBool);
        impl Drop for Idle<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        let _idle = Idle(&self.busy);
        // SAFETY: the flag was clear, so no other thread uses the value until it is cleared.
        Some(body(unsafe { &mut *self.value.get() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_user_is_refused_and_a_panic_ends_the_use() {
        let value = TryLock::new(1);
        let outer = value.try_with(|number| {
            *number += 1;
            assert!(value.try_with(|_| ()).is_none());
            *number
        });
        assert_eq!(outer, Some(2));
        let panics = std::panic::AssertUnwindSafe(|| value.try_with(|_| panic!()));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(value.try_with(|number| *number), Some(2));
    }
}
