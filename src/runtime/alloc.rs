//! Memory: a pool for object headers, and allocators for tensor data.

pub mod device;
mod free_list;
pub mod free_tensors;
pub mod heap;
#[cfg_attr(not(unix), path = "alloc/no_huge_pages.rs")]
pub mod huge_pages;
mod live;
#[cfg_attr(not(unix), path = "alloc/no_mapping.rs")]
mod mapping;
pub mod pool;
pub(crate) mod workspace;
