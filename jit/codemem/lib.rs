//! Code memory: where machine code lives, how it gets there, and how it leaves as a file.
//!
//! `pages` owns executable memory and keeps it W^X; `relocate` loads relocatable ELF objects
//! into it; `elf` writes shared libraries that `dlopen` and TVM's loader accept; `imports` is the
//! closed list of symbols that kernels may ask for; `call_cells` has calls whose code can be
//! replaced; `perf_map` and `jitdump` tell `perf` what was
//! loaded, `gdb` the debugger. Loader and writer share one linker (`link`), so a kernel that loads
//! from memory also loads from an artifact, with the same symbol rules.
//!
//! Absent on purpose: no knowledge of tensors, programs or the VM; no C++ runtime, no external
//! linker, no lazy binding, no thread-local storage, no constructors. Bytes that come from files
//! are hostile: every offset is checked, and a bad object is an error that names the place.
//!
//! Decision: docs/decisions/0018-relocatable-objects.md

pub mod call_cells;
pub mod elf;
mod elf_writer;
mod error;
pub mod gdb;
pub mod imports;
mod instruction_cache;
pub mod jitdump;
mod link;
mod machine;
mod object_file;
pub mod pages;
pub mod perf_map;
pub mod relocate;
mod resolve;

pub use error::{CodeError, CodeErrorKind};
pub use machine::Machine;
