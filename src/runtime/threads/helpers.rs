//! One launch, the task queues of its threads, and the loops of the helper threads.
//!
//! Decision: docs/decisions/0022-threads.md

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::affinity::CpuAffinity;
use super::{IN_TASK, MAX_THREADS, default_threads, futex};
use crate::abi::{ParallelLambda, TVMParallelGroupEnv};
use crate::error::Error;
use crate::fp::FpEnv;

/// The time that a thread spins for work, or for the end of it, before it sleeps.
pub(super) const SPIN: Duration = Duration::from_micros(50);

/// The same between the launches of a run, which come soon after one another.
const SPIN_IN_RUN: Duration = Duration::from_micros(500);

/// Runs in progress that use several threads ([`super::ThreadScope`]).
pub(super) static RUNS: AtomicUsize = AtomicUsize::new(0);

/// One launch, on its caller's stack. Helpers access it until they decrement `pending`, and not
/// after.
pub(super) struct Launch {
    body: ParallelLambda,
    data: *mut c_void,
    tasks: i32,
    /// Queues in use: the first this many of `queues` are initialised.
    threads: usize,
    queues: [MaybeUninit<TaskQueue>; MAX_HELPERS + 1],
    /// Helpers that run a queue, and [`SLEEPING`] when the caller waits in the kernel.
    pending: AtomicU32,
    /// The failed task with the lowest number, and its error.
    failure: Mutex<Option<(i32, Error)>>,
}

const SLEEPING: u32 = 1 << 31;

/// The tasks of a thread that have not begun: a range, packed with its start in the low half and its
/// end in the high one. Its own thread pops at the front; threads that have finished theirs steal at
/// the back.
#[repr(align(64))]
struct TaskQueue(AtomicU64);

impl TaskQueue {
    fn new(tasks: std::ops::Range<i32>) -> TaskQueue {
        TaskQueue(AtomicU64::new(TaskQueue::pack(tasks.start as u32, tasks.end as u32)))
    }

    fn pack(first: u32, end: u32) -> u64 {
        u64::from(end) << 32 | u64::from(first)
    }

    /// The first task, for the thread whose queue it is.
    fn pop(&self) -> Option<i32> {
        let before = self.update(|first, end| (first + 1, end))?;
        Some(before as u32 as i32)
    }

    /// The last task, for another thread.
    fn steal(&self) -> Option<i32> {
        let before = self.update(|first, end| (first, end - 1))?;
        Some((before >> 32) as i32 - 1)
    }

    /// Shrinks the range; returns the one before, unless it was empty.
    #[inline]
    fn update(&self, shrink: impl Fn(u32, u32) -> (u32, u32)) -> Option<u64> {
        // Memory that tasks write is published by `pending`; the queue itself orders nothing.
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let (first, end) = (word as u32, (word >> 32) as u32);
            let (first, end) = if first < end { shrink(first, end) } else { return None };
            Some(TaskQueue::pack(first, end))
        });
        before.ok()
    }
}

impl Launch {
    pub(super) fn new(body: ParallelLambda, data: *mut c_void, tasks: i32) -> Launch {
        Launch {
            body,
            data,
            tasks,
            threads: 0,
            queues: [const { MaybeUninit::uninit() }; MAX_HELPERS + 1],
            pending: AtomicU32::new(0),
            failure: Mutex::new(None),
        }
    }

