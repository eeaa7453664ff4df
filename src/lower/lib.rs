//! Lowering: graph IR to loop IR and bytecode, and the choice of schedules.
#![forbid(unsafe_code)]

pub mod legalize;
pub mod policy;
