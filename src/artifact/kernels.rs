//! The kernels of an artifact, as the VM finds them by name.

use std::collections::HashMap;

use reflex_runtime::function::Function;
use reflex_runtime::module::{Imports, Module};
use reflex_tir::abi::{RAW_PREFIX, RawSignature};
use reflex_vm::kernel::RawKernel;
use reflex_vm::load::Library;

use crate::kernels::raw_entry::raw_kernel;

/// The kernels of an opened library for one of its CPU variants.
pub(crate) struct ArtifactKernels {
    library: reflex_runtime::library::Library,
    /// The ending of the names of this variant's kernels.
    suffix: String,
    raw: HashMap<String, RawSignature>,
    /// Modules of the bundle whose functions the program calls too.
    imports: Vec<Module>,
}

impl ArtifactKernels {
    /// # Safety
    /// `signatures` describe the raw entries of the library's kernels.
    pub(crate) unsafe fn new(
        library: reflex_runtime::library::Library,
        suffix: String,
        signatures: Vec<RawSignature>,
        imports: Vec<Module>,
    ) -> ArtifactKernels {
        let raw = signatures.into_iter().map(|it| (it.name.clone(), it)).collect();
        ArtifactKernels { library, suffix, raw, imports }
    }
}

impl Library for ArtifactKernels {
    fn function(&self, name: &str) -> Option<Function> {
        let own = self.library.function(&format!("{name}{}", self.suffix));
        // A module that fails to look up lacks the function; the program is then refused by name.
        let find = |module: &Module| module.function(name, Imports::Search).ok()?;
        own.or_else(|| self.imports.iter().find_map(find))
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        let signature = self.raw.get(name)?;
        let code = self.library.symbol(&format!("{RAW_PREFIX}{name}{}", self.suffix))?;
        // SAFETY: the caller of `new` promised that the signature describes this entry; the packed
        // function keeps the library open.
        unsafe { raw_kernel(code.as_ptr().cast(), signature) }
    }

    fn provide(&self, functions: &HashMap<String, Function>) {
        Library::provide(&self.library, functions);
    }
}
