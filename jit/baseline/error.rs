//! Why a function has no code.

use cranelift_module::ModuleError;

/// A function that this generator has no code for, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BaselineError(String);

/// A result of code generation.
pub type Result<T> = std::result::Result<T, BaselineError>;

impl BaselineError {
    pub(crate) fn new(message: impl Into<String>) -> BaselineError {
        BaselineError(message.into())
    }
}

impl From<ModuleError> for BaselineError {
    fn from(error: ModuleError) -> BaselineError {
        match error {
            ModuleError::Compilation(error) => BaselineError::new(format!("Cranelift: {error:?}")),
            error => BaselineError::new(format!("Cranelift: {error}")),
        }
    }
}
