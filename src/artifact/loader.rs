//! Opens shared libraries: artifacts of `reflex compile`, and executables that TVM exported.

use std::sync::Arc;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::library::{BundleAccess, Library};
use reflex_runtime::module::Module;
use reflex_vm::serialize;

use super::imports::{self, LibraryFunctions};
use super::kernels::ArtifactKernels;
use super::metadata::Metadata;
use super::{EXECUTABLE_KIND, METADATA_SYMBOL, SAVED_CODE_SYMBOL, relay, tvm_signatures};
use crate::error::{Error, ErrorKind, Result};
use crate::model_source::ModelSource;
use crate::options::{ExecutionOptions, TargetSelection};
use crate::program::loaded::{LoadedProgram, Resources, verified};

/// The bundle of a library, which stays open with it.
struct BundleBytes {
    library: Library,
    end: usize,
}

impl AsRef<[u8]> for BundleBytes {
    fn as_ref(&self) -> &[u8] {
        self.library.bundle_bytes(0..self.end)
    }
}

/// Opens a library, with the kernels for the highest CPU of `target`.
///
/// The caller trusts the library's machine code; its data is checked.
pub(crate) fn open(
    source: &ModelSource,
    target: &TargetSelection,
    execution: &ExecutionOptions,
) -> Result<LoadedProgram> {
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
    let library = library.map_err(|e| Error::new(ErrorKind::Model, e.message()))?;
    load(library, source, target, execution)
}

fn load(
    library: Library,
    source: &ModelSource,
    target: &TargetSelection,
    execution: &ExecutionOptions,
) -> Result<LoadedProgram> {
    let model = |message: &str| Error::new(ErrorKind::Model, message);
    let metadata = match library.data(METADATA_SYMBOL).map(Metadata::parse) {
        Some(None) => {
            return Err(model("written by another version of Reflex; compile it again"));
        }
        metadata => metadata.flatten(),
    };
    if let Some(bytes) = library.legacy_executable() {
        let bytes = bytes.map_err(|e| model(&e.message()))?.to_vec();
        return relay::link(&bytes, source, Some(library), execution);
    }
    let bundle = library.bundle().ok_or_else(|| model("a library without TVM's bundle"))?;
    let module = bundle
        .find(EXECUTABLE_KIND)
        .ok_or_else(|| model("its bundle holds no relax.VMExecutable"))?;
    let range = module.bytes.clone();
    let exec = match library.bundle_access() {
        // In place: programs may write constants, which `call_tir_inplace` does.
        BundleAccess::CopyOnWrite => {
            let owner: Arc<dyn AsRef<[u8]> + Send + Sync> =
                Arc::new(BundleBytes { library: library.clone(), end: range.end });
            serialize::from_shared(&owner, range)
        }
        BundleAccess::Read => serialize::from_bytes(library.bundle_bytes(range)),
    };
    let exec = verified(exec.map_err(|e| model(&e.to_string()))?)?;
    let saved_code = library.data(SAVED_CODE_SYMBOL).map(Arc::from);
    let (metadata, origin, suffix) = match metadata {
        Some(metadata) => {
            let best = metadata.best(target)?;
            let names = metadata.names().join(" and ");
            let origin = format!("compiled by Reflex for {names}, of which {} runs", best.name);
            let suffix = best.suffix.clone();
            (metadata, origin, suffix)
        }
        None => {
            let origin = "exported by TVM".to_owned();
            let signatures = tvm_signatures::signatures(&exec);
            (Metadata::of_signatures(signatures), origin, String::new())
        }
    };
    let own = Module::new(LibraryFunctions(library.clone()));
    let imports = imports::tree(&library, own)?.imports;
    // SAFETY: the caller trusts the library's machine code, and with it the library's own
    // description of that code.
    let library =
        unsafe { ArtifactKernels::new(library, suffix, metadata.kernels, imports.clone()) };
    let resources = Resources {
        library: Arc::new(library),
        signatures: Arc::new(metadata.signatures),
        device: DLDevice::CPU,
        on_cpu: [].into(),
        objects: None,
        imports: imports.into(),
        missing_features: None,
        saved_code,
        listing: None,
        variants: metadata.variants.into(),
        execution: execution.clone(),
        origin,
        operations: Arc::new(metadata.operations),
    };
    LoadedProgram::link(exec, resources)
}
