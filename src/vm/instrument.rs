//! Watching every call of a session, and a profile by callee.
//!
//! A session with an instrument runs in the interpreter, whatever its mode: each call
//! is then seen, in the order in which the program makes it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reflex_runtime::value::AnyView;

/// A call that is about to run or has run.
#[derive(Debug)]
pub struct CallEvent<'a> {
    /// The VM function that calls.
    pub function: &'a str,
    /// Its instruction.
    pub instr: u32,
    /// What it calls.
    pub callee: &'a str,
    /// The arguments, before the call; empty after it, since the callee may have taken them.
    pub args: &'a [AnyView<'a>],
}

/// What to do with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Run it.
    Run,
    /// Do not run it: its result is None, and `after` is not called.
    Skip,
}

/// Sees calls.
pub trait Instrument: Send {
    /// Before each call.
    fn before(&mut self, call: &CallEvent<'_>) -> Verdict;

    /// After each call that succeeded, with its result (None when it was discarded).
    fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>);

    /// The run ended with an error; calls that were running have no `after`.
    fn aborted(&mut self) {}
}

/// Calls and time of one callee.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Entry {
    /// How often it was called.
    pub calls: u64,
    /// Time in it, what it called included.
    pub total: Duration,
    /// Time in it alone.
    pub own: Duration,
}

/// An instrument that counts and times calls by callee.
#[derive(Default, Debug)]
pub struct Profile {
    entries: HashMap<String, Entry>,
    /// Calls that run: when they began, and the time of their own callees.
    running: Vec<(Instant, Duration)>,
}

impl Profile {
    /// Callees, those with most time of their own first.
    pub fn by_time(&self) -> Vec<(&str, Entry)> {
        let mut entries: Vec<_> =
            self.entries.iter().map(|(name, entry)| (name.as_str(), *entry)).collect();
        entries.sort_by(|a, b| b.1.own.cmp(&a.1.own).then(a.0.cmp(b.0)));
        entries
    }
}

impl Instrument for Profile {
    fn before(&mut self, _: &CallEvent<'_>) -> Verdict {
        self.running.push((Instant::now(), Duration::ZERO));
        Verdict::Run
    }

    fn after(&mut self, call: &CallEvent<'_>, _: AnyView<'_>) {
        let Some((began, inside)) = self.running.pop() else { return };
        let total = began.elapsed();
        if let Some((_, callees)) = self.running.last_mut() {
            *callees += total;
        }
        // Steady state finds the entry; only a new callee allocates.
        if !self.entries.contains_key(call.callee) {
            self.entries.insert(call.callee.to_owned(), Entry::default());
        }
        if let Some(entry) = self.entries.get_mut(call.callee) {
            entry.calls += 1;
            entry.total += total;
            entry.own += total.saturating_sub(inside);
        }
    }

    fn aborted(&mut self) {
        self.running.clear();
    }
}

/// An instrument that the host keeps while a session uses it.
impl<I: Instrument> Instrument for std::sync::Arc<std::sync::Mutex<I>> {
    fn before(&mut self, call: &CallEvent<'_>) -> Verdict {
        self.lock().unwrap_or_else(std::sync::PoisonError::into_inner).before(call)
    }

    fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>) {
        self.lock().unwrap_or_else(std::sync::PoisonError::into_inner).after(call, result);
    }

    fn aborted(&mut self) {
        self.lock().unwrap_or_else(std::sync::PoisonError::into_inner).aborted();
    }
}
