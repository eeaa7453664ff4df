//! Winograd convolutions: transforms by constant matrices, and all stages in one loop over strips.

pub mod constant_matrix;
pub mod strips;
pub mod transform;
