//! Reports of single traces and methods: their size, use and text. `overview` reports on a program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use serde::Serialize;

use crate::assemble::PublishedCode;
use crate::method::lowering::Lowered;
use crate::trace::ir::{End, Trace};
use crate::trace::optimise::stages;
use crate::usage::Usage;

/// A method: a function that was compiled as one unit.
#[derive(Clone, Debug)]
pub struct MethodReport {
    /// The program's identity.
    pub program: u64,
    /// The function.
    pub func: u32,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// The lowering of each of its builtins.
    pub lowered: Vec<Lowered>,
    /// `None` if it was compiled ahead of time: then it is not counted and never evicted.
    pub(crate) usage: Option<Arc<Usage>>,
    pub(crate) code: Weak<PublishedCode>,
}

impl MethodReport {
    /// Times that the code was entered; `None` if it was compiled ahead of time.
    pub fn runs(&self) -> Option<u64> {
        self.usage.as_ref().map(|usage| usage.runs())
    }

    /// Returns true if the code was evicted.
    pub fn evicted(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| usage.is_evicted())
    }

    /// The machine code and its address; `None` once it is freed.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        self.code.upgrade().map(|code| code.copy())
    }
}

/// A side exit of a trace, from which a side trace starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentExit {
    /// Number of the trace, unique in this process.
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
    /// The site where the trace, or the root of its tree, starts.
    pub site: SiteId,
    /// Number of the trace, unique in this process.
    pub number: u64,
    /// The side exit that this trace starts from, if it is a side trace.
    pub parent: Option<ParentExit>,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// The trace as recorded.
    pub(crate) recorded: Arc<Trace>,
    /// The trace as compiled.
    pub(crate) trace: Arc<Trace>,
    pub(crate) taken: Arc<[AtomicU64]>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) code: Weak<PublishedCode>,
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

    /// The name of each pass that changed the trace, and the text of the trace after it.
    pub fn stages(&self, program: &Program) -> Vec<(&'static str, String)> {
        stages(program, Trace::clone(&self.recorded))
    }

    /// Returns true if the trace is a loop that carries values from one iteration to the next
    /// without storing them.
    pub fn has_carried_values(&self) -> bool {
        !self.trace.carried.is_empty()
    }

    /// Returns true if the trace is a loop through the levels of a recursion.
    pub fn is_recursive(&self) -> bool {
        matches!(self.trace.end, End::Recursion { .. })
    }

    /// Guards of the trace.
    pub fn guards(&self) -> usize {
        self.trace.guards()
    }

    /// The position where the interpreter resumes after a side exit.
    pub fn exit_name(&self, exit: usize) -> Option<String> {
        Some(self.trace.name(self.trace.snapshots.get(exit)?))
    }

    /// Times that each side exit was taken.
    pub fn exits(&self) -> Vec<u64> {
        self.taken.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Times that the trace was entered or iterated.
    pub fn runs(&self) -> u64 {
        self.usage.runs()
    }

    /// Returns true if the trace was evicted.
    pub fn evicted(&self) -> bool {
        self.usage.is_evicted()
    }

    /// The machine code and its address; `None` once it is freed.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        self.code.upgrade().map(|code| code.copy())
    }
}
