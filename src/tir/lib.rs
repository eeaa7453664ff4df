//! Loop IR (TensorIR): buffers, loops and blocks, and the types shared with the graph IR.
//!
//! A [`PrimFunc`] is one kernel. It is born naive from legalisation, rewritten by schedule
//! primitives, lowered to plain loops, and handed to a code generator as a [`codegen::Request`].
//! This crate emits no machine code, knows no graph and no model format.
#![forbid(unsafe_code)]

pub mod abi;
pub mod arith;
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
pub mod level;
pub mod lower;
pub mod schedule;
pub mod script;
pub mod tensor_intrin;
pub mod tile;
pub mod verify;
mod visit;

pub use expr::{BinOp, CmpOp, Expr, ExprKind, Intrin};
pub use func::{
    Block, BlockIter, Buffer, BufferData, For, ForKind, IterKind, Param, PrimFunc, Region, Scope,
    Stmt, Var, VarData,
};
pub use reflex_runtime::dtype::DType;
