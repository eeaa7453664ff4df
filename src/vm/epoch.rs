//! Epoch-based reclamation of machine code: code is freed once no session can be inside of it.
//!
//! Code is released in two steps. Every cell that leads to it is set to
//! [`crate::abi::Trampolines::exit`]; then it is *retired*: kept until each running session has
//! pinned a later epoch, or has since been quiescent, which means that it held no address of code.
//! A session pins the epoch in its [`Participant`] when a run of the host begins and unpins it when
//! the run ends. In between it repins whenever native code came back to its outermost interpreter
//! loop, after it redirected the return addresses of its frames to the interpreter
//! ([`crate::state::State::quiesce`]). The last session to unpin frees the code.
//!
//! The pin must be visible before the session loads a cell, which takes a fence in each run.
//! Instead, the thread that retires code has the kernel send every thread of the process through a
//! fence (`membarrier`). Where the kernel does not offer that, sessions fence.
//!
//! Rejected: reference counts of the sessions in each piece of code (two atomic operations whenever
//! native code is entered), and hazard pointers (native code calls native code, so each
//! call would publish its callee).

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::membarrier;

/// A session as a participant: the epoch that it pins, which is the one in which its run began or
/// it was last quiescent; zero between runs. On a cache line of its own: it is written in each run.
#[derive(Default)]
#[repr(align(64))]
pub struct Participant(AtomicU64);

/// The global epoch of a program, its participants, and retired code.
pub struct Epochs {
    current: AtomicU64,
    /// True if sessions fence, since the kernel offers no `membarrier`.
    fences: bool,
    participants: Mutex<Vec<Arc<Participant>>>,
    retired: Mutex<Vec<Retired>>,
}

/// Code that sessions may still execute.
struct Retired {
    /// The epoch that every pinned session must have reached; none if the barrier failed, so that
    /// no pin tells.
    epoch: Option<u64>,
    _code: Box<dyn Any + Send>,
}

impl Epochs {
    pub fn new() -> Epochs {
        static OFFERED: OnceLock<bool> = OnceLock::new();
        let offered = *OFFERED.get_or_init(membarrier::is_offered);
        Epochs {
            current: AtomicU64::new(1),
            fences: !offered,
            participants: Mutex::default(),
            retired: Mutex::default(),
        }
    }

    /// The participant of a new session.
    pub fn register(&self) -> Arc<Participant> {
        let pin = Arc::new(Participant::default());
        self.participants.lock().push(Arc::clone(&pin));
        pin
    }

    /// Removes the participant of a session that is gone.
    pub fn unregister(&self, pin: &Arc<Participant>) {
        self.participants.lock().retain(|other| !Arc::ptr_eq(other, pin));
    }

    /// Pins the current epoch: a run begins, and may load cells from here on.
    #[inline(always)]
    pub fn pin(&self, pin: &Participant) {
        pin.0.store(self.current.load(Ordering::Acquire), Ordering::Relaxed);
        if self.fences {
            fence(Ordering::SeqCst);
        } else {
            // Pairs with the process-wide barrier in `retire`.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Unpins: the run ended, and the session holds no address of code.
    #[inline(always)]
    pub fn unpin(&self, pin: &Participant) {
        let pinned = pin.0.load(Ordering::Relaxed);
        pin.0.store(0, Ordering::Release);
        if pinned != self.current.load(Ordering::Relaxed) {
            self.reclaim();
        }
    }

    /// Returns true if code was retired since the session pinned its epoch.
    #[inline(always)]
    pub fn is_stale(&self, pin: &Participant) -> bool {
        pin.0.load(Ordering::Relaxed) != self.current.load(Ordering::Relaxed)
    }

    /// Pins the current epoch anew: the session runs, and holds no address of code that was in a
    /// cell before.
    pub fn repin(&self, pin: &Participant) {
        pin.0.store(self.current.load(Ordering::Acquire), Ordering::Release);
        self.reclaim();
    }

    /// Retires code that no cell leads to any more.
    ///
    /// A session that loaded its address from a cell did so before the cells were changed. It wrote
    /// its pin before that, and the barrier makes the write visible to every later reader of the
    /// pins; the pin is less than the new epoch, since a session that reads the new epoch also
    /// sees the changed cells.
    pub fn retire(&self, code: Box<dyn Any + Send>) {
        let epoch = self.current.fetch_add(1, Ordering::SeqCst) + 1;
        fence(Ordering::SeqCst);
        let visible = self.fences || membarrier::all_threads();
        let epoch = visible.then_some(epoch);
        self.retired.lock().push(Retired { epoch, _code: code });
    }

    /// Frees retired code that no session can be in. Returns true if some remains.
    pub fn reclaim(&self) -> bool {
        let mut retired = self.retired.lock();
        if retired.is_empty() {
            return false;
        }
        let participants = self.participants.lock();
        let pinned = participants
            .iter()
            .map(|pin| pin.0.load(Ordering::Acquire))
            .filter(|&epoch| epoch != 0);
        let oldest = pinned.min().unwrap_or(u64::MAX);
        drop(participants);
        let is_free = |it: &mut Retired| it.epoch.is_some_and(|epoch| epoch <= oldest);
        let free: Vec<Retired> = retired.extract_if(.., is_free).collect();
        let remains = !retired.is_empty();
        drop(retired);
        // Pages are released outside of the lock.
        drop(free);
        remains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stand-in for code, and a weak reference that tells if it is still kept.
    fn code() -> (Box<dyn Any + Send>, std::sync::Weak<()>) {
        let owner = Arc::new(());
        let kept = Arc::downgrade(&owner);
        (Box::new(owner), kept)
    }

    #[test]
    fn code_stays_until_the_sessions_that_ran_have_unpinned() {
        let epochs = Epochs::new();
        let (early, late, idle) = (epochs.register(), epochs.register(), epochs.register());
        epochs.pin(&early);
        let (first, first_kept) = code();
        epochs.retire(first);
        assert!(epochs.reclaim(), "a session is inside");
        // Later runs cannot have found it.
        epochs.pin(&late);
        let (second, second_kept) = code();
        epochs.retire(second);
        epochs.unpin(&early);
        assert!(first_kept.upgrade().is_none());
        assert!(second_kept.upgrade().is_some(), "the late session is inside");
        assert!(epochs.is_stale(&late));
        epochs.repin(&late);
        assert!(second_kept.upgrade().is_none() && !epochs.is_stale(&late));
        epochs.unpin(&late);
        epochs.unregister(&idle);
        assert_eq!(epochs.participants.lock().len(), 2);
    }

    #[test]
    fn code_that_no_session_runs_is_freed_at_once() {
        let epochs = Epochs::new();
        let _idle = epochs.register();
        let (code, kept) = code();
        epochs.retire(code);
        assert!(!epochs.reclaim());
        assert!(kept.upgrade().is_none());
    }
}
