//! The Relax virtual machine: bytecode, its verifier, the interpreter, and the
//! contract (`tier`, `abi`) through which machine-code tiers take over.
//!
//! Provides TVM's four-opcode bytecode and its serialized form, a builder, a text form, a verifier,
//! decoding into dense operations, programs (shared) and sessions (one per thread), and the
//! `vm.builtin.*` functions. It knows no graphs, operators, loops or shapes as expressions, and no
//! emitter of machine code.

pub mod abi;
pub mod align;
pub mod builder;
pub mod builtins;
pub mod bytecode;
mod call_graph;
mod call_sites;
mod calls;
pub mod decode;
pub mod devices;
mod epoch;
pub mod executable;
mod fast_path;
mod fingerprint;
mod hooks;
pub mod instrument;
mod interp;
pub mod kernel;
mod libcalls;
pub mod listing;
pub mod liveness;
pub mod load;
#[cfg_attr(not(unix), path = "no_membarrier.rs")]
mod membarrier;
pub mod mode;
#[cfg_attr(not(unix), path = "no_native_stack.rs")]
mod native_stack;
pub mod output_buffers;
pub mod profile;
pub mod program;
mod quiescence;
pub mod reentry;
pub mod run_error;
pub mod serialize;
pub mod session;
#[cfg_attr(not(unix), path = "stack_on_heap.rs")]
mod stack;
mod state;
pub mod text;
pub mod tier;
mod unwind;
pub mod verify;
mod vmtir;
mod watched;
