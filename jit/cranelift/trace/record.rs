//! Recording: watches the interpreter until a trace is complete, then has it compiled.
//!
//! The recorder runs inside the interpreter's loop, so it does as little as it can: one step of
//! the builder per operation, and one pass over the trace when it is complete. Register
//! allocation and the rest of code generation, which take most of the time, happen on the
//! engine's thread; the interpreter goes on meanwhile, and the code is installed when the site is
//! hot again. Tests ask for code at once instead.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled, Control, Recorder, Step};

use super::build::{Builder, Flow, Start};
use super::codegen::{self, Attached};
use super::ir::Trace;
use super::worker::{Job, Worker};
use crate::assemble::{Assembler, Published, Unit, UnitFunc};
use crate::force::ForcedExits;
use crate::tier::bailout;

/// What recorders need of their tier.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) assembler: Arc<Assembler>,
    pub(crate) force: Option<Arc<ForcedExits>>,
    /// Compiles behind the interpreter's back; without it, code is made at once.
    pub(crate) worker: Option<Worker>,
    /// Reports of the traces compiled so far.
    pub(crate) reports: Reports,
}

pub(crate) type Reports = Arc<Mutex<Vec<TraceReport>>>;

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
        self.taken.iter().map(|count| count.load(std::sync::atomic::Ordering::Relaxed)).collect()
    }
}

/// Everything that the code of one trace refers to.
struct TraceCode {
    _code: Published,
    _taken: Arc<[AtomicU64]>,
    _force: Option<Arc<ForcedExits>>,
}

/// A trace as Cranelift functions, ready for what takes time.
pub(crate) struct Translated {
    unit: Unit,
    entry: UnitFunc,
    program: u64,
    pub(crate) site: SiteId,
    text: String,
    taken: Arc<[AtomicU64]>,
    force: Option<Arc<ForcedExits>>,
}

impl Translated {
    /// The program and site the trace is for.
    pub(crate) fn key(&self) -> (u64, SiteId) {
        (self.program, self.site)
    }

    /// Generates and publishes the code.
    pub(crate) fn publish(
        self,
        assembler: &Assembler,
        reports: &Reports,
    ) -> Result<Compiled, Bailout> {
        let Self { unit, entry, program, site, text, taken, force } = self;
        let code = assembler.publish(unit).map_err(bailout)?;
        let code_bytes = code.size();
        let report = TraceReport { program, site, text, code_bytes, taken: Arc::clone(&taken) };
        reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        let address = code.address(entry);
        let owner = TraceCode { _code: code, _taken: taken, _force: force };
        // SAFETY: the trace was recorded at this site and its code follows the protocol of
        // `reflex_vm::abi`; the owner keeps the code and all that it refers to, except for the
        // program, whose cells are the only way to reach it.
        Ok(unsafe { Compiled::new(address, Arc::new(owner)) })
    }
}

impl Engine {
    fn translate(
        &self,
        program: &Program,
        site: SiteId,
        trace: &Trace,
    ) -> Result<Translated, Bailout> {
        let taken: Arc<[AtomicU64]> = trace.exits.iter().map(|_| AtomicU64::new(0)).collect();
        let attached = Attached { taken: Arc::clone(&taken), force: self.force.clone() };
        let mut unit = self.assembler.unit();
        let entry = codegen::translate(&mut unit, program, trace, &attached)?;
        let (text, force) = (trace.to_string(), attached.force);
        Ok(Translated { unit, entry, program: program.id(), site, text, taken, force })
    }

    /// What the interpreter does with a complete trace.
    fn complete(&self, program: &Program, site: SiteId, trace: &Trace) -> Control {
        let translated = match self.translate(program, site, trace) {
            Ok(translated) => translated,
            Err(reason) => return Control::Stop(reason),
        };
        match &self.worker {
            Some(worker) => match worker.submit(translated) {
                Ok(()) => Control::Pending,
                Err(reason) => Control::Stop(reason),
            },
            None => translated
                .publish(&self.assembler, &self.reports)
                .map_or_else(Control::Stop, Control::Finish),
        }
    }

    /// The state of a trace that was handed to the worker.
    pub(crate) fn job(&self, key: (u64, SiteId)) -> Option<Job> {
        self.worker.as_ref().and_then(|worker| worker.take(key))
    }
}

/// Watches one run of one site.
pub(crate) struct TraceRecorder {
    engine: Arc<Engine>,
    site: SiteId,
    /// Taken when the trace is complete.
    builder: Option<Builder>,
}

impl TraceRecorder {
    /// A recorder for a site, or the reason why there is none.
    pub(crate) fn new(
        engine: Arc<Engine>,
        program: &Program,
        site: SiteId,
    ) -> Result<Self, Bailout> {
        let place = program.code().sites.get(site.0 as usize);
        let func = place.and_then(|place| Some((place, program.function(place.func)?)));
        let Some((place, func)) = func else {
            return Err(Bailout::Unsupported { what: "a site without bytecode".to_owned() });
        };
        let start = Start { pc: place.pc, is_loop: place.is_loop };
        let builder = Some(Builder::new(program, func, start));
        Ok(Self { engine, site, builder })
    }
}

impl Recorder for TraceRecorder {
    fn step(&mut self, step: &Step<'_>) -> Control {
        let Some(builder) = &mut self.builder else {
            return Control::Stop(Bailout::GaveUp);
        };
        match builder.step(step) {
            Flow::Continue => Control::Continue,
            Flow::Stop(reason) => Control::Stop(reason),
            Flow::End(end) => {
                let trace = self.builder.take().map(|builder| builder.finish(end));
                trace.map_or(Control::Stop(Bailout::GaveUp), |trace| {
                    self.engine.complete(step.program, self.site, &trace)
                })
            }
        }
    }
}
