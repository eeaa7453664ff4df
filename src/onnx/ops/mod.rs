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
mod contrib;
mod control;
mod dynamic_axis;
mod index;
mod integer_products;
mod layout;
mod linear;
mod loops;
mod loss;
mod ml;
mod norm;
mod predicated_trees;
mod quant;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod sequence_lens;
mod shape;
mod spatial;
mod table;
mod tree_ensemble;
mod tree_scores;

use crate::context::Operator;
use crate::model::{Model, UnsupportedOperator};

use self::table::Table;

/// Operators of the default domain.
const DEFAULT: &[Table] = &[
    activation::TABLE,
    arithmetic::TABLE,
    attention::TABLE,
    contrib::IN_DEFAULT_DOMAIN,
    control::TABLE,
    index::TABLE,
    loops::TABLE,
    layout::TABLE,
    linear::TABLE,
    loss::TABLE,
    norm::TABLE,
    quant::TABLE,
    recurrent::TABLE,
    reduce::TABLE,
    resize::TABLE,
    sequence::TABLE,
    shape::TABLE,
    spatial::TABLE,
];

/// The import function of an operator.
pub(crate) fn find(domain: &str, name: &str) -> Option<Operator> {
    let tables: &[Table] = match domain {
        "ai.onnx" => DEFAULT,
        "ai.onnx.ml" => &[ml::TABLE],
        "com.microsoft" => contrib::TABLES,
        _ => return None,
    };
    let found = tables.iter().copied().flatten().find(|(known, _)| *known == name);
    found.map(|(_, operator)| *operator)
}

/// The operators of a model that have no import.
pub(crate) fn unsupported(model: &Model) -> Vec<UnsupportedOperator> {
    let (Ok(counts), Ok(opsets)) = (model.operator_counts(), model.opsets()) else { return vec![] };
    let known = |d: &str, name: &str| {
        model.custom.find(d, name).is_some()
            || find(d, name).is_some()
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
mod tests;
#[cfg(test)]
mod tree_ensemble_tests;
