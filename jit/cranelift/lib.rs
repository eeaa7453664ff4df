//! Machine code for VM functions, by Cranelift: a tracing compiler and a method compiler.
//!
//! Both emit the same instruction sequences (`emit`). `method` compiles functions as a unit, ahead of
//! time or because traces do not cover them. `trace` compiles what the interpreter recorded.
//! `assemble` turns Cranelift functions into published code, and `trampolines` connect it with Rust.
//! `compiler` takes a recording or a function all the way to installed code; `store` and `evict`
//! hold that code within the code-cache budget.
//!
//! Modules import downwards only: `facts` know no emitter, `emit` knows neither traces nor methods,
//! and only `tier` knows the `compiler`.
//!
//! Not in this crate: the meaning of programs (the interpreter defines it, and every rare case is
//! left to it), kernels, and anything that is known only while one session runs. No session address
//! is ever in generated code.
//!
//! Decision: docs/decisions/0006-cranelift-for-vm-code.md

mod assemble;
mod compiler;
mod emit;
mod error;
mod evict;
mod facts;
mod forced_exits;
mod method;
mod options;
mod overview;
mod penalty;
mod recycle;
mod report;
mod saved_code;
mod side_exits;
mod store;
mod tier;
mod trace;
mod trampolines;
mod usage;
mod worker;

pub use error::JitError;
pub use forced_exits::ForcedExits;
pub use method::lowering::{InlineDecision, Lowered};
pub use options::{CompileMode, TierOptions};
pub use overview::{
    Disassemble, FunctionOverview, MethodOverview, Overview, SiteOverview, TraceOverview,
};
pub use report::{MethodReport, ParentExit, Pending, TraceReport};
pub use saved_code::SavedCodeError;
pub use tier::CraneliftTier;
