//! The executor: blocks, warps, memory and barriers of one launch.

mod barrier;
mod clocks;
mod collective;
mod copies;
pub mod machine;
mod matrix;
mod memory;
mod state;
mod warp;
