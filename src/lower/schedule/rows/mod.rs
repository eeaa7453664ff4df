//! Stages that are no contraction: elementwise stages, reductions, and row-wise fusion of both.

pub mod elementwise;
pub mod reduction;
pub mod row_fusion;
