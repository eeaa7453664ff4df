//! The aim of a compilation: speed or size, a CPU or a GPU.

use std::str::FromStr;

/// The kind of processor that graph passes lay data out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Panels of weights, blocked layouts.
    Cpu,
    /// Weights and feature maps as the model has them.
    Gpu,
}

/// The goal of a compilation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizeFor {
    /// The shortest calls, at the price of more bytes of weights: those of Winograd convolutions take
    /// up to 7 times as many as the model's, and integers that a model dequantizes for other operators than products of
    /// matrices are stored as floats.
    #[default]
    Speed,
    /// The smallest programs: weights take the bytes that the model's do, so convolutions are direct
    /// sums, and what the model computes of its weights is computed in each call.
    Size,
}

impl FromStr for OptimizeFor {
    type Err = String;

    fn from_str(text: &str) -> Result<OptimizeFor, String> {
        match text {
            "speed" => Ok(OptimizeFor::Speed),
            "size" => Ok(OptimizeFor::Size),
            _ => Err(format!("no goal {text:?}; use speed or size")),
        }
    }
}
