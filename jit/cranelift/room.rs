//! How much machine code there may be, and how much there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reflex_codemem::pages::PAGE;

use crate::error::JitError;

/// Room for so many bytes of code.
#[derive(Debug)]
pub(crate) struct Room {
    limit: usize,
    /// Bytes of code that is there.
    live: AtomicUsize,
    /// Of these, bytes of code that was given up and waits for sessions to leave it.
    leaving: AtomicUsize,
}

/// Bytes of code that count as long as this lives.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    bytes: usize,
    leaving: AtomicBool,
}

impl Room {
    pub(crate) fn new(limit: usize) -> Arc<Room> {
        Arc::new(Room { limit, live: AtomicUsize::new(0), leaving: AtomicUsize::new(0) })
    }

    /// Room for `bytes` of code, in the pages that they take.
    pub(crate) fn share(self: &Arc<Self>, bytes: usize) -> Result<Arc<Share>, JitError> {
        let bytes = pages(bytes);
        let leaving = AtomicBool::new(false);
        let share = Share { room: Arc::clone(self), bytes, leaving };
        // Counted first: threads that publish at once must not pass the limit together.
        if self.live.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit {
            return Err(JitError::limit(self.limit));
        }
        Ok(Arc::new(share))
    }

    /// The most bytes there may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that there are.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Whether `bytes` of code fit now.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.live() + pages(bytes) <= self.limit
    }

    /// Bytes to give up so that `bytes` of code will fit once sessions have left what was given
    /// up; none when they never can.
    pub(crate) fn missing(&self, bytes: usize) -> Option<usize> {
        let staying = self.live().saturating_sub(self.leaving.load(Ordering::Relaxed));
        (pages(bytes) <= self.limit).then(|| (staying + pages(bytes)).saturating_sub(self.limit))
    }
}

fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

impl Share {
    /// Bytes of the pages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The code was given up.
    pub(crate) fn leave(&self) {
        if !self.leaving.swap(true, Ordering::Relaxed) {
            self.room.leaving.fetch_add(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if *self.leaving.get_mut() {
            self.room.leaving.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.room.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
