//! Lowering: graph IR to loop IR and bytecode, and the choice of schedules.
#![forbid(unsafe_code)]

pub mod bytecode;
pub mod codegen_process;
pub mod compile;
mod error;
mod extent;
pub mod fuse;
pub mod graph;
pub mod kernel_cache;
mod layout;
pub mod legalize;
pub mod packing;
pub mod pipeline;
pub mod precision;
pub mod schedule;
mod winograd;

pub use error::{ErrorKind, LowerError};
