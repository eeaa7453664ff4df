//! Operators of several steps on 16-bit floats: computed in float32 and rounded once, as the single steps are.
//!
//! Decision: docs/decisions/0093-half-products.md

use reflex_tir::DType;

use crate::call::Call;
use crate::context::{ImportContext, Operator};
use crate::error::Result;
use crate::value::OnnxValue;

/// Operators that are composed of others, each of which would round its own result. Every float32 result has the
/// type of the first input.
const COMPOSED: &[(&str, &str)] = &[
    ("ai.onnx", "BatchNormalization"),
    ("ai.onnx", "Celu"),
    ("ai.onnx", "CumProd"),
    ("ai.onnx", "CumSum"),
    ("ai.onnx", "Elu"),
    ("ai.onnx", "GRU"),
    ("ai.onnx", "Gelu"),
    ("ai.onnx", "GroupNormalization"),
    ("ai.onnx", "HardSigmoid"),
    ("ai.onnx", "HardSwish"),
    ("ai.onnx", "InstanceNormalization"),
    ("ai.onnx", "LRN"),
    ("ai.onnx", "LSTM"),
    ("ai.onnx", "LpNormalization"),
    ("ai.onnx", "Mean"),
    ("ai.onnx", "MeanVarianceNormalization"),
    ("ai.onnx", "Mish"),
    ("ai.onnx", "RMSNormalization"),
    ("ai.onnx", "RNN"),
    ("ai.onnx", "Selu"),
    ("ai.onnx", "Softplus"),
    ("ai.onnx", "Sum"),
    ("ai.onnx", "Swish"),
    ("com.microsoft", "BiasGelu"),
    ("com.microsoft", "FastGelu"),
    ("com.microsoft", "Gelu"),
    ("com.microsoft", "QuickGelu"),
];

impl Call<'_> {
    /// Returns true if a call of a domain is of several steps, and its first operand of 16 bits.
    pub fn rounds_several_times(&self, domain: &str) -> bool {
        let halves = matches!(self.opt(0), Ok(Some(x)) if x.dtype().is_half());
        halves && COMPOSED.contains(&(domain, self.node.op_type.as_str()))
    }
}

impl ImportContext<'_> {
    /// Imports such a call with operands in float32, and rounds its results to the type of the first one.
    pub fn in_single_precision(
        &mut self,
        operator: Operator,
        mut call: Call,
    ) -> Result<Vec<OnnxValue>> {
        let half = call.input(0)?.dtype();
        for input in call.inputs.iter_mut().flatten() {
            if let OnnxValue::Tensor(x) = input
                && x.dtype().is_half()
            {
                *x = self.cast(x, DType::F32)?;
            }
        }
        let mut outputs = operator(self, &call)?;
        call.check_attributes()?;
        for output in &mut outputs {
            if let OnnxValue::Tensor(y) = output
                && y.dtype() == DType::F32
            {
                *y = self.cast(y, half)?;
            }
        }
        Ok(outputs)
    }
}
