//! The compiler between graphs and machine code: graph IR in, bytecode and scheduled kernels out.
//!
//! ```text
//! Module of operators (reflex-graph)
//!   │  graph passes                [`graph`]      constants folded, loops canonical, views gone
//!   │  operator fusion             [`fuse`]       groups of operators, blocked layouts, packed weights
//!   │    └─ legalisation           [`legalize`]   one naive loop nest per operator (reflex-tir)
//!   ▼
//! Module of kernel calls
//!   ├─ bytecode                    [`bytecode`]   memory plan, shape heap, checks: an executable (reflex-vm)
//!   ├─ stored                      [`program_cache`]   for the next start
//!   └─ for each kernel and CPU     [`compile`]    in parallel, through the [`kernel_cache`]
//!        │  schedule rules         [`schedule`]   tiles, vectors, threads, AMX, Winograd
//!        │  lowering               reflex_tir::lower
//!        ▼
//!      code generator              [`codegen_process`]   LLVM in another process: objects
//! ```
//!
//! [`passes`] has the table of passes and the pipelines made of them; [`pipeline`] runs one, which can be
//! watched, stopped (`reflex inspect --after PASS`) and timed. A verifier runs after every graph pass. [`compile::compile`] runs all of
//! it.
//!
//! # Facts, then machinery
//!
//! Modules at the bottom hold facts on which stages agree, and import no stage:
//!
//! - [`precision`]: the arithmetic of float32 contractions (`f32`, `f32-fast`, `bf16`, `int8`).
//! - `layout`: lanes of a blocked layout NCHWc, widths of packed panels, heights of register tiles.
//! - `winograd`: for which convolutions minimal filtering pays, and its transform matrices.
//! - [`packing`]: constant weights in packed panels, VNNI-packed, or transformed for Winograd.
//!
//! Above them, a stage imports facts and its own parts, never another stage's insides:
//!
//! - [`graph`]: constant folding, simplification, stride propagation, loop canonicalisation,
//!   loop-invariant code motion, dead-code elimination.
//! - [`fuse`]: which operators share a kernel (after Relay's pattern kinds), which tensors are
//!   blocked or stored as bfloat16, and the merging of naive kernels.
//! - [`legalize`]: the naive kernel of every operator. It is the meaning that schedules keep.
//! - [`schedule`]: the rules that make naive kernels fast, made of the checked primitives of
//!   `reflex_tir::schedule`; its page has a table of what takes what.
//! - [`bytecode`]: emission for the VM, with liveness-based storage reuse.
//!
//! # Results
//!
//! The headers of [`legalize`], [`schedule`] and `legalize/winograd.rs` say which sums are
//! reassociated and by how much results may differ. A kernel of static shapes and one of symbolic
//! shapes give the same bits.
//!
//! # Absent
//!
//! No unsafe code, no code generation, no execution: `reflex-codegen` turns kernels into objects, and
//! the VM runs them. Constant folding calls the reference evaluator of `reflex-graph`
//! ([`graph::fold_constants`]); nothing else here evaluates anything.
#![forbid(unsafe_code)]

pub mod bytecode;
pub mod codegen_process;
pub mod compile;
pub mod content_digest;
pub mod dispatch;
mod error;
mod extent;
pub mod fuse;
pub mod graph;
mod interface;
pub mod kernel_cache;
mod kernel_name;
mod kernel_packs;
pub mod kernel_source;
mod layout;
pub mod legalize;
pub mod optimize_for;
pub mod packing;
mod parallel;
pub mod passes;
pub mod pipeline;
pub mod precision;
pub mod program_cache;
pub mod schedule;
mod schedule_by_trace;
mod winograd;

pub use error::{ErrorKind, LowerError};
