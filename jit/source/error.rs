//! Why a function has no text.

/// A function that a dialect has no text for, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(String);

/// A result of printing.
pub type Result<T> = std::result::Result<T, SourceError>;

impl SourceError {
    pub(crate) fn new(message: impl Into<String>) -> SourceError {
        SourceError(message.into())
    }
}
