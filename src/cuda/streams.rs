//! The streams of a device, and their order among each other.
//!
//! A stream waits for another one by an event, which each stream has one of. Two kinds of waits are left out: those for a
//! stream that has got no work since the last one, and those before the next use of a stream that is not used again. The
//! host of the process may use a stream whose handle it has, or that it made, at any time, so neither holds for those.

use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream, CUstream_st};
use parking_lot::Mutex;
use reflex_runtime::device::Stream;

use crate::call::{Failure, cu};
use crate::launches::{KernelName, Launches};

/// Streams that one remembers to have waited for.
const REMEMBERED: usize = 16;
/// Streams that one waits for later.
const OWED: usize = 64;

/// A place in the table of streams, with the stream of the driver that is there and what was launched on it.
#[derive(Debug)]
pub(crate) struct StreamState {
    /// The number of the stream.
    number: AtomicU64,
    raw: AtomicPtr<CUstream_st>,
    /// Whether the host of the process made it, and ends it.
    is_host: AtomicBool,
    /// Whether the host may enqueue work on it.
    is_shared: AtomicBool,
    /// Uses beside launches that may have enqueued work.
    others: AtomicU64,
    /// The event that others wait for, and what this stream has waited for: numbers with the uses at that time.
    order: Mutex<Order>,
    /// Streams that it waits for before its next use.
    owed: Mutex<Vec<Stream>>,
    is_owing: AtomicBool,
    pub(crate) launches: Launches,
}

#[derive(Debug)]
struct Order {
    event: CUevent,
    seen: Vec<(Stream, u64)>,
}

// SAFETY: an event is the driver's, which takes it from any thread; this one is recorded and waited for under a lock.
unsafe impl Send for Order {}

impl StreamState {
    /// A place that no stream had so far.
    fn unused() -> StreamState {
        StreamState {
            number: AtomicU64::new(VACANT),
            raw: AtomicPtr::new(null_mut()),
            is_host: AtomicBool::new(false),
            is_shared: AtomicBool::new(false),
            others: AtomicU64::new(0),
            order: Mutex::new(Order { event: null_mut(), seen: vec![] }),
            owed: Mutex::default(),
            is_owing: AtomicBool::new(false),
            launches: Launches::default(),
        }
    }

    #[inline]
    pub(crate) fn raw(&self) -> CUstream {
        self.raw.load(Ordering::Relaxed)
    }

    /// The number that callers have for it.
    pub(crate) fn number(&self) -> Stream {
        Stream(self.number.load(Ordering::Acquire))
    }

    fn is_host(&self) -> bool {
        self.is_host.load(Ordering::Relaxed)
    }

    fn is_vacant(&self) -> bool {
        self.number.load(Ordering::Acquire) & VACANT != 0
    }

    /// Notes that the host gets the handle.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Release);
    }

    /// Whether it has waited for all that another one has before it now, as far as all uses of that one are known here.
    pub(crate) fn has_waited_for(&self, leads: &StreamState) -> bool {
        let uses = leads.uses();
        let is_known = !leads.is_shared.load(Ordering::Acquire);
        is_known && self.order.lock().seen.contains(&(leads.number(), uses))
    }

    /// Makes this stream wait for what another one has before it now. Its context is current.
    pub(crate) fn wait_for(&self, leads: &StreamState) -> Result<(), Failure> {
        // Read before the event is recorded: work of later uses may be behind it.
        let uses = leads.uses();
        if self.has_waited_for(leads) {
            return Ok(());
        }
        leads.record(|event| {
            // SAFETY: the event was recorded, and is there as long as its stream.
            unsafe { cu!(cuStreamWaitEvent(self.raw(), event, 0)) }
        })?;
        let mut order = self.order.lock();
        order.seen.retain(|(number, _)| *number != leads.number());
        if order.seen.len() == REMEMBERED {
            order.seen.remove(0);
        }
        order.seen.push((leads.number(), uses));
        drop(order);
        // Who waits for this stream waits for that one too.
        self.note_use();
        Ok(())
    }

    /// Uses so far that may have enqueued work. Each of the two numbers grows, so that the sum is the same where both are.
    fn uses(&self) -> u64 {
        self.others.load(Ordering::Acquire).wrapping_add(self.launches.count())
    }

    /// Notes a use that is no launch.
    fn note_use(&self) {
        self.others.fetch_add(1, Ordering::Release);
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
    #[inline]
    pub(crate) fn settle(
        &self,
        wait: impl FnMut(Stream) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.is_owing.load(Ordering::Acquire) {
            true => self.settle_owed(wait),
            false => Ok(()),
        }
    }

    #[cold]
    fn settle_owed(
        &self,
        mut wait: impl FnMut(Stream) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
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
pub(crate) struct InUse<'a>(pub(crate) &'a StreamState);

impl<'a> InUse<'a> {
    /// Ends the use, which was a launch.
    #[inline]
    pub(crate) fn launched(self, kernel: KernelName) -> &'a StreamState {
        let state = self.0;
        std::mem::forget(self);
        state.launches.add(kernel);
        state
    }
}

