//! Parallel launch: parts of a loop on the caller and on waiting helpers.
//!
//! Helpers are loops on the threads of a rayon pool that is built at the first
//! launch with more than one thread. The caller claims idle helpers, runs its own
//! share, and waits for theirs; nothing is allocated or locked. Shares are static:
//! with `t` threads, thread `k` runs parts `k`, `k + t`, and so on. A helper that
//! another launch holds is not waited for, so the caller may run more parts itself;
//! what a part computes never depends on who runs it.
//!
//! A helper spins for a few dozen microseconds after work and then sleeps in the kernel, and so does
//! a caller that waits: an idle process keeps no core busy. A launch from inside a
//! part runs on that part's thread alone.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::abi::{ParallelLambda, TVMParallelGroupEnv};
use crate::error::Error;
use crate::fp::FpEnv;
use crate::function::guard;

/// How long a thread looks for work, or for the end of it, before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

thread_local! {
    /// Threads for launches from this thread; 0 means [`default_threads`].
    static THREADS: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread is running a part.
    static IN_PART: Cell<bool> = const { Cell::new(false) };
}

/// Threads a launch uses where nothing else was said: the processors this process
/// may run on.
pub fn default_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, |count| count.get()))
}

/// Threads that a launch from this thread uses.
pub fn current_threads() -> usize {
    match THREADS.get() {
        0 => default_threads(),
        threads => threads,
    }
}

/// Runs `body` with launches from this thread using `threads` threads (at least one).
///
/// ```
/// use reflex_runtime::threads;
/// assert_eq!(threads::with_threads(1, threads::current_threads), 1);
/// ```
pub fn with_threads<T>(threads: usize, body: impl FnOnce() -> T) -> T {
    let _scope = ThreadScope::enter(threads);
    body()
}

/// The form of [`with_threads`] for callers that cannot use a closure.
#[must_use = "dropping it restores the previous number of threads"]
#[derive(Debug)]
pub struct ThreadScope {
    outer: usize,
    this_thread: PhantomData<*const ()>,
}

impl ThreadScope {
    /// From here on, launches from this thread use `threads` threads (at least one).
    #[inline]
    pub fn enter(threads: usize) -> ThreadScope {
        ThreadScope { outer: THREADS.replace(threads.max(1)), this_thread: PhantomData }
    }
}

impl Drop for ThreadScope {
    #[inline]
    fn drop(&mut self) {
        THREADS.set(self.outer);
    }
}

/// Runs `body` for each part in `0..parts`, on the current number of threads, and
/// returns the error of the first part that failed. Every part runs.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use reflex_runtime::threads;
/// let sum = AtomicUsize::new(0);
/// threads::for_each_part(10, |part| {
///     sum.fetch_add(part, Ordering::Relaxed);
///     Ok(())
/// }).unwrap();
/// assert_eq!(sum.into_inner(), 45);
/// ```
pub fn for_each_part<F>(parts: usize, body: F) -> Result<(), Error>
where
    F: Fn(usize) -> Result<(), Error> + Sync,
{
    unsafe extern "C" fn run<F>(
        part: c_int,
        _: *mut TVMParallelGroupEnv,
        body: *mut c_void,
    ) -> c_int
    where
        F: Fn(usize) -> Result<(), Error> + Sync,
    {
        // SAFETY: the launch below passes an `F` that outlives it, shared by parts.
        let body = unsafe { &*body.cast::<F>() };
        match guard(|| body(part as usize)) {
            Ok(()) => 0,
            Err(error) => {
                error.raise();
                -1
            }
        }
    }
    if parts == 0 {
        return Ok(());
    }
    let parts = c_int::try_from(parts)
        .map_err(|_| Error::value_error(format!("{parts} is too many parts")))?;
    let data = std::ptr::from_ref(&body).cast_mut().cast();
    // SAFETY: `run::<F>` takes an `F`, which is `Sync`, and does not unwind.
    unsafe { launch(run::<F>, data, parts) }
}

