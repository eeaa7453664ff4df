//! The report of a failed run: the error, and where in the program it happened.

use std::fmt;

use reflex_runtime::error::Error;

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// A call failed, or a value was not what an operation needs.
    Failed,
    /// The fuel given to the session is used up.
    FuelExhausted,
    /// The deadline has passed.
    DeadlineExceeded,
    /// A [`crate::session::Canceller`] stopped the run.
    Cancelled,
    /// Calls are nested deeper than the session allows, or its register stack is full.
    StackOverflow,
}

/// One frame of a failed run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameInfo {
    /// The VM function.
    pub function: String,
    /// Its instruction, numbered from 0.
    pub instr: u32,
    /// The callee of that instruction, if it is a call.
    pub callee: Option<String>,
}

/// An error of a run, with the frames that were active.
///
/// One word, so that results of runs stay in registers.
#[derive(Debug)]
pub struct RunError(Box<Failure>);

#[derive(Debug)]
struct Failure {
    error: Error,
    reason: Reason,
    frames: Vec<FrameInfo>,
    depth: usize,
}

/// Frames listed at each end of a deep stack.
pub(crate) const LISTED: usize = 8;

impl RunError {
    pub(crate) fn new(reason: Reason, error: Error) -> RunError {
        RunError(Box::new(Failure { error, reason, frames: Vec::new(), depth: 0 }))
    }

    /// The same error with the frames that are listed of `depth` active ones.
    pub(crate) fn at(mut self, frames: Vec<FrameInfo>, depth: usize) -> RunError {
        (self.0.frames, self.0.depth) = (frames, depth);
        self
    }

    /// The error value: kind and message.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// Why the run ended.
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// Active frames, innermost first. Of a deep stack only the innermost and outermost
    /// are listed; [`RunError::depth`] counts all.
    pub fn frames(&self) -> &[FrameInfo] {
        &self.0.frames
    }

    /// Number of active frames.
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    /// The error as a value for other languages, with the frames at the end of its backtrace, in the
    /// form in which tvm-ffi shows them to Python. It is the object that was raised: what it carries,
    /// such as Python's exception, stays with it.
    pub fn into_error(self) -> Error {
        let line = |frame: &FrameInfo| {
            let FrameInfo { function, instr, callee } = frame;
            let calling = callee.as_ref().map(|callee| format!(", calling `{callee}`"));
            let calling = calling.unwrap_or_default();
            format!("  File \"<program>\", line {instr}, in function `{function}`{calling}\n")
        };
        let backtrace: String = self.0.frames.iter().map(line).collect();
        if !backtrace.is_empty() {
            self.0.error.append_backtrace(&backtrace);
        }
        self.0.error
    }
}

impl fmt::Display for FrameInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function `{}`, instruction {}", self.function, self.instr)?;
        match &self.callee {
            Some(callee) => write!(f, ", calling `{callee}`"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.error)?;
        for (at, frame) in self.0.frames.iter().enumerate() {
            if at == LISTED && self.0.depth > self.0.frames.len() {
                write!(f, "\n  ... {} more frames", self.0.depth - self.0.frames.len())?;
            }
            write!(f, "\n  in {frame}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RunError {}
