//! Kernels that this process compiled, in executable memory.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use reflex_codemem::imports::Imports;
use reflex_codemem::jitdump::JitDump;
use reflex_codemem::pages::CodeSpace;
use reflex_codemem::perf_map::PerfMap;
use reflex_codemem::relocate::LoadedObject;
use reflex_runtime::abi::SafeCall;
use reflex_runtime::exports;
use reflex_runtime::function::Function;
use reflex_runtime::library::Context;
use reflex_tir::abi::{PACKED_PREFIX, RAW_PREFIX};
use reflex_tir::codegen::ObjectFile;
use reflex_vm::kernel::RawKernel;
use reflex_vm::load::Library;

use super::raw_entry::raw_kernel;
use crate::error::{Error, ErrorKind, Result};

/// Functions of the runtime that kernels import by name.
const FUNCTIONS: [&str; 1] = ["TVMFFIErrorSetRaisedFromCStrParts"];
/// Functions of the runtime that kernels call through pointer variables.
const SLOTS: [(&str, &str); 5] = [
    ("__TVMBackendParallelLaunch", "TVMBackendParallelLaunch"),
    ("__TVMBackendAllocWorkspace", "TVMBackendAllocWorkspace"),
    ("__TVMBackendFreeWorkspace", "TVMBackendFreeWorkspace"),
    ("__TVMFFIEnvModLookupFromImports", "TVMFFIEnvModLookupFromImports"),
    ("__TVMFFIFunctionCall", "TVMFFIFunctionCall"),
];
/// The pointer variable with the context that kernels look packed functions up in.
const CONTEXT: &str = "__tvm_ffi__library_ctx";

/// Loads objects of code generators, and reports them to the profilers that `REFLEX_JIT_SYMBOLS`
/// lists (`perf`, `jitdump`).
pub(super) struct KernelLoader {
    space: Arc<CodeSpace>,
    imports: Imports,
    /// The packed functions that the kernels call, kept as long as they are.
    context: Arc<Context>,
    perf: Option<PerfMap>,
    dump: Option<&'static JitDump>,
}

/// Executable memory, and what the code in it refers to.
pub(crate) struct KernelCode {
    object: LoadedObject,
    _context: Arc<Context>,
}

/// A kernel in executable memory, as long as `object` lives.
#[derive(Clone)]
pub(super) struct LoadedKernel {
    pub(super) object: Arc<KernelCode>,
    /// The packed entry, which does not interpret its first argument.
    pub(super) packed: SafeCall,
    /// The raw entry that the object's signature describes.
    pub(super) raw: Option<NonNull<u8>>,
}

// SAFETY: the raw entry is the address of immutable code, which `object` keeps mapped.
unsafe impl Send for LoadedKernel {}
// SAFETY: as for Send: shared use only reads the address.
unsafe impl Sync for LoadedKernel {}

impl KernelLoader {
    pub(super) fn new() -> Result<KernelLoader> {
        let space = CodeSpace::shared().map_err(|e| failed(&e))?;
        let wanted = std::env::var("REFLEX_JIT_SYMBOLS").unwrap_or_default();
        let wants = |name: &str| wanted.split(',').any(|word| word.trim() == name);
        let perf = match wants("perf") {
            true => Some(PerfMap::open().map_err(|e| failed(&e))?),
            false => None,
        };
        let dump = match wants("jitdump") {
            true => Some(JitDump::of_process().map_err(|e| failed(&e))?),
            false => None,
        };
        let context = Arc::<Context>::default();
        let imports = imports().slot(CONTEXT, Arc::as_ptr(&context).addr());
        Ok(KernelLoader { space, imports, context, perf, dump })
    }

    pub(super) fn space(&self) -> &Arc<CodeSpace> {
        &self.space
    }

    pub(super) fn load(&self, object: &ObjectFile) -> Result<LoadedKernel> {
        let name = &object.signature.name;
        let loaded = self.link(std::slice::from_ref(object));
        let loaded = loaded.map_err(|e| failed(&format!("kernel {name}: {e}")))?;
        self.kernel(object, &loaded)
    }

