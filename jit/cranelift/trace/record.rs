//! Recording: follows the interpreter until a trace is complete, then has it compiled.
//!
//! The recorder runs inside the interpreter's loop, so it does as little as it can: one step of the
//! builder per operation. The trace is compiled in the background while the interpreter runs,
//! and its code is installed as soon as it is ready. Tests compile synchronously instead.

use std::sync::Arc;

use reflex_vm::decode::{SiteId, SiteKind};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Control, Recorder, Step};

use super::build::{RecordingLimits, StartKind, StepOutcome, TraceBuilder, TraceStart};
use super::internal;
use super::ir::Trace;
use crate::penalty::Attempt;
use crate::side_exits::ExitRef;

/// The position that a trace is recorded for, where its code is installed.
#[derive(Clone)]
pub(crate) enum TraceAnchor {
    /// A site: the trace is a root trace.
    Site(SiteId),
    /// A side exit of another trace: the trace is a side trace.
    SideExit(ExitRef),
}

/// Receives the outcome of recordings.
pub(crate) trait TraceSink: Send + Sync {
    /// Most instructions of a trace.
    fn trace_limit(&self) -> usize;

    /// Returns true if a function is or will be compiled as a method.
    fn is_method(&self, program: &Program, func: u32) -> bool;

    /// Compiles a complete trace. `step` is the last one of its recording.
    fn complete(
        &self,
        program: &Arc<Program>,
        anchor: TraceAnchor,
        trace: Trace,
        step: &Step<'_>,
    ) -> Result<(), Bailout>;

    /// Compiles a function as a method, because a trace of it would not do.
    fn compile_method(&self, program: &Arc<Program>, func: u32, step: &Step<'_>);
}

/// The bounds of a recording of this program.
fn limits(sink: &Arc<dyn TraceSink>, program: &Arc<Program>) -> RecordingLimits {
    let operations = sink.trace_limit();
    let (sink, program) = (Arc::clone(sink), Arc::clone(program));
    let is_method = Box::new(move |func| sink.is_method(&program, func));
    RecordingLimits { operations, is_method }
}

/// Records one run from a site, or from a side exit.
pub(crate) struct TraceRecorder {
    sink: Arc<dyn TraceSink>,
    program: Arc<Program>,
    anchor: TraceAnchor,
    /// Created by the first step from a side exit; taken when the trace is complete.
    builder: Option<TraceBuilder>,
    begun: bool,
}

impl TraceRecorder {
    /// A recorder of a root trace, or why the site cannot be recorded.
    pub(crate) fn at_site(
        sink: Arc<dyn TraceSink>,
        program: &Arc<Program>,
        id: SiteId,
        attempt: Attempt,
    ) -> Result<Self, Bailout> {
        let site = program.code().sites.get(id.0 as usize);
        let func = site.and_then(|site| Some((site, program.function(site.func)?)));
        let Some((site, func)) = func else {
            return Err(internal("a site of no function"));
        };
        let kind = match site.kind {
            SiteKind::Entry => StartKind::Entry,
            SiteKind::Loop => StartKind::Loop,
            SiteKind::Return => StartKind::Return,
        };
        let start = TraceStart { pc: site.pc, kind, attempt };
        let builder = Some(TraceBuilder::new(program, func, start, limits(&sink, program)));
        let program = Arc::clone(program);
        Ok(Self { sink, program, anchor: TraceAnchor::Site(id), builder, begun: false })
    }

    /// A recorder of a side trace.
    pub(crate) fn at_side_exit(
        sink: Arc<dyn TraceSink>,
        program: &Arc<Program>,
        exit: ExitRef,
    ) -> Self {
        let anchor = TraceAnchor::SideExit(exit);
        Self { sink, program: Arc::clone(program), anchor, builder: None, begun: false }
    }

    /// Aborts the recording; the function is compiled as a method where that helps.
    fn abort(&self, step: &Step<'_>, reason: Bailout) -> Control {
        match (&self.anchor, &reason) {
            (TraceAnchor::Site(_), Bailout::Recursive) => {
                self.sink.compile_method(&self.program, step.func.index, step);
            }
            (TraceAnchor::Site(site), Bailout::TooLong) => {
                let func = self.program.code().sites[site.0 as usize].func;
                self.sink.compile_method(&self.program, func, step);
            }
            (TraceAnchor::Site(_), _) => {}
            (TraceAnchor::SideExit(from), _) => from.exits.fall_back_to_method(),
        }
        Control::Abort(reason)
    }
}

impl Recorder for TraceRecorder {
    fn step(&mut self, step: &Step<'_>) -> Control {
        let begin = || {
            let start =
                TraceStart { pc: step.pc, kind: StartKind::SideExit, attempt: Attempt::Last };
            TraceBuilder::new(step.program, step.func, start, limits(&self.sink, &self.program))
        };
        if matches!(self.anchor, TraceAnchor::SideExit(_)) && !self.begun {
            self.builder = Some(begin());
        }
        self.begun = true;
        let Some(builder) = &mut self.builder else {
            return Control::Abort(Bailout::Blacklisted);
        };
        match builder.step(step) {
            StepOutcome::Continue => Control::Continue,
            StepOutcome::Abort(reason) => self.abort(step, reason),
            StepOutcome::Complete(end) => {
                let Some(builder) = self.builder.take() else {
                    return Control::Abort(Bailout::Blacklisted);
                };
                let trace = builder.finish(end);
                match self.sink.complete(&self.program, self.anchor.clone(), trace, step) {
                    Ok(()) => Control::Finish,
                    Err(reason) => Control::Abort(reason),
                }
            }
        }
    }
}
