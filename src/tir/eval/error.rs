//! Failures of an evaluation.

/// Why an evaluation stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("evaluating `{func}`: {reason}")]
pub struct EvalError {
    /// The function.
    pub func: String,
    /// The failure.
    pub reason: EvalErrorKind,
}

/// Kinds of evaluation failure; the text names the buffer, variable or block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalErrorKind {
    /// Arguments do not fit the parameters.
    #[error("argument: {0}")]
    Argument(String),
    /// An index or block iterator outside its range.
    #[error("out of bounds: {0}")]
    Bounds(String),
    /// A value of an index tensor that a check of the function refuses, with the check's message.
    #[error("{0}")]
    Index(String),
    /// A variable without a value, or an intermediate element read before it was written.
    #[error("undefined: {0}")]
    Undefined(String),
    /// Operands of the wrong type.
    #[error("type: {0}")]
    Type(String),
    /// Division by zero or an over-wide shift.
    #[error("arithmetic: {0}")]
    Arithmetic(String),
    /// Threads that touch one element, of which one writes, in no order.
    #[error("race on {0}, with no barrier between")]
    Race(String),
    /// A barrier that not all threads come to.
    #[error("barrier: {0}")]
    Barrier(String),
    /// A packed function that is not there, or that failed.
    #[error("{0}")]
    Packed(String),
    /// The step limit was reached.
    #[error("out of fuel")]
    Fuel,
}
