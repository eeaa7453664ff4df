//! From a recorded trace to installed code: translation, publication, the report.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled};

use super::codegen::{self, Attached};
use super::ir::Trace;
use super::optimise::optimise;
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
    /// The trace as it was recorded, as text.
    pub recorded: String,
    /// The trace as it was compiled, as text.
    pub text: String,
    /// Bytes of machine code.
    pub code_bytes: usize,
    taken: Arc<[AtomicU64]>,
    code: Weak<TraceCode>,
}

impl TraceReport {
    /// How often each exit was taken.
    pub fn exits(&self) -> Vec<u64> {
        self.taken.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// The machine code and its address; none once it is gone.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        let code = self.code.upgrade()?;
        Some((code.published.text().as_ptr().addr(), code.published.text().to_vec()))
    }
}

/// Everything that the code of one trace refers to.
#[derive(Debug)]
struct TraceCode {
    published: Published,
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
        mut trace: Trace,
    ) -> Result<Compiled, Bailout> {
        let recorded = trace.to_string();
        optimise(program, &mut trace);
        let taken: Arc<[AtomicU64]> = trace.exits.iter().map(|_| AtomicU64::new(0)).collect();
        let attached = Attached { taken: Arc::clone(&taken), force: self.force.clone() };
        let mut unit = self.assembler.unit();
        let entry = codegen::translate(&mut unit, program, &trace, &attached)?;
        let code = self.assembler.publish(unit).map_err(bailout)?;
        let (text, code_bytes) = (trace.to_string(), code.size());
        let address = code.address(entry);
        let owner = Arc::new(TraceCode {
            published: code,
            _taken: Arc::clone(&taken),
            _force: attached.force,
        });
        let code = Arc::downgrade(&owner);
        let program = program.id();
        let report = TraceReport { program, site, recorded, text, code_bytes, taken, code };
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        // SAFETY: the trace was recorded at this site and its code follows the protocol of
        // `reflex_vm::abi`; the owner keeps the code and all that it refers to, except for the
        // program, whose cells are the only way to reach it.
        Ok(unsafe { Compiled::new(address, owner) })
    }
}
