//! Machine code for VM functions, by Cranelift.
//!
//! Two tiers share one way of writing code (`emit`, `fast`): `compile` translates whole functions
//! ahead of time, `trace` what the interpreter recorded. `assemble` turns Cranelift functions into
//! published code, `glue` connects it with Rust.
//!
//! What is not here: the meaning of programs (the interpreter defines it, and every rare case is
//! left to it), kernels, and anything known only at run time of one session: no session address
//! is ever in generated code.

mod announce;
mod assemble;
mod bridge;
mod compile;
mod constants;
mod emit;
mod engine;
mod error;
mod evict;
mod facts;
mod fast;
mod force;
mod frames;
mod glue;
mod image;
mod lowering;
mod options;
mod overview;
mod raw;
mod recycle;
mod report;
mod room;
mod symbol;
mod tier;
mod trace;
mod tries;
mod worker;

pub use error::JitError;
pub use force::ForcedExits;
pub use image::SavedCodeError;
pub use lowering::{Lowered, Lowering};
pub use options::{CompileMode, TierOptions};
pub use overview::{
    Disassemble, FunctionOverview, MethodOverview, Overview, SiteOverview, TraceOverview,
};
pub use report::{MethodReport, ParentExit, Pending, TraceReport};
pub use tier::CraneliftTier;
