//! From a recorded trace to installed code: translation, publication, the report.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled};

use super::codegen::{self, Attached};
use super::ir::Trace;
use crate::assemble::{Assembler, Published};
use crate::force::ForcedExits;
use crate::tier::bailout;

pub(crate) type Reports = Mutex<Vec<TraceReport>>;

/// A compiled trace, for people and tests.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// The program's identity.
    pub program: u64,
    /// Where the trace starts.
    pub site: SiteId,
    /// The trace as text.
    pub text: String,
    /// Bytes of machine code.
    pub code_bytes: usize,
    taken: Arc<[AtomicU64]>,
}

impl TraceReport {
    /// How often each exit was taken.
    pub fn exits(&self) -> Vec<u64> {
        self.taken.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Everything that the code of one trace refers to.
struct TraceCode {
    _code: Published,
    _taken: Arc<[AtomicU64]>,
    _force: Option<Arc<ForcedExits>>,
}

/// Makes code of traces, on whichever thread.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) assembler: Assembler,
    pub(crate) force: Option<Arc<ForcedExits>>,
    /// Reports of the traces compiled so far.
    pub(crate) reports: Reports,
}

impl Maker {
    /// Compiles a trace recorded at `site` of `program`.
    pub(crate) fn make(
        &self,
        program: &Program,
        site: SiteId,
        trace: &Trace,
    ) -> Result<Compiled, Bailout> {
        let taken: Arc<[AtomicU64]> = trace.exits.iter().map(|_| AtomicU64::new(0)).collect();
        let attached = Attached { taken: Arc::clone(&taken), force: self.force.clone() };
        let mut unit = self.assembler.unit();
        let entry = codegen::translate(&mut unit, program, trace, &attached)?;
        let code = self.assembler.publish(unit).map_err(bailout)?;
        let (text, code_bytes) = (trace.to_string(), code.size());
        let report =
            TraceReport { program: program.id(), site, text, code_bytes, taken: taken.clone() };
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        let address = code.address(entry);
        let owner = TraceCode { _code: code, _taken: taken, _force: attached.force };
        // SAFETY: the trace was recorded at this site and its code follows the protocol of
        // `reflex_vm::abi`; the owner keeps the code and all that it refers to, except for the
        // program, whose cells are the only way to reach it.
        Ok(unsafe { Compiled::new(address, Arc::new(owner)) })
    }
}
