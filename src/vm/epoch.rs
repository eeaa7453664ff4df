//! When machine code may be freed: once no session can be inside of it.
//!
//! Code is given up in two steps. Every cell that leads to it is set to
//! [`crate::abi::Trampolines::exit`]; then it is *retired*: kept until each session that runs has
//! begun its run later, or has since been where it holds no address of code. A session
//! notes the epoch in its [`Pin`] when a run of the host begins and clears it when the run
//! ends; in between it notes it anew whenever native code came back to its outermost
//! interpreter loop, after it let the frames go on in the interpreter
//! ([`crate::state::State::refresh`]). The last session to leave frees the code.
//!
//! The note must be visible before the session looks at a cell, which takes a fence in
//! each run. Instead, who retires code has the kernel send every thread of the process
//! through one (`membarrier`). Where the kernel does not offer that, sessions fence.
//!
//! Rejected: counts of the sessions in each piece of code (two atomic operations whenever
//! native code is entered), and hazard pointers (native code calls native code, so each
//! call would publish its callee).

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::state::{State, header};
use crate::tier::Compiled;

/// The epoch in which a session's run began, or was last known to hold no address of code;
/// zero between runs. On a cache line of its own: it is written in each run.
#[derive(Default)]
#[repr(align(64))]
pub struct Pin(AtomicU64);

/// The epoch of a program, its sessions, and code that waits for them.
pub struct Epochs {
    current: AtomicU64,
    /// Whether sessions fence, since nobody else can.
    fences: bool,
    pins: Mutex<Vec<Arc<Pin>>>,
    retired: Mutex<Vec<Retired>>,
}

