//! The one error of this crate: a kind to match on and a message for a person.

use std::fmt;

/// The class of a failure, for callers that react differently (a corrupt cache entry is rebuilt, an
/// unknown symbol is not).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeErrorKind {
    /// No executable memory left in the reserved region, or the system refused it.
    OutOfMemory,
    /// The bytes are not a well-formed relocatable object.
    Malformed,
    /// Well formed, but uses something that is deliberately not supported.
    Unsupported,
    /// A symbol outside the closed list of imports.
    UnknownSymbol,
    /// Two strong definitions of one symbol.
    DuplicateSymbol,
    /// A relocation whose value does not fit its field.
    OutOfReach,
}

/// Why code could not be placed, loaded or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeError {
    kind: CodeErrorKind,
    message: String,
}

impl CodeError {
    pub(crate) fn new(kind: CodeErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(CodeErrorKind::Malformed, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(CodeErrorKind::Unsupported, message)
    }

    /// The class of the error.
    pub fn kind(&self) -> CodeErrorKind {
        self.kind
    }
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CodeError {}
