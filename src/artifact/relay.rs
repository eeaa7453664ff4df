//! Opens executables of TVM's Relay virtual machine: `.ro` files with a library of kernels, and libraries
//! that carry their executable.
//!
//! They are lowered to bytecode when they are opened, and run like any other program from then on.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex_relay::kernels::{Kernels, LegacyKernels};
use reflex_relay::lower::lower;
use reflex_relay::verify::{self, Verified};
use reflex_relay::{params, read, text};
use reflex_runtime::abi::DLDevice;
use reflex_runtime::dtype::DType;
use reflex_runtime::function::Function;
use reflex_runtime::library::Library as SharedLibrary;
use reflex_runtime::registry;
use reflex_vm::load::Library;

use crate::error::{Error, ErrorKind, Result};
use crate::model_source::ModelSource;
use crate::options::ExecutionOptions;
use crate::program::loaded::{LoadedProgram, Resources, verified};
use crate::signature::{KernelOperations, Signature, TensorInfo};

/// Before the names of functions that callers from outside do not see.
pub(crate) const RESERVED: &str = reflex_relay::lower::RESERVED;

/// Kernels of a library, or else registered functions.
struct Sources(Option<LegacyKernels>);

impl Library for Sources {
    fn function(&self, name: &str) -> Option<Function> {
        let of_library = self.0.as_ref().and_then(|kernels| kernels.function(name));
        of_library.or_else(|| registry::get(name))
    }
}

fn malformed(error: &dyn Display) -> Error {
    Error::new(ErrorKind::Model, error.to_string())
}

/// Opens an executable and the library with its kernels.
///
/// The caller trusts the library's machine code; all else is checked.
pub(crate) fn open(source: &ModelSource, execution: &ExecutionOptions) -> Result<LoadedProgram> {
    let bytes = source.read()?;
    let named = source.relay().kernels.clone();
    let library = match named.or_else(|| beside(source)) {
        Some(path) => Some(open_library(&path)?),
        None => None,
    };
    link(&bytes, source, library, execution)
}

/// The library of the same name as the file, if there is one.
fn beside(source: &ModelSource) -> Option<PathBuf> {
    let library = source.path_or_bytes().ok()?.with_extension("so");
    library.exists().then_some(library)
}

fn open_library(path: &Path) -> Result<SharedLibrary> {
    let absolute = path.canonicalize().map_err(|e| Error::io(path, &e))?;
    // SAFETY: the caller trusts the library's machine code, as the documentation says.
    let library = unsafe { SharedLibrary::open(&absolute) };
    library.map_err(|e| Error::new(ErrorKind::Model, e.message()).at(path.display()))
}

/// Reads, binds, verifies and lowers an executable, and links it to its kernels.
pub(crate) fn link(
    bytes: &[u8],
    source: &ModelSource,
    library: Option<SharedLibrary>,
    execution: &ExecutionOptions,
) -> Result<LoadedProgram> {
    let mut exec = read::read(bytes).map_err(|e| malformed(&e))?;
    if let Some(path) = &source.relay().params {
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, &e))?;
        let params = params::read(&bytes).map_err(|e| malformed(&e).at(path.display()))?;
        exec.bind(&params).map_err(|e| malformed(&e).at(path.display()))?;
    }
    let exec = verify::verify(exec).map_err(|e| malformed(&e))?;
    let bytecode = verified(lower(&exec).map_err(|e| malformed(&e))?)?;
    let listing = format!("{}\n{}", text::tables(&exec), text::listing(&exec));
    let hint = match library {
        Some(_) => "",
        None => "; no library of kernels was given, and none has the file's name and ends in .so",
    };
    let resources = Resources {
        device: DLDevice::CPU,
        tiered: None,
        on_cpu: [].into(),
        library: Arc::new(Kernels(Sources(library.map(LegacyKernels)))),
        signatures: Arc::new(signatures(&exec)),
        #[cfg(feature = "compiler")]
        objects: None,
        imports: [].into(),
        obstacle: None,
        device_code: None,
        device_code_source: None,
        saved_code: None,
        listing: Some(listing.into()),
        variants: Arc::new([]),
        execution: execution.clone(),
        origin: format!("compiled by TVM {}", exec.version),
        operations: Arc::new(KernelOperations::new()),
    };
    let hinted = |e: Error| Error::new(e.kind(), format!("{e}{hint}"));
    LoadedProgram::link(bytecode, resources).map_err(hinted)
}

/// The names of parameters; the file does not say what they and results are.
fn signatures(exec: &Verified) -> BTreeMap<String, Signature> {
    let input =
        |name: &String| TensorInfo { name: name.clone(), dtype: DType::VOID, shape: vec![] };
    let signature = |params: &[String]| {
        let inputs = params.iter().map(input).collect();
        Signature { inputs, outputs: vec![] }
    };
    exec.functions.iter().map(|f| (f.name.clone(), signature(&f.params))).collect()
}
