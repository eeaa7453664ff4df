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
use crate::engine::Engine;

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
        let builder = Some(Builder::new(program, func, start, engine.trace_limit));
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
            Flow::Stop(reason) => {
                if reason == Bailout::Recursive {
                    self.engine.whole(&self.program, step.func.index);
                }
                Control::Stop(reason)
            }
            Flow::End(end) => {
                let Some(builder) = self.builder.take() else {
                    return Control::Stop(Bailout::GaveUp);
                };
                match self.engine.complete(&self.program, self.site, builder.finish(end)) {
                    Ok(Some(compiled)) => Control::Finish(compiled),
                    Ok(None) => Control::Pending,
                    Err(reason) => Control::Stop(reason),
                }
            }
        }
    }
}
