//! Modules of shared libraries: their packed functions, and the modules that they carry.

use reflex_runtime::library::Library;
use reflex_runtime::module::Module;

use crate::artifact::imports::{self, LibraryFunctions};
use crate::error::Result;

/// A library without a program as a module, with those of its bundle.
pub(super) fn module(library: &Library) -> Result<Module> {
    let own = Module::new(LibraryFunctions(library.clone()));
    Ok(imports::tree(library, own)?.root)
}
