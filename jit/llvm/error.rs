//! Why a function could not be compiled.

use inkwell::builder::BuilderError;
use inkwell::support::LLVMString;

/// A function that cannot be compiled, or a fault of LLVM; the text says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodegenError(String);

/// Result of everything here.
pub type Result<T> = std::result::Result<T, CodegenError>;

impl CodegenError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> CodegenError {
        CodegenError(message.into())
    }
}

impl From<BuilderError> for CodegenError {
    fn from(error: BuilderError) -> CodegenError {
        CodegenError(format!("LLVM builder: {error}"))
    }
}

impl From<object::Error> for CodegenError {
    fn from(error: object::Error) -> CodegenError {
        CodegenError(format!("an object: {error}"))
    }
}

impl From<LLVMString> for CodegenError {
    fn from(error: LLVMString) -> CodegenError {
        CodegenError(format!("LLVM: {}", error.to_string_lossy()))
    }
}
