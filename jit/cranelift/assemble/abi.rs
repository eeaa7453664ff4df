//! Calling conventions of generated code.

use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;

/// The convention that VM code is compiled in.
pub(crate) const NATIVE: CallConv = CallConv::Tail;

/// The convention of callbacks, libcalls and packed functions.
pub(crate) const C: CallConv = CallConv::SystemV;

/// Signature of [`reflex_vm::abi::Native`].
pub(crate) fn native_signature() -> Signature {
    let mut signature = Signature::new(NATIVE);
    signature.params = vec![AbiParam::new(types::I64); 2];
    signature.returns = vec![AbiParam::new(types::I32)];
    signature
}
