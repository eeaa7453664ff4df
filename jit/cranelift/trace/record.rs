//! Recording: watches the interpreter until a trace is complete, then compiles it.
//!
//! The recorder runs inside the interpreter's loop, so it does as little as it can: one step of
//! the builder per operation. When the trace is complete it is compiled at once, on the same
//! thread. (Compiling in the background needs a way to hand over the trace; the parts that would
//! move are `Engine::compile` and what it returns.)

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled, Control, Recorder, Step};

use super::build::{Builder, Flow, Start};
use super::codegen::{self, Attached};
use super::ir::Trace;
use crate::assemble::{Assembler, Published};
use crate::force::ForcedExits;
use crate::tier::bailout;

/// What recorders need of their tier.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) assembler: Assembler,
    pub(crate) force: Option<Arc<ForcedExits>>,
    /// Reports of the traces compiled so far.
    pub(crate) reports: Mutex<Vec<TraceReport>>,
}

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

impl Engine {
    fn compile(&self, program: &Program, site: SiteId, trace: &Trace) -> Result<Compiled, Bailout> {
        let taken: Arc<[AtomicU64]> = trace.exits.iter().map(|_| AtomicU64::new(0)).collect();
        let attached = Attached { taken: Arc::clone(&taken), force: self.force.clone() };
        let mut unit = self.assembler.unit();
        let entry = codegen::translate(&mut unit, program, trace, &attached)?;
        let code = self.assembler.publish(unit).map_err(bailout)?;
        let report = TraceReport {
            program: program.id(),
            site,
            text: trace.to_string(),
            code_bytes: code.size(),
            taken: Arc::clone(&taken),
        };
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        let address = code.address(entry);
        let owner = TraceCode { _code: code, _taken: taken, _force: attached.force };
        // SAFETY: the trace was recorded at this site and its code follows the protocol of
        // `reflex_vm::abi`; the owner keeps the code and all that it refers to, except for the
        // program, whose cells are the only way to reach it.
        Ok(unsafe { Compiled::new(address, Arc::new(owner)) })
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
                let compiled = trace
                    .ok_or(Bailout::GaveUp)
                    .and_then(|trace| self.engine.compile(step.program, self.site, &trace));
                compiled.map_or_else(Control::Stop, Control::Finish)
            }
        }
    }
}
