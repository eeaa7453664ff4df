//! Memory: a pool for object headers, and allocators for tensor data.

pub mod device;
pub mod heap;
mod live;
pub mod pool;
pub(crate) mod workspace;
