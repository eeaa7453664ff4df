//! The contract with tiers: code generators that take functions or traces over.
//!
//! The interpreter defines meaning. A tier compiles, or returns a named reason, which
//! the program counts. How machine code is entered and left is in [`crate::abi`]; what
//! it is made from is in [`crate::decode`].
//!
//! A program has at most one tier. In `compiled` sessions every function that the tier
//! compiled ahead runs natively. In `tiered` sessions the interpreter counts arrivals
//! at sites; a site that becomes hot is offered to the tier, which may ask to record.
//! While recording, the interpreter shows each operation to the recorder before it
//! runs it, through calls and returns, until the recorder finishes or gives up.

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
    /// Code that the tier does not translate.
    Unsupported {
        /// What it is.
        what: String,
    },
    /// No memory for code is left, or the system refuses executable pages.
    CodeMemoryFull,
    /// The code generator failed, or the system gives it no thread.
    Codegen {
        /// Its words.
        message: String,
    },
    /// The function calls itself, and is compiled whole instead.
    Recursive,
    /// The run was longer than traces may be; the function is compiled whole instead.
    TooLong,
    /// What the code was to follow on has been evicted meanwhile.
    Evicted,
    /// Recording met another loop, or native code, or never came back to its start.
    NoLoop,
    /// An error ended the run while recording.
    RunFailed,
    /// The site was tried too often and is left to the interpreter.
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

/// Machine code with what keeps it mapped.
#[derive(Clone, Debug)]
pub struct Compiled {
    code: CodePtr,
    _owner: Arc<dyn StdAny + Send + Sync>,
}

// SAFETY: the address is of immutable code, which its owner keeps.
unsafe impl Send for Compiled {}
// SAFETY: as for Send.
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

/// What to do with a hot site.
pub enum HotAction {
    /// Show the recorder what runs from here on.
    Record(Box<dyn Recorder>),
    /// Offer the site again after as many arrivals as it took this time.
    Backoff,
    /// Do not offer the site again.
    Blacklist(Bailout),
}

/// What a recorder sees: the operation about to run.
pub struct Step<'a> {
    /// The program.
    pub program: &'a Program,
    /// The function of the current frame.
    pub func: &'a FuncCode,
    /// The operation's number.
    pub pc: u32,
    /// The operation.
    pub op: Op,
    /// Frames above the one in which recording started; negative below it.
    pub depth: i32,
    /// The registers of the current frame.
    pub regs: &'a [AnyView<'a>],
    /// Of a return: where it goes, when that is a frame that the interpreter goes on in.
    pub caller: Option<CallerFrame>,
    /// Has the session let go of code that was evicted meanwhile, unless native code called this run.
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
    /// How many of the frames below, this one included, wait for that call; not more than
    /// [`CallerFrame::MAX_SCANNED`] are looked at.
    pub activations: u32,
}

impl CallerFrame {
    /// Most frames that are looked at.
    pub const MAX_SCANNED: u32 = 16;
}

/// What to do after a step.
pub enum Control {
    /// Run the operation and come back.
    Continue,
    /// The recording is complete: go on without recording. The tier installs its code when it is
    /// made.
    Finish,
    /// Give up.
    Abort(Bailout),
}

/// Watches the interpreter.
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

    /// How to enter and leave machine code.
    fn trampolines(&self) -> Trampolines;

    /// Compiles a whole VM function ahead of time.
    fn compile(&self, program: &Program, func: &FuncCode) -> Result<Compiled, Bailout>;

    /// A site has been reached [`Tier::hot_threshold`] times in one session.
    fn on_hot_site(&self, program: &Arc<Program>, site: SiteId) -> HotAction;

    /// Native code has left by exit number `exit` of [`crate::abi::SessionAbi::hot_exit`]: what
    /// watches the interpreter from there on, with the site that reasons to stop are counted at.
    /// The recorder installs what it makes itself.
    fn on_hot_exit(&self, program: &Arc<Program>, exit: u64)
    -> Option<(SiteId, Box<dyn Recorder>)>;

    /// Arrivals that make a site hot.
    fn hot_threshold(&self) -> u32;
}
