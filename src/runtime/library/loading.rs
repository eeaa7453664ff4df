//! Names of the loaders of libraries: the variables that they fill, and what they say.

use std::ffi::c_void;

/// Why a library cannot be loaded.
pub(super) type Reason = String;

/// A pointer variable of libraries that the loader fills.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) value: *mut c_void,
}

/// The access that programs have to the bytes of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BundleAccess {
    /// They can be written: pages that are become copies of this process.
    CopyOnWrite,
    /// They can be read only.
    Read,
}
