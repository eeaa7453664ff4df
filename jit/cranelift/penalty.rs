//! Hot-counter penalties: when a hot site is recorded again, and when it is blacklisted.
//!
//! A site whose code was evicted, or did not fit the code-cache budget, backs off exponentially:
//! it has to become hot twice as often as the last time before it is recorded again. Sites that
//! compete for the budget therefore replace each other ever more rarely. A site is compiled at
//! most as often as the logarithm of the number of times that it becomes hot. LuaJIT penalises and
//! blacklists bytecodes in the same way (`lj_trace.c`, `penalty_pc`).
//!
//! Decision: docs/decisions/0014-code-eviction.md

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use reflex_vm::decode::SiteId;

/// A site of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SiteKey {
    /// The program's identity.
    pub(crate) program: u64,
    pub(crate) site: SiteId,
}

/// Most times that the penalty doubles; a longer one never ends.
const MAX_DOUBLINGS: u32 = 31;

/// The recordings, evictions and penalty of a site.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SiteHistory {
    /// Recordings begun.
    pub(crate) recorded: u32,
    /// Recordings since the site last had code.
    attempts: u32,
    /// Times that code of the site was evicted.
    pub(crate) evicted: u32,
    /// Penalties so far.
    doublings: u32,
    /// Times that the site has to become hot before it is recorded.
    wait: u32,
}

/// The next step for a hot site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Record it now.
    Record(Attempt),
    /// Leave it to the interpreter until it is hot again.
    Wait,
    /// Never record it: it was recorded in vain too often.
    Blacklisted,
}

/// Whether a recording may be followed by another one of the same site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It may be aborted in favour of a better one.
    MayRetry,
    /// It is the last one, so any trace is better than none.
    Last,
}

/// The penalties of all sites.
#[derive(Debug, Default)]
pub(crate) struct Penalties(Mutex<HashMap<SiteKey, SiteHistory>>);

impl Penalties {
    fn lock(&self) -> MutexGuard<'_, HashMap<SiteKey, SiteHistory>> {
        self.0.lock()
    }

    /// Decides what to do about a hot site, which may be recorded `max_attempts` times in vain.
    /// Counts the recording.
    pub(crate) fn decide(&self, key: SiteKey, max_attempts: u32) -> Decision {
        let mut all = self.lock();
        let history = all.entry(key).or_default();
        if history.wait > 0 {
            history.wait -= 1;
            return Decision::Wait;
        }
        if history.attempts == max_attempts {
            return Decision::Blacklisted;
        }
        history.attempts += 1;
        history.recorded += 1;
        let last = history.attempts >= max_attempts;
        Decision::Record(if last { Attempt::Last } else { Attempt::MayRetry })
    }

    /// Doubles the wait of a site whose code was evicted, or did not fit the budget.
    pub(crate) fn penalise(&self, key: SiteKey) {
        let mut all = self.lock();
        let history = all.entry(key).or_default();
        history.attempts = 0;
        history.doublings = (history.doublings + 1).min(MAX_DOUBLINGS);
        history.wait = (1 << history.doublings) - 1;
    }

    /// Counts an eviction of code that belongs to a site.
    pub(crate) fn count_eviction(&self, key: SiteKey) {
        self.lock().entry(key).or_default().evicted += 1;
    }

    /// Recordings begun and evictions, of all sites together.
    pub(crate) fn events(&self) -> usize {
        let events = |history: &SiteHistory| history.recorded as usize + history.evicted as usize;
        self.lock().values().map(events).sum()
    }

    /// The histories of the sites of a program.
    pub(crate) fn of(&self, program: u64) -> HashMap<SiteId, SiteHistory> {
        let all = self.lock();
        let own = all.iter().filter(|(key, _)| key.program == program);
        own.map(|(key, history)| (key.site, *history)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SiteKey = SiteKey { program: 1, site: SiteId(0) };

    #[test]
    fn each_eviction_doubles_the_wait() {
        let penalties = Penalties::default();
        let mut hot = 0;
        let mut compiled_at = Vec::new();
        while hot < 1000 {
            hot += 1;
            if matches!(penalties.decide(KEY, 3), Decision::Record(_)) {
                compiled_at.push(hot);
                penalties.penalise(KEY);
            }
        }
        assert_eq!(compiled_at, [1, 3, 7, 15, 31, 63, 127, 255, 511]);
    }

    #[test]
    fn sites_that_fail_for_other_reasons_are_blacklisted() {
        let penalties = Penalties::default();
        let decisions: Vec<Decision> = (0..4).map(|_| penalties.decide(KEY, 3)).collect();
        let now = Decision::Record(Attempt::MayRetry);
        let last = Decision::Record(Attempt::Last);
        assert_eq!(decisions, [now, now, last, Decision::Blacklisted]);
        assert_eq!(penalties.events(), 3);
    }
}
