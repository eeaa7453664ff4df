//! The form of an operator table, and results of operators.

use reflex_graph::Value;

use crate::context::Operator;
use crate::error::Result;
use crate::value::TorchValue;

/// Operators of one file by name.
pub(super) type Table = &'static [(&'static str, Operator)];

/// The results of an operator, or the reason of a refusal.
pub(super) type Results = Result<Vec<TorchValue>>;

/// The results of an operator with one tensor.
pub(super) fn one(tensor: Value) -> Results {
    Ok(vec![TorchValue::Tensor(tensor)])
}

/// The results of an operator whose results are tensors.
pub(super) fn all(tensors: impl IntoIterator<Item = Value>) -> Results {
    Ok(tensors.into_iter().map(TorchValue::Tensor).collect())
}

/// The result of an operator that returns a list.
pub(super) fn list(tensors: impl IntoIterator<Item = Value>) -> Results {
    Ok(vec![TorchValue::Tensors(tensors.into_iter().map(Some).collect())])
}
