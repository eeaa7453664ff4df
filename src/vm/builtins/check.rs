//! Checks of values against what a program declared, and branch conditions.
//!
//! Messages begin with the context string that the compiler left in the program; kinds
//! are TVM's: `TypeError` for the wrong kind of value, `ValueError` for the wrong rank,
//! type or size.

use reflex_runtime::abi::{DLTensor, type_index};
use reflex_runtime::array::Array;
use reflex_runtime::closure::VmClosure;
use reflex_runtime::device;
use reflex_runtime::device::waits::Wait;
use reflex_runtime::dtype::{DType, code};
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::object;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::transfer::host_copy_of;
use reflex_runtime::value::{Any, AnyView};

use super::args::{Context, arity, exactly, int};
use super::closure::Closure;

const TENSOR: &str = "vm.builtin.check_tensor_info";
const SHAPE: &str = "vm.builtin.check_shape_info";
const PRIM: &str = "vm.builtin.check_prim_value_info";
const STRING: &str = "vm.builtin.check_string_info";
const TUPLE: &str = "vm.builtin.check_tuple_info";
const FUNC: &str = "vm.builtin.check_func_info";
const COND: &str = "vm.builtin.read_if_cond";

/// The compiler's words on where a check comes from.
pub fn context<'a>(arg: &'a AnyView<'_>) -> &'a str {
    arg.as_str().unwrap_or("").trim_end()
}

#[cold]
fn wrong_kind(at: &AnyView<'_>, expected: &str, got: &AnyView<'_>) -> Error {
    Error::type_error(format!("{} expect a {expected} but get {}", context(at), got.type_key()))
}

pub fn check_tensor_info(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let (x, dtype, at) = match args {
        [x, _, at] => (x, None, at),
        // A type that is left open is written as None.
        [x, _, dtype, at] => (x, Some(dtype).filter(|dtype| !dtype.is_none()), at),
        _ => return Err(arity(TENSOR, args.len(), 3)),
    };
    let ndim = int(TENSOR, args, 1)?;
    let Some(tensor) = x.as_dltensor() else {
        return Err(wrong_kind(at, "Tensor", x));
    };
    if ndim != -1 && i64::from(tensor.ndim) != ndim {
        return Err(Error::value_error(format!(
            "{} expect Tensor with ndim {ndim} but get {}",
            context(at),
            tensor.ndim
        )));
    }
    let Some(dtype) = dtype else { return Ok(Any::NONE) };
    let expected = dtype.as_dtype().ok_or_else(|| dtype.mismatch("DataType"))?;
    if tensor.dtype != expected {
        return Err(Error::value_error(format!(
            "{} expect Tensor with dtype {expected} but get {}",
            context(at),
            tensor.dtype
        )));
    }
    Ok(Any::NONE)
}

pub fn check_shape_info(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(SHAPE, args, 3)?;
    let ndim = int(SHAPE, args, 1)?;
    let Some(shape) = args[0].downcast_ref::<Shape>() else {
        return Err(wrong_kind(&args[2], "Shape", &args[0]));
    };
    if ndim != -1 && shape.len() as i64 != ndim {
        return Err(Error::value_error(format!(
            "{} expect Shape with ndim {ndim} but get {}",
            context(&args[2]),
            shape.len()
        )));
    }
    Ok(Any::NONE)
}

pub fn check_prim_value_info(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(PRIM, args, 3)?;
    let dtype = args[1].as_dtype().ok_or_else(|| args[1].mismatch("DataType"))?;
    let x = &args[0];
    let converts = match dtype.code {
        code::BOOL | code::INT | code::UINT => x.as_int().is_some(),
        code::FLOAT | code::BFLOAT => x.as_float().is_some(),
        code::HANDLE => x.as_opaque().is_some(),
        _ => return Err(Error::type_error(format!("{} unknown type {dtype}", context(&args[2])))),
    };
    if converts {
        return Ok(Any::NONE);
    }
    Err(Error::type_error(format!(
        "{}, expected dtype {dtype}, but received {}",
        context(&args[2]),
        x.type_key()
    )))
}

pub fn check_string_info(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(STRING, args, 2)?;
    match args[0].type_index() {
        type_index::STR | type_index::SMALL_STR | type_index::RAW_STR => Ok(Any::NONE),
        _ => Err(wrong_kind(&args[1], "string", &args[0])),
    }
}

