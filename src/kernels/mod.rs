//! Kernels: loaded into executable memory, called through raw entries, kept as object files.

pub(crate) mod device;
pub(crate) mod jit;
pub(crate) mod objects;
pub(crate) mod raw_entry;
pub(crate) mod tiered;
