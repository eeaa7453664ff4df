//! The stand-in for `host` on systems without a global scope of symbols: no libtvm_ffi comes before us.

use std::ffi::{CStr, c_void};

use crate::function::Function;
use crate::object::ObjectRef;

/// The functions of a libtvm_ffi; there is none.
pub(crate) enum Host {}

/// The host's library, if there is one before us.
pub(crate) fn get() -> Option<&'static Host> {
    None
}

/// The symbol `name` of the global scope: none.
pub(crate) fn global_symbol(_name: &CStr) -> Option<*mut c_void> {
    None
}

impl Host {
    /// Takes the error out of this thread's slot in libtvm_ffi.
    pub(crate) fn take_raised(&self) -> Option<ObjectRef> {
        match *self {}
    }

    /// Puts an error in this thread's slot in libtvm_ffi.
    pub(crate) fn set_raised(&self, _error: &ObjectRef) {
        match *self {}
    }

    /// A global function of libtvm_ffi.
    pub(crate) fn global(&self, _name: &str) -> Option<Function> {
        match *self {}
    }

    /// The index of a type without parents but `ffi.Object`.
    pub(crate) fn type_index_of(&self, _key: &str) -> i32 {
        match *self {}
    }
}
