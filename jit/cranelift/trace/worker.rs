//! A thread that compiles traces while the interpreter goes on.
//!
//! One per tier, started by the first trace, at the lowest priority the system has; it ends with
//! its tier. Results wait here until their site is hot again, so nothing running is interrupted.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use reflex_vm::decode::SiteId;
use reflex_vm::tier::{Bailout, Compiled};

use super::record::{Reports, Translated};
use crate::assemble::Assembler;

type Key = (u64, SiteId);
type Jobs = Arc<Mutex<HashMap<Key, Job>>>;

/// How far a trace is.
pub(crate) enum Job {
    /// Waiting, or being compiled.
    Pending,
    Done(Compiled),
    Failed(Bailout),
}

/// Hands traces to its thread and their code back.
pub(crate) struct Worker {
    assembler: Arc<Assembler>,
    reports: Reports,
    jobs: Jobs,
    /// To the thread, once there is one; `None` when the system refused it.
    queue: OnceLock<Option<Sender<Translated>>>,
}

impl Worker {
    pub(crate) fn new(assembler: Arc<Assembler>, reports: Reports) -> Self {
        Self { assembler, reports, jobs: Jobs::default(), queue: OnceLock::new() }
    }

    /// Queues a trace.
    pub(crate) fn submit(&self, trace: Translated) -> Result<(), Bailout> {
        let refused = || Bailout::Codegen { message: "no thread to compile on".to_owned() };
        let queue = self.queue.get_or_init(|| self.start()).as_ref().ok_or_else(refused)?;
        let key = trace.key();
        self.lock().insert(key, Job::Pending);
        queue.send(trace).map_err(|_| {
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

    fn start(&self) -> Option<Sender<Translated>> {
        let (sender, receiver) = channel();
        let (assembler, reports) = (Arc::clone(&self.assembler), Arc::clone(&self.reports));
        let jobs = Arc::clone(&self.jobs);
        let thread = std::thread::Builder::new().name("reflex-trace".to_owned());
        let run = move || compile_all(&receiver, &assembler, &reports, &jobs);
        thread.spawn(run).ok().map(|_| sender)
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// The thread: until the tier is gone.
fn compile_all(
    queue: &Receiver<Translated>,
    assembler: &Assembler,
    reports: &Reports,
    jobs: &Jobs,
) {
    // SAFETY: a system call on the calling thread only; a refusal leaves its priority as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    while let Ok(trace) = queue.recv() {
        let key = trace.key();
        let job = trace.publish(assembler, reports).map_or_else(Job::Failed, Job::Done);
        jobs.lock().unwrap_or_else(PoisonError::into_inner).insert(key, job);
    }
}
