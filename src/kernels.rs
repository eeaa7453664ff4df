//! Kernels in executable memory, as the VM finds them by name.

use std::collections::HashMap;
use std::sync::Arc;

use reflex_codemem::imports::Imports;
use reflex_codemem::pages::CodeSpace;
use reflex_codemem::relocate::LoadedObject;
use reflex_codemem::symbols::PerfMap;
use reflex_runtime::abi::SafeCall;
use reflex_runtime::exports;
use reflex_runtime::function::Function;
use reflex_tir::abi::PACKED_PREFIX;
use reflex_tir::codegen::Object;
use reflex_vm::program::Library;

use crate::error::{Error, ErrorKind, Result};

/// What kernels import from the runtime, by name, and through pointer variables.
const FUNCTIONS: [&str; 1] = ["TVMFFIErrorSetRaisedFromCStrParts"];
const SLOTS: [(&str, &str); 3] = [
    ("__TVMBackendParallelLaunch", "TVMBackendParallelLaunch"),
    ("__TVMBackendAllocWorkspace", "TVMBackendAllocWorkspace"),
    ("__TVMBackendFreeWorkspace", "TVMBackendFreeWorkspace"),
];

/// Loaded kernels.
pub(crate) struct Kernels(HashMap<String, Function>);

impl Kernels {
    /// Loads objects that a code generator made; with `perf` among
    /// `REFLEX_JIT_SYMBOLS`, it gets their names.
    pub(crate) fn load(objects: &[Object]) -> Result<Kernels> {
        let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Compile, e.to_string());
        let space = CodeSpace::shared().map_err(|e| failed(&e))?;
        let imports = imports();
        let wanted = std::env::var("REFLEX_JIT_SYMBOLS").unwrap_or_default();
        let perf = match wanted.split(',').any(|word| word.trim() == "perf") {
            true => Some(PerfMap::open().map_err(|e| failed(&e))?),
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
            let entry = loaded.symbol(&format!("{PACKED_PREFIX}{name}"));
            let entry = entry.ok_or_else(|| failed(&format!("kernel {name}: no packed entry")))?;
            // SAFETY: the symbol with this prefix in an object of our code generator is a
            // packed entry (tir::abi); the function keeps the code mapped.
            let function = unsafe {
                let call = std::mem::transmute::<*mut u8, SafeCall>(entry.as_ptr());
                Function::from_native(call, loaded)
            };
            functions.insert(name.clone(), function);
        }
        Ok(Kernels(functions))
    }
}

impl Library for Kernels {
    fn function(&self, name: &str) -> Option<Function> {
        self.0.get(name).cloned()
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
