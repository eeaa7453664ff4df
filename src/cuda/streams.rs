//! The streams of a device, and their order among each other.
//!
//! A stream waits for another one by an event, which each stream has one of. Two kinds of waits are left out: those for a
//! stream that has got no work since the last one, and those before the next use of a stream that is not used again. The
//! host of the process may use a stream whose handle it has, or that it made, at any time, so neither holds for those.

use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use parking_lot::{Mutex, RwLock};
use reflex_runtime::device::Stream;

use crate::call::{Failure, cu};
use crate::launches::Launches;

/// Streams that one remembers to have waited for.
const REMEMBERED: usize = 16;
/// Streams that one waits for later.
const OWED: usize = 64;

/// A stream of the driver, and what was launched on it.
#[derive(Debug)]
pub(crate) struct StreamState {
    raw: Raw,
    /// Tells it from a later one with the same handle.
    serial: u64,
    /// Whether the host of the process made it, and ends it.
    is_host: bool,
    /// Whether the host may enqueue work on it.
    is_shared: AtomicBool,
    /// Uses that may have enqueued work.
    uses: AtomicU64,
    /// The event that others wait for, and what this stream has waited for: serial numbers with the uses at that time.
    order: Mutex<Order>,
    /// Streams that it waits for before its next use.
    owed: Mutex<Vec<Stream>>,
    is_owing: AtomicBool,
    pub(crate) launches: Mutex<Launches>,
}

#[derive(Debug)]
struct Raw(CUstream);

// SAFETY: a stream is the driver's, which takes it from any thread.
unsafe impl Send for Raw {}
// SAFETY: as for `Send`: the driver locks what it changes.
unsafe impl Sync for Raw {}

#[derive(Debug)]
struct Order {
    event: CUevent,
    seen: Vec<(u64, u64)>,
}

// SAFETY: an event is the driver's, which takes it from any thread; this one is recorded and waited for under a lock.
unsafe impl Send for Order {}

impl StreamState {
    pub(crate) fn new(raw: CUstream) -> StreamState {
        static MADE: AtomicU64 = AtomicU64::new(0);
        StreamState {
            raw: Raw(raw),
            serial: MADE.fetch_add(1, Ordering::Relaxed),
            is_host: false,
            is_shared: AtomicBool::new(false),
            uses: AtomicU64::new(0),
            order: Mutex::new(Order { event: null_mut(), seen: vec![] }),
            owed: Mutex::default(),
            is_owing: AtomicBool::new(false),
            launches: Mutex::default(),
        }
    }

    /// A stream of the host's.
    pub(crate) fn of_host(raw: CUstream) -> StreamState {
        let is_shared = AtomicBool::new(true);
        StreamState { is_host: true, is_shared, ..StreamState::new(raw) }
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw.0
    }

