//! The contract with tiers: code generators that take functions or traces over.
//!
//! The interpreter defines meaning. A tier compiles, or bails out with a named reason (LuaJIT: a
//! trace abort), which the program counts. The protocol by which machine code is entered and left
//! is in [`crate::abi`]; its input is in [`crate::decode`].
//!
//! A program has at most one tier. In `compiled` sessions every function that the tier
//! method-compiled ahead of time runs natively. In `tiered` sessions the interpreter counts
//! arrivals at sites down with hot counters; a site that becomes hot is offered to the tier, which
//! may start to record a trace. While recording, the interpreter shows each operation to the
//! recorder before it runs it, through calls and returns, until the recorder finishes or aborts.

use std::any::Any as StdAny;
use std::fmt;
use std::sync::Arc;

use reflex_runtime::value::AnyView;

use crate::abi::{CodePtr, Trampolines};
use crate::decode::{FuncCode, Op, SiteId};
use crate::program::Program;

/// Why a tier did not compile. The program counts these by [`Bailout::name`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Bailout {
    /// Code that the tier does not translate (LuaJIT: NYI).
    Unsupported {
        /// A description of the code.
        what: String,
    },
    /// No memory for code is left, or the system refuses executable pages.
    CodeMemoryFull,
    /// The code generator failed, or the system gives it no thread.
    Codegen {
        /// Its message.
        message: String,
    },
    /// The function calls itself, and is method-compiled instead.
    Recursive,
    /// The trace became longer than the limit; the function is method-compiled instead.
    TooLong,
    /// The parent trace was evicted meanwhile.
    Evicted,
    /// Recording met another loop, or native code, or left the loop without closing it.
    NoLoop,
    /// An error ended the run while recording.
    RunFailed,
    /// The site was recorded too often without success and is left to the interpreter.
    Blacklisted,
}

impl Bailout {
    /// A short name to count by.
    pub fn name(&self) -> &'static str {
        match self {
            Bailout::Unsupported { .. } => "unsupported",
            Bailout::CodeMemoryFull => "code-memory-full",
            Bailout::Codegen { .. } => "codegen",
            Bailout::Recursive => "recursive",
            Bailout::TooLong => "too-long",
            Bailout::Evicted => "evicted",
            Bailout::NoLoop => "no-loop",
            Bailout::RunFailed => "run-failed",
            Bailout::Blacklisted => "blacklisted",
        }
    }
}

impl fmt::Display for Bailout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bailout::Unsupported { what } => write!(f, "unsupported: {what}"),
            Bailout::Codegen { message } => write!(f, "code generator: {message}"),
            other => f.write_str(other.name()),
        }
    }
}

/// Machine code, and the owner that keeps it mapped.
#[derive(Clone, Debug)]
pub struct Compiled {
    code: CodePtr,
    _owner: Arc<dyn StdAny + Send + Sync>,
}

// SAFETY: the address is of immutable code, which `_owner` keeps mapped on any thread.
unsafe impl Send for Compiled {}
// SAFETY: as for Send: shared use only reads the address.
unsafe impl Sync for Compiled {}

impl Compiled {
    /// Code at `code`, kept executable by `owner`.
    ///
    /// # Safety
    /// Until `owner` is dropped, `code` is a function in the `tail` convention that
    /// follows the protocol of [`crate::abi`] for the site it is made for.
    pub unsafe fn new(code: CodePtr, owner: Arc<dyn StdAny + Send + Sync>) -> Compiled {
        Compiled { code, _owner: owner }
    }

    /// The entry address.
    pub fn code(&self) -> CodePtr {
        self.code
    }
}

/// The code whose calls and jumps arrive at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalFrom {
    /// The interpreter.
    Interpreter,
    /// A method, which has called a function without code.
    NativeCode,
}

/// The tier's decision about a hot site.
pub enum HotAction {
    /// Start to record: show the recorder each operation from here on.
    Record(Box<dyn Recorder>),
    /// Back off: reset the hot counter, so that the site is offered again later.
    Backoff,
    /// Never offer the site again.
    Blacklist(Bailout),
}

/// One recorded step: the operation about to run, and the state that it runs in.
pub struct Step<'a> {
    /// The program.
    pub program: &'a Program,
    /// The function of the current frame.
    pub func: &'a FuncCode,
    /// The operation's number.
    pub pc: u32,
    /// The operation.
    pub op: Op,
    /// The depth of the current frame, relative to the one in which recording started.
    pub depth: i32,
    /// The registers of the current frame.
    pub regs: &'a [AnyView<'a>],
    /// For a return: the frame that it returns to, if the interpreter continues there.
    pub caller: Option<CallerFrame>,
    /// Announces a quiescent state of the session, so that evicted code can be freed, unless native
    /// code called this run.
    pub quiesce: &'a dyn Fn(),
}

/// A frame that waits for a call to return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallerFrame {
    /// Its function.
    pub func: u32,
    /// The operation after the call.
    pub return_pc: u32,
    /// The register for the result, or [`crate::abi::DISCARD`].
    pub dst: u32,
    /// Activations of that same call: frames that return to the same operation of the same
    /// function, among this one and the next [`CallerFrame::MAX_SCANNED`] below it.
    pub activations: u32,
}

impl CallerFrame {
    /// Most frames that are scanned.
    pub const MAX_SCANNED: u32 = 16;
}

/// The recorder's decision after a step.
pub enum Control {
    /// Run the operation and record the next one.
    Continue,
    /// The recording is complete: go on without recording. The tier installs the code when it has
    /// compiled it.
    Finish,
    /// The recording is aborted.
    Abort(Bailout),
}

/// Records a trace of the interpreter.
pub trait Recorder: Send {
    /// Called before each operation runs.
    fn step(&mut self, step: &Step<'_>) -> Control;
}

/// A code generator.
///
/// # Safety
/// The functions in [`Tier::trampolines`] do what [`Trampolines`] says, for as long as the process
/// runs.
pub unsafe trait Tier: Send + Sync {
    /// A name for reports.
    fn name(&self) -> &'static str;

    /// The trampolines into and out of machine code.
    fn trampolines(&self) -> Trampolines;

    /// Compiles a VM function ahead of time (method compilation).
    fn compile(&self, program: &Program, func: &FuncCode) -> Result<Compiled, Bailout>;

    /// Called when an instrument first watches a run of `func` in a session with machine code: compiles
    /// the function with [`crate::abi::Libcalls::before_call`] and
    /// [`crate::abi::Libcalls::after_call`] around each call, now or later, for
    /// [`Program::install_watched`]. Refusals are counted.
    fn compile_watched(&self, program: &Arc<Program>, func: &FuncCode);

    /// Called when a site has been reached [`Tier::hot_threshold`] times in one session, the last time
    /// from `from`.
    fn on_hot_site(&self, program: &Arc<Program>, site: SiteId, from: ArrivalFrom) -> HotAction;

    /// Called when native code has taken the hot side exit `exit` (see
    /// [`crate::abi::SessionAbi::hot_exit`]). Returns a recorder of a side trace from there, which
    /// installs its code itself, and the site at which bailouts are counted.
    fn on_hot_exit(&self, program: &Arc<Program>, exit: u64)
    -> Option<(SiteId, Box<dyn Recorder>)>;

    /// Arrivals that make a site hot.
    fn hot_threshold(&self) -> u32;
}
