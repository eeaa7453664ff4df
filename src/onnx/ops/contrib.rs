//! Operators of the domain com.microsoft, which ONNX Runtime's optimiser and exporters write.
//!
//! Each is composed of graph operators, so that kernels, fusion and the tiers serve it without
//! a case of their own. Meanings are those of ONNX Runtime's operator schemas; where its kernels differ from
//! the formula of the schema in the last bit (QLinear*), the formula holds.
//!
//! Source: ONNX Runtime, "Contrib Operators" (ContribOperators.md)

mod activation;
mod attention;
mod block_quant;
mod embedding;
mod group_query;
mod linear;
mod norm;
mod qlinear;
mod quant;
mod scores;
mod twins;

use super::table::Table;

/// Operators of com.microsoft.
pub(super) const TABLES: &[Table] = &[
    activation::TABLE,
    attention::TABLE,
    block_quant::TABLE,
    embedding::TABLE,
    group_query::TABLE,
    linear::TABLE,
    norm::TABLE,
    qlinear::TABLE,
    quant::TABLE,
    super::text::CONTRIB,
    twins::TABLE,
];

/// Operators that ONNX Runtime's exporters write in the default domain though ONNX has none of
/// their name there.
pub(super) const IN_DEFAULT_DOMAIN: Table = norm::SIMPLIFIED;
