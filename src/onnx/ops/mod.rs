//! The table of ONNX operators: name to import function.
//!
//! An operator desugars into the graph's primitive set through the helpers of
//! [`crate::emit`]. It checks its operator set's version where the meaning changed, asks for
//! every attribute it understands (any other is refused), and refuses by name what it cannot
//! express exactly.

mod activation;
mod arithmetic;
mod attention;
mod choices;
mod control;
pub(crate) mod function;
mod index;
mod iterate;
mod layout;
mod lengths;
mod linear;
mod loss;
mod ml;
mod norm;
mod open_axis;
mod quant;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod shape;
mod trees;
mod window;

use crate::call::Call;
use crate::error::Result;
use crate::import::Cx;
use crate::value::{Tensor, Val};

/// Imports one node; gives its outputs in order, fewer when the rest is not supported.
pub(crate) type Operator = fn(&mut Cx, &Call) -> Result<Vec<Val>>;

/// Operators of one file.
type Table = &'static [(&'static str, Operator)];

/// Operators of the default domain.
const DEFAULT: &[Table] = &[
    activation::TABLE,
    arithmetic::TABLE,
    attention::TABLE,
    control::TABLE,
    index::TABLE,
    iterate::TABLE,
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
    window::TABLE,
];

/// The operator of a name.
pub(crate) fn find(domain: &str, name: &str) -> Option<Operator> {
    let tables: &[Table] = match domain {
        "ai.onnx" => DEFAULT,
        "ai.onnx.ml" => &[ml::TABLE],
        _ => return None,
    };
    let found = tables.iter().copied().flatten().find(|(known, _)| *known == name);
    found.map(|(_, operator)| *operator)
}

fn one(tensor: Tensor) -> Result<Vec<Val>> {
    Ok(vec![Val::Tensor(tensor)])
}

fn all(tensors: Vec<Tensor>) -> Result<Vec<Val>> {
    Ok(tensors.into_iter().map(Val::Tensor).collect())
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod trees_tests;
