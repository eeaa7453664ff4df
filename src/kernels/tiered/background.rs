//! The threads that compile kernels again, the hottest first, while calls go on.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reflex_runtime::threads::default_threads;

use super::recompile::{Recompile, Urgency, WhenIdle};
use super::table::{Next, TieredKernels};

/// Most threads, of which each has a code generator.
const MAX_THREADS: usize = 4;
/// The time after which calls are counted again: only packed entries tell of their first call, and compiled
/// functions begin with raw ones.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The longest that kernels wait for the end of the first call: not all callers tell of it.
const FIRST_CALL: Duration = Duration::from_secs(2);
/// The time after the first call in which a process can end, or print its answer.
const PAUSE: Duration = Duration::from_millis(200);
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
    let cores = default_threads();
    for _ in 0..(cores / 2).clamp(1, MAX_THREADS) {
        let (kernels, recompile) = (Arc::downgrade(kernels), recompile.clone());
        let thread = std::thread::Builder::new().name("reflex-kernels".to_owned());
        let spawned = thread.spawn({
            let (kernels, when_idle) = (kernels.clone(), when_idle.clone());
            move || {
                // At the priority of all others, since the end of a process waits until each thread had its
                // turn: on a busy machine, one of the lowest priority has it seconds later.
                wait_for_first_answer(&kernels);
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

/// Returns a while after the first call has its answer, which has the machine to itself, or once no kernel waits.
fn wait_for_first_answer(kernels: &Weak<TieredKernels>) {
    let mut first_called = None;
    loop {
        let Some(live) = kernels.upgrade() else { return };
        let (signal, seen) = (live.signal().clone(), live.signal().changes());
        let (is_called, is_answered) = (live.was_called(), live.is_answered());
        if !live.has_waiting() {
            return;
        }
        drop(live);
        if is_called {
            let since = first_called.get_or_insert_with(Instant::now).elapsed();
            if is_answered || since >= FIRST_CALL {
                return std::thread::sleep(PAUSE);
            }
        }
        signal.wait_at_most(seen, LOOK_AGAIN);
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

#[cfg(test)]
#[cfg(feature = "cranelift")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use reflex_tir::codegen::{CpuTarget, ObjectFile};
    use reflex_tir::{DType, builder::FuncBuilder, lower};
    use reflex_vm::load::Library;

    use crate::tier_policy::KernelSwaps;

    use super::*;

    fn object() -> ObjectFile {
        let mut f = FuncBuilder::new("twice");
        let x = f.input("x", DType::F32, vec![4.into()]);
        f.output("compute", "y", DType::F32, vec![4.into()], |f, i| f.at(x, i) + f.at(x, i));
        reflex_baseline::compile(&lower::lower(&f.finish()), &CpuTarget::host()).unwrap()
    }

    #[test]
    fn llvm_is_asked_after_the_first_answer_or_a_while() {
        for tells in [true, false] {
            let told = Arc::new(AtomicBool::new(false));
            let (asks, asked) = mpsc::channel();
            let recompile = {
                let told = told.clone();
                move |_, _| {
                    let _ = asks.send(told.load(Ordering::Relaxed));
                    Err("not in this test".to_owned())
                }
            };
            let recompile = Arc::new(Recompile::new(recompile));
            let (objects, swaps) = ([object()], KernelSwaps::WhenReady);
            let kernels = TieredKernels::load(&objects, "", |_| 1, recompile.clone(), swaps);
            let kernels = kernels.unwrap();
            start(&kernels, &recompile, None);
            let begin = Instant::now();
            // A call that the packed entry refuses is one too.
            assert!(kernels.function("twice").unwrap().call(&[]).is_err());
            if tells {
                std::thread::sleep(2 * LOOK_AGAIN);
                told.store(true, Ordering::Relaxed);
                kernels.answered();
            }
            let after_answer = asked.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(after_answer || begin.elapsed() >= FIRST_CALL, "{tells}");
        }
    }
}
