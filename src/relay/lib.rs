//! Executables of TVM's Relay virtual machine (TVM 0.8 to 0.19), and their lowering to the bytecode of
//! [`reflex_vm`].
//!
//! [`read`] and [`write`](mod@write) know the file (`.ro`) in its three [dialects](executable::Dialect), [`text`]
//! the listing that TVM prints, [`params`] the file of late-bound constants. [`verify`] is the only door
//! to [`lower`], which turns the 21 opcodes into the four of Relax's virtual machine once, so that the
//! interpreter and every tier run them without knowing of Relay. [`kernels`] gives the lowered
//! program its kernels, and [`host`] passes values of data types to and from callers.
//!
//! The compiler from Relay's graphs is not here.
//!
//! Decision: docs/decisions/0063-relay-executables.md

#![forbid(unsafe_code)]

pub mod builder;
mod bytes;
pub mod executable;
pub mod host;
pub mod instr;
pub mod kernels;
pub mod lower;
pub mod params;
mod print;
pub mod read;
pub mod text;
pub mod verify;
pub mod write;
