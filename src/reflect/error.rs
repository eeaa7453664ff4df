//! The error of both ways.

/// A node or value without a counterpart on the other side, named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReflectError(pub(crate) String);