impl Deref for InUse<'_> {
    type Target = StreamState;

    fn deref(&self) -> &StreamState {
        self.0
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        // The work is enqueued: whoever reads the number and records the event has it.
        self.0.note_use();
    }
}

/// The bit of a number that no stream has: its place is vacant.
const VACANT: u64 = 1 << 63;
/// Bits of a number that are the place in the table. Those above tell a stream from earlier ones at its place.
const PLACE_BITS: u32 = 20;
/// Places of the first chunk, a power of two.
const FIRST: usize = 16;
const CHUNKS: usize = PLACE_BITS as usize - FIRST.ilog2() as usize;

/// Streams by the numbers that callers have. Places are used again and never freed, so a look-up takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Each has twice as many places as the one before it.
    chunks: [OnceLock<Box<[StreamState]>>; CHUNKS],
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// So many have had a stream.
    used: usize,
    vacant: Vec<usize>,
}

impl Streams {
    /// Adds a stream; the first one is the default one. None where there are too many.
    pub(crate) fn add(&self, raw: CUstream) -> Option<Stream> {
        let mut places = self.places.lock();
        // A stream of the host's with this handle has ended.
        if let Some(ended) = self.of_handle(&places, raw).filter(|state| state.is_host()) {
            vacate(&mut places, ended);
        }
        self.add_to(&mut places, raw, false)
    }

    /// A stream of the host's, or one that was made here, whose handle the host has.
    pub(crate) fn of_host(&self, raw: CUstream) -> Option<Stream> {
        let mut places = self.places.lock();
        let known = self.of_handle(&places, raw).map(StreamState::number);
        known.or_else(|| self.add_to(&mut places, raw, true))
    }

    fn add_to(&self, places: &mut Places, raw: CUstream, is_host: bool) -> Option<Stream> {
        let place = places.vacant.pop().unwrap_or(places.used);
        let (chunk, _) = split(place);
        let new = || (0..FIRST << chunk).map(|_| StreamState::unused()).collect();
        self.chunks.get(chunk)?.get_or_init(new);
        let state = self.at(place)?;
        places.used = places.used.max(place + 1);
        state.raw.store(raw, Ordering::Relaxed);
        state.is_host.store(is_host, Ordering::Relaxed);
        state.is_shared.store(is_host, Ordering::Relaxed);
        let number = match state.number.load(Ordering::Relaxed) {
            VACANT => place as u64,
            earlier => (earlier & !VACANT) + (1 << PLACE_BITS),
        };
        state.number.store(number, Ordering::Release);
        Some(Stream(number))
    }

    #[inline]
    pub(crate) fn get(&self, stream: Stream) -> Option<&StreamState> {
        let state = self.at(place_of(stream.0))?;
        (state.number() == stream).then_some(state)
    }

    /// Takes a stream out; the default one stays, and those of the host. Its place is not vacant yet.
    pub(crate) fn remove(&self, stream: Stream) -> Option<&StreamState> {
        let ours = |state: &&StreamState| stream != Stream::DEFAULT && !state.is_host();
        let state = self.get(stream).filter(ours)?;
        // Of two threads one takes it out.
        let (relaxed, number) = (Ordering::Relaxed, stream.0);
        let taken = state.number.compare_exchange(number, number | VACANT, relaxed, relaxed);
        taken.is_ok().then_some(state)
    }

    /// Gives the place of a stream that has ended to others.
    pub(crate) fn vacate(&self, state: &StreamState) {
        vacate(&mut self.places.lock(), state);
    }

    /// Those that were made here. Nothing launches on the host's, which sessions only wait for and hold up.
    pub(crate) fn all(&self) -> impl Iterator<Item = &StreamState> {
        let used = self.places.lock().used;
        self.below(used).filter(|state| !state.is_host())
    }

    /// The stream with a handle of the driver's.
    fn of_handle(&self, places: &Places, raw: CUstream) -> Option<&StreamState> {
        self.below(places.used).find(|state| state.raw() == raw)
    }

    fn below(&self, used: usize) -> impl Iterator<Item = &StreamState> {
        (0..used).filter_map(|place| self.at(place)).filter(|state| !state.is_vacant())
    }

    #[inline]
    fn at(&self, place: usize) -> Option<&StreamState> {
        let (chunk, at) = split(place);
        self.chunks.get(chunk)?.get()?.get(at)
    }
}

fn vacate(places: &mut Places, state: &StreamState) {
    let number = state.number.fetch_or(VACANT, Ordering::Relaxed);
    state.order.lock().seen.clear();
    state.owed.lock().clear();
    state.is_owing.store(false, Ordering::Relaxed);
    state.launches.clear();
    places.vacant.push(place_of(number));
}

fn place_of(number: u64) -> usize {
    (number & ((1 << PLACE_BITS) - 1)) as usize
}

/// The chunk of a place, and the place in that.
#[inline]
fn split(place: usize) -> (usize, usize) {
    let chunk = ((place + FIRST) / FIRST).ilog2() as usize;
    (chunk, place + FIRST - (FIRST << chunk))
}
