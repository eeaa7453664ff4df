//! Operators from outside, which bring their kernels.

use reflex_graph::registered::{RegisteredCode, RegisteredOp};
use reflex_tir::PrimFunc;

use super::builder::{LegalizeError, Legalized};

/// The kernel of an operator; that it takes the operands and results was checked when the call was made.
pub fn kernel(name: &str, op: &RegisteredOp) -> Result<Legalized, LegalizeError> {
    match &op.code {
        RegisteredCode::Kernel(kernel) => {
            let func = PrimFunc { name: name.to_owned(), ..PrimFunc::clone(kernel) };
            Ok(Legalized { func, inputs: (0..op.operands.len()).collect(), scalars: vec![] })
        }
        RegisteredCode::Packed(function) => Err(LegalizeError {
            op: op.name.clone(),
            reason: format!("it is the packed function {function}"),
        }),
    }
}
