//! Side exits of traces, and the side traces that are linked to hot ones.
//!
//! Every guard that fails leaves its trace by a *side exit*, which ends with a jump to the address
//! in its cell. That address returns to the interpreter until a *side trace* is linked there
//! (LuaJIT's term; PyPy calls it a bridge); published code is never patched. A side trace starts
//! where the exit leaves, with every register in its slot, and has side exits of its own. When a
//! tree of traces has [`MAX_SIDE_TRACES`] of them, or the continuation cannot be recorded, the
//! function is compiled as a method instead.
//!
//! Decision: docs/decisions/0012-traces-and-method-compilation.md

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use reflex_vm::abi::{CodePtr, SessionAbi};
use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;

use crate::usage::Usage;

/// Most side traces in one tree of traces: beyond, the paths through the code are too many.
const MAX_SIDE_TRACES: u32 = 6;
/// An exit is hot only if at least one in this many runs leaves by it.
const MIN_EXIT_SHARE: u64 = 8;
/// Low bits of an exit's number, which index the exits of its trace; the rest is the trace.
const EXIT_BITS: u32 = 24;

static NEXT_TRACE: AtomicU64 = AtomicU64::new(1);

/// Compiles functions as methods, when traces do not cover their paths.
pub(crate) trait MethodCompiler: fmt::Debug + Send + Sync {
    /// Compiles a function of a program as a method, once.
    fn request_method(&self, program: &Arc<Program>, func: u32);
}

/// When a side exit whose side trace is gone may get another one.
#[derive(Clone, Copy, Debug, Default)]
struct BackOff {
    /// Side traces that were evicted, or did not fit the code-cache budget.
    failures: u32,
    /// Exits taken from which on another side trace may be recorded; `None` while there is one.
    due: Option<u64>,
}

/// The origin of a trace: what it was recorded for.
pub(crate) struct TraceOrigin<'p> {
    pub(crate) program: &'p Arc<Program>,
    /// The site of the trace, or of the root of its tree.
    pub(crate) site: SiteId,
    /// The function that the trace starts in.
    pub(crate) func: u32,
    /// The exits of the parent, if it is a side trace.
    pub(crate) parent: Option<&'p SideExits>,
}

/// The side exits of a trace.
#[derive(Debug)]
pub(crate) struct SideExits {
    compiler: Weak<dyn MethodCompiler>,
    program: Weak<Program>,
    func: u32,
    /// The site where the trace, or the root of its tree, was recorded.
    pub(crate) site: SiteId,
    /// Number of the trace, unique in this process.
    pub(crate) id: u64,
    /// Counts the runs and iterations of the trace, and whether it was evicted.
    pub(crate) usage: Arc<Usage>,
    /// Times that each exit was taken.
    pub(crate) taken: Arc<[AtomicU64]>,
    /// The address that each exit jumps to.
    pub(crate) cells: Box<[AtomicPtr<u8>]>,
    back_offs: Mutex<HashMap<u32, BackOff>>,
    /// Side traces requested in the tree of traces.
    side_traces: Arc<AtomicU32>,
}

/// A side exit of a trace.
#[derive(Clone, Debug)]
pub(crate) struct ExitRef {
    pub(crate) exits: Arc<SideExits>,
    pub(crate) exit: u32,
}

/// Where exits without a side trace lead, and when they become hot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExitPolicy {
    /// Code that returns to the interpreter.
    pub(crate) interpreter: CodePtr,
    /// Failures after which a side trace may be recorded; a power of two.
    pub(crate) threshold: u64,
}

// SAFETY: `interpreter` is the address of immutable code of the process, and is only compared and
// stored in cells.
unsafe impl Send for ExitPolicy {}
// SAFETY: shared references give out copies of the same address.
unsafe impl Sync for ExitPolicy {}

