//! Kernels in executable memory, as the VM finds them by name.

use std::collections::HashMap;
use std::sync::Arc;

use reflex_codemem::imports::Imports;
use reflex_codemem::jitdump::JitDump;
use reflex_codemem::pages::CodeSpace;
use reflex_codemem::perf_map::PerfMap;
use reflex_codemem::relocate::LoadedObject;
use reflex_runtime::abi::SafeCall;
use reflex_runtime::exports;
use reflex_runtime::function::Function;
use reflex_tir::abi::{PACKED_PREFIX, RAW_PREFIX, RawBuffer, RawDim, RawSignature};
use reflex_tir::codegen::ObjectFile;
use reflex_vm::kernel::{Dim, RawKernel, TensorParam};
use reflex_vm::load::Library;

use crate::error::{Error, ErrorKind, Result};

/// What kernels import from the runtime, by name, and through pointer variables.
const FUNCTIONS: [&str; 1] = ["TVMFFIErrorSetRaisedFromCStrParts"];
const SLOTS: [(&str, &str); 3] = [
    ("__TVMBackendParallelLaunch", "TVMBackendParallelLaunch"),
    ("__TVMBackendAllocWorkspace", "TVMBackendAllocWorkspace"),
    ("__TVMBackendFreeWorkspace", "TVMBackendFreeWorkspace"),
];

/// Loaded kernels.
pub(crate) struct Kernels(HashMap<String, Kernel>);

struct Kernel {
    packed: Function,
    raw: Option<RawKernel>,
}

impl Kernels {
    /// Loads objects that a code generator made, found by their names without `suffix`; with
    /// `perf` or `jitdump` among `REFLEX_JIT_SYMBOLS`, that gets their names.
    pub(crate) fn load(objects: &[ObjectFile], suffix: &str) -> Result<Kernels> {
        let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Compile, e.to_string());
        let space = CodeSpace::shared().map_err(|e| failed(&e))?;
        let imports = imports();
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
        let mut functions = HashMap::new();
        for object in objects {
            let name = &object.signature.name;
            let loaded = LoadedObject::load(&space, name, &object.elf, &imports);
            let loaded = Arc::new(loaded.map_err(|e| failed(&format!("kernel {name}: {e}")))?);
            if let Some(map) = &perf {
                map.add(loaded.functions()).map_err(|e| failed(&e))?;
            }
            if let Some(dump) = dump {
                // SAFETY: the object has just been loaded, with these functions.
                unsafe { dump.add(loaded.functions()) }.map_err(|e| failed(&e))?;
            }
            let entry = loaded.symbol(&format!("{PACKED_PREFIX}{name}"));
            let entry = entry.ok_or_else(|| failed(&format!("kernel {name}: no packed entry")))?;
            let raw = loaded.symbol(&format!("{RAW_PREFIX}{name}"));
            // SAFETY: the symbol with this prefix in an object of our code generator is the raw
            // entry that its signature describes (tir::abi); the packed one keeps the code mapped.
            let raw = raw.and_then(|raw| unsafe { raw_kernel(raw.as_ptr(), &object.signature) });
            // SAFETY: the symbol with this prefix in an object of our code generator is a
            // packed entry (tir::abi); the function keeps the code mapped.
            let packed = unsafe {
                let call = std::mem::transmute::<*mut u8, SafeCall>(entry.as_ptr());
                Function::from_native(call, loaded)
            };
            let name = name.strip_suffix(suffix).unwrap_or(name);
            functions.insert(name.to_owned(), Kernel { packed, raw });
        }
        Ok(Kernels(functions))
    }
}

impl Library for Kernels {
    fn function(&self, name: &str) -> Option<Function> {
        self.0.get(name).map(|kernel| kernel.packed.clone())
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        self.0.get(name)?.raw.clone()
    }
}

/// What a raw entry takes, as the VM says it; `None` when it takes something the VM does not pass.
pub(crate) fn params(signature: &RawSignature) -> Option<Vec<TensorParam>> {
    if signature.num_scalar_params > 0 || !signature.scalars.iter().all(|it| it.is_int()) {
        return None;
    }
    let extent = |dim: &RawDim| match *dim {
        RawDim::Const(extent) => Some(Dim::Static(extent)),
        RawDim::Scalar(at) => Some(Dim::Symbolic(at)),
        RawDim::Derived => None,
    };
    let param = |buffer: &RawBuffer| {
        let extents = buffer.shape.iter().map(extent).collect::<Option<_>>()?;
        Some(TensorParam { dtype: buffer.dtype, shape: extents })
    };
    signature.buffers.iter().map(param).collect()
}

/// The raw entry at `code`, if the VM can call it.
///
/// # Safety
/// `code` is the raw entry that `signature` describes, mapped as long as the packed one.
unsafe fn raw_kernel(code: *const u8, signature: &RawSignature) -> Option<RawKernel> {
    // SAFETY: by the contract; `params` says what the signature says.
    unsafe { RawKernel::new(code, params(signature)?) }
}

/// A library that `reflex compile` wrote: it says how its kernels' raw entries are called. Of its
/// kernels, those for one CPU are used.
pub(crate) struct Artifact {
    library: reflex_runtime::library::Library,
    /// What the names of these end with.
    suffix: String,
    raw: HashMap<String, RawSignature>,
}

impl Artifact {
    /// # Safety
    /// `signatures` describe the raw entries of the library's kernels.
    pub(crate) unsafe fn new(
        library: reflex_runtime::library::Library,
        suffix: String,
        signatures: Vec<RawSignature>,
    ) -> Artifact {
        let raw = signatures.into_iter().map(|it| (it.name.clone(), it)).collect();
        Artifact { library, suffix, raw }
    }
}

impl Library for Artifact {
    fn function(&self, name: &str) -> Option<Function> {
        self.library.function(&format!("{name}{}", self.suffix))
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        let signature = self.raw.get(name)?;
        let code = self.library.symbol(&format!("{RAW_PREFIX}{name}{}", self.suffix))?;
        // SAFETY: by the contract of `new`; the packed function keeps the library open.
        unsafe { raw_kernel(code.as_ptr().cast(), signature) }
    }

    fn provide(&self, functions: &HashMap<String, Function>) {
        Library::provide(&self.library, functions);
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
