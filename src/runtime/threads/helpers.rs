//! One launch, and the helper loops that share its work.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::place::Place;
use super::{IN_PART, MAX_THREADS, default_threads};
use crate::abi::{ParallelLambda, TVMParallelGroupEnv};
use crate::error::Error;
use crate::fp::FpEnv;

/// How long a thread looks for work, or for the end of it, before it sleeps.
pub(super) const SPIN: Duration = Duration::from_micros(50);

/// The same between the launches of a run, which come soon after one another.
const SPIN_IN_RUN: Duration = Duration::from_micros(500);

/// Runs in progress that use several threads ([`super::ThreadScope`]).
pub(super) static RUNS: AtomicUsize = AtomicUsize::new(0);

/// One launch, on its caller's stack. Helpers touch it until they take themselves
/// off `pending`, and not after.
pub(super) struct Launch {
    body: ParallelLambda,
    data: *mut c_void,
    parts: i32,
    /// Shares in use: the first this many of `shares` are initialised.
    threads: usize,
    shares: [MaybeUninit<Share>; MAX_HELPERS + 1],
    /// Helpers given a share, and [`SLEEPING`] when the caller waits in the kernel.
    pending: AtomicU32,
    /// The failed part with the lowest number, and its error.
    failure: Mutex<Option<(i32, Error)>>,
}

const SLEEPING: u32 = 1 << 31;

/// The parts of a thread that nobody has begun: from the low half to below the high one. Its
/// thread takes from the front, who has finished early takes from the back.
#[repr(align(64))]
struct Share(AtomicU64);

impl Share {
    fn new(parts: std::ops::Range<i32>) -> Share {
        Share(AtomicU64::new(Share::pack(parts.start as u32, parts.end as u32)))
    }

    fn pack(first: u32, end: u32) -> u64 {
        u64::from(end) << 32 | u64::from(first)
    }

    fn take(&self, back: bool) -> Option<i32> {
        // What parts write is handed over by `pending`; the share itself orders nothing.
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            match (word as u32, (word >> 32) as u32) {
                (first, end) if first >= end => None,
                (first, end) if back => Some(Share::pack(first, end - 1)),
                (first, end) => Some(Share::pack(first + 1, end)),
            }
        });
        let word = before.ok()?;
        Some(if back { (word >> 32) as i32 - 1 } else { word as u32 as i32 })
    }
}

impl Launch {
    pub(super) fn new(body: ParallelLambda, data: *mut c_void, parts: i32) -> Launch {
        Launch {
            body,
            data,
            parts,
            threads: 0,
            shares: [const { MaybeUninit::uninit() }; MAX_HELPERS + 1],
            pending: AtomicU32::new(0),
            failure: Mutex::new(None),
        }
    }

