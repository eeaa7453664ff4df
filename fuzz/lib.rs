//! Generators of programs, and oracles: sentences about programs that must hold for all of them.
//!
//! `cargo test` runs every oracle for a short time on random bytes; `cargo fuzz` digs. The targets
//! in `fuzz_targets/` only pass bytes on. An oracle panics when its sentence is false, and says
//! what differs.
#![deny(unsafe_code)]

pub mod blobs;
#[cfg(feature = "facade")]
pub mod facade;
#[cfg(feature = "compiler")]
pub mod graphs;
/// The harness that tests of the pipeline run graphs with.
#[cfg(feature = "compiler")]
#[allow(unsafe_code)]
#[path = "../src/lower/tests/harness/mod.rs"]
mod harness;
pub mod host;
pub mod kernels;
#[cfg(feature = "facade")]
pub mod models;
pub mod mutate;
#[cfg(feature = "compiler")]
pub mod nodes;
pub mod oracles;
pub mod programs;
pub mod relay;
pub mod rpc;
#[cfg(feature = "compiler")]
pub mod schedules;
#[cfg(feature = "compiler")]
pub mod scripts;
pub mod tracker;
pub mod watcher;
