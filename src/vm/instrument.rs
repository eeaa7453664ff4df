//! Watching every call of a session.
//!
//! Each call is seen, in the order in which the program makes it, in every mode. In sessions with machine
//! code, functions run code of their own under an instrument, which shows it their calls (`watched`).

use std::sync::Arc;

use reflex_runtime::error::Error;
use reflex_runtime::value::{Any, AnyView};

/// An operation that is a call in bytecode.
#[derive(Debug)]
pub struct CallSite {
    /// The VM function that calls.
    pub(crate) function: Arc<str>,
    pub(crate) instr: u32,
    /// The name of the callee, and its value.
    pub(crate) callee: Arc<str>,
    pub(crate) callable: Any,
    /// The register for the result.
    pub(crate) dst: u32,
    /// Where the arguments are lent: the first slot of the argument area, and how many.
    pub(crate) arg_area: u32,
    pub(crate) args: u32,
}

#[cfg(test)]
impl CallSite {
    /// A call without arguments.
    pub(crate) fn named(callee: &str) -> CallSite {
        let (function, callable) = ("main".into(), Any::NONE);
        CallSite {
            function,
            instr: 3,
            callee: callee.into(),
            callable,
            dst: 0,
            arg_area: 0,
            args: 0,
        }
    }
}

/// A call that is about to run or has run.
#[derive(Debug)]
pub struct CallEvent<'a> {
    pub(crate) site: &'a CallSite,
    pub(crate) args: &'a [AnyView<'a>],
}

impl<'a> CallEvent<'a> {
    /// The VM function that calls.
    pub fn function(&self) -> &'a str {
        &self.site.function
    }

    /// Its instruction.
    pub fn instr(&self) -> u32 {
        self.site.instr
    }

    /// The name of the callee.
    pub fn callee(&self) -> &'a str {
        &self.site.callee
    }

    /// The callee as a value: a packed function, or a closure of the program.
    pub fn callable(&self) -> AnyView<'a> {
        self.site.callable.view()
    }

    /// The arguments, before the call; empty after it, since the callee may have taken them.
    pub fn args(&self) -> &'a [AnyView<'a>] {
        self.args
    }
}

/// An instrument's decision about a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Run it.
    Run,
    /// Do not run it: its result is None, and `after` is not called.
    Skip,
}

/// Observes calls. An error that it returns ends the run as an error of the call would.
pub trait Instrument: Send {
    /// Before each call.
    fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, Error>;

    /// After each call that succeeded, with its result (None when it was discarded).
    fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>) -> Result<(), Error>;

    /// The run ended with an error; calls that were running have no `after`.
    fn aborted(&mut self) {}
}

/// An instrument that the host keeps while a session uses it.
impl<I: Instrument> Instrument for std::sync::Arc<parking_lot::Mutex<I>> {
    fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, Error> {
        self.lock().before(call)
    }

    fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>) -> Result<(), Error> {
        self.lock().after(call, result)
    }

    fn aborted(&mut self) {
        self.lock().aborted();
    }
}