    /// Runs all parts on at most `threads` threads.
    pub(super) fn run(mut self, threads: usize) -> Result<(), Error> {
        if threads > 1 {
            let claimed = Claimed::take(helpers(), threads - 1);
            self.divide(claimed.held.count_ones() as usize + 1);
            self.run_with(&claimed);
        } else {
            self.divide(1);
            self.run_share(0);
        }
        match self.failure.into_inner() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Equal shares of neighbouring parts.
    fn divide(&mut self, threads: usize) {
        let bound = |k: usize| (self.parts as usize * k / threads) as i32;
        for k in 0..threads {
            self.shares[k] = MaybeUninit::new(Share::new(bound(k)..bound(k + 1)));
        }
        self.threads = threads;
    }

    fn share(&self, k: usize) -> &Share {
        debug_assert!(k < self.threads);
        // SAFETY: `divide` wrote the first `threads` shares, and `k` is one of them.
        unsafe { self.shares[k].assume_init_ref() }
    }

    /// Runs the loop on this thread and the claimed helpers. Those that are still waking up
    /// when all parts are done are not waited for.
    fn run_with(&self, claimed: &Claimed) {
        self.pending.store(claimed.held.count_ones(), Ordering::Relaxed);
        claimed.start(self);
        self.run_share(0);
        let late = claimed.retract(self);
        self.pending.fetch_sub(late, Ordering::Relaxed);
        self.wait();
    }

    /// Runs the parts of share `own`, then what the others have not begun.
    fn run_share(&self, own: usize) {
        let outer = IN_PART.replace(true);
        let mut env =
            TVMParallelGroupEnv { sync_handle: std::ptr::null_mut(), num_task: self.parts };
        for k in 0..self.threads {
            let share = self.share((own + k) % self.threads);
            while let Some(part) = share.take(k > 0) {
                // SAFETY: the contract of `launch`.
                let status = unsafe { (self.body)(part, &mut env, self.data) };
                if status != 0 {
                    self.fail(part, Error::of_failed_call());
                }
            }
        }
        IN_PART.set(outer);
    }

    #[cold]
    fn fail(&self, part: i32, error: Error) {
        let mut failure = self.failure.lock();
        if failure.as_ref().is_none_or(|(earlier, _)| part < *earlier) {
            *failure = Some((part, error));
        }
    }

    /// Waits for all helpers: spins, then sleeps.
    fn wait(&self) {
        if spin_until(|| self.pending.load(Ordering::Acquire) == 0) {
            return;
        }
        let mut pending = self.pending.fetch_or(SLEEPING, Ordering::Acquire) | SLEEPING;
        while pending != SLEEPING {
            futex_wait(&self.pending, pending);
            pending = self.pending.load(Ordering::Acquire);
        }
    }

    /// Takes one helper off the launch, which may be gone afterwards.
    ///
    /// # Safety
    /// `launch` is live, and the calling helper is counted in its `pending`.
    unsafe fn leave(launch: *const Launch) {
        // SAFETY: live until `pending` is zero.
        let pending = unsafe { &raw const (*launch).pending };
        // SAFETY: as above.
        let before = unsafe { &*pending }.fetch_sub(1, Ordering::Release);
        if before == SLEEPING | 1 {
            // Only the address is used: if the caller has left already, the wake finds
            // nobody, or wakes an unrelated sleeper for nothing, which all must bear.
            futex_wake(pending);
        }
    }
}

/// What a helper is doing.
mod state {
    /// Looking for work.
    pub(super) const SPINNING: u32 = 0;
    /// Asleep in the kernel.
    pub(super) const PARKED: u32 = 1;
    /// Taken by a launch that is not ready yet, or that looks whether to take itself back.
    pub(super) const CLAIMED: u32 = 2;
    /// Given a launch, which the launch can take back.
    pub(super) const READY: u32 = 3;
    /// Working for a launch.
    pub(super) const RUNNING: u32 = 4;
}

/// One helper; each on cache lines of its own.
#[repr(align(128))]
struct Helper {
    state: AtomicU32,
    /// The share to run: written by whoever moved the state to `CLAIMED`, read by the
    /// helper in `RUNNING`.
    share: UnsafeCell<usize>,
    launch: AtomicPtr<Launch>,
    /// Where its thread may run: written by the helper before it first sleeps, then by whoever
    /// claimed it in its sleep.
    place: UnsafeCell<Place>,
}

// SAFETY: the state hands `share` and `place` from one thread to the other.
unsafe impl Sync for Helper {}

impl Helper {
    fn new() -> Helper {
        Helper {
            state: AtomicU32::new(state::SPINNING),
            share: UnsafeCell::new(0),
            launch: AtomicPtr::new(std::ptr::null_mut()),
            place: UnsafeCell::new(Place::NOWHERE),
        }
    }

    /// Takes the helper if it is idle. The previous state tells how to start it.
    fn claim(&self) -> Option<u32> {
        let idle = self.state.load(Ordering::Relaxed);
        if idle != state::SPINNING && idle != state::PARKED {
            return None;
        }
        self.state.compare_exchange(idle, state::CLAIMED, Ordering::Acquire, Ordering::Relaxed).ok()
    }

    /// Gives a claimed helper its share.
    fn start(&self, launch: &Launch, share: usize, was: u32) {
        self.launch.store(std::ptr::from_ref(launch).cast_mut(), Ordering::Relaxed);
        // SAFETY: this thread claimed the helper, which does not look before `RUNNING`.
        unsafe { *self.share.get() = share };
        if was == state::PARKED {
            // SAFETY: this thread claimed the helper, which has written its place before it slept.
            unsafe { &mut *self.place.get() }.keep_off_caller();
        }
        self.state.store(state::READY, Ordering::Release);
        if was == state::PARKED {
            futex_wake(&self.state);
        }
    }

    /// Waits for work and does it, for ever.
    fn serve(&self) -> ! {
        // SAFETY: claimers look at it only where the helper sleeps, which it has not yet.
        unsafe { *self.place.get() = Place::here() };
        let _env = FpEnv::enter();
        loop {
            self.await_work();
            let launch = self.launch.load(Ordering::Relaxed);
            // SAFETY: in `RUNNING`, the share is the helper's to read.
            let share = unsafe { *self.share.get() };
            // SAFETY: the launch counts this helper, so it is live until `leave`.
            unsafe {
                (*launch).run_share(share);
                // Idle before leaving: the caller's next launch should find this helper.
                self.state.store(state::SPINNING, Ordering::Release);
                Launch::leave(launch);
            }
        }
    }