    /// Loads objects into the same pages, of which there are fewer so.
    fn load_all(&self, objects: &[ObjectFile]) -> Result<Vec<LoadedKernel>> {
        match self.link(objects) {
            Ok(loaded) => objects.iter().map(|object| self.kernel(object, &loaded)).collect(),
            // Which one it is shows alone.
            Err(_) => objects.iter().map(|object| self.load(object)).collect(),
        }
    }

    fn link(&self, objects: &[ObjectFile]) -> Result<Arc<KernelCode>> {
        let files = objects.iter().map(|it| (it.signature.name.as_str(), it.elf.as_slice()));
        let objects: Vec<(&str, &[u8])> = files.collect();
        let loaded = LoadedObject::link(&self.space, &objects, &self.imports);
        let loaded = loaded.map_err(|e| failed(&e))?;
        if let Some(map) = &self.perf {
            map.add(loaded.functions()).map_err(|e| failed(&e))?;
        }
        if let Some(dump) = self.dump {
            // SAFETY: the object has just been loaded, with these functions.
            unsafe { dump.add(loaded.functions()) }.map_err(|e| failed(&e))?;
        }
        Ok(Arc::new(KernelCode { object: loaded, _context: Arc::clone(&self.context) }))
    }

    fn kernel(&self, object: &ObjectFile, code: &Arc<KernelCode>) -> Result<LoadedKernel> {
        let name = &object.signature.name;
        let entry = code.object.symbol(&format!("{PACKED_PREFIX}{name}"));
        let entry = entry.ok_or_else(|| failed(&format!("kernel {name}: no packed entry")))?;
        let raw = code.object.symbol(&format!("{RAW_PREFIX}{name}"));
        // SAFETY: the symbol with this prefix in an object of our code generator is a packed entry
        // (tir::abi), which the object keeps mapped.
        let packed = unsafe { std::mem::transmute::<*mut u8, SafeCall>(entry.as_ptr()) };
        Ok(LoadedKernel { object: Arc::clone(code), packed, raw })
    }
}

fn failed(e: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Compile, e.to_string())
}

/// Loaded kernels, by name.
pub(crate) struct JitKernels(HashMap<String, Kernel>);

struct Kernel {
    packed: Function,
    raw: Option<RawKernel>,
}

impl JitKernels {
    /// Loads the objects of a code generator, found by their names without `suffix`.
    pub(crate) fn load(objects: &[ObjectFile], suffix: &str) -> Result<JitKernels> {
        let loader = KernelLoader::new()?;
        let mut functions = HashMap::new();
        if objects.is_empty() {
            return Ok(JitKernels(functions));
        }
        for (object, kernel) in objects.iter().zip(loader.load_all(objects)?) {
            let name = &object.signature.name;
            let LoadedKernel { object: loaded, packed, raw } = kernel;
            // SAFETY: the symbol with this prefix in an object of our code generator is the raw
            // entry that its signature describes (tir::abi); the packed one keeps the code mapped.
            let raw = raw.and_then(|raw| unsafe { raw_kernel(raw.as_ptr(), &object.signature) });
            // SAFETY: a packed entry follows the convention, and the function keeps the code mapped.
            let packed = unsafe { Function::from_native(packed, loaded) };
            let name = name.strip_suffix(suffix).unwrap_or(name);
            functions.insert(name.to_owned(), Kernel { packed, raw });
        }
        Ok(JitKernels(functions))
    }
}

impl Library for JitKernels {
    fn function(&self, name: &str) -> Option<Function> {
        self.0.get(name).map(|kernel| kernel.packed.clone())
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        self.0.get(name)?.raw.clone()
    }
}

fn imports() -> Imports {
    let mut imports = Imports::host();
    for name in FUNCTIONS {
        if let Some(address) = exports::address_of(name) {
            imports = imports.function(name, address.addr());
        }
    }
    for (slot, name) in SLOTS {
        if let Some(address) = exports::address_of(name) {
            imports = imports.slot(slot, address.addr());
        }
    }
    imports
}
