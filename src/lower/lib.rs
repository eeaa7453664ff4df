//! Lowering: graph IR to loop IR and bytecode, and the choice of schedules.
#![forbid(unsafe_code)]

pub mod bytecode;
pub mod codegen_process;
pub mod compile;
mod error;
pub mod fuse;
pub mod graph;
pub mod kernel_cache;
pub mod legalize;
pub mod pipeline;
pub mod precision;
pub mod schedule;

pub use error::{ErrorKind, LowerError};
