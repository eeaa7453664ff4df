//! Errors of the evaluator.

/// Why an evaluation stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    message: String,
}

impl EvalError {
    pub(super) fn new(message: impl Into<String>) -> EvalError {
        EvalError { message: message.into() }
    }

    pub(super) fn at(self, place: &str) -> EvalError {
        EvalError { message: format!("{place}: {}", self.message) }
    }
}

pub(super) type Result<T> = std::result::Result<T, EvalError>;
