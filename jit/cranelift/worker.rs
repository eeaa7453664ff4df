//! A thread that compiles while the interpreter goes on.
//!
//! One per tier, started by the first order, at the lowest priority the system has; it ends with
//! its tier. What is made is installed as soon as it is there.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Condvar, Mutex};
use reflex_runtime::alloc::heap;
use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::Bailout;

use crate::bridge::Exits;
use crate::engine::{Engine, NOBODY};
use crate::trace::ir::Trace;

type Key = (u64, SiteId);
type Jobs = Arc<Mutex<HashMap<Key, Job>>>;

/// How far a trace is.
pub(crate) enum Job {
    /// Waiting, or being compiled.
    Pending,
    Failed(Bailout),
}

/// What is to be compiled.
pub(crate) enum Work {
    Trace(SiteId, Box<Trace>),
    /// What follows on an exit of a trace, to be linked there.
    Bridge(Arc<Exits>, u32, Box<Trace>),
    /// A function, to be installed.
    Whole(u32),
}

/// Work for a program, which it does not keep.
pub(crate) struct Order {
    pub(crate) program: Weak<Program>,
    pub(crate) work: Work,
}

/// Orders that are not done, and who waits for that.
#[derive(Default)]
struct Open {
    count: Mutex<usize>,
    done: Condvar,
}

impl Open {
    fn add(self: &Arc<Self>) -> Ticket {
        *self.count.lock() += 1;
        Ticket(Arc::clone(self))
    }
}

/// An order that is not done as long as this lives, wherever it is dropped.
pub(crate) struct Ticket(Arc<Open>);

impl Drop for Ticket {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.done.notify_all();
    }
}

/// Hands orders to its thread.
#[derive(Default)]
pub(crate) struct Worker {
    jobs: Jobs,
    open: Arc<Open>,
    /// To the thread, once there is one; `None` when the system refused it.
    queue: OnceLock<Option<Sender<(Order, Ticket)>>>,
}

impl Worker {
    /// Queues an order of program `program` for `engine`, which is the same in every call.
    pub(crate) fn submit(
        &self,
        order: Order,
        program: u64,
        engine: &Weak<Engine>,
    ) -> Result<(), Bailout> {
        let refused = || Bailout::Codegen { message: "no thread to compile on".to_owned() };
        let queue = self.queue.get_or_init(|| self.start(engine)).as_ref().ok_or_else(refused)?;
        let key = match &order.work {
            Work::Trace(site, _) => Some((program, *site)),
            Work::Bridge(..) | Work::Whole(_) => None,
        };
        self.lock().extend(key.map(|key| (key, Job::Pending)));
        queue.send((order, self.open.add())).map_err(|_| {
            key.map(|key| self.lock().remove(&key));
            refused()
        })
    }

    /// Waits until no order is open.
    pub(crate) fn wait(&self) {
        let mut count = self.open.count.lock();
        while *count > 0 {
            self.open.done.wait(&mut count);
        }
    }

    /// The state of a trace that is not installed. A failure is told once.
    pub(crate) fn take(&self, key: Key) -> Option<Job> {
        let mut jobs = self.lock();
        match jobs.get(&key)? {
            Job::Pending => Some(Job::Pending),
            Job::Failed(_) => jobs.remove(&key),
        }
    }

    /// Whether a trace is waiting, or being compiled.
    pub(crate) fn is_pending(&self, key: Key) -> bool {
        matches!(self.lock().get(&key), Some(Job::Pending))
    }

    /// Why a trace failed that nobody has asked for since.
    pub(crate) fn untold(&self, key: Key) -> Option<Bailout> {
        match self.lock().get(&key)? {
            Job::Pending => None,
            Job::Failed(reason) => Some(reason.clone()),
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, Job>> {
        self.jobs.lock()
    }

    fn start(&self, engine: &Weak<Engine>) -> Option<Sender<(Order, Ticket)>> {
        let (sender, receiver) = channel();
        let (engine, jobs) = (Weak::clone(engine), Arc::clone(&self.jobs));
        let thread = std::thread::Builder::new().name("reflex-trace".to_owned());
        thread.spawn(move || compile_all(&receiver, &engine, &jobs)).ok().map(|_| sender)
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// Bytes of code from which on the memory that it took to make them is worth giving back: some
/// hundred times as much.
const MUCH_CODE: usize = 64 << 10;

/// The thread: until the tier is gone.
fn compile_all(
    queue: &Receiver<(Order, Ticket)>,
    engine: &Weak<Engine>,
    jobs: &Mutex<HashMap<Key, Job>>,
) {
    // SAFETY: a system call on the calling thread only; a refusal leaves its priority as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    // Bytes of code since memory was given back.
    let mut made = 0;
    while let Ok((Order { program, work }, _ticket)) = next(queue, &mut made) {
        // Whoever asked may be gone.
        let (Some(engine), Some(program)) = (engine.upgrade(), program.upgrade()) else { continue };
        let before = engine.assembler.room.live();
        match work {
            Work::Trace(site, trace) => {
                let made = engine.root(&program, site, *trace, NOBODY);
                let mut jobs = jobs.lock();
                let key = (program.id(), site);
                match made {
                    Ok(()) => jobs.remove(&key),
                    Err(reason) => jobs.insert(key, Job::Failed(reason)),
                };
            }
            Work::Bridge(exits, exit, trace) => {
                if let Err(reason) = engine.bridge(&program, (&exits, exit), *trace, NOBODY) {
                    program.count_bailout(exits.site, &reason);
                }
            }
            Work::Whole(func) => engine.install_whole(&program, func, NOBODY),
        }
        made += engine.assembler.room.live().saturating_sub(before);
    }
}

/// The next order. Before it is waited for, memory goes back to the system if much was used: the
/// allocator keeps what a thread has freed for that thread.
fn next(queue: &Receiver<(Order, Ticket)>, made: &mut usize) -> Result<(Order, Ticket), RecvError> {
    if let Ok(order) = queue.try_recv() {
        return Ok(order);
    }
    if std::mem::take(made) >= MUCH_CODE {
        heap::trim();
    }
    queue.recv()
}
