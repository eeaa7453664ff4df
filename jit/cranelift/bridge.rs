//! Exits of traces that are taken often: what goes on there is recorded too, as a *bridge*.
//!
//! Every exit that a guard leaves by ends with a jump to the address in its cell. That returns to
//! the interpreter until a bridge is there; published code is never written again. A bridge is a
//! trace that starts where the exit leaves, with every register in its place, and it has exits and
//! bridges of its own. When a trace has as many as [`MAX`], or what goes on cannot be recorded, its
//! function is compiled whole instead.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use reflex_vm::abi::{CodePtr, SessionAbi};
use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;

use crate::engine::{Engine, NOBODY};
use crate::evict::Usage;

/// Most bridges of a trace, theirs included: beyond, ways through the code are too many.
const MAX: u32 = 6;
/// An exit matters when at least one run in so many leaves by it.
const RARE: u64 = 8;
/// Bits of an exit's number that say which of its trace's it is.
const EXIT_BITS: u32 = 24;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// What was done about an exit.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Bridges of it that were evicted, or for which there was no room.
    put_off: u32,
    /// Since when it may be asked for another; none while it has one.
    since: Option<u64>,
}

/// The exits of a trace.
#[derive(Debug)]
pub(crate) struct Exits {
    engine: Weak<Engine>,
    program: Weak<Program>,
    pub(crate) func: u32,
    /// Where the trace was recorded, or the one that it is a bridge of.
    pub(crate) site: SiteId,
    /// The trace among all of this process.
    pub(crate) id: u64,
    /// Times that the trace began, or began again, and whether it is gone.
    pub(crate) usage: Arc<Usage>,
    /// Times that each exit was taken.
    pub(crate) taken: Arc<[AtomicU64]>,
    /// Where each exit goes on.
    pub(crate) cells: Box<[AtomicPtr<u8>]>,
    /// Exits that something was done about.
    asked: Mutex<HashMap<u32, Asked>>,
    /// Bridges that were asked for in the whole family.
    family: Arc<AtomicU32>,
}

impl Exits {
    /// The exits of a trace of function `func`, which go on at `exit`; `parent` is the trace that
    /// it is a bridge of.
    pub(crate) fn new(
        engine: &Weak<Engine>,
        program: &Arc<Program>,
        (site, func): (SiteId, u32),
        (count, exit): (usize, CodePtr),
        parent: Option<&Exits>,
    ) -> Exits {
        Exits {
            engine: Weak::clone(engine),
            program: Arc::downgrade(program),
            func,
            site,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            usage: Arc::default(),
            taken: (0..count).map(|_| AtomicU64::new(0)).collect(),
            cells: (0..count).map(|_| AtomicPtr::new(exit.cast_mut())).collect(),
            asked: Mutex::default(),
            family: parent.map_or_else(Arc::default, |parent| Arc::clone(&parent.family)),
        }
    }

    /// Makes `bridge` what follows on an exit.
    pub(crate) fn link(&self, exit: u32, bridge: CodePtr) {
        self.cells[exit as usize].store(bridge.cast_mut(), Ordering::Release);
    }

    /// `bridge` follows on an exit no more; the interpreter does.
    pub(crate) fn unlink(&self, exit: u32, bridge: CodePtr, (end, threshold): (CodePtr, u64)) {
        let cell = &self.cells[exit as usize];
        let (bridge, end) = (bridge.cast_mut(), end.cast_mut());
        if cell.compare_exchange(bridge, end, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.put_off(exit, threshold);
        }
    }

    /// There is no bridge for an exit now. When it was taken as often again as `threshold`, twice
    /// that after the second time, and so on, it may be asked for another.
    pub(crate) fn put_off(&self, exit: u32, threshold: u64) {
        self.family.fetch_sub(1, Ordering::Relaxed);
        let taken = self.taken[exit as usize].load(Ordering::Relaxed);
        let mut asked = self.asked.lock();
        let asked = asked.entry(exit).or_default();
        let wait = threshold.saturating_mul(1 << asked.put_off.min(31));
        asked.put_off += 1;
        asked.since = Some(taken.saturating_add(wait));
    }

    /// What the bridge of an exit could not be made for.
    pub(crate) fn refuse(&self) {
        if let (Some(engine), Some(program)) = (self.engine.upgrade(), self.program.upgrade()) {
            engine.whole(&program, self.func, NOBODY);
        }
    }

    /// Exit number `exit`, as sessions name it.
    fn number(&self, exit: u32) -> u64 {
        self.id << EXIT_BITS | u64::from(exit)
    }

    /// The trace and the exit that a number stands for.
    pub(crate) fn of_number(number: u64) -> (u64, u32) {
        (number >> EXIT_BITS, (number & ((1 << EXIT_BITS) - 1)) as u32)
    }

    /// For the generated code: the trace leaves by `exit` for time number `taken`.
    ///
    /// # Safety
    /// `this` is the hook of a trace that runs in `session`.
    pub(crate) unsafe extern "C" fn report(
        this: *const Exits,
        session: *mut SessionAbi,
        exit: u32,
        taken: u64,
    ) {
        // SAFETY: by the contract; the trace's code keeps its hook.
        let exits = unsafe { &*this };
        if taken.saturating_mul(RARE) < exits.usage.runs.load(Ordering::Relaxed) {
            return;
        }
        // No panic may cross the generated frame; a function that cannot be compiled stays traced.
        let _ = reflex_runtime::function::guard(|| {
            if exits.is_due(exit, taken) {
                if exits.family.fetch_add(1, Ordering::Relaxed) < MAX {
                    // SAFETY: the session is live, and the code that runs in it waits for this call.
                    unsafe { (*session).hot_exit = exits.number(exit) };
                } else {
                    exits.refuse();
                }
            }
            Ok(())
        });
    }

    /// Whether it is time to ask for a bridge of an exit that was taken `taken` times; says so once.
    fn is_due(&self, exit: u32, taken: u64) -> bool {
        if u64::from(exit) >= 1 << EXIT_BITS {
            return false;
        }
        let mut asked = self.asked.lock();
        match asked.entry(exit) {
            Entry::Vacant(entry) => {
                entry.insert(Asked::default());
                true
            }
            Entry::Occupied(mut entry) => {
                let due = entry.get().since.is_some_and(|since| taken >= since);
                if due {
                    entry.get_mut().since = None;
                }
                due
            }
        }
    }
}