/// Code that sessions may still be in.
struct Retired {
    /// What every session must have reached; none when that will not be known.
    epoch: Option<u64>,
    _code: Vec<Compiled>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Epochs {
    pub fn new() -> Epochs {
        static OFFERED: OnceLock<bool> = OnceLock::new();
        let offered = *OFFERED.get_or_init(membarrier::is_offered);
        Epochs {
            current: AtomicU64::new(1),
            fences: !offered,
            pins: Mutex::default(),
            retired: Mutex::default(),
        }
    }

    /// The pin of a new session.
    pub fn register(&self) -> Arc<Pin> {
        let pin = Arc::new(Pin::default());
        lock(&self.pins).push(Arc::clone(&pin));
        pin
    }

    /// Forgets the pin of a session that is gone.
    pub fn forget(&self, pin: &Arc<Pin>) {
        lock(&self.pins).retain(|other| !Arc::ptr_eq(other, pin));
    }

    /// A run begins: cells may be looked at from here on.
    #[inline(always)]
    pub fn enter(&self, pin: &Pin) {
        pin.0.store(self.current.load(Ordering::Acquire), Ordering::Relaxed);
        if self.fences {
            fence(Ordering::SeqCst);
        } else {
            // `retire` has the other half, see there.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// The run ended: the session holds no address of code.
    #[inline(always)]
    pub fn leave(&self, pin: &Pin) {
        let began = pin.0.load(Ordering::Relaxed);
        pin.0.store(0, Ordering::Release);
        if began != self.current.load(Ordering::Relaxed) {
            self.reclaim();
        }
    }

    /// Whether something was retired since the session noted the epoch.
    #[inline(always)]
    pub fn is_behind(&self, pin: &Pin) -> bool {
        pin.0.load(Ordering::Relaxed) != self.current.load(Ordering::Relaxed)
    }

    /// The session runs, and holds no address of code that was in a cell before.
    pub fn renew(&self, pin: &Pin) {
        pin.0.store(self.current.load(Ordering::Acquire), Ordering::Release);
        self.reclaim();
    }

    /// Takes code that no cell leads to any more.
    ///
    /// A session that found it in a cell looked there before the cells were changed. It wrote its
    /// pin before that, and the barrier makes the write visible to whoever looks at pins from now
    /// on; the pin is less than the new epoch, since a session that reads the new one also sees
    /// the changed cells.
    pub fn retire(&self, code: Vec<Compiled>) {
        if code.is_empty() {
            return;
        }
        let epoch = self.current.fetch_add(1, Ordering::SeqCst) + 1;
        fence(Ordering::SeqCst);
        let visible = self.fences || membarrier::all_threads();
        let epoch = visible.then_some(epoch);
        lock(&self.retired).push(Retired { epoch, _code: code });
    }

    /// Frees what no session can be in. Whether there is more that waits.
    pub fn reclaim(&self) -> bool {
        let mut retired = lock(&self.retired);
        if retired.is_empty() {
            return false;
        }
        let pins = lock(&self.pins);
        let noted =
            pins.iter().map(|pin| pin.0.load(Ordering::Acquire)).filter(|&epoch| epoch != 0);
        let oldest = noted.min().unwrap_or(u64::MAX);
        drop(pins);
        let is_free = |it: &mut Retired| it.epoch.is_some_and(|epoch| epoch <= oldest);
        let free: Vec<Retired> = retired.extract_if(.., is_free).collect();
        let more = !retired.is_empty();
        drop(retired);
        // Pages are given back outside of the lock.
        drop(free);
        more
    }
}

impl State {
    /// A run begins; that of the host keeps code from being freed.
    ///
    /// # Safety
    /// `state` is live.
    #[inline(always)]
    pub unsafe fn enter(state: *mut State) {
        // SAFETY: by the contract.
        unsafe {
            (*state).runs += 1;
            if let (Some(pin), 1) = (&(*state).pin, (*state).runs) {
                (*state).program.epochs().enter(pin);
            }
        }
    }

    /// A run ended; that of the host lets code be freed.
    ///
    /// # Safety
    /// `state` is live, and its frames are those from before [`State::enter`].
    #[inline(always)]
    pub unsafe fn leave(state: *mut State) {
        // SAFETY: by the contract.
        unsafe {
            (*state).runs -= 1;
            if let (Some(pin), 0) = (&(*state).pin, (*state).runs) {
                (*state).program.epochs().leave(pin);
            }
        }
    }

    /// Lets code be freed that was evicted meanwhile, unless native code called this run.
    ///
    /// # Safety
    /// `state` is live, and the interpreter runs in it, holding no address of code.
    #[inline(always)]
    pub unsafe fn refresh(state: *mut State) {
        // SAFETY: by the contract.
        unsafe {
            if let Some(pin) = &(*state).pin
                && (*state).program.epochs().is_behind(pin)
            {
                State::refresh_frames(state, pin);
            }
        }
    }

    /// # Safety
    /// As for [`State::refresh`]; `pin` is the state's.
    #[cold]
    #[inline(never)]
    unsafe fn refresh_frames(state: *mut State, pin: &Pin) {
        // SAFETY: by the contract.
        if unsafe { (*state).runs } != 1 {
            // Native code that waits for this run is on the native stack.
            return;
        }
        // SAFETY: headers of frames lead to the first one, whose caller is null. Callers all go on
        // by what their callee's header says, and may as well go on in the interpreter.
        unsafe {
            let frames = std::iter::successors(Some((*state).abi.regs), |&regs| {
                Some((*header(regs)).caller).filter(|caller| !caller.is_null())
            });
            for regs in frames {
                (*header(regs)).resume = (*state).abi.trampolines.exit;
            }
            (*state).program.epochs().renew(pin);
        }
    }
}

/// The kernel's fence for all threads of the process.
mod membarrier {
    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn call(command: libc::c_int) -> libc::c_long {
        if cfg!(miri) {
            return -1;
        }
        // SAFETY: the call takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Whether the kernel has it.
    pub fn is_offered() -> bool {
        let needed = libc::c_long::from(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED);
        let offered = call(QUERY);
        offered > 0 && offered & needed == needed
    }

    /// Sends every thread through a fence; whether that was done.
    pub fn all_threads() -> bool {
        // The process has to say once that it will ask; programs that never do need not wait.
        call(PRIVATE_EXPEDITED) == 0
            || call(REGISTER_PRIVATE_EXPEDITED) == 0 && call(PRIVATE_EXPEDITED) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code that is none, and how to see that it is still kept.
    fn code() -> (Vec<Compiled>, std::sync::Weak<()>) {
        let owner = Arc::new(());
        let kept = Arc::downgrade(&owner);
        // SAFETY: nothing enters it.
        (vec![unsafe { Compiled::new(std::ptr::null(), owner) }], kept)
    }

    #[test]
    fn code_stays_until_the_sessions_that_ran_have_left() {
        let epochs = Epochs::new();
        let (early, late, idle) = (epochs.register(), epochs.register(), epochs.register());
        epochs.enter(&early);
        let (first, first_kept) = code();
        epochs.retire(first);
        assert!(epochs.reclaim(), "a session is inside");
        // Later runs cannot have found it.
        epochs.enter(&late);
        let (second, second_kept) = code();
        epochs.retire(second);
        epochs.leave(&early);
        assert!(first_kept.upgrade().is_none());
        assert!(second_kept.upgrade().is_some(), "the late session is inside");
        assert!(epochs.is_behind(&late));
        epochs.renew(&late);
        assert!(second_kept.upgrade().is_none() && !epochs.is_behind(&late));
        epochs.leave(&late);
        epochs.forget(&idle);
        assert_eq!(lock(&epochs.pins).len(), 2);
    }

    #[test]
    fn code_that_nobody_runs_is_freed_at_once() {
        let epochs = Epochs::new();
        let _idle = epochs.register();
        let (code, kept) = code();
        epochs.retire(code);
        assert!(!epochs.reclaim());
        assert!(kept.upgrade().is_none());
    }
}
