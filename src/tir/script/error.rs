//! Refused texts.

/// Why a text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScriptError {
    /// Line, from 1.
    pub line: usize,
    /// The form that is not accepted, or what is wrong with it.
    pub message: String,
}