    /// Runs all tasks on at most `threads` threads.
    pub(super) fn run(mut self, threads: usize) -> Result<(), Error> {
        if threads > 1 {
            let claimed = Claimed::claim(helpers(), threads - 1);
            self.partition(claimed.claimed.count_ones() as usize + 1);
            self.run_with(&claimed);
        } else {
            self.partition(1);
            self.run_queue(0);
        }
        match self.failure.into_inner() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// The static partition: equal ranges of adjacent tasks.
    fn partition(&mut self, threads: usize) {
        let bound = |k: usize| (self.tasks as usize * k / threads) as i32;
        for k in 0..threads {
            self.queues[k] = MaybeUninit::new(TaskQueue::new(bound(k)..bound(k + 1)));
        }
        self.threads = threads;
    }

    fn queue(&self, k: usize) -> &TaskQueue {
        debug_assert!(k < self.threads);
        // SAFETY: `partition` wrote the first `threads` queues, and `k` is one of them.
        unsafe { self.queues[k].assume_init_ref() }
    }

    /// Runs the loop on this thread and the claimed helpers. It does not wait for those that are
    /// still waking up when all tasks are done.
    fn run_with(&self, claimed: &Claimed) {
        self.pending.store(claimed.claimed.count_ones(), Ordering::Relaxed);
        claimed.start(self);
        self.run_queue(0);
        let late = claimed.withdraw(self);
        self.pending.fetch_sub(late, Ordering::Relaxed);
        self.wait();
    }

    /// Runs the tasks of queue `own`, then steals from the others.
    fn run_queue(&self, own: usize) {
        let outer = IN_TASK.replace(true);
        let mut env =
            TVMParallelGroupEnv { sync_handle: std::ptr::null_mut(), num_task: self.tasks };
        for k in 0..self.threads {
            let queue = self.queue((own + k) % self.threads);
            while let Some(task) = if k == 0 { queue.pop() } else { queue.steal() } {
                // SAFETY: the caller of `launch` vouches that the body may run with this data on any
                // thread and does not unwind; each task is taken from a queue once.
                let status = unsafe { (self.body)(task, &mut env, self.data) };
                if status != 0 {
                    self.fail(task, Error::of_failed_call());
                }
            }
        }
        IN_TASK.set(outer);
    }

    #[cold]
    fn fail(&self, task: i32, error: Error) {
        let mut failure = self.failure.lock();
        if failure.as_ref().is_none_or(|(earlier, _)| task < *earlier) {
            *failure = Some((task, error));
        }
    }

    /// Waits for all helpers: spins, then sleeps.
    fn wait(&self) {
        if spin_until(|| self.pending.load(Ordering::Acquire) == 0) {
            return;
        }
        let mut pending = self.pending.fetch_or(SLEEPING, Ordering::Acquire) | SLEEPING;
        while pending != SLEEPING {
            futex::wait(&self.pending, pending);
            pending = self.pending.load(Ordering::Acquire);
        }
    }

    /// Decrements `pending` for one helper; the launch may be gone afterwards.
    ///
    /// # Safety
    /// `launch` is live, and the calling helper is counted in its `pending`.
    unsafe fn finish(launch: *const Launch) {
        // SAFETY: the launch is live until `pending` is zero, and it counts the calling helper.
        let pending = unsafe { &raw const (*launch).pending };
        // SAFETY: as above: `pending` is not zero before this subtraction.
        let before = unsafe { &*pending }.fetch_sub(1, Ordering::Release);
        if before == SLEEPING | 1 {
            // Only the address is used: if the caller has returned already, the wake-up finds no
            // waiter, or causes a spurious one, which every futex wait handles.
            futex::wake(pending);
        }
    }
}

/// The states of a helper.
mod state {
    /// Idle: spinning for work.
    pub(super) const SPINNING: u32 = 0;
    /// Idle: parked, asleep in the kernel.
    pub(super) const PARKED: u32 = 1;
    /// Claimed by a launch that is not ready yet, or that is checking whether to withdraw.
    pub(super) const CLAIMED: u32 = 2;
    /// Assigned a launch, which the launch can withdraw.
    pub(super) const READY: u32 = 3;
    /// Working for a launch.
    pub(super) const RUNNING: u32 = 4;
}

/// One helper; each on cache lines of its own.
#[repr(align(128))]
struct Helper {
    state: AtomicU32,
    /// Index of the queue to run: written by the thread that moved the state to `CLAIMED`, read by
    /// the helper in `RUNNING`.
    queue: UnsafeCell<usize>,
    launch: AtomicPtr<Launch>,
    /// The CPU affinity of its thread: written by the helper before it first parks, then by the
    /// thread that claimed it while it was parked.
    affinity: UnsafeCell<CpuAffinity>,
}

// SAFETY: the state hands `queue` and `affinity` from one thread to the other.
unsafe impl Sync for Helper {}

impl Helper {
    fn new() -> Helper {
        Helper {
            state: AtomicU32::new(state::SPINNING),
            queue: UnsafeCell::new(0),
            launch: AtomicPtr::new(std::ptr::null_mut()),
            affinity: UnsafeCell::new(CpuAffinity::UNKNOWN),
        }
    }

    /// Claims the helper if it is idle. The previous state tells how to start it.
    fn claim(&self) -> Option<u32> {
        let idle = self.state.load(Ordering::Relaxed);
        if idle != state::SPINNING && idle != state::PARKED {
            return None;
        }
        self.state.compare_exchange(idle, state::CLAIMED, Ordering::Acquire, Ordering::Relaxed).ok()
    }

