//! Tells waiting threads that the state of kernels has changed.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The number of changes so far, and those who wait for the next.
#[derive(Default)]
pub(super) struct Signal {
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    /// Returns the number of changes: what was read after it is not older.
    pub(super) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    /// Announces a change.
    pub(super) fn raise(&self) {
        *self.changes.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until there are more changes than `seen`, or for `limit`.
    pub(super) fn wait_at_most(&self, seen: u64, limit: Duration) {
        let mut changes = self.changes.lock();
        if *changes == seen {
            self.changed.wait_for(&mut changes, limit);
        }
    }

    /// Waits until there are more changes than `seen`.
    pub(super) fn wait(&self, seen: u64) {
        let mut changes = self.changes.lock();
        while *changes == seen {
            self.changed.wait(&mut changes);
        }
    }
}
