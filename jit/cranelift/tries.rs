//! How often places have been tried, and when one is due again.
//!
//! A place whose code was evicted, or for which there was no room, waits before it is recorded
//! again: it has to become hot twice as often as the last time, once more each time. What does
//! not fit together therefore changes places ever more rarely, and a place is compiled at most so
//! many times as the logarithm of how often it is reached.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use reflex_vm::decode::SiteId;

/// A program and a site of it.
pub(crate) type Key = (u64, SiteId);

/// Most times that the wait is doubled: what is longer never ends.
const DOUBLINGS: u32 = 31;

/// What was tried at a place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried {
    /// Recordings begun.
    pub(crate) recorded: u32,
    /// Recordings since code was made for the place.
    attempts: u32,
    /// Times that its code was evicted.
    pub(crate) evicted: u32,
    /// Times that it has been put off, and times that it has to become hot before it is due.
    doublings: u32,
    wait: u32,
}

/// What to do about a hot place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now(Chance),
    Later,
    /// It was tried too often.
    Never,
}

/// Whether a recording of a place may be followed by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chance {
    /// It may give up for the sake of a better one.
    Another,
    Last,
}

#[derive(Debug, Default)]
pub(crate) struct Tries(Mutex<HashMap<Key, Tried>>);

impl Tries {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Tried>> {
        self.0.lock()
    }

    /// A place is hot; `most` is how often it may be recorded in vain. Counts the recording that
    /// is due.
    pub(crate) fn due(&self, key: Key, most: u32) -> Due {
        let mut all = self.lock();
        let tried = all.entry(key).or_default();
        if tried.wait > 0 {
            tried.wait -= 1;
            return Due::Later;
        }
        if tried.attempts == most {
            return Due::Never;
        }
        tried.attempts += 1;
        tried.recorded += 1;
        Due::Now(if tried.attempts < most { Chance::Another } else { Chance::Last })
    }

    /// The code of a place was evicted, or there was no room for it: the wait is twice as long.
    pub(crate) fn put_off(&self, key: Key) {
        let mut all = self.lock();
        let tried = all.entry(key).or_default();
        tried.attempts = 0;
        tried.doublings = (tried.doublings + 1).min(DOUBLINGS);
        tried.wait = (1 << tried.doublings) - 1;
    }

    /// Code that belongs to a place was evicted.
    pub(crate) fn count_eviction(&self, key: Key) {
        self.lock().entry(key).or_default().evicted += 1;
    }

    /// Recordings begun, and evictions, everywhere.
    pub(crate) fn sums(&self) -> (usize, usize) {
        let all = self.lock();
        let sum = |of: fn(&Tried) -> u32| all.values().map(|tried| of(tried) as usize).sum();
        (sum(|tried| tried.recorded), sum(|tried| tried.evicted))
    }

    /// What was tried at the places of a program.
    pub(crate) fn of(&self, program: u64) -> HashMap<SiteId, Tried> {
        let all = self.lock();
        let own = all.iter().filter(|((id, _), _)| *id == program);
        own.map(|((_, site), tried)| (*site, *tried)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_eviction_doubles_the_wait() {
        let (tries, key) = (Tries::default(), (1, SiteId(0)));
        let mut hot = 0;
        let mut compiled_at = Vec::new();
        while hot < 1000 {
            hot += 1;
            if matches!(tries.due(key, 3), Due::Now(_)) {
                compiled_at.push(hot);
                tries.put_off(key);
            }
        }
        assert_eq!(compiled_at, [1, 3, 7, 15, 31, 63, 127, 255, 511]);
    }

    #[test]
    fn what_fails_for_other_reasons_is_left_alone() {
        let (tries, key) = (Tries::default(), (1, SiteId(0)));
        let due: Vec<Due> = (0..4).map(|_| tries.due(key, 3)).collect();
        let now = Due::Now(Chance::Another);
        assert_eq!(due, [now, now, Due::Now(Chance::Last), Due::Never]);
        assert_eq!(tries.sums(), (3, 0));
    }
}
