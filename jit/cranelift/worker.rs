//! The background thread that compiles while the interpreter runs.
//!
//! Each tier has one. The first request starts it, at the lowest priority that the system has; it
//! ends with its tier. Code is installed as soon as it is compiled.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Condvar, Mutex, MutexGuard};
use reflex_runtime::alloc::heap;
use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::Bailout;

use crate::penalty::SiteKey;
use crate::side_exits::ExitRef;
use crate::trace::ir::Trace;

type Jobs = Arc<Mutex<HashMap<SiteKey, JobState>>>;

/// The progress of a root trace that is not installed.
pub(crate) enum JobState {
    /// Queued, or being compiled.
    Pending,
    Failed(Bailout),
}

/// Code to be compiled and installed.
pub(crate) enum CompileTask {
    /// A trace that starts at a site.
    RootTrace(SiteId, Box<Trace>),
    /// A trace that starts at a side exit, to be linked there.
    SideTrace(ExitRef, Box<Trace>),
    /// A function, as a method.
    Method(u32),
    /// A function, as a method that shows its calls to an instrument.
    WatchedMethod(u32),
}

/// A task of a program, which it does not keep alive.
pub(crate) struct CompileRequest {
    pub(crate) program: Weak<Program>,
    pub(crate) task: CompileTask,
}

/// Compiles what the worker takes from its queue.
pub(crate) trait BackgroundCompiler: Send + Sync {
    /// Compiles and installs the code of a task. Returns why a root trace was not installed.
    fn compile(&self, program: &Arc<Program>, task: CompileTask) -> Result<(), Bailout>;

    /// Bytes of machine code that exist.
    fn code_bytes(&self) -> usize;
}

/// Counts unfinished requests, and wakes up threads that wait for them.
#[derive(Default)]
struct OpenRequests {
    count: Mutex<usize>,
    done: Condvar,
}

impl OpenRequests {
    fn add(self: &Arc<Self>) -> RequestTicket {
        *self.count.lock() += 1;
        RequestTicket(Arc::clone(self))
    }
}

/// Keeps a request counted until it is dropped, on whichever thread.
struct RequestTicket(Arc<OpenRequests>);

impl Drop for RequestTicket {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.done.notify_all();
    }
}

type Queued = (CompileRequest, RequestTicket);

/// Sends requests to its thread.
#[derive(Default)]
pub(crate) struct Worker {
    jobs: Jobs,
    open: Arc<OpenRequests>,
    /// To the thread, once there is one; `None` if the system refused it.
    queue: OnceLock<Option<Sender<Queued>>>,
}

impl Worker {
    /// Queues a request of program `program` for `compiler`, which is the same in every call.
    pub(crate) fn submit(
        &self,
        request: CompileRequest,
        program: u64,
        compiler: &Weak<dyn BackgroundCompiler>,
    ) -> Result<(), Bailout> {
        let refused = || Bailout::Codegen { message: "no thread to compile on".to_owned() };
        let queue = self.queue.get_or_init(|| self.start(compiler)).as_ref().ok_or_else(refused)?;
        let key = request.task.job(program);
        self.lock().extend(key.map(|key| (key, JobState::Pending)));
        queue.send((request, self.open.add())).map_err(|_| {
            key.map(|key| self.lock().remove(&key));
            refused()
        })
    }

    /// Waits until every request is finished.
    pub(crate) fn wait(&self) {
        let mut count = self.open.count.lock();
        while *count > 0 {
            self.open.done.wait(&mut count);
        }
    }

    /// Returns the progress of a root trace that is not installed. A failure is returned once.
    pub(crate) fn take(&self, key: SiteKey) -> Option<JobState> {
        let mut jobs = self.lock();
        match jobs.get(&key)? {
            JobState::Pending => Some(JobState::Pending),
            JobState::Failed(_) => jobs.remove(&key),
        }
    }

    /// Returns true if a root trace is queued or being compiled.
    pub(crate) fn is_pending(&self, key: SiteKey) -> bool {
        matches!(self.lock().get(&key), Some(JobState::Pending))
    }

    /// The failure of a root trace that [`Worker::take`] has not returned yet.
    pub(crate) fn unreported_failure(&self, key: SiteKey) -> Option<Bailout> {
        match self.lock().get(&key)? {
            JobState::Pending => None,
            JobState::Failed(reason) => Some(reason.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SiteKey, JobState>> {
        self.jobs.lock()
    }

    fn start(&self, compiler: &Weak<dyn BackgroundCompiler>) -> Option<Sender<Queued>> {
        let (sender, receiver) = channel();
        let (compiler, jobs) = (Weak::clone(compiler), Arc::clone(&self.jobs));
        let thread = std::thread::Builder::new().name("reflex-trace".to_owned());
        thread.spawn(move || compile_all(&receiver, &compiler, &jobs)).ok().map(|_| sender)
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl CompileTask {
    /// The site whose progress is tracked: that of a root trace.
    fn job(&self, program: u64) -> Option<SiteKey> {
        match self {
            CompileTask::RootTrace(site, _) => Some(SiteKey { program, site: *site }),
            CompileTask::SideTrace(..) | CompileTask::Method(_) | CompileTask::WatchedMethod(_) => {
                None
            }
        }
    }
}

/// Bytes of new code after which the compiler's memory goes back to the system: compilation takes
/// some hundred times as much.
const TRIM_AFTER: usize = 64 << 10;

/// The body of the thread: compiles until the tier is gone.
fn compile_all(
    queue: &Receiver<Queued>,
    compiler: &Weak<dyn BackgroundCompiler>,
    jobs: &Mutex<HashMap<SiteKey, JobState>>,
) {
    // SAFETY: the system call changes the priority of the calling thread only, and a refusal leaves
    // it as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    // Bytes of code since memory went back to the system.
    let mut made = 0;
    while let Ok((CompileRequest { program, task }, _ticket)) = next(queue, &mut made) {
        // The tier or the program may be gone.
        let (Some(compiler), Some(program)) = (compiler.upgrade(), program.upgrade()) else {
            continue;
        };
        let before = compiler.code_bytes();
        let job = task.job(program.id());
        let outcome = compiler.compile(&program, task);
        if let Some(key) = job {
            let mut jobs = jobs.lock();
            match outcome {
                Ok(()) => jobs.remove(&key),
                Err(reason) => jobs.insert(key, JobState::Failed(reason)),
            };
        }
        made += compiler.code_bytes().saturating_sub(before);
    }
}

/// Receives the next request. Before it blocks, memory goes back to the system if much was used:
/// the allocator keeps what a thread has freed for that thread.
fn next(queue: &Receiver<Queued>, made: &mut usize) -> Result<Queued, RecvError> {
    if let Ok(request) = queue.try_recv() {
        return Ok(request);
    }
    if std::mem::take(made) >= TRIM_AFTER {
        heap::trim();
    }
    queue.recv()
}
