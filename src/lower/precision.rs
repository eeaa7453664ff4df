//! The precision of float32 contractions: an option of a compilation that every stage reads.

/// Name of the kernel attribute that allows split-bf16, with so many products ([`Precision::F32Fast`]).
pub const SPLIT_BF16_ATTR: &str = "reflex.split_bf16_products";

/// Name of the kernel attribute that lets tensor cores multiply operands of float32 rounded to bfloat16
/// ([`Precision::Bf16`] on a GPU).
pub const BF16_ATTR: &str = "reflex.bf16_products";

/// The arithmetic of float32 matrix multiplications and convolutions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Multiply-adds in float32.
    #[default]
    F32,
    /// Float32, or its bf16x3 emulation where the CPU has AMX tiles and that is faster
    /// ([`crate::schedule`]). On a GPU with products of warpgroups bf16x6, whose errors are float32's at most.
    F32Fast,
    /// Operands of matrix multiplications and of dense convolutions are rounded to bfloat16, and
    /// sums are in float32 ([`reflex_tir::Intrin::DotBf16`], or [`reflex_tir::tile::TileOp::DotBf16`]
    /// where the CPU has AMX tiles). On a GPU those that run on tensor cores; the others are float32's.
    Bf16,
    /// Matrix multiplications by constants multiply 8-bit integers: weights with a scale for each column,
    /// activations with one for each row, found as it runs
    /// ([`crate::graph::quantize_dynamically`]). The rest is [`Precision::F32`].
    Int8,
}
