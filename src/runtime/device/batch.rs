//! Batches: launches that are enqueued as one (CUDA graphs).
//!
//! A call of a program enqueues the same launches each time while its arguments have the same shapes, as
//! long as the host looks at no value. So a call is recorded once: every launch with its parameters, and
//! memory from an arena that is the batch's own from then on. A device makes one object of the launches;
//! replaying it changes the addresses of arguments and results alone.
//!
//! Waits of the host, copies and fills spoil the recording, with a reason: a batch cannot hold them.
//!
//! Decision: docs/decisions/0074-batches.md

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Stream, TensorMap};
use crate::abi::DLDevice;
use crate::error::Error;

/// A launch with all that it needs to be enqueued again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLaunch {
    /// The device's handle of the kernel.
    pub kernel: u64,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The parameters, 64 bits each.
    pub params: Vec<u64>,
    /// The number of leading parameters that are addresses.
    pub addresses: usize,
    /// Tensor maps of those, parameters behind all others.
    pub maps: Vec<TensorMap>,
}

/// A parameter of a launch that is another one in the next replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the launch.
    pub launch: usize,
    /// Number of the parameter.
    pub param: usize,
    /// Its value.
    pub value: u64,
}

/// Launches that a device enqueues as one.
pub trait Batch: Send + fmt::Debug {
    /// Changes parameters, for this replay and all later ones, and enqueues the launches on the stream
    /// that they were recorded on.
    ///
    /// # Safety
    /// Addresses among the changes are allocated, of as many bytes as those before them, until the stream
    /// is past the launches, and nothing uses their memory meanwhile out of its order. The kernels are
    /// still loaded.
    unsafe fn replay(&mut self, changes: &[Change]) -> Result<(), Error>;
}

/// The owner of blocks that a recording allocates, in place of a stream. It is no stream's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arena(u64);

/// Arenas are numbered downwards from here: no address is as high.
const LAST_ARENA: u64 = u64::MAX - 16;
/// The most arenas of a process: numbers below are streams'.
const MOST_ARENAS: u64 = 1 << 40;

impl Arena {
    fn new() -> Arena {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Arena(LAST_ARENA - MADE.fetch_add(1, Ordering::Relaxed) % MOST_ARENAS)
    }

    /// The number that stands for the arena where a stream's would.
    pub fn owner(self) -> Stream {
        Stream(self.0)
    }

    /// Whether a number is an arena's.
    pub fn is_owner(stream: Stream) -> bool {
        (LAST_ARENA - MOST_ARENAS..=LAST_ARENA).contains(&stream.0)
    }
}

/// The launches that a call enqueued.
#[derive(Debug)]
pub struct Recorded {
    /// The launches, in order.
    pub launches: Vec<RecordedLaunch>,
    /// The memory that they use.
    pub arena: Arena,
}

struct Recording {
    device: DLDevice,
    launches: Vec<RecordedLaunch>,
    arena: Arena,
    spoiled: Option<&'static str>,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
    /// Whether there is one: what every launch and allocation asks.
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// Records what `call` enqueues from this thread on a device. Where that cannot be a batch, nothing but
/// streams uses the arena that is returned.
pub fn record<T>(
    device: DLDevice,
    call: impl FnOnce() -> Result<T, Error>,
) -> Result<(T, Recorded), (Arena, Unrecorded)> {
    let arena = Arena::new();
    let recording = Recording { device, launches: vec![], arena, spoiled: None };
    RECORDING.with(|slot| *slot.borrow_mut() = Some(recording));
    IS_RECORDING.set(true);
    let result = call();
    IS_RECORDING.set(false);
    let recording = RECORDING.with(|slot| slot.borrow_mut().take());
    match (result, recording) {
        (Err(error), _) => Err((arena, Unrecorded::Failed(error))),
        (Ok(_), None) => Err((arena, Unrecorded::Spoiled("another recording"))),
        (Ok(_), Some(Recording { spoiled: Some(why), .. })) => {
            Err((arena, Unrecorded::Spoiled(why)))
        }
        (Ok(result), Some(Recording { launches, arena, .. })) => {
            Ok((result, Recorded { launches, arena }))
        }
    }
}

/// Why a call was not recorded.
#[derive(Debug)]
pub enum Unrecorded {
    /// It failed.
    Failed(Error),
    /// It did what a batch cannot hold.
    Spoiled(&'static str),
}

#[inline]
fn with(device: DLDevice, what: impl FnOnce(&mut Recording)) {
    if IS_RECORDING.get() {
        with_recording(device, what);
    }
}

#[cold]
fn with_recording(device: DLDevice, what: impl FnOnce(&mut Recording)) {
    // A thread that ends records nothing.
    let _ = RECORDING.try_with(|slot| {
        if let Ok(mut slot) = slot.try_borrow_mut()
            && let Some(recording) = slot.as_mut().filter(|recording| recording.device == device)
        {
            what(recording);
        }
    });
}

/// Adds a launch to this thread's recording, if there is one: what devices do.
pub fn note_launch(device: DLDevice, launch: impl FnOnce() -> RecordedLaunch) {
    with(device, |recording| recording.launches.push(launch()));
}

/// Spoils this thread's recording, if there is one.
pub fn spoil(device: DLDevice, why: &'static str) {
    with(device, |recording| recording.spoiled = recording.spoiled.or(Some(why)));
}

/// Spoils this thread's recording, of whatever device.
pub(super) fn spoil_any(why: &'static str) {
    let _ = RECORDING.try_with(|slot| {
        if let Ok(mut slot) = slot.try_borrow_mut()
            && let Some(recording) = slot.as_mut()
        {
            recording.spoiled = recording.spoiled.or(Some(why));
        }
    });
}

/// The arena that this thread allocates from on a device, while it records.
pub fn arena(device: DLDevice) -> Option<Arena> {
    let mut found = None;
    with(device, |recording| found = Some(recording.arena));
    found
}
