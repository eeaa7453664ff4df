//! The text that is read, and errors that point into it.

/// Why a Relay text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct RelayError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The form that is not accepted, or what is wrong with it.
    pub message: String,
}

/// Result of reading a part of a text.
pub(super) type Result<T> = std::result::Result<T, RelayError>;

/// Offset of a form in the text, in bytes.
pub type Offset = u32;

/// The text and its name, for messages.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub text: &'s str,
    pub file: &'s str,
}

impl Source<'_> {
    /// An error at an offset.
    pub fn refuse(self, at: Offset, message: impl Into<String>) -> RelayError {
        let before = self.text.get(..at as usize).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        let column = before[start..].chars().count() + 1;
        RelayError { file: self.file.to_string(), line, column, message: message.into() }
    }
}
