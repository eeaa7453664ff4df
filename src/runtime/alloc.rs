//! Memory: a pool for object headers, and allocators for tensor data.

pub mod device;
mod free_list;
pub mod free_tensors;
pub mod heap;
pub mod huge_pages;
mod live;
pub mod pool;
pub(crate) mod workspace;
