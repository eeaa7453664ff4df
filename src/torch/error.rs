//! Errors of the import.

use std::fmt;

use reflex_graph::infer::InferError;

/// Kinds of [`ImportError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportErrorKind {
    /// A file cannot be read.
    Io,
    /// The bytes are not a well-formed archive.
    Malformed,
    /// The program contradicts the rules of exported programs.
    Invalid,
    /// The program is valid, but uses something that is not supported.
    Unsupported,
}

/// Why a program was not imported. The message names file, node and reason.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ImportError {
    kind: ImportErrorKind,
    message: String,
}

impl ImportError {
    pub(crate) fn new(kind: ImportErrorKind, message: impl Into<String>) -> ImportError {
        ImportError { kind, message: message.into() }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ImportErrorKind {
        self.kind
    }

    /// The same failure with its location in front.
    pub(crate) fn at(self, location: impl fmt::Display) -> ImportError {
        ImportError { message: format!("{location}: {}", self.message), ..self }
    }
}

/// Result of this crate's functions.
pub(crate) type Result<T> = std::result::Result<T, ImportError>;

pub(crate) fn malformed(message: impl Into<String>) -> ImportError {
    ImportError::new(ImportErrorKind::Malformed, message)
}

pub(crate) fn invalid(message: impl Into<String>) -> ImportError {
    ImportError::new(ImportErrorKind::Invalid, message)
}

pub(crate) fn unsupported(message: impl Into<String>) -> ImportError {
    ImportError::new(ImportErrorKind::Unsupported, message)
}

impl From<InferError> for ImportError {
    fn from(error: InferError) -> ImportError {
        invalid(error.to_string())
    }
}
