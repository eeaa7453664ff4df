//! Opens shared libraries: artifacts of `reflex compile`, and executables that TVM exported.

use std::ops::Range;
use std::sync::Arc;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::device;
use reflex_runtime::library::{BundleAccess, Library};
use reflex_runtime::module::Module;
use reflex_vm::executable::Executable;
use reflex_vm::serialize;
use reflex_vm::verify::Verified;

use super::device::DeviceSection;
use super::imports::{self, LibraryFunctions};
use super::kernels::ArtifactKernels;
use super::metadata::Metadata;
use super::{
    DEVICE_SYMBOL, EXECUTABLE_KIND, METADATA_SYMBOL, SAVED_CODE_SYMBOL, relay, tvm_signatures,
};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::DeviceCodes;
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

/// Opens a library. The caller trusts its machine code.
pub(crate) fn open(source: &ModelSource) -> Result<Library> {
    let library = match source.path_or_bytes() {
        Ok(path) => {
            std::fs::File::open(path).map_err(|e| Error::io(path, &e))?;
            // WASI has no working directory, so paths are absolute there, and none can be resolved.
            let absolute = match cfg!(unix) {
                true => path.canonicalize().map_err(|e| Error::io(path, &e))?,
                false => path.to_owned(),
            };
            // SAFETY: the caller trusts the library's machine code, as the documentation says.
            unsafe { Library::open(&absolute) }
        }
        // SAFETY: as for a path.
        Err(bytes) => unsafe { Library::from_bytes(bytes.as_ref()) },
    };
    library.map_err(|e| Error::new(ErrorKind::Model, e.message()))
}

/// Whether a library has a program, and not functions alone.
pub(crate) fn has_program(library: &Library) -> bool {
    library.legacy_executable().is_some()
        || library.bundle().is_some_and(|bundle| bundle.find(EXECUTABLE_KIND).is_some())
}

/// Reads the program of a library, whose data is checked, with the kernels for the highest CPU of
/// `target`.
pub(crate) fn load(
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
    let section = match (library.data(DEVICE_SYMBOL), &target.device) {
        // The bundle's program is for CPUs, and that is what is asked for.
        (Some(bytes), None) if DeviceSection::has_companion(bytes) => None,
        (bytes, _) => bytes.map(DeviceSection::parse).transpose()?,
    };
    let (codes, companion) = section.map(|s| (s.codes, s.companion)).unzip();
    let (exec, metadata) = match companion.flatten() {
        Some(companion) => {
            let (exec, metadata) = companion.read()?;
            (exec, Some(metadata))
        }
        None => (in_bundle(&library, module.bytes.clone())?, metadata),
    };
    Parts { library, exec: verified(exec)?, metadata }.link(codes, target, execution)
}

/// The executable in these bytes of a library's bundle.
fn in_bundle(library: &Library, range: Range<usize>) -> Result<Executable> {
    let exec = match library.bundle_access() {
        // In place: programs may write constants, which `call_tir_inplace` does.
        BundleAccess::CopyOnWrite => {
            let owner: Arc<dyn AsRef<[u8]> + Send + Sync> =
                Arc::new(BundleBytes { library: library.clone(), end: range.end });
            serialize::from_shared(&owner, range)
        }
        BundleAccess::Read => serialize::from_bytes(library.bundle_bytes(range)),
    };
    exec.map_err(|e| Error::new(ErrorKind::Model, e.to_string()))
}

/// A program in a library: its bytecode and its description, if Reflex wrote it.
struct Parts {
    library: Library,
    exec: Verified<Executable>,
    metadata: Option<Metadata>,
}

impl Parts {
    /// Links the program, with kernels for a GPU if it has them.
    fn link(
        self,
        codes: Option<DeviceCodes>,
        target: &TargetSelection,
        execution: &ExecutionOptions,
    ) -> Result<LoadedProgram> {
        let Parts { library, exec, metadata } = self;
        let saved_code = library.data(SAVED_CODE_SYMBOL).filter(|_| codes.is_none()).map(Arc::from);
        let (metadata, mut origin, suffix) = match metadata {
            Some(metadata) => {
                let best = metadata.best(target)?;
                let names = metadata.names().join(" and ");
                let mut origin =
                    format!("compiled by Reflex for {names}, of which {} runs", best.name);
                if let Some(gpu) = &metadata.gpu {
                    origin += &format!(", and for {gpu}");
                }
                let suffix = best.suffix.clone();
                (metadata, origin, suffix)
            }
            None => {
                let origin = "exported by TVM".to_owned();
                let signatures = tvm_signatures::signatures(&exec);
                (Metadata::of_signatures(signatures), origin, String::new())
            }
        };
        if let Some(codes) = &codes {
            origin = format!("compiled by Reflex for {}", codes.description());
        }
        let own = Module::new(LibraryFunctions(library.clone()));
        let imports = imports::tree(&library, own)?.imports;
        // SAFETY: the caller trusts the library's machine code, and with it the library's own
        // description of that code.
        let library =
            unsafe { ArtifactKernels::new(library, suffix, metadata.kernels, imports.clone()) };
        let mut resources = Resources {
            library: Arc::new(library),
            signatures: Arc::new(metadata.signatures),
            device: DLDevice::CPU,
            tiered: None,
            on_cpu: [].into(),
            #[cfg(feature = "compiler")]
            objects: None,
            imports: imports.into(),
            device_code: None,
            device_code_source: None,
            obstacle: None,
            saved_code,
            listing: None,
            variants: metadata.variants.into(),
            execution: execution.clone(),
            origin,
            operations: Arc::new(metadata.operations),
        };
        let id = target.device.as_ref().and_then(|device| device.id);
        let device = id.map(device::get).transpose();
        let device = device.map_err(|e| Error::new(ErrorKind::Unsupported, e.message()))?;
        match codes {
            Some(codes) => resources.compute_on(codes, device)?,
            None => {
                let placed = imports::place_kernels(&mut resources, device)?;
                if let Some(device) = target.device.as_ref().filter(|_| !placed) {
                    let name = device.name();
                    let text = format!(
                        "has no kernels for {name}; compile the model with --device {name}"
                    );
                    return Err(Error::new(ErrorKind::Unsupported, text));
                }
            }
        }
        LoadedProgram::link(exec, resources)
    }
}
