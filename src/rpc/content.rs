//! The bytes of tensors in place, for copies between them and a connection.

use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::tensor::Tensor;

/// A compact tensor as one of bytes.
fn as_bytes(tensor: &Tensor) -> Result<Tensor, Error> {
    tensor.view(0, &[tensor.nbytes() as i64], DType::U8)
}

/// Runs `body` on the bytes of a compact tensor.
pub(crate) fn with_bytes<T>(tensor: &Tensor, body: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
    let view = as_bytes(tensor)?;
    // SAFETY: nothing writes the data before `body` returns, which gets no tensor: a session's server
    // serves one request at a time, with no call in progress, and who passes a tensor to a client's
    // copy or call promises that no thread writes it meanwhile.
    Ok(body(unsafe { view.as_slice::<u8>() }?))
}

/// Runs `body` on the bytes of a compact tensor, which it may write.
pub(crate) fn with_bytes_mut<T>(
    tensor: &Tensor,
    body: impl FnOnce(&mut [u8]) -> T,
) -> Result<T, Error> {
    if tensor.is_read_only() {
        return Err(Error::value_error("the tensor's data may not be written"));
    }
    let view = as_bytes(tensor)?;
    // SAFETY: nothing else reads or writes the data before `body` returns: at a server as for `with_bytes`;
    // a client's tensor is a new one, or a result that the caller of a function lets no thread use meanwhile.
    Ok(body(unsafe { view.as_mut_slice::<u8>() }?))
}
