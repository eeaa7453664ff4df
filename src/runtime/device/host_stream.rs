//! The stream that the host of a thread works on: what it passes in was made there, and what it gets is
//! used there.

use std::cell::RefCell;

use super::{Stream, current_stream, find, get};
use crate::abi::DLDevice;
use crate::error::Error;

thread_local! {
    /// The driver's handles by device.
    static HOST: RefCell<Vec<(DLDevice, u64)>> = const { RefCell::new(vec![]) };
}

/// Sets the stream that this thread's host works on, by the driver's handle, where null is CUDA's
/// legacy default stream; `None` for a host that has none. Returns the one before.
///
/// ```
/// use reflex_runtime::abi::DLDevice;
/// use reflex_runtime::device::host_stream::{handle, set};
/// let gpu = DLDevice { device_type: DLDevice::KIND_CUDA, device_id: 9 };
/// assert_eq!((set(gpu, Some(7)), handle(gpu)), (None, Some(7)));
/// assert_eq!((set(gpu, None), handle(gpu)), (Some(7), None));
/// ```
pub fn set(id: DLDevice, handle: Option<u64>) -> Option<u64> {
    let change = |streams: &RefCell<Vec<(DLDevice, u64)>>| {
        let mut streams = streams.borrow_mut();
        let at = streams.iter().position(|(of, _)| *of == id);
        let before = at.map(|at| streams.swap_remove(at).1);
        streams.extend(handle.map(|handle| (id, handle)));
        before
    };
    // A thread that ends has no host any more.
    HOST.try_with(change).ok().flatten()
}

/// The handle of the host's stream on a device, if it has set one.
pub fn handle(id: DLDevice) -> Option<u64> {
    let of = |streams: &RefCell<Vec<(DLDevice, u64)>>| {
        streams.borrow().iter().find(|(of, _)| *of == id).map(|(_, handle)| *handle)
    };
    HOST.try_with(of).ok().flatten()
}

/// The handle of the stream that this thread's work on a device belongs on: the current one's, else the
/// host's, else null.
pub(crate) fn of_work(id: DLDevice) -> Result<u64, Error> {
    match (current_stream(id), find(id)) {
        (Stream::DEFAULT, _) | (_, None) => Ok(handle(id).unwrap_or(0)),
        (stream, Some(device)) => device.handle_of(stream),
    }
}

/// The host's stream on a device, as the device knows it.
pub fn current(id: DLDevice) -> Result<Option<Stream>, Error> {
    handle(id).map(|handle| get(id)?.host_stream(handle)).transpose()
}
