//! The artifact: one shared library in TVM's layout, written without a linker.
//!
//! `__tvm_ffi__library_bin` holds TVM's bundle with the executable, `__tvm_ffi_<name>` are the
//! kernels, so TVM's loader takes the file. [`META_SYMBOL`] is ours: names and shapes of inputs
//! and outputs, and the CPU features that the kernels need, which are checked before the
//! library is opened to run. So is [`CODE_SYMBOL`]: machine code of the VM functions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use reflex_codemem::elf::{Blob, Library};
use reflex_tir::abi::RawSignature;
use reflex_tir::codegen::{Object, Target};
use reflex_vm::executable::Executable;
use reflex_vm::{align, serialize};
use serde::{Deserialize, Serialize};

use crate::Signature;
use crate::error::{Error, ErrorKind, Result};

/// Kind of the module that holds the executable in the bundle.
pub(crate) const EXECUTABLE_KIND: &str = "relax.VMExecutable";
/// Our description: [`Meta`] as JSON.
pub(crate) const META_SYMBOL: &str = "__reflex_meta";
/// Machine code of the executable's functions, as the tier keeps it.
pub(crate) const CODE_SYMBOL: &str = "__reflex_code";
const BUNDLE_SYMBOL: &str = "__tvm_ffi__library_bin";
const CONTEXT_SLOT: &str = "__tvm_ffi__library_ctx";
/// Version of [`Meta`].
const META_VERSION: u32 = 2;
const PAGE: u64 = 4096;

/// What TVM's format has no place for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Meta {
    version: u32,
    /// CPU features the kernels use, as LLVM names them.
    features: Vec<String>,
    /// By function.
    pub(crate) signatures: BTreeMap<String, Signature>,
    /// How the kernels are called without their checks.
    pub(crate) kernels: Vec<RawSignature>,
}

impl Meta {
    /// Reads the description of an opened library; `None` when it is not of our version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Meta> {
        let meta: Meta = serde_json::from_slice(bytes).ok()?;
        (meta.version == META_VERSION).then_some(meta)
    }

    /// The features this CPU lacks.
    pub(crate) fn missing(&self, host: &Target) -> Vec<String> {
        self.features.iter().filter(|f| !host.features.contains(*f)).cloned().collect()
    }
}

/// Refuses a file that is no ELF library, or whose segments do not lie within it: the system's
/// loader maps without looking, and a truncated file would end the process.
pub(crate) fn check_whole(file: File) -> Result<()> {
    let model = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Model, e.to_string());
    let size = file.metadata().map_err(|e| model(&e))?.len();
    let cache = ReadCache::new(file);
    let data = &cache;
    let header = FileHeader64::<Endianness>::parse(data)
        .map_err(|e| model(&format!("not a shared library: {e}")))?;
    let endian = header.endian().map_err(|e| model(&e))?;
    let segments = header.program_headers(endian, data).map_err(|e| model(&e))?;
    for segment in segments {
        let end = segment.p_offset(endian).checked_add(segment.p_filesz(endian));
        if end.is_none_or(|end| end > size) {
            return Err(model(&format!("truncated: {size} bytes, and a segment lies beyond them")));
        }
    }
    Ok(())
}

/// The executable as an artifact holds it: with padding constants that bring large tensors to the
/// boundaries of pages.
pub(crate) fn aligned(exec: &Executable) -> Result<Executable> {
    // The executable's own length comes before it, and the bundle starts on a page.
    let start = bundle_head().len() + 8;
    align::align_tensors(exec, start).map_err(|e| Error::new(ErrorKind::Model, e.to_string()))
}

/// Writes an artifact of an aligned executable and the machine code of its functions; the file
/// appears whole or not at all. Returns its size.
pub(crate) fn write(
    path: &Path,
    (exec, code): (&Executable, &[u8]),
    objects: &[Object],
    target: &Target,
    signatures: &BTreeMap<String, Signature>,
) -> Result<u64> {
    let bundle = bundle(exec);
    let meta = Meta {
        version: META_VERSION,
        features: target.features.iter().cloned().collect(),
        signatures: signatures.clone(),
        kernels: objects.iter().map(|object| object.signature.clone()).collect(),
    };
    let meta =
        serde_json::to_vec(&meta).map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))?;
    let blob =
        |symbol, align, bytes| Blob { section: ".rodata", symbol: Some(symbol), align, bytes };
    let mut library = Library::new()
        .blob(blob(BUNDLE_SYMBOL, PAGE, &bundle))
        .blob(Blob { section: ".reflex", ..blob(META_SYMBOL, 8, &meta) })
        .blob(Blob { section: ".reflex.code", ..blob(CODE_SYMBOL, 8, code) })
        .slot(CONTEXT_SLOT);
    for object in objects {
        library = library.object(&object.signature.name, &object.elf);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |e: &std::io::Error| Error::io(path, e);
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|e| failed(&e))?;
    library.write_to(&mut file).map_err(|e| failed(&e))?;
    file.flush().map_err(|e| failed(&e))?;
    let size = file.as_file().metadata().map_err(|e| failed(&e))?.len();
    let file = file.persist(path).map_err(|e| failed(&e.error))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    file.set_permissions(mode).map_err(|e| failed(&e))?;
    Ok(size)
}

/// TVM's bundle: length, import tree (the executable imports the library itself), modules.
fn bundle(exec: &Executable) -> Vec<u8> {
    let mut out = bundle_head();
    text(&mut out, &serialize::to_bytes(exec));
    text(&mut out, b"_lib");
    let size = (out.len() - 8) as u64;
    out[..8].copy_from_slice(&size.to_le_bytes());
    out
}

/// What comes before the executable.
fn bundle_head() -> Vec<u8> {
    let mut out = vec![0; 8];
    let mut words = |values: &[u64]| values.iter().for_each(|v| out.extend(v.to_le_bytes()));
    words(&[3, 0, 1, 1, 1, 1]);
    text(&mut out, EXECUTABLE_KIND.as_bytes());
    out
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}
