//! Results that their receiver may write, for tvm-ffi's languages: its tensors, unlike DLPack's,
//! cannot say that they are read-only.

use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

/// Puts copies in the place of tensors that may not be written: constants of the program, and
/// read-only arguments that a function returned.
pub(crate) fn make_writable(result: &mut Any) -> Result<(), Error> {
    if has_read_only(result) {
        *result = writable(result)?;
    }
    Ok(())
}

fn has_read_only(value: &Any) -> bool {
    match (value.downcast_ref::<Tensor>(), value.downcast_ref::<Array>()) {
        (Some(tensor), _) => tensor.is_read_only(),
        (_, Some(items)) => items.iter().any(has_read_only),
        (None, None) => false,
    }
}

fn writable(value: &Any) -> Result<Any, Error> {
    if !has_read_only(value) {
        return Ok(value.clone());
    }
    match (value.downcast_ref::<Tensor>(), value.downcast_ref::<Array>()) {
        (Some(tensor), _) => {
            let bytes = tensor.to_bytes()?;
            Ok(Tensor::from_bytes(tensor.shape(), tensor.dtype(), &bytes)?.into())
        }
        (_, Some(items)) => {
            let items = items.iter().map(writable).collect::<Result<Vec<_>, _>>()?;
            Ok(Array::new(items).into())
        }
        (None, None) => Ok(value.clone()),
    }
}
