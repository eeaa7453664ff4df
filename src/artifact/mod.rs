//! The artifact: one shared library in TVM's layout, written without a linker.
//!
//! `__tvm_ffi__library_bin` holds TVM's bundle with the executable, `__tvm_ffi_<name>` are the
//! kernels, so TVM's loader takes the file. [`METADATA_SYMBOL`] is ours: names and shapes of inputs
//! and outputs, and the CPU variants of the kernels, of which the highest that this CPU can run is
//! taken. TVM takes the lowest, whose kernels have the plain names. [`SAVED_CODE_SYMBOL`] is ours
//! too: machine code of the VM functions. [`DEVICE_SYMBOL`] has what is for a GPU, which TVM does not
//! read.
//!
//! Decision: docs/decisions/0039-cpu-levels.md

#[cfg_attr(not(feature = "device"), path = "no_device.rs")]
pub(crate) mod device;
pub(crate) mod imports;
mod kernels;
pub(crate) mod loader;
pub(crate) mod metadata;
#[cfg_attr(not(feature = "relay"), path = "no_relay.rs")]
pub(crate) mod relay;
pub(crate) mod tvm_signatures;
#[cfg(feature = "compiler")]
mod wasm_module;
#[cfg(feature = "compiler")]
pub(crate) mod writer;

/// Kind of the module that holds the executable in the bundle.
pub(crate) const EXECUTABLE_KIND: &str = "relax.VMExecutable";
/// Symbol of our description: [`metadata::Metadata`] as JSON.
const METADATA_SYMBOL: &str = "__reflex_meta";
/// Symbol of the saved code: machine code of the executable's functions.
const SAVED_CODE_SYMBOL: &str = "__reflex_code";
/// Symbol of [`device::DeviceSection`].
const DEVICE_SYMBOL: &str = "__reflex_device";
