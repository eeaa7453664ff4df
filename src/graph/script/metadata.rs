//! The metadata table of a script: TVM's JSON graph of objects, of which constants are read.

/// First word of a saved tensor.
pub(crate) const TENSOR_MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;
