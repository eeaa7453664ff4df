//! The form of an operator table, and results of operators.

use crate::context::Operator;
use crate::error::Result;
use crate::value::{OnnxValue, Tensor};

/// Operators of one file by name.
pub(super) type Table = &'static [(&'static str, Operator)];

/// The results of an operator with one tensor output.
pub(super) fn one(tensor: Tensor) -> Result<Vec<OnnxValue>> {
    Ok(vec![OnnxValue::Tensor(tensor)])
}

/// The results of an operator whose outputs are tensors.
pub(super) fn all(tensors: Vec<Tensor>) -> Result<Vec<OnnxValue>> {
    Ok(tensors.into_iter().map(OnnxValue::Tensor).collect())
}
