//! A thread for each instance that stops its run when all clients of it have gone.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use reflex::Canceller;

use crate::server::RequestHandle;

/// The time between two looks at running requests; also the shortest run that is stopped.
const INTERVAL: Duration = Duration::from_millis(10);

#[derive(Default)]
struct State {
    /// The requests of the run under way.
    requests: Vec<RequestHandle>,
    /// Whether the thread sleeps until it is woken.
    asleep: bool,
    /// Whether the instance is going away.
    ended: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread, which ends with this.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    canceller: Canceller,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start(canceller: Canceller) -> std::io::Result<Watch> {
        let shared = Arc::new(Shared::default());
        let (watched, stops) = (shared.clone(), canceller.clone());
        let thread = std::thread::Builder::new()
            .name("reflex-watch".to_owned())
            .spawn(move || watch(&watched, &stops))?;
        Ok(Watch { shared, canceller, thread: Some(thread) })
    }

    /// Runs `body` and stops its run when all of `requests` are cancelled meanwhile.
    pub(crate) fn during<T>(&self, requests: &[&RequestHandle], body: impl FnOnce() -> T) -> T {
        // SAFETY: these are dropped below, before the caller's handles can be released.
        let copies = requests.iter().map(|request| unsafe { request.duplicate() });
        let mut state = self.shared.state.lock();
        state.requests = copies.collect();
        // A thread that looks at the clock anyway need not be woken for each run.
        if state.asleep {
            self.shared.changed.notify_one();
        }
        drop(state);
        let result = body();
        self.shared.state.lock().requests.clear();
        // The thread cancels under the lock, so nothing cancels the next run.
        self.canceller.reset();
        result
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and nothing could be done about it here.
            let _ = thread.join();
        }
    }
}

fn watch(shared: &Shared, canceller: &Canceller) {
    let mut state = shared.state.lock();
    while !state.ended {
        if state.requests.is_empty() {
            state.asleep = true;
            shared.changed.wait(&mut state);
            state.asleep = false;
        }
        shared.changed.wait_for(&mut state, INTERVAL);
        if !state.requests.is_empty() && state.requests.iter().all(RequestHandle::is_cancelled) {
            canceller.cancel();
        }
    }
}
