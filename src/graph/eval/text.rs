//! Packed functions on tensors of strings (`reflex.text.*`): their meaning is the runtime's code, which
//! tests hold to ONNX Runtime.

use std::sync::Arc;

use reflex_runtime::array::Array;
use reflex_runtime::registry;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use super::error::{EvalError, Result};
use super::func::EvalValue;
use super::packed::unknown;
use crate::literal::Literal;

/// Calls such a function on host tensors.
pub(super) fn call(name: &str, args: &[EvalValue]) -> Result<EvalValue> {
    let function = registry::get(name).ok_or_else(|| unknown(name))?;
    let argument = |value: &EvalValue| {
        let x = value.as_tensor().ok_or_else(|| EvalError::new("a tensor expected"))?;
        Tensor::from_bytes(x.shape(), x.dtype(), x.bytes()).map(Any::from).map_err(failed)
    };
    let args = args.iter().map(argument).collect::<Result<Vec<Any>>>()?;
    let views: Vec<_> = args.iter().map(Any::view).collect();
    value(&function.call(&views).map_err(failed)?)
}

fn value(result: &Any) -> Result<EvalValue> {
    if let Some(items) = result.downcast_ref::<Array>() {
        return items.iter().map(value).collect::<Result<_>>().map(EvalValue::Tuple);
    }
    let tensor = result.downcast_ref::<Tensor>();
    let tensor = tensor.ok_or_else(|| EvalError::new("a result that is no tensor"))?;
    let bytes = tensor.to_bytes().map_err(failed)?;
    let literal = Literal::new(tensor.dtype(), tensor.shape().to_vec(), Arc::new(bytes));
    literal.map(EvalValue::Tensor).ok_or_else(|| EvalError::new("a tensor of another size"))
}

fn failed(error: reflex_runtime::error::Error) -> EvalError {
    EvalError::new(error.to_string())
}
