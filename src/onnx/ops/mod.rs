//! The table of ONNX operators: name to import function.
//!
//! # How to add an operator
//!
//! Write a function of type [`Operator`] in the file of its family, add it to that file's `TABLE`,
//! and pin the cases of ONNX's node tests that now pass. The function
//!
//! - reads inputs and attributes through [`crate::call::Call`], which refuses a node with an
//!   attribute that its operator did not read;
//! - checks the version of the operator set where the meaning changed;
//! - emits graph operators through the helpers of [`crate::emit`], which fold constants and keep
//!   shape arithmetic symbolic;
//! - refuses by name what it cannot express exactly ([`crate::error::unsupported`]).

mod activation;
mod arithmetic;
mod attention;
mod batched_scan;
mod contrib;
mod control;
mod conv;
mod data_dependent;
mod dynamic_axis;
mod flex_attention;
mod fold_unfold;
mod grid;
mod index;
mod integer_products;
mod iterate;
mod layout;
mod linear;
mod linear_attention;
mod lookup;
mod loop_import;
mod loops;
mod loss;
mod lstm;
mod ml;
mod norm;
mod packed_weights;
mod predicated_trees;
mod quant;
mod random;
mod recurrent;
mod reduce;
mod resample;
mod resize;
mod roi;
mod run_time_axes;
mod sample;
mod sequence;
mod sequence_lens;
mod shape;
mod signal;
mod spatial;
mod table;
mod text;
mod tfidf;
mod training;
mod tree_ensemble;
mod tree_scores;

use crate::context::Operator;
use crate::model::{Model, UnsupportedOperator};
use crate::registered;

use self::table::Table;

/// Operators of the default domain.
const DEFAULT: &[Table] = &[
    activation::TABLE,
    arithmetic::TABLE,
    attention::TABLE,
    contrib::IN_DEFAULT_DOMAIN,
    control::TABLE,
    conv::TABLE,
    data_dependent::TABLE,
    fold_unfold::TABLE,
    grid::TABLE,
    index::TABLE,
    loops::TABLE,
    layout::TABLE,
    linear::TABLE,
    linear_attention::TABLE,
    loss::TABLE,
    norm::TABLE,
    quant::TABLE,
    random::TABLE,
    recurrent::TABLE,
    reduce::TABLE,
    resize::TABLE,
    roi::TABLE,
    sequence::TABLE,
    shape::TABLE,
    signal::TABLE,
    spatial::TABLE,
    text::TABLE,
    tfidf::TABLE,
];

/// The tables of each domain.
const DOMAINS: &[(&str, &[Table])] = &[
    ("ai.onnx", DEFAULT),
    ("ai.onnx.ml", ml::TABLES),
    ("ai.onnx.preview", &[flex_attention::TABLE]),
    ("ai.onnx.preview.training", &[training::TABLE]),
    ("com.microsoft", contrib::TABLES),
];

/// The import function of an operator.
pub(crate) fn find(domain: &str, name: &str) -> Option<Operator> {
    let (_, tables) = DOMAINS.iter().find(|(known, _)| *known == domain)?;
    let found = tables.iter().copied().flatten().find(|(known, _)| *known == name);
    found.map(|(_, operator)| *operator)
}

/// The domain and the name of each operator that has an import function.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    DOMAINS.iter().flat_map(|(domain, tables)| {
        tables.iter().copied().flatten().map(move |(name, _)| (*domain, *name))
    })
}

/// The operators of a model that have no import.
pub(crate) fn unsupported(model: &Model) -> Vec<UnsupportedOperator> {
    let (Ok(counts), Ok(opsets)) = (model.operator_counts(), model.opsets()) else { return vec![] };
    let known = |d: &str, name: &str| {
        model.custom.find(d, name).is_some()
            || find(d, name).is_some()
            || registered::find(d, name).is_some()
            || model.function(d, name).is_some()
    };
    let missing = counts.into_iter().filter(|((d, name), _)| !known(d, name));
    let describe = |((domain, operator), (count, node)): ((String, String), (usize, String))| {
        let opset = opsets.get(&domain).copied().unwrap_or(0);
        UnsupportedOperator { domain, operator, opset, count, node }
    };
    missing.map(describe).collect()
}

#[cfg(test)]
mod contrib_tests;
#[cfg(test)]
mod moved_integers_tests;
#[cfg(test)]
mod older_tests;
#[cfg(test)]
mod packed_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tree_ensemble_tests;