/// Runs `parts` parts of a parallel loop (0: one per thread), and returns the error
/// of the first part that failed. Every part runs.
///
/// # Safety
/// `body` may run with `data` on several threads at once, does not unwind, and when
/// it fails leaves its error in its thread's slot.
pub unsafe fn launch(body: ParallelLambda, data: *mut c_void, parts: i32) -> Result<(), Error> {
    let threads = if IN_PART.get() { 1 } else { current_threads() };
    let parts = match parts {
        0 => i32::try_from(threads).unwrap_or(i32::MAX),
        parts if parts < 0 => {
            return Err(Error::value_error(format!("a parallel loop of {parts} parts")));
        }
        parts => parts,
    };
    let launch = Launch {
        body,
        data,
        parts,
        stride: AtomicI32::new(1),
        pending: AtomicU32::new(0),
        failure: Mutex::new(None),
    };
    let wanted = threads.min(parts as usize) - 1;
    if wanted > 0 {
        launch.run_with(&Claimed::take(helpers(), wanted));
    } else {
        launch.run_share(0);
    }
    match launch.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// One launch, on its caller's stack. Helpers touch it until they take themselves
/// off `pending`, and not after.
struct Launch {
    body: ParallelLambda,
    data: *mut c_void,
    parts: i32,
    /// Threads at work: shares are that far apart.
    stride: AtomicI32,
    /// Helpers at work, and [`SLEEPING`] when the caller waits in the kernel.
    pending: AtomicU32,
    /// The failed part with the lowest number, and its error.
    failure: Mutex<Option<(i32, Error)>>,
}

const SLEEPING: u32 = 1 << 31;

impl Launch {
    /// Runs the loop on this thread and the claimed helpers.
    fn run_with(&self, claimed: &Claimed) {
        let helpers = claimed.held.count_ones();
        self.stride.store(helpers as i32 + 1, Ordering::Relaxed);
        self.pending.store(helpers, Ordering::Relaxed);
        claimed.start(self);
        self.run_share(0);
        self.wait();
    }

    /// Runs parts `first`, `first + stride`, ... on this thread.
    fn run_share(&self, first: i32) {
        let outer = IN_PART.replace(true);
        let mut env =
            TVMParallelGroupEnv { sync_handle: std::ptr::null_mut(), num_task: self.parts };
        let stride = self.stride.load(Ordering::Relaxed);
        let mut part = first;
        while part < self.parts {
            // SAFETY: the contract of `launch`.
            let status = unsafe { (self.body)(part, &mut env, self.data) };
            if status != 0 {
                self.fail(part, Error::of_failed_call());
            }
            let Some(next) = part.checked_add(stride) else { break };
            part = next;
        }
        IN_PART.set(outer);
    }

    #[cold]
    fn fail(&self, part: i32, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// Taken by a launch that is not ready yet.
    pub(super) const CLAIMED: u32 = 2;
    /// Given a launch.
    pub(super) const READY: u32 = 3;
}

/// One helper; each on cache lines of its own.
#[repr(align(128))]
struct Helper {
    state: AtomicU32,
    /// The share to run: written by whoever moved the state to `CLAIMED`, read by the
    /// helper in `READY`.
    first: UnsafeCell<i32>,
    launch: AtomicPtr<Launch>,
}

// SAFETY: the state hands `first` from one thread to the other.
unsafe impl Sync for Helper {}

impl Helper {
    fn new() -> Helper {
        Helper {
            state: AtomicU32::new(state::SPINNING),
            first: UnsafeCell::new(0),
            launch: AtomicPtr::new(std::ptr::null_mut()),
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
    fn start(&self, launch: &Launch, first: i32, was: u32) {
        self.launch.store(std::ptr::from_ref(launch).cast_mut(), Ordering::Relaxed);
        // SAFETY: this thread claimed the helper, which does not look before `READY`.
        unsafe { *self.first.get() = first };
        self.state.store(state::READY, Ordering::Release);
        if was == state::PARKED {
            futex_wake(&self.state);
        }
    }

    /// Waits for work and does it, for ever.
    fn serve(&self) -> ! {
        let _env = FpEnv::enter();
        loop {
            self.await_work();
            let launch = self.launch.load(Ordering::Relaxed);
            // SAFETY: in `READY`, the share is the helper's to read.
            let first = unsafe { *self.first.get() };
            // SAFETY: the launch counts this helper, so it is live until `leave`.
            unsafe {
                (*launch).run_share(first);
                // Idle before leaving: the caller's next launch should find this helper.
                self.state.store(state::SPINNING, Ordering::Release);
                Launch::leave(launch);
            }
        }
    }

    fn await_work(&self) {
        let ready = || self.state.load(Ordering::Acquire) == state::READY;
        while !spin_until(ready) {
            let parked = self.state.compare_exchange(
                state::SPINNING,
                state::PARKED,
                Ordering::Relaxed,
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
const MAX_HELPERS: usize = 127;

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
}

static MAX_THREADS: OnceLock<usize> = OnceLock::new();

/// Sets how many threads any launch can use at most, the caller's included. Must
/// come before the first launch with more than one thread; the default is
/// [`default_threads`].
pub fn set_max_threads(threads: usize) -> Result<(), Error> {
    let threads = threads.clamp(1, MAX_HELPERS + 1);
    if *MAX_THREADS.get_or_init(|| threads) == threads {
        return Ok(());
    }
    Err(Error::runtime_error(
        "the number of helper threads is settled by the first parallel launch",
    ))
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
        if start.elapsed() > SPIN {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// How often to repeat what may race; Miri is slow, and explores schedules itself.
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 500 };

    /// Enough helpers for the tests, whatever the machine.
    fn with_helpers() {
        set_max_threads(4).unwrap();
    }

    #[test]
    fn every_part_runs_once() {
        with_helpers();
        for threads in 1..=6 {
            for parts in [1, 2, 3, 4, 7, 64] {
                let runs: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                with_threads(threads, || {
                    for round in 1..=ROUNDS.min(20) {
                        for_each_part(parts, |part| {
                            runs[part].fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        })
                        .unwrap();
                        assert!(runs.iter().all(|run| run.load(Ordering::Relaxed) == round));
                    }
                });
            }
        }
    }

    #[test]
    fn launches_from_many_threads_share_the_helpers() {
        with_helpers();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let sum = AtomicUsize::new(0);
                    for _ in 0..ROUNDS {
                        with_threads(3, || {
                            for_each_part(5, |part| {
                                sum.fetch_add(part, Ordering::Relaxed);
                                Ok(())
                            })
                        })
                        .unwrap();
                    }
                    assert_eq!(sum.into_inner(), 10 * ROUNDS);
                });
            }
        });
    }

    #[test]
    fn sleeping_helpers_wake_up() {
        with_helpers();
        for _ in 0..5 {
            thread::sleep(4 * SPIN);
            let ids = Mutex::new(Vec::new());
            with_threads(4, || {
                for_each_part(4, |_| {
                    thread::sleep(Duration::from_millis(2));
                    ids.lock().unwrap().push(thread::current().id());
                    Ok(())
                })
            })
            .unwrap();
            assert_eq!(ids.into_inner().unwrap().len(), 4);
        }
    }

    #[test]
    fn the_first_failed_part_is_reported() {
        with_helpers();
        for threads in [1, 4] {
            let error = with_threads(threads, || {
                for_each_part(8, |part| match part {
                    2 | 5 | 7 => Err(Error::value_error(format!("part {part}"))),
                    3 => panic!("part three"),
                    _ => Ok(()),
                })
            })
            .unwrap_err();
            assert_eq!(error.message(), "part 2");
        }
        let error = for_each_part(3, |part| if part == 1 { panic!("one") } else { Ok(()) });
        assert_eq!(error.unwrap_err().to_string(), "InternalError: panic: one");
        assert!(Error::take_raised().is_none());
    }

    #[test]
    fn inner_launches_stay_on_their_thread() {
        with_helpers();
        with_threads(4, || {
            for_each_part(4, |_| {
                let outer = thread::current().id();
                for_each_part(3, |_| {
                    assert_eq!(thread::current().id(), outer);
                    Ok(())
                })
            })
        })
        .unwrap();
    }

    #[test]
    fn one_thread_stays_on_the_caller() {
        let caller = thread::current().id();
        with_threads(1, || {
            for_each_part(16, |_| {
                assert_eq!(thread::current().id(), caller);
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(with_threads(3, || with_threads(0, current_threads)), 1);
    }

    #[test]
    fn zero_parts_mean_one_per_thread() {
        unsafe extern "C" fn count(
            _: c_int,
            env: *mut TVMParallelGroupEnv,
            sum: *mut c_void,
        ) -> c_int {
            // SAFETY: the launch passes its environment and the counter below.
            unsafe {
                (*sum.cast::<AtomicUsize>()).fetch_add((*env).num_task as usize, Ordering::Relaxed);
            }
            0
        }
        let sum = AtomicUsize::new(0);
        let data = std::ptr::from_ref(&sum).cast_mut().cast();
        // SAFETY: `count` takes the counter and does not unwind.
        with_threads(1, || unsafe { launch(count, data, 0) }).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 1);
        // SAFETY: as above.
        assert!(unsafe { launch(count, data, -1) }.is_err());
    }
}
