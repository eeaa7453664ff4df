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

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

impl ImportContext<'_> {
    /// Imports a node, with its operands in float32 where it is of several steps and its first one is of 16 bits.
    pub fn built_in_operator(
        &mut self,
        operator: Operator,
        domain: &str,
        mut call: Call,
    ) -> Result<Vec<OnnxValue>> {
        let first = call.opt(0).ok().flatten().map(|x| x.dtype());
        let composed = COMPOSED.contains(&(domain, call.node.op_type.as_str()));
        let Some(half) = first.filter(|dtype| composed && is_half(*dtype)) else {
            let mut outputs = operator(self, &call)?;
            call.check_attributes()?;
            self.move_integers(operator, domain, call, &mut outputs)?;
            return Ok(outputs);
        };
        for input in call.inputs.iter_mut().flatten() {
            if let OnnxValue::Tensor(x) = input
                && is_half(x.dtype())
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