impl SideExits {
    /// `count` exits, which all return to the interpreter.
    pub(crate) fn new(
        compiler: Weak<dyn MethodCompiler>,
        origin: &TraceOrigin<'_>,
        count: usize,
        policy: ExitPolicy,
    ) -> SideExits {
        let cell = |_| AtomicPtr::new(policy.interpreter.cast_mut());
        let tree = origin.parent.map(|parent| Arc::clone(&parent.side_traces));
        SideExits {
            compiler,
            program: Arc::downgrade(origin.program),
            func: origin.func,
            site: origin.site,
            id: NEXT_TRACE.fetch_add(1, Ordering::Relaxed),
            usage: Arc::default(),
            taken: (0..count).map(|_| AtomicU64::new(0)).collect(),
            cells: (0..count).map(cell).collect(),
            back_offs: Mutex::default(),
            side_traces: tree.unwrap_or_default(),
        }
    }

    /// Links a side trace to an exit.
    pub(crate) fn link(&self, exit: u32, side_trace: CodePtr) {
        self.cells[exit as usize].store(side_trace.cast_mut(), Ordering::Release);
    }

    /// Unlinks a side trace: the exit returns to the interpreter again.
    pub(crate) fn unlink(&self, exit: u32, side_trace: CodePtr, policy: ExitPolicy) {
        let cell = &self.cells[exit as usize];
        let (old, new) = (side_trace.cast_mut(), policy.interpreter.cast_mut());
        if cell.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.back_off(exit, policy.threshold);
        }
    }

    /// Backs off: the exit has no side trace now. It may get another one when it was taken
    /// `threshold` times more; each failure after the first doubles that number.
    pub(crate) fn back_off(&self, exit: u32, threshold: u64) {
        self.side_traces.fetch_sub(1, Ordering::Relaxed);
        let taken = self.taken[exit as usize].load(Ordering::Relaxed);
        let mut all = self.back_offs.lock();
        let state = all.entry(exit).or_default();
        let wait = threshold.saturating_mul(1 << state.failures.min(31));
        state.failures += 1;
        state.due = Some(taken.saturating_add(wait));
    }

    /// Compiles the function as a method, because a side trace cannot be made.
    pub(crate) fn fall_back_to_method(&self) {
        if let (Some(compiler), Some(program)) = (self.compiler.upgrade(), self.program.upgrade()) {
            compiler.request_method(&program, self.func);
        }
    }

    /// The number by which sessions refer to an exit.
    fn number(&self, exit: u32) -> u64 {
        self.id << EXIT_BITS | u64::from(exit)
    }

    /// The trace and the exit that a number refers to.
    pub(crate) fn of_number(number: u64) -> (u64, u32) {
        (number >> EXIT_BITS, (number & ((1 << EXIT_BITS) - 1)) as u32)
    }

    /// Called by generated code when `exit` has been taken `taken` times, a multiple of the exit
    /// threshold. Asks the session to record a side trace if the exit is hot.
    ///
    /// # Safety
    /// `this` points to the exits of a trace that runs in `session`, and `session` is live.
    pub(crate) unsafe extern "C" fn report(
        this: *const SideExits,
        session: *mut SessionAbi,
        exit: u32,
        taken: u64,
    ) {
        // SAFETY: the caller is the trace, whose code owns these exits, see `# Safety`.
        let exits = unsafe { &*this };
        if taken.saturating_mul(MIN_EXIT_SHARE) < exits.usage.runs() {
            return;
        }
        // A panic must not unwind through the generated frame. A function that cannot be compiled
        // stays traced.
        let _ = reflex_runtime::function::guard(|| {
            if exits.is_due(exit, taken) {
                if exits.side_traces.fetch_add(1, Ordering::Relaxed) < MAX_SIDE_TRACES {
                    // SAFETY: the session is live, see `# Safety`, and its thread waits here.
                    unsafe { (*session).hot_exit = exits.number(exit) };
                } else {
                    exits.fall_back_to_method();
                }
            }
            Ok(())
        });
    }

    /// Returns true, once, if an exit that was taken `taken` times may get a side trace.
    fn is_due(&self, exit: u32, taken: u64) -> bool {
        if u64::from(exit) >= 1 << EXIT_BITS {
            return false;
        }
        let mut all = self.back_offs.lock();
        match all.entry(exit) {
            Entry::Vacant(entry) => {
                entry.insert(BackOff::default());
                true
            }
            Entry::Occupied(mut entry) => {
                let due = entry.get().due.is_some_and(|due| taken >= due);
                if due {
                    entry.get_mut().due = None;
                }
                due
            }
        }
    }
}