    /// Takes back `launch`, if the helper has not begun it: it never looks at it then. A helper
    /// that was woken for it goes on looking for work.
    fn retract(&self, launch: &Launch) -> bool {
        let (from, to) = (state::READY, state::CLAIMED);
        if self.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // Done with `launch`, the helper may have been given another by another thread: that one
        // stays. Nobody else changes the state meanwhile.
        let own = std::ptr::eq(self.launch.load(Ordering::Relaxed), launch);
        let back = if own { state::SPINNING } else { state::READY };
        self.state.store(back, Ordering::Release);
        own
    }

    /// Returns in `RUNNING`.
    fn await_work(&self) {
        let begin = || {
            let (from, to) = (state::READY, state::RUNNING);
            self.state.load(Ordering::Relaxed) == from
                && self
                    .state
                    .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        };
        while !spin_until(begin) {
            let parked = self.state.compare_exchange(
                state::SPINNING,
                state::PARKED,
                // With the place.
                Ordering::Release,
                Ordering::Relaxed,
            );
            if parked.is_ok() {
                while self.state.load(Ordering::Relaxed) == state::PARKED {
                    futex_wait(&self.state, state::PARKED);
                }
            }
        }
    }
}

/// At most this many helpers exist: one bit each in [`Claimed`].
pub(super) const MAX_HELPERS: usize = 127;

/// Helpers held for one launch, one bit each.
struct Claimed {
    helpers: &'static [Helper],
    held: u128,
    /// Those of `held` that sleep in the kernel.
    parked: u128,
}

impl Claimed {
    /// Takes up to `wanted` idle helpers.
    fn take(helpers: &'static [Helper], wanted: usize) -> Claimed {
        let mut claimed = Claimed { helpers, held: 0, parked: 0 };
        let mut missing = wanted;
        for (bit, helper) in helpers.iter().enumerate() {
            if missing == 0 {
                break;
            }
            if let Some(was) = helper.claim() {
                claimed.held |= 1 << bit;
                claimed.parked |= u128::from(was == state::PARKED) << bit;
                missing -= 1;
            }
        }
        claimed
    }

    /// Gives each helper its share; the caller keeps share 0.
    fn start(&self, launch: &Launch) {
        let mut held = self.held;
        let mut share = 1;
        while held != 0 {
            let bit = held.trailing_zeros();
            let was = if self.parked >> bit & 1 == 1 { state::PARKED } else { state::SPINNING };
            self.helpers[bit as usize].start(launch, share, was);
            share += 1;
            held &= held - 1;
        }
    }

    /// Takes the launch back from helpers that have not begun it; how many.
    fn retract(&self, launch: &Launch) -> u32 {
        let each = self.helpers.iter().enumerate().filter(|(bit, _)| self.held >> bit & 1 == 1);
        each.filter(|(_, helper)| helper.retract(launch)).count() as u32
    }
}

/// All helpers, started at the first call. None if the system refuses threads; then
/// callers run every part themselves.
fn helpers() -> &'static [Helper] {
    static HELPERS: OnceLock<Box<[Helper]>> = OnceLock::new();
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let helpers = HELPERS.get_or_init(|| {
        let threads = *MAX_THREADS.get_or_init(default_threads);
        (1..threads.min(MAX_HELPERS + 1)).map(|_| Helper::new()).collect()
    });
    match POOL.get_or_init(|| start_pool(helpers)) {
        Some(_) => helpers,
        None => &[],
    }
}

fn start_pool(helpers: &'static [Helper]) -> Option<ThreadPool> {
    if helpers.is_empty() {
        return None;
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(helpers.len())
        .thread_name(|index| format!("reflex-helper-{index}"))
        .build()
        .ok()?;
    // Each thread of the pool gets one of these, and never finishes it.
    pool.spawn_broadcast(|thread| helpers[thread.index()].serve());
    Some(pool)
}

/// Looks for `ready` for a while; false if it did not come.
#[inline]
fn spin_until(ready: impl Fn() -> bool) -> bool {
    const CHECKS_PER_LOOK_AT_THE_CLOCK: u32 = 64;
    if ready() {
        return true;
    }
    let start = Instant::now();
    loop {
        for _ in 0..CHECKS_PER_LOOK_AT_THE_CLOCK {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        let elapsed = start.elapsed();
        if elapsed > SPIN_IN_RUN || (elapsed > SPIN && RUNS.load(Ordering::Relaxed) == 0) {
            return false;
        }
    }
}

/// Sleeps while `word` is `expected`; may return for no reason.
fn futex_wait(word: &AtomicU32, expected: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let no_timeout = std::ptr::null::<libc::timespec>();
    // SAFETY: the word is valid for the call; the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, no_timeout) };
}

/// Wakes one thread that sleeps on `word`, of which only the address is used.
fn futex_wake(word: *const AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a wake does not access the word, and reports bad addresses as errors.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, 1) };
}
