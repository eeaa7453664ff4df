//! Ways to quantize, and their options.

use std::collections::{BTreeMap, BTreeSet};

/// The least and the greatest element of each float32 value, by name.
pub type Ranges = BTreeMap<String, (f32, f32)>;

/// A way to quantize.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// Activations are quantized in each call, by what they are in it.
    Dynamic,
    /// Activations are quantized by ranges that calibration found.
    Static(Ranges),
    /// Weights are stored as 4-bit integers with a scale for each block of so many (a power of two from
    /// 16) along the depth; activations stay float32.
    Weights4(usize),
}

/// Options of [`FloatModel::quantize`](super::FloatModel::quantize).
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizeOptions {
    /// The way.
    pub method: Method,
    /// Names of nodes that stay as they are.
    pub exclude: BTreeSet<String>,
    /// Operators to quantize among MatMul, Gemm and Conv.
    pub operators: BTreeSet<String>,
    /// 7-bit weights instead of 8: sums of two products fit into 16 bits, so engines that add them there
    /// (x86 without VNNI) do not saturate.
    pub reduce_range: bool,
}

impl QuantizeOptions {
    /// A method with the default options.
    pub fn new(method: Method) -> QuantizeOptions {
        let operators = OPERATORS.map(str::to_owned).into();
        QuantizeOptions { method, exclude: BTreeSet::new(), operators, reduce_range: false }
    }

    /// The greatest magnitude of an 8-bit weight.
    pub(super) fn limit(&self) -> f32 {
        if self.reduce_range { 63.0 } else { 127.0 }
    }
}

/// Operators that can be quantized.
pub const OPERATORS: [&str; 3] = ["MatMul", "Gemm", "Conv"];
