//! The streams of a device.

use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use parking_lot::{Mutex, RwLock};
use reflex_runtime::device::Stream;

use crate::launches::Launches;

/// A stream of the driver, and what was launched on it.
#[derive(Debug)]
pub(crate) struct StreamState {
    raw: Raw,
    /// Whether the host of the process made it, and ends it.
    is_host: bool,
    pub(crate) launches: Mutex<Launches>,
}

#[derive(Debug)]
struct Raw(CUstream);

// SAFETY: a stream is the driver's, which takes it from any thread.
unsafe impl Send for Raw {}
// SAFETY: as for `Send`: the driver locks what it changes.
unsafe impl Sync for Raw {}

impl StreamState {
    pub(crate) fn new(raw: CUstream) -> StreamState {
        StreamState { raw: Raw(raw), is_host: false, launches: Mutex::default() }
    }

    /// A stream of the host's.
    pub(crate) fn of_host(raw: CUstream) -> StreamState {
        StreamState { is_host: true, ..StreamState::new(raw) }
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw.0
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
