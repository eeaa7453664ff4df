//! Numbers of PTX: formats, exact rounding, operations on registers, and the sums of tensor cores.

pub mod convert;
pub mod float;
pub mod format;
pub mod integer;
pub mod mma;
pub mod soft;
#[cfg(test)]
mod tests;

/// An operation on the bits of up to three registers.
pub type Scalar = fn(u64, u64, u64) -> u64;

/// An operation on the bits of four registers.
pub type Scalar4 = fn(u64, u64, u64, u64) -> u64;
