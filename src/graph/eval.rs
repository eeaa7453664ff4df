//! The reference evaluator of graph functions: the meaning of every operator, in plain code.
//!
//! It is the oracle of tests and evaluates constants while folding. Integer results
//! are exact. Floating-point results are computed in f64 and rounded once to the element
//! type, so they agree with any faithful implementation within tolerance, not bit for bit.
//! It does not plan, fuse or run kernels: `CallTir` is refused, and so is `CallPacked` but for closures, sequences
//! and the failure of a match.

mod dim;
mod elementwise;
mod error;
mod func;
mod index;
mod linear;
mod movement;
mod nbits;
mod op;
mod packed;
mod pool;
mod reduce;
mod registered;
mod resize;
mod rnn;
mod scalar;
mod sequence;
mod shape;
mod text;

pub use dim::{DimValues, eval_dim};
pub use error::EvalError;
pub use func::{EvalValue, eval_func};
pub use op::eval_op;

#[cfg(test)]
mod tests;
