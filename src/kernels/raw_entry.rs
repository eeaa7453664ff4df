//! Raw entries of kernels: calls without the checks of the packed convention.

use reflex_tir::abi::{RawBuffer, RawDim, RawSignature};
use reflex_vm::kernel::{Dim, RawKernel, TensorParam};

/// Returns the parameters of a raw entry in the VM's terms; `None` for one that the VM cannot pass.
fn params(signature: &RawSignature) -> Option<Vec<TensorParam>> {
    if signature.num_scalar_params > 0 || !signature.scalars.iter().all(|it| it.is_int()) {
        return None;
    }
    let dim = |dim: &RawDim| match *dim {
        RawDim::Const(size) => Some(Dim::Static(size)),
        RawDim::Scalar(at) => Some(Dim::Symbolic(at)),
        RawDim::Derived => None,
    };
    let param = |buffer: &RawBuffer| {
        let shape = buffer.shape.iter().map(dim).collect::<Option<_>>()?;
        Some(TensorParam { dtype: buffer.dtype, shape })
    };
    signature.buffers.iter().map(param).collect()
}

/// Wraps the raw entry at `code`; `None` if the VM cannot call it.
///
/// # Safety
/// `code` is the raw entry that `signature` describes, mapped as long as the packed one.
pub(crate) unsafe fn raw_kernel(code: *const u8, signature: &RawSignature) -> Option<RawKernel> {
    // SAFETY: the caller passes the entry of this signature, from which `params` are derived.
    unsafe { RawKernel::new(code, params(signature)?) }
}
