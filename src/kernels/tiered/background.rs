//! The threads that compile kernels again, the hottest first, while calls go on.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::recompile::{Recompile, Urgency};
use super::table::{Next, TieredKernels};

/// Most threads, of which each has a code generator.
const MAX_THREADS: usize = 4;
/// The time after which calls are counted again: only packed entries tell of their first call, and compiled
/// functions begin with raw ones.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The least priority that a thread can ask for.
const LOWEST_PRIORITY: libc::c_int = 19;

/// Starts threads for half the cores. They end when no kernel is left, or the
/// kernels are gone.
pub(super) fn start(kernels: &Arc<TieredKernels>, recompile: &Arc<Recompile>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..(cores / 2).clamp(1, MAX_THREADS) {
        let (kernels, recompile) = (Arc::downgrade(kernels), recompile.clone());
        let thread = std::thread::Builder::new().name("reflex-kernels".to_owned());
        let spawned = thread.spawn({
            let kernels = kernels.clone();
            move || {
                // SAFETY: a system call on the calling thread only; a refusal leaves its priority, and
                // that of the code generator it starts, as it was.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST_PRIORITY) };
                run(&kernels, &recompile);
            }
        });
        if let (Err(error), Some(kernels)) = (spawned, kernels.upgrade()) {
            kernels.give_up(&format!("no thread to compile them on: {error}"));
        }
    }
}

fn run(kernels: &Weak<TieredKernels>, recompile: &Recompile) {
    loop {
        let Some(live) = kernels.upgrade() else { return };
        let (signal, seen) = (live.signal().clone(), live.signal().changes());
        let next = live.next();
        // Nothing is held while the code generator works, so that a program can be dropped.
        drop(live);
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
