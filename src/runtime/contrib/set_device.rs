//! TVM's `__tvm_set_device`, which host functions call before they launch kernels.

use crate::abi::DLDevice;
use crate::device::{self, current};
use crate::error::Error;
use crate::value::{Any, AnyView};

/// `(kind, number)`: makes a device the current one of its kind, for this thread.
pub(super) fn set_device(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let number = |arg: &AnyView<'_>| arg.as_int().and_then(|n| i32::try_from(n).ok());
    let [Some(device_type), Some(device_id)] = [args.first(), args.get(1)].map(|arg| number(arg?))
    else {
        return Err(Error::type_error("`__tvm_set_device` takes the kind and number of a device"));
    };
    let id = DLDevice { device_type, device_id };
    device::get(id)?;
    current::set(id);
    Ok(Any::NONE)
}