    /// Assigns a claimed helper a queue of the launch, and wakes it up if it is parked.
    fn start(&self, launch: &Launch, queue: usize, was: u32) {
        self.launch.store(std::ptr::from_ref(launch).cast_mut(), Ordering::Relaxed);
        // SAFETY: this thread claimed the helper, which does not look before `RUNNING`.
        unsafe { *self.queue.get() = queue };
        if was == state::PARKED {
            // SAFETY: this thread claimed the helper, which wrote its affinity before it parked.
            unsafe { &mut *self.affinity.get() }.exclude_current_cpu();
        }
        self.state.store(state::READY, Ordering::Release);
        if was == state::PARKED {
            futex::wake(&self.state);
        }
    }

    /// Waits for work and runs it, for ever.
    fn serve(&self) -> ! {
        // SAFETY: claimers access it only when the helper is parked, which it has not been yet.
        unsafe { *self.affinity.get() = CpuAffinity::of_this_thread() };
        let _env = FpEnv::enter();
        loop {
            self.await_work();
            let launch = self.launch.load(Ordering::Relaxed);
            // SAFETY: in `RUNNING`, only the helper accesses the queue's index.
            let queue = unsafe { *self.queue.get() };
            // SAFETY: the launch counts this helper, so it is live until `finish`.
            unsafe {
                (*launch).run_queue(queue);
                // Idle before it finishes: the caller's next launch should find this helper.
                self.state.store(state::SPINNING, Ordering::Release);
                Launch::finish(launch);
            }
        }
    }

    /// Withdraws `launch` if the helper has not begun it, in which case it never accesses it. A
    /// helper that was woken up for it goes on spinning for work.
    fn withdraw(&self, launch: &Launch) -> bool {
        let (from, to) = (state::READY, state::CLAIMED);
        if self.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // The helper may have finished `launch` and been assigned another by another thread: that
        // one stays. In `CLAIMED`, no other thread changes the state.
        let own = std::ptr::eq(self.launch.load(Ordering::Relaxed), launch);
        let back = if own { state::SPINNING } else { state::READY };
        self.state.store(back, Ordering::Release);
        own
    }

    /// Spins, then parks, until there is work; returns in `RUNNING`.
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
                // Publishes the affinity.
                Ordering::Release,
                Ordering::Relaxed,
            );
            if parked.is_ok() {
                while self.state.load(Ordering::Relaxed) == state::PARKED {
                    futex::wait(&self.state, state::PARKED);
                }
            }
        }
    }
}

/// At most this many helpers exist: one bit each in [`Claimed`].
pub(super) const MAX_HELPERS: usize = 127;

/// Helpers claimed for one launch, one bit each.
struct Claimed {
    helpers: &'static [Helper],
    claimed: u128,
    /// Those of `claimed` that were parked.
    parked: u128,
}

impl Claimed {
    /// Claims up to `wanted` idle helpers.
    fn claim(helpers: &'static [Helper], wanted: usize) -> Claimed {
        let mut claimed = Claimed { helpers, claimed: 0, parked: 0 };
        let mut missing = wanted;
        for (bit, helper) in helpers.iter().enumerate() {
            if missing == 0 {
                break;
            }
            if let Some(was) = helper.claim() {
                claimed.claimed |= 1 << bit;
                claimed.parked |= u128::from(was == state::PARKED) << bit;
                missing -= 1;
            }
        }
        claimed
    }

    /// Starts each helper on its queue; the caller runs queue 0.
    fn start(&self, launch: &Launch) {
        let mut rest = self.claimed;
        let mut queue = 1;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            let was = if self.parked >> bit & 1 == 1 { state::PARKED } else { state::SPINNING };
            self.helpers[bit as usize].start(launch, queue, was);
            queue += 1;
            rest &= rest - 1;
        }
    }

    /// Withdraws the launch from helpers that have not begun it; returns their number.
    fn withdraw(&self, launch: &Launch) -> u32 {
        let each = self.helpers.iter().enumerate().filter(|(bit, _)| self.claimed >> bit & 1 == 1);
        each.filter(|(_, helper)| helper.withdraw(launch)).count() as u32
    }
}

/// All helpers, started at the first call. None if the system refuses threads; then
/// callers run every task themselves.
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

/// Spins until `ready`; returns false after a while.
#[inline]
fn spin_until(ready: impl Fn() -> bool) -> bool {
    const CHECKS_PER_CLOCK_READ: u32 = 64;
    if ready() {
        return true;
    }
    let start = Instant::now();
    loop {
        for _ in 0..CHECKS_PER_CLOCK_READ {
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
