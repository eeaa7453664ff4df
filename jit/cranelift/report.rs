//! Pieces of code that have been made: how they are used, what they are made of. What was done with
//! a program as a whole is in `overview`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use serde::Serialize;

use crate::engine::{TraceCode, WholeCode};
use crate::evict::Usage;
use crate::lowering::Lowered;
use crate::trace::ir::{End, Trace};
use crate::trace::optimise::stages;

/// A function that was compiled whole.
#[derive(Clone, Debug)]
pub struct MethodReport {
    /// The program's identity.
    pub program: u64,
    /// The function.
    pub func: u32,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// What was made of its builtins.
    pub lowered: Vec<Lowered>,
    /// None of code that was compiled ahead of time: it does not count, and stays.
    pub(crate) usage: Option<Arc<Usage>>,
    pub(crate) code: Weak<WholeCode>,
}

impl MethodReport {
    /// How often the code was entered; none of code that was compiled ahead of time.
    pub fn runs(&self) -> Option<u64> {
        self.usage.as_ref().map(|usage| usage.runs.load(Ordering::Relaxed))
    }

    /// Whether the code made room for other code.
    pub fn evicted(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| usage.evicted.load(Ordering::Relaxed))
    }

    /// The machine code and its address; none once it is gone.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        self.code.upgrade().map(|code| code.published.copy())
    }
}

/// A side exit of a trace, from which a side trace starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentExit {
    /// Number of the trace, of those of this process.
    pub trace: u64,
    /// The exit of that trace.
    pub exit: u32,
}

/// The next step for a hot site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pending {
    /// It is recorded once it has been hot for long enough.
    Recording,
    /// Its trace is being compiled.
    Compilation,
}

/// A compiled trace.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// The program's identity.
    pub program: u64,
    /// Where the trace starts.
    pub site: SiteId,
    /// Number of the trace, of those of this process.
    pub number: u64,
    /// The side exit that this trace starts from, if it is a side trace.
    pub parent: Option<ParentExit>,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// The trace as it was recorded, and as it was compiled.
    pub(crate) recorded: Arc<Trace>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) taken: Arc<[AtomicU64]>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) code: Weak<TraceCode>,
}

impl TraceReport {
    /// The trace as it was recorded, as text.
    pub fn recorded(&self) -> String {
        self.recorded.to_string()
    }

    /// The trace as it was compiled, as text.
    pub fn text(&self) -> String {
        self.trace.to_string()
    }

    /// The trace as each pass over it left it that changed something, as text.
    pub fn stages(&self, program: &Program) -> Vec<(&'static str, String)> {
        stages(program, Trace::clone(&self.recorded))
    }

    /// Whether it is a loop in which plain values go round without being stored.
    pub fn has_carried_values(&self) -> bool {
        !self.trace.carried.is_empty()
    }

    /// Whether it is a loop that goes from frame to frame.
    pub fn is_recursive(&self) -> bool {
        matches!(self.trace.end, End::Shift { .. })
    }

    /// Guards it has.
    pub fn guards(&self) -> usize {
        self.trace.guards()
    }

    /// What the interpreter finds after an exit.
    pub fn exit_name(&self, exit: usize) -> Option<String> {
        Some(self.trace.name(self.trace.exits.get(exit)?))
    }

    /// How often each exit was taken.
    pub fn exits(&self) -> Vec<u64> {
        self.taken.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// How often the trace began, or began again.
    pub fn runs(&self) -> u64 {
        self.usage.runs.load(Ordering::Relaxed)
    }

    /// Whether the trace made room for other code.
    pub fn evicted(&self) -> bool {
        self.usage.evicted.load(Ordering::Relaxed)
    }

    /// The machine code and its address; none once it is gone.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        self.code.upgrade().map(|code| code.published.copy())
    }
}
