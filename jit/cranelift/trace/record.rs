//! Recording: watches the interpreter until a trace is complete, then has it compiled.
//!
//! The recorder runs inside the interpreter's loop, so it does as little as it can: one step of
//! the builder per operation. Translation and code generation happen on the engine's thread; the
//! interpreter goes on meanwhile, and the code is installed when the site is hot again. Tests ask
//! for code at once instead.

use std::sync::Arc;

use reflex_vm::decode::{SiteId, SiteKind};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Control, Recorder, Step};

use super::build::{Builder, Flow, Kind, Start};
use super::internal;
use crate::bridge::Exits;
use crate::engine::Engine;
use crate::tries::Chance;

/// Where the code of a trace is to run.
#[derive(Clone)]
pub(crate) enum Goal {
    /// At a site.
    Site(SiteId),
    /// Behind an exit of another trace.
    Exit(Arc<Exits>, u32),
}

/// Watches one run of one site, or from one exit on.
pub(crate) struct TraceRecorder {
    engine: Arc<Engine>,
    program: Arc<Program>,
    goal: Goal,
    /// Made by the first step from an exit; taken when the trace is complete.
    builder: Option<Builder>,
    begun: bool,
}

impl TraceRecorder {
    /// A recorder for a site, or the reason why there is none.
    pub(crate) fn new(
        engine: Arc<Engine>,
        program: &Arc<Program>,
        site: SiteId,
        chance: Chance,
    ) -> Result<Self, Bailout> {
        let place = program.code().sites.get(site.0 as usize);
        let func = place.and_then(|place| Some((place, program.function(place.func)?)));
        let Some((place, func)) = func else {
            return Err(internal("a site of no function"));
        };
        let kind = match place.kind {
            SiteKind::Entry => Kind::Entry,
            SiteKind::Loop => Kind::Loop,
            SiteKind::Return => Kind::Return,
        };
        let start = Start { pc: place.pc, kind, chance };
        let builder = Some(Builder::new(program, func, start, engine.trace_limit));
        Ok(Self {
            engine,
            program: Arc::clone(program),
            goal: Goal::Site(site),
            builder,
            begun: false,
        })
    }

    /// A recorder of what follows on an exit.
    pub(crate) fn after(
        engine: Arc<Engine>,
        program: &Arc<Program>,
        exits: Arc<Exits>,
        exit: u32,
    ) -> Self {
        let goal = Goal::Exit(exits, exit);
        Self { engine, program: Arc::clone(program), goal, builder: None, begun: false }
    }

    /// The reason to stop; who wanted a bridge gets something else.
    fn stop(&self, step: &Step<'_>, reason: Bailout) -> Control {
        match (&self.goal, &reason) {
            (Goal::Site(_), Bailout::Recursive) => {
                self.engine.whole(&self.program, step.func.index, step.quiesce);
            }
            (Goal::Site(site), Bailout::TooLong) => {
                let func = self.program.code().sites[site.0 as usize].func;
                self.engine.whole(&self.program, func, step.quiesce);
            }
            (Goal::Site(_), _) => {}
            (Goal::Exit(exits, _), _) => exits.refuse(),
        }
        Control::Abort(reason)
    }
}

impl Recorder for TraceRecorder {
    fn step(&mut self, step: &Step<'_>) -> Control {
        let begin = || {
            let start = Start { pc: step.pc, kind: Kind::Exit, chance: Chance::Last };
            Builder::new(step.program, step.func, start, self.engine.trace_limit)
        };
        if matches!(self.goal, Goal::Exit(..)) && !self.begun {
            self.builder = Some(begin());
        }
        self.begun = true;
        let Some(builder) = &mut self.builder else {
            return Control::Abort(Bailout::Blacklisted);
        };
        match builder.step(step) {
            Flow::Continue => Control::Continue,
            Flow::Stop(reason) => self.stop(step, reason),
            Flow::End(end) => {
                let Some(builder) = self.builder.take() else {
                    return Control::Abort(Bailout::Blacklisted);
                };
                let goal = self.goal.clone();
                let trace = builder.finish(end);
                match self.engine.complete(&self.program, goal, trace, step.quiesce) {
                    Ok(()) => Control::Finish,
                    Err(reason) => Control::Abort(reason),
                }
            }
        }
    }
}