pub fn check_tuple_info(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(TUPLE, args, 3)?;
    let size = int(TUPLE, args, 1)?;
    let Some(tuple) = args[0].downcast_ref::<Array>() else {
        return Err(wrong_kind(&args[2], "Tuple", &args[0]));
    };
    if tuple.len() as i64 != size {
        return Err(Error::value_error(format!(
            "{} expect a Tuple with {size} elements, but get a Tuple with {} elements.",
            context(&args[2]),
            tuple.len()
        )));
    }
    Ok(Any::NONE)
}

pub fn check_func_info(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(FUNC, args, 2)?;
    let x = &args[0];
    let callable = x.downcast_ref::<Function>().is_some()
        || x.downcast_ref::<VmClosure>().is_some()
        || x.object_ref().is_some_and(|object| object::get::<Closure>(object).is_some());
    if callable { Ok(Any::NONE) } else { Err(wrong_kind(&args[1], "Function", x)) }
}

pub fn read_if_cond(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(COND, args, 1)?;
    let x = &args[0];
    if let Some(value) = x.as_int() {
        return Ok(Any::from(value != 0));
    }
    let Some(tensor) = x.as_dltensor() else {
        return Err(x.mismatch("ffi.Tensor"));
    };
    if !tensor.device.is_host() {
        return Ok(Any::from(scalar_int(host_copy_of(tensor, Wait::Condition)?.dl())? != 0));
    }
    Ok(Any::from(scalar_int(tensor)? != 0))
}

/// The value of a register as a branch reads it: an integer or boolean only.
pub fn condition(value: &AnyView<'_>) -> Result<bool, Error> {
    value.as_bool().ok_or_else(|| value.mismatch("int"))
}

/// The element of a one-element integer or boolean tensor in host memory.
fn scalar_int(tensor: &DLTensor) -> Result<i64, Error> {
    on_cpu(tensor)?;
    let shape = dims(tensor);
    let DType { code, bits, lanes } = tensor.dtype;
    let integral = matches!(code, code::INT | code::UINT | code::BOOL) && lanes == 1;
    if !integral || shape.iter().any(|&dim| dim != 1) || tensor.data.is_null() {
        return Err(Error::type_error(format!(
            "`{COND}` expects a scalar of booleans or integers, got {} of shape {shape:?}",
            tensor.dtype
        )));
    }
    let at = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    // SAFETY: a live tensor in host memory with one element has the element's bytes at this
    // address; unaligned reads ask nothing more.
    unsafe {
        Ok(match bits {
            1 | 8 => i64::from(at.read()),
            16 => i64::from(at.cast::<u16>().read_unaligned()),
            32 => i64::from(at.cast::<u32>().read_unaligned()),
            64 => at.cast::<i64>().read_unaligned(),
            _ => return Err(Error::type_error(format!("unknown scalar type {}", tensor.dtype))),
        })
    }
}

/// The dimensions of a tensor.
pub fn dims(tensor: &DLTensor) -> &[i64] {
    if tensor.ndim <= 0 || tensor.shape.is_null() {
        return &[];
    }
    // SAFETY: the caller's reference is to a live tensor, which has `ndim` dimensions at `shape`.
    unsafe { std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
}

/// Refuses tensors whose data the host cannot read.
pub fn on_cpu(tensor: &DLTensor) -> Result<(), Error> {
    device::require_host(tensor.device, "the tensor")
}

/// Refuses tensors whose elements the host cannot read: those that are elsewhere, or nowhere.
pub fn readable(tensor: &DLTensor) -> Result<(), Error> {
    on_cpu(tensor)?;
    if tensor.data.is_null() && !dims(tensor).contains(&0) {
        return Err(Error::value_error("a tensor of elements without data"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use reflex_runtime::abi::DLDevice;

    use super::*;

    #[test]
    fn only_tensors_without_elements_may_come_without_data() {
        for (mut shape, refused) in [([2, 0], false), ([2, 3], true)] {
            let tensor = DLTensor {
                data: std::ptr::null_mut(),
                device: DLDevice::CPU,
                ndim: 2,
                dtype: DType::F32,
                shape: shape.as_mut_ptr(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            };
            assert_eq!(readable(&tensor).is_err(), refused);
        }
    }
}
