//! Recording: watches the interpreter until a trace is complete, then has it compiled.
//!
//! The recorder runs inside the interpreter's loop, so it does as little as it can: one step of
//! the builder per operation. Translation and code generation happen on the engine's thread; the
//! interpreter goes on meanwhile, and the code is installed when the site is hot again. Tests ask
//! for code at once instead.

use std::sync::Arc;

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Control, Recorder, Step};

use super::build::{Builder, Flow, Start};
use super::ir::Trace;
use super::make::Maker;
use super::worker::{Job, Order, Worker};

/// What recorders need of their tier.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) maker: Arc<Maker>,
    /// Compiles behind the interpreter's back; without it, code is made at once.
    pub(crate) worker: Option<Worker>,
}

impl Engine {
    /// What the interpreter does with a complete trace.
    fn complete(&self, program: &Arc<Program>, site: SiteId, trace: Trace) -> Control {
        match &self.worker {
            Some(worker) => {
                let order = Order { program: Arc::downgrade(program), site, trace };
                match worker.submit((program.id(), site), order, &self.maker) {
                    Ok(()) => Control::Pending,
                    Err(reason) => Control::Stop(reason),
                }
            }
            None => {
                self.maker.make(program, site, trace).map_or_else(Control::Stop, Control::Finish)
            }
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
    program: Arc<Program>,
    site: SiteId,
    /// Taken when the trace is complete.
    builder: Option<Builder>,
}

impl TraceRecorder {
    /// A recorder for a site, or the reason why there is none.
    pub(crate) fn new(
        engine: Arc<Engine>,
        program: &Arc<Program>,
        site: SiteId,
    ) -> Result<Self, Bailout> {
        let place = program.code().sites.get(site.0 as usize);
        let func = place.and_then(|place| Some((place, program.function(place.func)?)));
        let Some((place, func)) = func else {
            return Err(Bailout::Unsupported { what: "a site without bytecode".to_owned() });
        };
        let start = Start { pc: place.pc, is_loop: place.is_loop };
        let builder = Some(Builder::new(program, func, start));
        Ok(Self { engine, program: Arc::clone(program), site, builder })
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
                    self.engine.complete(&self.program, self.site, trace)
                })
            }
        }
    }
}
