//! Writes artifacts.

use std::path::Path;

use reflex_codemem::Machine;
use reflex_codemem::elf::{Blob, SharedLibrary};
use reflex_runtime::bundle::LIBRARY_KIND;
use reflex_tir::codegen::{Arch, ObjectFile};
use reflex_vm::executable::Executable;
use reflex_vm::{align, serialize};

use super::device::DeviceSection;
use super::metadata::Metadata;
use super::wasm_module;
use super::{DEVICE_SYMBOL, EXECUTABLE_KIND, METADATA_SYMBOL, SAVED_CODE_SYMBOL};
use crate::error::{Error, ErrorKind, Result};
use crate::whole_file;

const BUNDLE_SYMBOL: &str = "__tvm_ffi__library_bin";
const CONTEXT_SLOT: &str = "__tvm_ffi__library_ctx";
const PAGE: u64 = 4096;

/// Requests the permission to use matrix registers, without which Linux ends a process that does
/// ([`reflex_runtime::amx`]): a host that is not Reflex, such as TVM, does not.
#[rustfmt::skip]
const REQUEST_MATRIX_REGISTERS: [u8; 18] = [
    0xb8, 158, 0, 0, 0,         // mov eax, SYS_arch_prctl
    0xbf, 0x23, 0x10, 0, 0,     // mov edi, ARCH_REQ_XCOMP_PERM
    0xbe, 18, 0, 0, 0,          // mov esi, the state of tiles
    0x0f, 0x05,                 // syscall
    0xc3,                       // ret
];

/// Returns the executable as an artifact holds it: padding constants align large tensors to pages.
/// It imports so many modules.
pub(crate) fn aligned(exec: &Executable, imports: usize) -> Result<Executable> {
    // The executable's own length comes before it, and the bundle starts on a page.
    let start = bundle_head(imports).len() + 8;
    align::align_tensors(exec, start).map_err(|e| Error::new(ErrorKind::Model, e.to_string()))
}

/// Refuses a name that does not end as those of artifacts for `arch` do.
pub(crate) fn check_name(path: &Path, arch: Arch) -> Result<()> {
    let expected = if arch == Arch::Wasm32 { "wasm" } else { "so" };
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    let text = format!("an artifact for {arch} has a name that ends in .{expected}");
    Err(Error::input(text).at(path.display()))
}

/// The contents of an artifact.
pub(crate) struct Contents<'a> {
    /// The architecture of its kernels.
    pub(crate) arch: Arch,
    /// An executable from [`aligned`].
    pub(crate) executable: &'a Executable,
    /// Machine code of its functions, if it computes on CPUs.
    pub(crate) saved_code: Option<&'a [u8]>,
    /// Kernels in host memory, those of a second program too.
    pub(crate) kernels: Vec<&'a ObjectFile>,
    pub(crate) metadata: &'a Metadata,
    pub(crate) device: Option<DeviceSection<'a>>,
    /// Modules that the program imports, as kinds and bytes.
    pub(crate) imports: Vec<(String, Vec<u8>)>,
}

/// Writes an artifact; the file appears complete or not at all. Returns its size in bytes.
pub(crate) fn write(path: &Path, contents: &Contents<'_>) -> Result<u64> {
    let bundle = bundle(contents.executable, &contents.imports);
    let metadata = serde_json::to_vec(contents.metadata)
        .map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))?;
    let machine = match contents.arch {
        Arch::X86_64 => Machine::X86_64,
        Arch::Aarch64 => Machine::Aarch64,
        Arch::Wasm32 => {
            let sections = [(BUNDLE_SYMBOL, &bundle[..]), (METADATA_SYMBOL, &metadata)];
            return wasm_module::write(path, &contents.kernels, &sections);
        }
    };
    let device = contents.device.as_ref().map(DeviceSection::to_bytes).transpose()?;
    let blob =
        |symbol, align, bytes| Blob { section: ".rodata", symbol: Some(symbol), align, bytes };
    let mut library = SharedLibrary::new(machine)
        .blob(blob(BUNDLE_SYMBOL, PAGE, &bundle))
        .blob(Blob { section: ".reflex", ..blob(METADATA_SYMBOL, 8, &metadata) })
        .slot(CONTEXT_SLOT);
    if let Some(code) = contents.saved_code {
        let section = ".reflex.code";
        library = library.blob(Blob { section, ..blob(SAVED_CODE_SYMBOL, 8, code) });
    }
    if let Some(bytes) = &device {
        let section = ".reflex.device";
        library = library.blob(Blob { section, ..blob(DEVICE_SYMBOL, 8, bytes) });
    }
    if contents.arch == Arch::X86_64 && contents.metadata.uses_matrix_registers() {
        library = library.initialiser(&REQUEST_MATRIX_REGISTERS);
    }
    for object in &contents.kernels {
        library = library.object(&object.signature.name, &object.elf);
    }
    whole_file::write(path, 0o755, |file| library.write_to(file)).map_err(|e| Error::io(path, &e))
}

/// TVM's bundle: length, import tree (the executable imports the library itself, and other modules),
/// modules.
fn bundle(exec: &Executable, imports: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = bundle_head(imports.len());
    text(&mut out, &serialize::to_bytes(exec));
    text(&mut out, LIBRARY_KIND.as_bytes());
    for (kind, bytes) in imports {
        text(&mut out, kind.as_bytes());
        text(&mut out, bytes);
    }
    let size = (out.len() - 8) as u64;
    out[..8].copy_from_slice(&size.to_le_bytes());
    out
}

/// The bytes of the bundle before the executable.
fn bundle_head(imports: usize) -> Vec<u8> {
    let mut out = vec![0; 8];
    let children = 1 + imports as u64;
    let mut word = |value: u64| out.extend(value.to_le_bytes());
    // Where the children of each module end, in the list of all children.
    word(children + 2);
    word(0);
    (0..=children).for_each(|_| word(children));
    word(children);
    (1..=children).for_each(&mut word);
    text(&mut out, EXECUTABLE_KIND.as_bytes());
    out
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}
