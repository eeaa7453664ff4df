//! The state of one kernel: its tier, and why it is in it.

use std::fmt;

use reflex_tir::codegen::{KernelTier, ObjectFile};

/// The way of a kernel from Cranelift to LLVM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// LLVM has not begun.
    Waiting,
    /// LLVM compiles it.
    Compiling,
    /// It is LLVM's.
    Final,
    /// It stays Cranelift's.
    Kept,
}

/// The state of a kernel.
pub(super) struct State {
    pub(super) phase: Phase,
    /// LLVM's object, if it replaced Cranelift's.
    replacement: Option<ObjectFile>,
    /// The calls that were counted before.
    calls_before: u64,
    /// Why it stays.
    reason: String,
    /// Which of the two objects runs, where they take turns.
    runs_replacement: bool,
}

impl State {
    pub(super) fn of(tier: KernelTier) -> State {
        let phase = match tier {
            KernelTier::Baseline => Phase::Waiting,
            KernelTier::Optimised => Phase::Final,
        };
        let (replacement, reason) = (None, String::new());
        State { phase, replacement, calls_before: 0, reason, runs_replacement: false }
    }

    /// Takes a kernel that waits; false if it does not.
    pub(super) fn claim(&mut self) -> bool {
        let waits = self.phase == Phase::Waiting;
        if waits {
            self.phase = Phase::Compiling;
        }
        waits
    }

    pub(super) fn replaced(&mut self, object: ObjectFile, calls: u64) {
        self.phase = Phase::Final;
        self.replacement = Some(object);
        self.calls_before = calls;
    }

    pub(super) fn keep(&mut self, reason: String) {
        self.phase = Phase::Kept;
        self.reason = reason;
    }

    pub(super) fn replacement(&self) -> Option<ObjectFile> {
        self.replacement.clone()
    }

    /// Returns the object whose turn it is: `first`, or its replacement if there is one.
    pub(super) fn turn(&mut self, first: &ObjectFile) -> ObjectFile {
        self.runs_replacement = !self.runs_replacement;
        let replacement = self.replacement.as_ref().filter(|_| self.runs_replacement);
        replacement.unwrap_or(first).clone()
    }

    pub(super) fn describe(&self, name: String, calls: u64) -> KernelState {
        let (tier, reason) = match (self.phase, &self.replacement) {
            (Phase::Waiting, _) if calls == 0 => {
                (KernelTier::Baseline, "not called yet".to_owned())
            }
            (Phase::Waiting, _) => (KernelTier::Baseline, "waits for LLVM".to_owned()),
            (Phase::Compiling, _) => (KernelTier::Baseline, "LLVM compiles it".to_owned()),
            (Phase::Final, Some(_)) => {
                let s = if self.calls_before == 1 { "" } else { "s" };
                let text = format!("replaced after {} call{s}", self.calls_before);
                (KernelTier::Optimised, text)
            }
            (Phase::Final, None) => (KernelTier::Optimised, "found in the cache".to_owned()),
            (Phase::Kept, _) => (KernelTier::Baseline, format!("stays: {}", self.reason)),
        };
        KernelState { name, tier, calls, reason }
    }
}

/// The tier of a kernel, and why it is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelState {
    /// The kernel.
    pub name: String,
    /// The code generator of its present code.
    pub tier: KernelTier,
    /// Calls that were counted, up to its replacement; roughly, if several threads call it.
    pub calls: u64,
    /// The reason, as text.
    pub reason: String,
}

impl fmt::Display for KernelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:10} {} ({})", self.tier, self.name, self.reason)
    }
}
