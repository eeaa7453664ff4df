//! Packed functions of shared libraries.

use std::path::Path;

use reflex_runtime::function::Function;
use reflex_runtime::library::Library;

use crate::error::{Error, ErrorKind, Result};

/// Returns the function `name` of a shared library in tvm-ffi's form, where its symbol is
/// `__tvm_ffi_<name>`. The library stays loaded with the function;
/// [`register_global_func`](crate::register_global_func) lets programs find it.
///
/// Opening a library runs machine code of its author's choice.
///
/// ```
/// let error = reflex::library_function("no/such/library.so".as_ref(), "f").err().unwrap();
/// assert_eq!(error.kind(), reflex::ErrorKind::Io);
/// ```
pub fn library_function(path: &Path, name: &str) -> Result<Function> {
    std::fs::File::open(path).map_err(|e| Error::io(path, &e))?;
    let absolute = path.canonicalize().map_err(|e| Error::io(path, &e))?;
    let model = |e: String| Error::new(ErrorKind::Model, e).at(path.display());
    // SAFETY: the caller trusts the library's machine code, as the documentation says.
    let library =
        unsafe { Library::open(&absolute) }.map_err(|e| model(e.message().into_owned()))?;
    library.function(name).ok_or_else(|| model(format!("no packed function is called `{name}`")))
}
