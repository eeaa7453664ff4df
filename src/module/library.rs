//! Modules of shared libraries: their packed functions, and the modules that they carry.

use reflex_runtime::error::Error as Raised;
use reflex_runtime::library::Library;
use reflex_runtime::module::Module;

use crate::artifact::EXECUTABLE_KIND;
use crate::artifact::imports::{self, LibraryFunctions};
use crate::error::{Error, ErrorKind, Result};
use crate::model_source::ModelSource;

/// A library as a module, with those of its bundle; None if it has a program.
pub(super) fn open(source: &ModelSource) -> Result<Option<Module>> {
    let library = match source.path_or_bytes() {
        Ok(path) => {
            std::fs::File::open(path).map_err(|e| Error::io(path, &e))?;
            let absolute = path.canonicalize().map_err(|e| Error::io(path, &e))?;
            // SAFETY: the caller trusts the library's machine code, as the documentation says.
            unsafe { Library::open(&absolute) }
        }
        // SAFETY: as for a path.
        Err(bytes) => unsafe { Library::from_bytes(bytes.as_ref()) },
    };
    let failed = |e: Raised| Error::new(ErrorKind::Model, e.message()).at(source);
    let library = library.map_err(failed)?;
    let has_program = library.legacy_executable().is_some()
        || library.bundle().is_some_and(|bundle| bundle.find(EXECUTABLE_KIND).is_some());
    if has_program {
        return Ok(None);
    }
    let own = Module::new(LibraryFunctions(library.clone()));
    imports::tree(&library, own).map(|tree| Some(tree.root)).map_err(|e| e.at(source))
}
