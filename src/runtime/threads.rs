//! Parallel launch: the tasks of a loop, distributed over the caller and helper threads.
//!
//! Helpers are loops on the threads of a rayon pool that is built at the first
//! launch with more than one thread. The caller claims idle helpers, runs its own
//! tasks, and waits for theirs; nothing is allocated or locked. The partition is static: each
//! thread has a range of adjacent tasks, the same in every launch, so that data stays in the cache
//! of the core that wrote it. A thread that has finished its range steals from the others', and a
//! claim on a helper that wakes up too late is withdrawn. The result of a task never depends on the
//! thread that runs it.
//!
//! A helper spins for a few dozen microseconds after work (longer between the launches of a
//! run) and then sleeps on a futex, and so does a caller that waits: an idle process keeps
//! no core busy. A launch from inside a task runs on that task's thread alone.
//!
//! Decision: docs/decisions/0022-threads.md

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread;

use helpers::Launch;

use crate::abi::{ParallelLambda, TVMParallelGroupEnv};
use crate::error::Error;
use crate::function::guard;

#[cfg_attr(not(unix), path = "threads/no_affinity.rs")]
mod affinity;
#[cfg_attr(not(unix), path = "threads/no_futex.rs")]
mod futex;
mod helpers;

thread_local! {
    /// Threads for launches from this thread; 0 means [`default_threads`].
    static THREADS: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread is running a task.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// The default number of threads of a launch: the processors this process may run on.
pub fn default_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, |count| count.get()))
}

/// The most threads that a launch can use, the caller's included.
pub const THREAD_LIMIT: usize = helpers::MAX_HELPERS + 1;

/// Threads of the largest launch; fixed by the first one that needs helpers.
static MAX_THREADS: OnceLock<usize> = OnceLock::new();

/// Sets how many threads any launch can use at most, the caller's included. Must
/// come before the first launch with more than one thread; the default is
/// [`default_threads`].
pub fn set_max_threads(threads: usize) -> Result<(), Error> {
    let threads = threads.clamp(1, THREAD_LIMIT);
    if *MAX_THREADS.get_or_init(|| threads) == threads {
        return Ok(());
    }
    Err(Error::runtime_error("the number of helper threads is fixed by the first parallel launch"))
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
    /// The variable of the thread that entered, on which the scope stays: in a shared library each
    /// access to a thread-local costs a call.
    threads: NonNull<Cell<usize>>,
    outer: usize,
    is_parallel: bool,
}

impl ThreadScope {
    /// From here on, launches from this thread use `threads` threads (at least one).
    #[inline]
    pub fn enter(threads: usize) -> ThreadScope {
        let is_parallel = threads > 1;
        if is_parallel {
            helpers::RUNS.fetch_add(1, Ordering::Relaxed);
        }
        THREADS.with(|cell| {
            let outer = cell.replace(threads.max(1));
            ThreadScope { threads: NonNull::from(cell), outer, is_parallel }
        })
    }
}

impl Drop for ThreadScope {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a scope cannot leave its thread, whose thread-locals without destructors live as
        // long as the thread.
        unsafe { self.threads.as_ref() }.set(self.outer);
        if self.is_parallel {
            helpers::RUNS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Runs `body` for each task in `0..tasks`, on the current number of threads, and
/// returns the error of the first task that failed. Every task runs.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use reflex_runtime::threads;
/// let sum = AtomicUsize::new(0);
/// threads::parallel_for(10, |task| {
///     sum.fetch_add(task, Ordering::Relaxed);
///     Ok(())
/// }).unwrap();
/// assert_eq!(sum.into_inner(), 45);
/// ```
pub fn parallel_for<F>(tasks: usize, body: F) -> Result<(), Error>
where
    F: Fn(usize) -> Result<(), Error> + Sync,
{
    unsafe extern "C" fn run<F>(
        task: c_int,
        _: *mut TVMParallelGroupEnv,
        body: *mut c_void,
    ) -> c_int
    where
        F: Fn(usize) -> Result<(), Error> + Sync,
    {
        // SAFETY: the launch below passes an `F` that outlives it, and `F` is `Sync`.
        let body = unsafe { &*body.cast::<F>() };
        match guard(|| body(task as usize)) {
            Ok(()) => 0,
            Err(error) => {
                error.raise();
                -1
            }
        }
    }
    if tasks == 0 {
        return Ok(());
    }
    let tasks = c_int::try_from(tasks)
        .map_err(|_| Error::value_error(format!("{tasks} is too many tasks")))?;
    let data = std::ptr::from_ref(&body).cast_mut().cast();
    // SAFETY: `run::<F>` takes an `F`, which is `Sync`, and does not unwind.
    unsafe { launch(run::<F>, data, tasks) }
}

/// Runs `tasks` tasks of a parallel loop (0: one per thread), and returns the error
/// of the first task that failed. Every task runs.
///
/// # Safety
/// `body` may run with `data` on several threads at once, does not unwind, and when
/// it fails leaves its error in its thread's slot.
pub unsafe fn launch(body: ParallelLambda, data: *mut c_void, tasks: i32) -> Result<(), Error> {
    let threads = if IN_TASK.get() { 1 } else { current_threads() };
    let tasks = match tasks {
        0 => i32::try_from(threads).unwrap_or(i32::MAX),
        tasks if tasks < 0 => {
            return Err(Error::value_error(format!("a parallel loop of {tasks} tasks")));
        }
        tasks => tasks,
    };
    Launch::new(body, data, tasks).run(threads.min(tasks as usize))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::helpers::SPIN;
    use super::*;

    /// Repetitions of tests that may race; Miri is slow, and explores schedules itself.
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 500 };

    /// Enough helpers for the tests, whatever the machine.
    fn with_helpers() {
        set_max_threads(4).unwrap();
    }

    #[test]
    fn every_part_runs_once() {
        with_helpers();
        for threads in 1..=6 {
            for tasks in [1, 2, 3, 4, 7, 64] {
                let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                with_threads(threads, || {
                    for round in 1..=ROUNDS.min(20) {
                        parallel_for(tasks, |task| {
                            runs[task].fetch_add(1, Ordering::Relaxed);
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
        // Short loops of several threads: helpers change hands while launches end.
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 10_000 };
        with_helpers();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let sum = AtomicUsize::new(0);
                    for _ in 0..ROUNDS {
                        with_threads(3, || {
                            parallel_for(5, |task| {
                                sum.fetch_add(task, Ordering::Relaxed);
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
                parallel_for(4, |_| {
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
                parallel_for(8, |task| match task {
                    2 | 5 | 7 => Err(Error::value_error(format!("task {task}"))),
                    3 => panic!("task three"),
                    _ => Ok(()),
                })
            })
            .unwrap_err();
            assert_eq!(error.message(), "task 2");
        }
        let error = parallel_for(3, |task| if task == 1 { panic!("one") } else { Ok(()) });
        assert_eq!(error.unwrap_err().to_string(), "InternalError: panic: one");
        assert!(Error::take_raised().is_none());
    }

    #[test]
    fn inner_launches_stay_on_their_thread() {
        with_helpers();
        with_threads(4, || {
            parallel_for(4, |_| {
                let outer = thread::current().id();
                parallel_for(3, |_| {
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
            parallel_for(16, |_| {
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
        // SAFETY: `count` takes the counter and does not unwind.
        assert!(unsafe { launch(count, data, -1) }.is_err());
    }
}
