//! The Relay VM's operations that no other builtin covers.
//!
//! A value of an algebraic data type (ADT) is a tuple that begins with its tag, an integer:
//! `make_tuple` makes one, `tuple_getitem` reads a field, which comes after the tag. Tuples of the
//! Relay language have tag 0.
//!
//! Decision: docs/decisions/0056-adt-values.md

use reflex_runtime::abi::DLTensor;
use reflex_runtime::array::Array;
use reflex_runtime::dtype::{DType, code};
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use super::args::{Context, arity, exactly, int};
use super::check::{dims, on_cpu};

const EQUAL: &str = "relay.equal";
const IS: &str = "relay.is";
const INT: &str = "relay.int";
const SCALAR: &str = "relay.scalar";
const CALL: &str = "relay.call";
const SHAPE: &str = "relay.shape";

/// Two scalars, as the Relay VM compares them: by the low 32 bits.
pub fn equal(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(EQUAL, args, 2)?;
    let (left, right) = (number(EQUAL, &args[0])?, number(EQUAL, &args[1])?);
    Ok(Any::from(left as i32 == right as i32))
}

pub fn is(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(IS, args, 2)?;
    let (tag, _) = parts(&args[0])?;
    Ok(Any::from(tag == int(IS, args, 1)?))
}

/// A tensor of one element, as the Relay VM's constants and tags are.
pub fn integer(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(INT, args, 2)?;
    let (value, bits) = (int(INT, args, 0)?, int(INT, args, 1)?);
    let tensor = match bits {
        8 => Tensor::from_slice(&[1], &[value as i8]),
        16 => Tensor::from_slice(&[1], &[value as i16]),
        32 => Tensor::from_slice(&[1], &[value as i32]),
        64 => Tensor::from_slice(&[1], &[value]),
        _ => return Err(Error::value_error(format!("`{INT}`: no integer has {bits} bits"))),
    };
    Ok(tensor?.into())
}

pub fn scalar(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(SCALAR, args, 1)?;
    Ok(Any::from(number(SCALAR, &args[0])?))
}

pub fn shape(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(SHAPE, args, 1)?;
    let tensor = args[0].as_dltensor().ok_or_else(|| args[0].mismatch("ffi.Tensor"))?;
    let dims = dims(tensor);
    Ok(Tensor::from_slice(&[dims.len() as i64], dims)?.into())
}

#[cold]
pub fn fatal(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let place = args.first().and_then(AnyView::as_str).map(|place| format!(": {place}"));
    let message = format!("the program ran into `Fatal`{}", place.unwrap_or_default());
    Err(Error::runtime_error(message))
}

/// Most arguments that `relay.call` passes without allocating.
const INLINE_ARGS: usize = 32;

pub fn call(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let [callee, _, given @ ..] = args else {
        return Err(arity(CALL, args.len(), 2));
    };
    let function =
        callee.downcast_ref::<Function>().ok_or_else(|| callee.mismatch("ffi.Function"))?;
    let outputs = int(CALL, args, 1)?;
    if outputs == 1 && given.last().is_some_and(is_empty) {
        return Ok(Any::NONE);
    }
    let mut count = 0;
    for arg in given {
        count += if arg.downcast_ref::<Array>().is_some() { parts(arg)?.1.len() } else { 1 };
    }
    let flat = given.iter().flat_map(|arg| match arg.downcast_ref::<Array>() {
        Some(value) => AnyView::slice(&value[1..]),
        None => std::slice::from_ref(arg),
    });
    if count > INLINE_ARGS {
        return function.call(&flat.copied().collect::<Vec<_>>());
    }
    let mut buffer = [AnyView::NONE; INLINE_ARGS];
    for (slot, &arg) in buffer.iter_mut().zip(flat) {
        *slot = arg;
    }
    function.call(&buffer[..count])
}

fn is_empty(arg: &AnyView<'_>) -> bool {
    arg.as_dltensor().is_some_and(|tensor| dims(tensor).contains(&0))
}

/// The tag and the fields of a value of an ADT.
fn parts<'a>(arg: &'a AnyView<'_>) -> Result<(i64, &'a [Any]), Error> {
    let items = arg.downcast_ref::<Array>().ok_or_else(|| arg.mismatch("ffi.Array"))?;
    let tag = items.split_first().and_then(|(tag, fields)| Some((tag.view().as_int()?, fields)));
    tag.ok_or_else(|| Error::type_error("expected a data type's value, got a tuple without a tag"))
}

/// An integer, or the element of an integer or boolean tensor with one.
fn number(name: &str, arg: &AnyView<'_>) -> Result<i64, Error> {
    if let Some(value) = arg.as_int() {
        return Ok(value);
    }
    let tensor = arg.as_dltensor().ok_or_else(|| arg.mismatch("ffi.Tensor"))?;
    element(name, tensor)
}

fn element(name: &str, tensor: &DLTensor) -> Result<i64, Error> {
    on_cpu(tensor)?;
    let DType { code, bits, lanes } = tensor.dtype;
    let integral = matches!(code, code::INT | code::UINT | code::BOOL) && lanes == 1;
    if !integral || dims(tensor).iter().any(|&dim| dim != 1) || tensor.data.is_null() {
        return Err(Error::type_error(format!(
            "`{name}` expects a scalar of booleans or integers, got {} of shape {:?}",
            tensor.dtype,
            dims(tensor)
        )));
    }
    let at = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    // SAFETY: a live CPU tensor with one element has the element's bytes at this address;
    // unaligned reads ask nothing more.
    unsafe {
        Ok(match bits {
            1 | 8 => i64::from(at.cast::<i8>().read()),
            16 => i64::from(at.cast::<i16>().read_unaligned()),
            32 => i64::from(at.cast::<i32>().read_unaligned()),
            64 => at.cast::<i64>().read_unaligned(),
            _ => return Err(Error::type_error(format!("unknown scalar type {}", tensor.dtype))),
        })
    }
}
