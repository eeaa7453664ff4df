//! The device of each kind that a thread launches on: what host functions of TVM set before they call
//! kernels.

use std::cell::RefCell;

use crate::abi::DLDevice;

thread_local! {
    static CURRENT: RefCell<Vec<DLDevice>> = const { RefCell::new(vec![]) };
}

/// Makes a device the current one of its kind, for this thread.
///
/// ```
/// use reflex_runtime::{abi::DLDevice, device::current};
/// assert_eq!(current::of_kind(DLDevice::KIND_CUDA), DLDevice::cuda(0));
/// current::set(DLDevice::cuda(1));
/// assert_eq!(current::of_kind(DLDevice::KIND_CUDA), DLDevice::cuda(1));
/// ```
pub fn set(device: DLDevice) {
    // A thread that ends launches nothing.
    let _ = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        match current.iter_mut().find(|known| known.device_type == device.device_type) {
            Some(known) => *known = device,
            None => current.push(device),
        }
    });
}

/// The current device of a kind: the first one, unless another was set.
pub fn of_kind(kind: i32) -> DLDevice {
    let find = |current: &RefCell<Vec<DLDevice>>| {
        current.borrow().iter().find(|known| known.device_type == kind).copied()
    };
    let first = DLDevice { device_type: kind, device_id: 0 };
    CURRENT.try_with(find).ok().flatten().unwrap_or(first)
}
