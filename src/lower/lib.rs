//! Lowering: graph IR to loop IR and bytecode, and the choice of schedules.
#![forbid(unsafe_code)]

pub mod bytecode;
mod error;
pub mod fuse;
pub mod legalize;
pub mod policy;

pub use error::{ErrorKind, LowerError};
