//! GEMM after Goto and BLIS: a macro-kernel walks over tiles of the result, a micro-kernel keeps one
//! tile's accumulators in vector registers or in AMX tiles over the whole depth.

pub mod amx;
pub mod block_sums;
pub mod blocking;
pub mod expand_panels;
pub mod kernel;
pub mod macro_kernel;
pub mod micro_kernel;
pub mod pack_operands;
pub mod streamed_weights;
