//! The executor: blocks, warps, memory and barriers of one launch.

mod barrier;
mod bulk;
mod clocks;
mod collective;
mod copies;
pub mod machine;
mod matrix;
mod mbarrier;
mod memory;
mod pending;
mod state;
mod warp;
mod warpgroup;
