//! The bytes of a session's tensors, in place.

use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::tensor::Tensor;

/// A compact tensor as one of bytes.
fn as_bytes(tensor: &Tensor) -> Result<Tensor, Error> {
    tensor.view(0, &[tensor.nbytes() as i64], DType::U8)
}

/// Runs `body` on the bytes of a compact tensor.
pub(super) fn with_bytes<T>(tensor: &Tensor, body: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
    let view = as_bytes(tensor)?;
    // SAFETY: a session serves one request at a time, and no call is in progress: nothing writes
    // the data before `body` returns, which gets no tensor.
    Ok(body(unsafe { view.as_slice::<u8>() }?))
}

/// Runs `body` on the bytes of a compact tensor, which it may write.
pub(super) fn with_bytes_mut<T>(
    tensor: &Tensor,
    body: impl FnOnce(&mut [u8]) -> T,
) -> Result<T, Error> {
    if tensor.is_read_only() {
        return Err(Error::value_error("the tensor's data may not be written"));
    }
    let view = as_bytes(tensor)?;
    // SAFETY: as for `with_bytes`: nothing else reads or writes the data before `body` returns.
    Ok(body(unsafe { view.as_mut_slice::<u8>() }?))
}
