//! The one error users see: what kind, and a message that names the file, node and remedy.

use std::fmt;
use std::path::Path;

/// What went wrong, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read or written.
    Io,
    /// The model or program is malformed.
    Model,
    /// The model needs something that is not built.
    Unsupported,
    /// An argument or input tensor does not fit.
    Input,
    /// Compilation failed.
    Compile,
    /// Execution failed.
    Run,
}

/// An error with its kind and message.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// An input error.
    pub fn input(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Input, message)
    }

    /// An error about a file.
    pub fn io(path: &Path, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("{}: {error}", path.display()))
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error with where it happened in front.
    pub fn at(self, place: impl fmt::Display) -> Error {
        Error { kind: self.kind, message: format!("{place}: {}", self.message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<reflex_graph::script::ScriptError> for Error {
    fn from(error: reflex_graph::script::ScriptError) -> Error {
        Error::new(ErrorKind::Model, error.to_string())
    }
}

impl From<reflex_onnx::ImportError> for Error {
    fn from(error: reflex_onnx::ImportError) -> Error {
        use reflex_onnx::ImportErrorKind::{Io, Unsupported};
        let kind = match error.kind() {
            Io => ErrorKind::Io,
            Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Model,
        };
        Error::new(kind, error.to_string())
    }
}
