//! Micro-kernels: loops of multiply-adds over a tile of accumulators, which an assembler writes with the
//! CPU's widest vectors.
//!
//! Cranelift's vectors have 128 bits, a contraction's register tile has some twenty vectors of 512, and
//! most of the time of compiling a contraction goes to the registers of that tile. A nest
//!
//! ```text
//! for k0 in range(n0): for k1 in range(n1):
//!     for l in vectorized(16):
//!         acc[at + l] = fma(x[i + k0 * s0 + k1 * s1], w[j + l + k0 * t0 + k1 * t1], acc[at + l])   # several of these
//! ```
//!
//! is found by [`find`] and becomes a call of a function of the same object ([`code`]), one for each form of
//! tile. So are dot products of 8-bit integers (`dot_u8s8`) where the CPU has an instruction for them. Each accumulator gets the same products in the same order as by the loops, so the bits are the same.
//!
//! Decision: docs/decisions/0086-micro-kernels.md

mod code;
mod find;
mod form;
mod tiles;
mod vectors;

pub use code::assemble;
pub use find::{MicroKernel, Units, find, find_behind_zeros};
pub use form::Form;
pub use tiles::{TileForm, TileStep, assemble_tiles, word_of_rows};
pub use vectors::Vectors;
