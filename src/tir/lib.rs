//! Reflex's loop IR, after TVM's TensorIR: buffers, loops and blocks, and the types shared with the
//! graph IR.
//!
//! A [`PrimFunc`] is one kernel. It has two [forms](verify::IrForm). In *scheduled* form
//! computations are [`Block`]s with spatial and reduction iterators, which schedule primitives move.
//! In *lowered* form only loops, stores and allocations are left, which code generators take.
//!
//! ```text
//! legalisation, TVMScript, FuncBuilder
//!         |  PrimFunc in scheduled form, naive loops
//!     schedule    rewrites that keep every bit, or say where they do not
//!         |
//!     lower       no blocks, tight allocations, polynomials for transcendental functions
//!         |  PrimFunc in lowered form
//!     codegen::Request to reflex-codegen, which answers with an ELF object
//! ```
//!
//! - Data types: [`PrimFunc`], [`Stmt`], [`For`], [`Block`], [`Expr`] and [`Intrin`]; [`tile`] for
//!   matrix registers (AMX). Variables and buffers are dense ids.
//! - Making functions: [`builder`], or TVMScript by [`script::parse`]; [`script::print`] is its
//!   inverse.
//! - Analysis: [`verify`](mod@verify) lists every fault of a function; [`arith`] holds interval
//!   analysis, modular sets, a prover and a simplifier; [`flops`] counts operations.
//! - Transformation: [`schedule`] (split, fuse, `compute_at`, tensorize, ...) and [`lower`]. Schedule
//!   rules, which choose among primitives, are in the crate `reflex-lower`.
//! - Meaning: [`eval`] is the reference evaluator, the oracle of tests and fuzzing; `fuzzgen` (behind
//!   the feature of that name) makes random functions and schedules for it.
//! - Contracts: [`abi`] describes a kernel's two entry points, [`codegen`] the request to a code
//!   generator and the [`CpuTarget`](codegen::CpuTarget), [`level`] the x86-64 feature levels.
//!
//! This crate emits no machine code, knows no graph and no model format.
//!
//! ```
//! use reflex_tir::{DType, builder::FuncBuilder, lower, schedule::Schedule, script};
//! use reflex_tir::verify::{IrForm, verify};
//!
//! let mut f = FuncBuilder::new("square");
//! let n = f.symbol("n");
//! let x = f.input("x", DType::F32, vec![n.clone()]);
//! f.output("compute", "y", DType::F32, vec![n], |f, i| f.at(x, i) * f.at(x, i));
//!
//! let mut s = Schedule::new(f.finish());
//! let [i] = s.get_loops("compute")?[..] else { unreachable!() };
//! let (_, lanes) = s.split(i, 16)?;
//! s.vectorize(lanes)?;
//!
//! let lowered = lower::lower(&s.into_func());
//! assert!(verify(&lowered, IrForm::Lowered).is_ok());
//! assert!(script::print(&lowered).contains("T.vectorized("));
//! # Ok::<(), reflex_tir::schedule::ScheduleError>(())
//! ```
#![forbid(unsafe_code)]

pub mod abi;
pub mod adjacent;
pub mod argument_checks;
pub mod arith;
#[cfg(feature = "script")]
mod body_copy;
pub mod box_copy;
pub mod builder;
pub mod codegen;
pub mod eval;
mod expr;
pub mod flops;
mod func;
#[cfg(feature = "fuzzgen")]
pub mod fuzzgen;
pub mod half_float;
mod host;
pub mod index_width;
pub mod launch;
pub mod level;
pub mod lower;
pub mod mma;
pub mod op_pattern;
mod packed_call;
pub mod pipeline;
pub mod schedule;
#[cfg(feature = "script")]
pub mod schedule_trace;
pub mod script;
#[cfg(feature = "script")]
pub mod tensor_intrin;
pub mod thread;
pub mod tile;
pub mod uses;
pub mod verify;
mod visit;

pub use expr::{BinOp, CmpOp, Expr, ExprKind, Intrin, NEAR_BYTES, Sign};
pub use func::{
    Block, BlockIter, Buffer, BufferData, For, ForKind, IndexCheck, IterKind, Param, PrimFunc,
    Region, Scope, Stmt, Var, VarData,
};
pub use packed_call::{CallArg, PackedCall};
pub use reflex_runtime::dtype::DType;
