//! Storages, tensors in them, views and copies between devices.

use reflex_runtime::abi::DLDevice;
use reflex_runtime::device;
use reflex_runtime::error::Error;
use reflex_runtime::shape::Shape;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor::{self, Tensor};
use reflex_runtime::value::{Any, AnyView};

use super::args::{Context, arity, check_vm, exactly, int};
use crate::reentry;

const ALLOC_STORAGE: &str = "vm.builtin.alloc_storage";
const ALLOC_TENSOR: &str = "vm.builtin.alloc_tensor";
const RESHAPE: &str = "vm.builtin.reshape";
const TO_DEVICE: &str = "vm.builtin.to_device";
const ZERO_OFFSET: &str = "vm.builtin.ensure_zero_offset";

fn check_scope(arg: Option<&AnyView<'_>>) -> Result<(), Error> {
    match arg {
        None => Ok(()),
        Some(scope) if scope.is_none() => Ok(()),
        Some(scope) => match scope.as_str() {
            Some("" | "global") => Ok(()),
            Some(other) => Err(Error::value_error(format!(
                "memory scope `{other}` is not supported; the CPU has `global`"
            ))),
            None => Err(scope.mismatch("ffi.String")),
        },
    }
}

fn shape_arg<'a>(args: &'a [AnyView<'_>], index: usize) -> Result<&'a Shape, Error> {
    args[index].downcast_ref::<Shape>().ok_or_else(|| args[index].mismatch("ffi.Shape"))
}

pub fn alloc_storage(cx: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    if args.len() < 4 {
        return Err(arity(ALLOC_STORAGE, args.len(), 4));
    }
    check_vm(cx, &args[0], ALLOC_STORAGE)?;
    let shape = shape_arg(args, 1)?;
    let device = int(ALLOC_STORAGE, args, 2)?;
    let dtype = args[3].as_dtype().ok_or_else(|| args[3].mismatch("DataType"))?;
    check_scope(args.get(4))?;
    let placement = reentry::placement(&args[0], device)?;
    Ok(placement.storage(tensor::byte_size(shape, dtype)?)?.into())
}

pub fn alloc_tensor(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    if args.len() < 4 {
        return Err(arity(ALLOC_TENSOR, args.len(), 4));
    }
    let Some(storage) = args[0].downcast_ref::<Storage>() else {
        return Err(args[0].mismatch("vm.Storage"));
    };
    let offset = int(ALLOC_TENSOR, args, 1)?;
    let offset = usize::try_from(offset)
        .map_err(|_| Error::value_error(format!("tensor at offset {offset} of a storage")))?;
    let shape = shape_arg(args, 2)?;
    let dtype = args[3].as_dtype().ok_or_else(|| args[3].mismatch("DataType"))?;
    check_scope(args.get(4))?;
    Ok(Tensor::on_storage(storage, offset, shape, dtype)?.into())
}

/// A tensor argument; a borrowed `DLTensor*` cannot be kept, so it is refused.
fn tensor_arg<'a>(arg: &'a AnyView<'_>, name: &str) -> Result<&'a Tensor, Error> {
    arg.downcast_ref::<Tensor>().ok_or_else(|| {
        let key = arg.type_key();
        Error::type_error(format!("`{name}`, argument 0: expected `ffi.Tensor`, got `{key}`"))
    })
}

pub fn reshape(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(RESHAPE, args, 2)?;
    let tensor = tensor_arg(&args[0], RESHAPE)?;
    let shape = shape_arg(args, 1)?;
    Ok(tensor.view(0, shape, tensor.dtype())?.into())
}

pub fn to_device(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    if args.len() < 3 {
        return Err(arity(TO_DEVICE, args.len(), 3));
    }
    let tensor = tensor_arg(&args[0], TO_DEVICE)?;
    let (kind, id) = (int(TO_DEVICE, args, 1)?, int(TO_DEVICE, args, 2)?);
    check_scope(args.get(3))?;
    let number = |n: i64| i32::try_from(n).unwrap_or(-1);
    let device = DLDevice { device_type: number(kind), device_id: number(id) };
    if device.device_id < 0 || device::find(device).is_none() {
        return Err(Error::value_error(format!(
            "device ({kind}, {id}) is not open; the CPUs are (1, 0), (1, 1) and so on"
        )));
    }
    Ok(tensor.copy_to(device)?.into())
}

pub fn ensure_zero_offset(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(ZERO_OFFSET, args, 1)?;
    let tensor = tensor_arg(&args[0], ZERO_OFFSET)?;
    if tensor.dl().byte_offset == 0 {
        return Ok(tensor.clone().into());
    }
    Ok(tensor.copy_to(tensor.device())?.into())
}
