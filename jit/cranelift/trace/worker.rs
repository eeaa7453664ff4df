//! A thread that compiles traces while the interpreter goes on.
//!
//! One per tier, started by the first trace, at the lowest priority the system has; it ends with
//! its tier. Results wait here until their site is hot again, so nothing running is interrupted.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled};

use super::ir::Trace;
use super::make::Maker;

type Key = (u64, SiteId);
type Jobs = Arc<Mutex<HashMap<Key, Job>>>;

/// How far a trace is.
pub(crate) enum Job {
    /// Waiting, or being compiled.
    Pending,
    Done(Compiled),
    Failed(Bailout),
}

/// A trace to be compiled. It does not keep its program.
pub(crate) struct Order {
    pub(crate) program: Weak<Program>,
    pub(crate) site: SiteId,
    pub(crate) trace: Trace,
}

/// Hands traces to its thread and their code back.
#[derive(Default)]
pub(crate) struct Worker {
    jobs: Jobs,
    /// To the thread, once there is one; `None` when the system refused it.
    queue: OnceLock<Option<Sender<Order>>>,
}

impl Worker {
    /// Queues a trace for `maker`, which is the same in every call.
    pub(crate) fn submit(&self, key: Key, order: Order, maker: &Arc<Maker>) -> Result<(), Bailout> {
        let refused = || Bailout::Codegen { message: "no thread to compile on".to_owned() };
        let queue = self.queue.get_or_init(|| self.start(maker)).as_ref().ok_or_else(refused)?;
        self.lock().insert(key, Job::Pending);
        queue.send(order).map_err(|_| {
            self.lock().remove(&key);
            refused()
        })
    }

    /// The state of a trace. A finished one is handed over and forgotten.
    pub(crate) fn take(&self, key: Key) -> Option<Job> {
        let mut jobs = self.lock();
        match jobs.get(&key)? {
            Job::Pending => Some(Job::Pending),
            Job::Done(_) | Job::Failed(_) => jobs.remove(&key),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, maker: &Arc<Maker>) -> Option<Sender<Order>> {
        let (sender, receiver) = channel();
        let (maker, jobs) = (Arc::clone(maker), Arc::clone(&self.jobs));
        let thread = std::thread::Builder::new().name("reflex-trace".to_owned());
        thread.spawn(move || compile_all(&receiver, &maker, &jobs)).ok().map(|_| sender)
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// The thread: until the tier is gone.
fn compile_all(queue: &Receiver<Order>, maker: &Maker, jobs: &Mutex<HashMap<Key, Job>>) {
    // SAFETY: a system call on the calling thread only; a refusal leaves its priority as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    while let Ok(Order { program, site, trace }) = queue.recv() {
        // Whoever asked is gone with the program.
        let Some(program) = program.upgrade() else { continue };
        let job = maker.make(&program, site, trace).map_or_else(Job::Failed, Job::Done);
        jobs.lock().unwrap_or_else(PoisonError::into_inner).insert((program.id(), site), job);
    }
}
