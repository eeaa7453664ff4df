//! Lowering: graph IR to loop IR and bytecode, and the choice of schedules.
#![forbid(unsafe_code)]

pub mod bytecode;
pub mod cache;
pub mod codegen_process;
pub mod compile;
mod error;
pub mod fuse;
pub mod graph;
pub mod legalize;
pub mod pipeline;
pub mod policy;

pub use error::{ErrorKind, LowerError};
