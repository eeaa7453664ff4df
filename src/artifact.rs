//! The artifact: one shared library in TVM's layout, written without a linker.
//!
//! `__tvm_ffi__library_bin` holds TVM's bundle with the executable, `__tvm_ffi_<name>` are the
//! kernels, so TVM's loader takes the file. [`META_SYMBOL`] is ours: names and shapes of inputs and
//! outputs, and the CPUs that there are kernels for, of which the highest that this one can run is
//! taken; TVM takes the lowest, whose kernels have the plain names. So is [`CODE_SYMBOL`]: machine
//! code of the VM functions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use reflex_codemem::elf::{Blob, SharedLibrary};
use reflex_lower::pipeline::Cpu;
use reflex_tir::abi::RawSignature;
use reflex_tir::codegen::{ObjectFile, Target};
use reflex_tir::level::Level;
use reflex_vm::executable::Executable;
use reflex_vm::{align, serialize};
use serde::{Deserialize, Serialize};

use crate::Signature;
use crate::error::{Error, ErrorKind, Result};
use crate::session::KernelOperations;

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
    /// The CPUs that there are kernels for, the lowest first.
    cpus: Vec<MetaCpu>,
    /// By function.
    pub(crate) signatures: BTreeMap<String, Signature>,
    /// How the kernels are called without their checks, under their plain names.
    pub(crate) kernels: Vec<RawSignature>,
    /// How many operations calls of kernels take, where that is known.
    pub(crate) operations: KernelOperations,
}

/// A CPU that there are kernels for.
#[derive(Serialize, Deserialize)]
pub(crate) struct MetaCpu {
    /// Its level, or `one CPU`.
    pub(crate) name: String,
    /// What the kernels' names end with.
    pub(crate) suffix: String,
    /// Features the kernels use, as LLVM names them.
    features: BTreeSet<String>,
}

impl Meta {
    /// Reads the description of an opened library; `None` when it is not of our version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Meta> {
        let meta: Meta = serde_json::from_slice(bytes).ok()?;
        (meta.version == META_VERSION).then_some(meta)
    }

    /// The highest of its CPUs whose kernels run on `host`, and are of `levels` where any are
    /// given.
    pub(crate) fn best(&self, host: &Target, levels: &BTreeSet<Level>) -> Result<&MetaCpu> {
        let asked = |cpu: &&MetaCpu| {
            let of = |l: &Level| cpu.features.is_subset(&l.target().features);
            levels.is_empty() || levels.iter().any(of)
        };
        let runs = |cpu: &&MetaCpu| cpu.features.is_subset(&host.features);
        let best = self.cpus.iter().rev().filter(asked).find(runs);
        best.ok_or_else(|| {
            let lowest = self.cpus.first().and_then(|cpu| unfit(&cpu.features, host));
            let text = match lowest {
                None => {
                    let names = self.names().join(", ");
                    format!("holds kernels for {names} alone, not for what was asked")
                }
                Some(unfit) => format!("{unfit}; compile it for this one"),
            };
            Error::new(ErrorKind::Unsupported, text)
        })
    }

    /// The names of its CPUs.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.cpus.iter().map(|cpu| cpu.name.as_str()).collect()
    }
}

/// Why kernels that use `features` do not run on `host`, if they do not.
pub(crate) fn unfit(features: &BTreeSet<String>, host: &Target) -> Option<String> {
    let lacks: Vec<&str> = features.difference(&host.features).map(String::as_str).collect();
    let list = lacks.join(", ");
    (!lacks.is_empty()).then(|| format!("compiled for CPUs with {list}, which this one lacks"))
}

impl MetaCpu {
    fn of(cpu: &Cpu) -> MetaCpu {
        let name = cpu.level.map_or_else(|| "one CPU".to_owned(), |level| level.to_string());
        MetaCpu { name, suffix: cpu.suffix.clone(), features: cpu.target.features.clone() }
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
    kernels: &[(Cpu, Vec<ObjectFile>)],
    (signatures, operations): (&BTreeMap<String, Signature>, &KernelOperations),
) -> Result<u64> {
    let bundle = bundle(exec);
    let lowest = kernels.first().into_iter().flat_map(|(_, objects)| objects);
    let meta = Meta {
        version: META_VERSION,
        cpus: kernels.iter().map(|(cpu, _)| MetaCpu::of(cpu)).collect(),
        signatures: signatures.clone(),
        kernels: lowest.map(|object| object.signature.clone()).collect(),
        operations: operations.clone(),
    };
    let meta =
        serde_json::to_vec(&meta).map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))?;
    let blob =
        |symbol, align, bytes| Blob { section: ".rodata", symbol: Some(symbol), align, bytes };
    let mut library = SharedLibrary::new()
        .blob(blob(BUNDLE_SYMBOL, PAGE, &bundle))
        .blob(Blob { section: ".reflex", ..blob(META_SYMBOL, 8, &meta) })
        .blob(Blob { section: ".reflex.code", ..blob(CODE_SYMBOL, 8, code) })
        .slot(CONTEXT_SLOT);
    for object in kernels.iter().flat_map(|(_, objects)| objects) {
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
