//! Why a module could not be compiled.

use std::fmt;

/// The kind of trouble that stopped a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The module asks for something that is not implemented.
    Unsupported,
    /// A pass from outside failed, or its result is no such module.
    Pass,
    /// A verifier found a fault after a pass: a bug of the compiler.
    Internal,
    /// `reflex-codegen` is missing, crashed or refused.
    Codegen,
    /// Reading or writing a file failed.
    Io,
}

/// A compilation error: the message names the node or function and, where there is one, the
/// remedy.
#[derive(Clone, Debug)]
pub struct LowerError {
    kind: ErrorKind,
    message: String,
}

impl LowerError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> LowerError {
        LowerError { kind, message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> LowerError {
        LowerError::new(ErrorKind::Unsupported, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> LowerError {
        LowerError::new(ErrorKind::Internal, message)
    }

    pub(crate) fn outside(message: impl Into<String>) -> LowerError {
        LowerError::new(ErrorKind::Pass, message)
    }

    pub(crate) fn codegen(message: impl Into<String>) -> LowerError {
        LowerError::new(ErrorKind::Codegen, message)
    }

    /// The kind of trouble.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Internal => write!(f, "compiler bug: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for LowerError {}
