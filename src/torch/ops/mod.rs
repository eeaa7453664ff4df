//! The table of operators, by family.
//!
//! # How to add an operator
//!
//! One function and one entry in the table of its family, then an entry of `tests/pytorch/make.py`, whose archive and
//! answers the tests run. The function
//!
//! - reads arguments through [`crate::call::Call`] by their names in PyTorch's schema; the call refuses a node with an
//!   argument that its operator did not read;
//! - has one entry for all overloads, which differ in the arguments that are there, and for the form that writes in place;
//! - emits graph operators through the helpers of [`crate::emit`];
//! - refuses by name what it cannot express exactly ([`crate::error::unsupported`]).

mod activation;
mod arithmetic;
mod attention;
mod conv;
mod create;
mod einsum;
mod index;
mod join;
mod linear;
mod norm;
mod pool;
mod recurrent;
mod reduce;
mod resample;
mod symbolic;
mod table;
mod view;

use crate::context::Operator;
use crate::target::Target;

use self::table::Table;

/// Operators of the namespace `aten`.
const ATEN: &[Table] = &[
    activation::TABLE,
    arithmetic::TABLE,
    attention::TABLE,
    conv::TABLE,
    create::TABLE,
    index::TABLE,
    join::TABLE,
    linear::TABLE,
    norm::TABLE,
    pool::TABLE,
    recurrent::TABLE,
    reduce::TABLE,
    resample::TABLE,
    symbolic::ATEN,
    view::TABLE,
];

/// The tables of each namespace.
const NAMESPACES: &[(&str, &[Table])] = &[
    ("aten", ATEN),
    ("_operator", &[symbolic::OPERATOR]),
    ("torch", &[symbolic::TORCH]),
    ("math", &[symbolic::MATH]),
];

/// The import function of an operator.
pub(crate) fn find(target: &Target<'_>) -> Option<Operator> {
    let named = |target: &Target<'_>| {
        let (_, tables) = NAMESPACES.iter().find(|(known, _)| *known == target.namespace)?;
        let found = tables.iter().copied().flatten().find(|(known, _)| *known == target.name);
        found.map(|(_, operator)| *operator)
    };
    named(target).or_else(|| named(&target.functional()))
}

/// The namespace and the name of each operator that has an import function.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMESPACES.iter().flat_map(|(namespace, tables)| {
        tables.iter().copied().flatten().map(move |(name, _)| (*namespace, *name))
    })
}
