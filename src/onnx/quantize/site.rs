//! A product with constant weights.

use reflex_graph::Literal;

use crate::proto::{AttributeProto, NodeProto, TensorProto};

use super::codes::{Codes, per_channel};
use super::options::QuantizeOptions;

/// A node to quantize.
pub(super) struct Site<'a> {
    pub index: usize,
    pub node: &'a NodeProto,
    pub weight: &'a TensorProto,
    pub shape: Vec<usize>,
    pub value: Literal,
    /// The bias, where it is a constant with an element for each channel.
    pub bias_values: Option<Vec<f32>>,
}

impl Site<'_> {
    pub fn input(&self) -> &str {
        &self.node.input[0]
    }

    pub fn weight_name(&self) -> &str {
        &self.node.input[1]
    }

    pub fn bias(&self) -> Option<&str> {
        self.node.input.get(2).map(String::as_str).filter(|name| !name.is_empty())
    }

    pub fn output(&self) -> &str {
        &self.node.output[0]
    }

    pub fn is_conv(&self) -> bool {
        self.node.op_type == "Conv"
    }

    /// Whether the rows of the weights are channels of the result (transB of Gemm).
    pub fn is_transposed(&self) -> bool {
        self.node.attribute.iter().any(|a| a.name == "transB" && a.i != 0)
    }

    /// The axis of the weights that is that of the result's channels.
    pub fn channel_axis(&self) -> usize {
        usize::from(!self.is_conv() && !self.is_transposed())
    }

    pub fn dims(&self) -> Vec<i64> {
        self.weight.dims.clone()
    }

    pub fn values(&self) -> Vec<f32> {
        floats(&self.value).collect()
    }

    /// The weights as 8-bit integers.
    pub fn codes(&self, options: &QuantizeOptions) -> Codes {
        let axis = self.channel_axis();
        let inner = self.shape[axis + 1..].iter().product();
        per_channel(&self.values(), self.shape[axis], inner, options.limit())
    }

    /// Attributes that the operator on integers has too.
    pub fn attributes(&self) -> Vec<AttributeProto> {
        if self.is_conv() { self.node.attribute.clone() } else { vec![] }
    }
}

/// The elements of a float32 constant.
pub(super) fn floats(value: &Literal) -> impl Iterator<Item = f32> {
    value.bytes().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}
