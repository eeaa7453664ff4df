//! Kernels: loaded into executable memory, called through raw entries, kept as object files.

#[cfg_attr(not(feature = "device"), path = "no_device.rs")]
pub(crate) mod device;
#[cfg(feature = "compiler")]
pub(crate) mod foreign;
#[cfg(feature = "compiler")]
pub(crate) mod jit;
#[cfg(feature = "compiler")]
pub(crate) mod objects;
pub(crate) mod raw_entry;
#[cfg_attr(not(feature = "compiler"), path = "no_tiered.rs")]
pub(crate) mod tiered;
