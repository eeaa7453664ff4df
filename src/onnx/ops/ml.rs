//! The ai.onnx.ml domain: the classic models that converters of scikit-learn and of gradient boosting
//! libraries write. Everything is composed of graph operators; no operator of the graph is theirs alone.
//!
//! Where ONNX leaves the meaning open, results are ONNX Runtime's: the scores of two classes that one
//! number stands for, labels of support vector machines, and post transforms of one target.

mod coupling;
mod features;
mod labels;
mod linear;
mod maps;
mod scores;
mod svm;
mod trees;

use super::table::Table;

/// Operators of ai.onnx.ml.
pub(super) const TABLES: &[Table] =
    &[features::TABLE, labels::TABLE, linear::TABLE, maps::TABLE, svm::TABLE, trees::TABLE];