    /// Notes that the host gets the handle.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Release);
    }

    /// Whether it has waited for all that another one has before it now, as far as all uses of that one are known here.
    pub(crate) fn has_waited_for(&self, leads: &StreamState) -> bool {
        let uses = leads.uses.load(Ordering::Acquire);
        let is_known = !leads.is_shared.load(Ordering::Acquire);
        is_known && self.order.lock().seen.contains(&(leads.serial, uses))
    }

    /// Makes this stream wait for what another one has before it now. Its context is current.
    pub(crate) fn wait_for(&self, leads: &StreamState) -> Result<(), Failure> {
        // Read before the event is recorded: work of later uses may be behind it.
        let uses = leads.uses.load(Ordering::Acquire);
        if self.has_waited_for(leads) {
            return Ok(());
        }
        leads.record(|event| {
            // SAFETY: the event was recorded, and is there as long as its stream.
            unsafe { cu!(cuStreamWaitEvent(self.raw(), event, 0)) }
        })?;
        let mut order = self.order.lock();
        order.seen.retain(|(serial, _)| *serial != leads.serial);
        if order.seen.len() == REMEMBERED {
            order.seen.remove(0);
        }
        order.seen.push((leads.serial, uses));
        drop(order);
        // Who waits for this stream waits for that one too.
        self.uses.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Records the stream's event, which `wait` may be given until another thread records it.
    fn record(&self, wait: impl FnOnce(CUevent) -> Result<(), Failure>) -> Result<(), Failure> {
        const NO_TIMES: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let mut order = self.order.lock();
        // SAFETY: the event is made before it is recorded, and the stream lives as long as its state. A wait is for the
        // recording before it, whatever comes later (CUDA driver API, cuStreamWaitEvent).
        unsafe {
            if order.event.is_null() {
                cu!(cuEventCreate(&mut order.event, NO_TIMES))?;
            }
            cu!(cuEventRecord(order.event, self.raw()))?;
        }
        wait(order.event)
    }

    /// Ends the event, with the stream.
    pub(crate) fn end_event(&self) {
        let event = std::mem::replace(&mut self.order.lock().event, null_mut());
        if !event.is_null() {
            // SAFETY: it is in no place any more.
            let _ = unsafe { cu!(cuEventDestroy_v2(event)) };
        }
    }

    /// Notes that it has to wait for another stream before its next use. Returns false where it has to at once: the host
    /// may use it, or it owes many waits.
    pub(crate) fn owe(&self, leads: Stream) -> bool {
        if self.is_shared.load(Ordering::Acquire) {
            return false;
        }
        let mut owed = self.owed.lock();
        if !owed.contains(&leads) {
            if owed.len() == OWED {
                return false;
            }
            owed.push(leads);
        }
        self.is_owing.store(true, Ordering::Release);
        true
    }

    /// Lets it wait for the streams that it owes that to. Other users of the stream wait meanwhile.
    pub(crate) fn settle(
        &self,
        mut wait: impl FnMut(Stream) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.is_owing.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut owed = self.owed.lock();
        while let Some(leads) = owed.last() {
            wait(*leads)?;
            owed.pop();
        }
        self.is_owing.store(false, Ordering::Release);
        Ok(())
    }
}

/// A stream in use: what is enqueued on it is behind what it was said to wait for, and is work that others wait for.
#[derive(Debug)]
pub(crate) struct InUse(pub(crate) Arc<StreamState>);

impl Deref for InUse {
    type Target = StreamState;

    fn deref(&self) -> &StreamState {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // The work is enqueued: whoever reads the number and records the event has it.
        self.0.uses.fetch_add(1, Ordering::Release);
    }
}

/// Streams by the numbers that callers have; they are few.
#[derive(Debug, Default)]
pub(crate) struct Streams(RwLock<Vec<(Stream, Arc<StreamState>)>>);

impl Streams {
    pub(crate) fn add(&self, stream: Stream, state: StreamState) {
        let mut all = self.0.write();
        all.retain(|(other, _)| *other != stream);
        all.push((stream, Arc::new(state)));
    }

    pub(crate) fn get(&self, stream: Stream) -> Option<Arc<StreamState>> {
        let all = self.0.read();
        all.iter().find(|(other, _)| *other == stream).map(|(_, state)| Arc::clone(state))
    }

    /// Takes a stream out; the default one stays, and those of the host.
    pub(crate) fn remove(&self, stream: Stream) -> Option<Arc<StreamState>> {
        let is_ours = |state: Arc<StreamState>| stream != Stream::DEFAULT && !state.is_host;
        if !self.get(stream).is_some_and(is_ours) {
            return None;
        }
        let mut all = self.0.write();
        let at = all.iter().position(|(other, _)| *other == stream)?;
        Some(all.swap_remove(at).1)
    }

    /// Those that were made here. Nothing launches on the host's, which sessions only wait for and hold up.
    pub(crate) fn all(&self) -> Vec<Arc<StreamState>> {
        let all = self.0.read();
        let states = all.iter().map(|(_, state)| state);
        states.filter(|stream| !stream.is_host).cloned().collect()
    }
}
