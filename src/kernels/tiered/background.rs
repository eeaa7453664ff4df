//! The threads that compile kernels again, the hottest first, while calls go on.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::recompile::{Recompile, Urgency, WhenIdle};
use super::table::{Next, TieredKernels};

/// Most threads, of which each has a code generator.
const MAX_THREADS: usize = 4;
/// The time after which calls are counted again: only packed entries tell of their first call, and compiled
/// functions begin with raw ones.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The least priority that a thread can ask for.
const LOWEST_PRIORITY: libc::c_int = 19;

/// Starts threads for half the cores. They end when no kernel is left, or the
/// kernels are gone. One of them runs `when_idle`.
pub(super) fn start(
    kernels: &Arc<TieredKernels>,
    recompile: &Arc<Recompile>,
    when_idle: Option<WhenIdle>,
) {
    let when_idle = Arc::new(Mutex::new(when_idle));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..(cores / 2).clamp(1, MAX_THREADS) {
        let (kernels, recompile) = (Arc::downgrade(kernels), recompile.clone());
        let thread = std::thread::Builder::new().name("reflex-kernels".to_owned());
        let spawned = thread.spawn({
            let (kernels, when_idle) = (kernels.clone(), when_idle.clone());
            move || {
                // SAFETY: a system call on the calling thread only; a refusal leaves its priority, and
                // that of the code generator it starts, as it was.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST_PRIORITY) };
                run(&kernels, &recompile, &when_idle);
            }
        });
        if let (Err(error), Some(kernels)) = (spawned, kernels.upgrade()) {
            kernels.give_up(&format!("no thread to compile them on: {error}"));
        }
    }
}

fn run(kernels: &Weak<TieredKernels>, recompile: &Recompile, when_idle: &Mutex<Option<WhenIdle>>) {
    loop {
        let Some(live) = kernels.upgrade() else { return };
        let (signal, seen) = (live.signal().clone(), live.signal().changes());
        let next = live.next();
        let is_idle = !matches!(next, Next::Kernel(_)) && live.was_called();
        // Nothing is held while the code generator works, so that a program can be dropped.
        drop(live);
        if let Some(work) = is_idle.then(|| when_idle.lock().take()).flatten() {
            work();
        }
        match next {
            Next::Done => return,
            Next::Wait => signal.wait_at_most(seen, LOOK_AGAIN),
            Next::Kernel(at) => {
                let compiled = recompile.run(at, Urgency::Background);
                let Some(live) = kernels.upgrade() else { return };
                live.finish(at, compiled);
            }
        }
    }
}
