//! Errors of code generation.

use std::fmt;

use reflex_codemem::CodeError;

/// A failure of the code generator or of code memory. The interpreter then runs the program, with
/// the same results.
#[derive(Debug)]
pub struct JitError(Cause);

#[derive(Debug)]
enum Cause {
    Backend(String),
    Memory(CodeError),
    Limit(usize),
}

impl JitError {
    pub(crate) fn backend(message: impl Into<String>) -> Self {
        Self(Cause::Backend(message.into()))
    }

    pub(crate) fn limit(bytes: usize) -> Self {
        Self(Cause::Limit(bytes))
    }

    /// Returns true if code memory ran out, false if the translation failed.
    pub fn is_memory(&self) -> bool {
        matches!(self.0, Cause::Memory(_) | Cause::Limit(_))
    }
}

impl From<CodeError> for JitError {
    fn from(error: CodeError) -> Self {
        Self(Cause::Memory(error))
    }
}

impl fmt::Display for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Backend(message) => write!(f, "code generation failed: {message}"),
            Cause::Memory(error) => write!(f, "no memory for code: {error}"),
            Cause::Limit(bytes) => write!(f, "the limit of {bytes} bytes of code is reached"),
        }
    }
}

impl std::error::Error for JitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Cause::Backend(_) | Cause::Limit(_) => None,
            Cause::Memory(error) => Some(error),
        }
    }
}
