//! Constant weights stored the way kernels read them: which are packed, and the packing itself.

pub mod blocks;
pub mod choose;
pub mod pack;
pub mod panels;
mod share;
pub mod vnni;
pub mod winograd;
