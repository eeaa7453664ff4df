//! Shared libraries in TVM's layout: kernels, and the bundle they carry.
//!
//! Reflex loads them itself (`image`): what they call of tvm-ffi is bound to this crate, so an
//! executable need not export it, and each `open` has its own variables. Libraries
//! with thread-local variables are left to the system's loader (`system`).
//!
//! The loader fills the context slots: data symbols named `__` plus the name of a function of ours,
//! present only if the library uses it, through which kernels reach the runtime.
//! `__tvm_ffi__library_ctx` gets the library's [`Context`]. Kernels are the symbols
//! `__tvm_ffi_<name>`. What TVM exported before tvm-ffi has other names: [`legacy`].

#[cfg_attr(not(unix), path = "library/wasm_code.rs")]
mod code;
#[cfg(unix)]
mod elf_file;
#[cfg(unix)]
mod image;
#[cfg(unix)]
mod link;
mod loading;
#[cfg(unix)]
mod machine;
#[cfg(unix)]
mod memory;
#[cfg(unix)]
mod system;

use std::any::Any as StdAny;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::abi::SafeCall;
use crate::bundle::Bundle;
use crate::error::Error;
use crate::exports;
use crate::function::Function;
use crate::legacy;
use crate::module::{Imports, Module};
use crate::registry;
use code::LoadedCode;
#[cfg(target_arch = "wasm32")]
pub use code::fused_relaxed_madd as has_fused_relaxed_madd;
pub use loading::BundleAccess;
use loading::{Reason, Slot};

/// Before the name of a kernel's packed entry.
pub const PACKED_PREFIX: &str = "__tvm_ffi_";
/// The bundle: a 64-bit size, then so many bytes.
pub const BUNDLE_SYMBOL: &str = "__tvm_ffi__library_bin";
/// Where the library wants its context.
pub const CONTEXT_SYMBOL: &str = "__tvm_ffi__library_ctx";
/// Functions that libraries reach through slots.
const SLOTS: [&str; 9] = [
    "TVMFFIFunctionCall",
    "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIErrorSetRaisedFromCStrParts",
    "TVMFFIEnvModLookupFromImports",
    "TVMFFIHandleInitOnce",
    "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace",
    "TVMBackendParallelLaunch",
    "TVMBackendParallelBarrier",
];

/// A loaded library; it is closed when the last clone, function or tensor over its
/// memory is gone.
#[derive(Clone, Debug)]
pub struct Library(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Dropped first: its finalisers may use the rest.
    code: LoadedCode,
    context: Arc<Context>,
    bundle: Option<LoadedBundle>,
}

#[derive(Debug)]
struct LoadedBundle {
    address: NonNull<u8>,
    size: usize,
    access: BundleAccess,
    tree: Bundle,
}

// SAFETY: the bundle is only read, and the library stays loaded.
unsafe impl Send for Inner {}
// SAFETY: as for Send: shared use only reads the bundle.
unsafe impl Sync for Inner {}

/// The context of a library: the functions that its code looks up through its context pointer.
#[derive(Debug, Default)]
pub struct Context {
    imports: OnceLock<HashMap<String, Function>>,
    modules: OnceLock<Vec<Module>>,
    /// Other functions that the code has looked up, kept alive because it keeps their addresses.
    globals: Mutex<HashMap<String, Function>>,
}

impl Context {
    /// A function of an imported module, or else a global one. The context holds it too.
    pub(crate) fn import(&self, name: &str) -> Option<Function> {
        if let Some(function) = self.imports.get().and_then(|imports| imports.get(name)) {
            return Some(function.clone());
        }
        if let Some(function) = self.globals.lock().get(name) {
            return Some(function.clone());
        }
        // Looking up runs code of the modules, which may look up here.
        let mut modules = self.modules.get().into_iter().flatten();
        // A module that fails to look up has no such function for native code.
        let of_module = modules.find_map(|module| module.function(name, Imports::Search).ok()?);
        let function = of_module.or_else(|| registry::get(name))?;
        // Of two threads' functions the first stays: code may have its address.
        Some(self.globals.lock().entry(name.to_owned()).or_insert(function).clone())
    }
}

impl Library {
    /// Loads the library at `path`.
    ///
    /// # Safety
    /// The file's machine code is trusted: its initialisers run, and its kernels must
    /// keep to the calling convention. The bundle in it is not trusted.
    pub unsafe fn open(path: &Path) -> Result<Library, Error> {
        // SAFETY: as the caller vouches, and slots are pointer variables, by TVM's layout.
        Library::load(|slots| unsafe { LoadedCode::open(path, slots) })
    }

    /// Loads a library that is in memory.
    ///
    /// # Safety
    /// As for [`Library::open`].
    pub unsafe fn from_bytes(bytes: &[u8]) -> Result<Library, Error> {
        // SAFETY: as for `open`.
        Library::load(|slots| unsafe { LoadedCode::from_bytes(bytes, slots) })
    }

    fn load(code: impl FnOnce(&[Slot]) -> Result<LoadedCode, Reason>) -> Result<Library, Error> {
        let context = Arc::<Context>::default();
        let code = code(&slots(&context)).map_err(Error::runtime_error)?;
        if code.is_of_the_system() {
            // Its variables are those of every other open, which keep this address.
            std::mem::forget(Arc::clone(&context));
        }
        let mut inner = Inner { code, context, bundle: None };
        inner.bundle = inner.read_bundle().map_err(Error::runtime_error)?;
        Ok(Library(Arc::new(inner)))
    }

    /// The file it came from.
    pub fn path(&self) -> &Path {
        self.0.code.path()
    }

    /// The packed entry of the kernel called `name`.
    pub fn function(&self, name: &str) -> Option<Function> {
        let symbol = self.symbol(&format!("{PACKED_PREFIX}{name}"))?;
        // SAFETY: symbols of that form are packed functions, by TVM's layout; they do not
        // use their first argument. The library stays loaded with the function.
        Some(unsafe {
            let call = std::mem::transmute::<*mut c_void, SafeCall>(symbol.as_ptr());
            Function::from_native(call, self.clone())
        })
    }

    /// The address of any symbol of the library, valid as long as the library.
    pub fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        self.0.code.symbol(name)
    }

    /// The bytes of a data symbol, as long as its file says it is, if they are mapped.
    pub fn data(&self, name: &str) -> Option<&[u8]> {
        self.0.code.data(name)
    }

    /// The modules that the library carries, if it carries any.
    pub fn bundle(&self) -> Option<&Bundle> {
        self.0.bundle.as_ref().map(|bundle| &bundle.tree)
    }

    /// Bytes of the bundle, by a range that [`bundle`](Library::bundle) gave. Empty for
    /// any other range.
    pub fn bundle_bytes(&self, range: Range<usize>) -> &[u8] {
        let Some(bundle) = &self.0.bundle else { return &[] };
        // SAFETY: `read_bundle` checked that the library maps these bytes, which it does
        // not change.
        let bytes = unsafe { std::slice::from_raw_parts(bundle.address.as_ptr(), bundle.size) };
        bytes.get(range).unwrap_or_default()
    }

    /// The access that programs have to the bytes of the bundle.
    pub fn bundle_access(&self) -> BundleAccess {
        self.0.bundle.as_ref().map_or(BundleAccess::Read, |bundle| bundle.access)
    }

    /// An owner that keeps the library loaded, for tensors over its memory.
    pub fn keeper(&self) -> Arc<dyn StdAny + Send + Sync> {
        self.0.clone()
    }

    /// Gives the library's code the functions of the modules it imports. Works once;
    /// later calls are errors.
    pub fn provide_imports(&self, functions: HashMap<String, Function>) -> Result<(), Error> {
        self.0
            .context
            .imports
            .set(functions)
            .map_err(|_| Error::runtime_error("the library's imports are provided already"))
    }
}

impl Library {
    /// Gives the library's code the functions of these modules. Works once; later calls are errors.
    pub fn provide_modules(&self, modules: Vec<Module>) -> Result<(), Error> {
        let given = self.0.context.modules.set(modules);
        given.map_err(|_| Error::runtime_error("the library's modules are provided already"))
    }
}

impl Inner {
    fn read_bundle(&self) -> Result<Option<LoadedBundle>, Reason> {
        const HEADER: usize = size_of::<u64>();
        if self.code.symbol(BUNDLE_SYMBOL).is_none() {
            return Ok(None);
        }
        let bytes = self.code.data(BUNDLE_SYMBOL).ok_or("its bundle has no size")?;
        let bad = || "its bundle is larger than the symbol that holds it".to_owned();
        let (header, bytes) = bytes.split_first_chunk::<HEADER>().ok_or_else(bad)?;
        let size = usize::try_from(u64::from_le_bytes(*header)).map_err(|_| bad())?;
        let bytes = bytes.get(..size).ok_or_else(bad)?;
        let tree = Bundle::parse(bytes).map_err(|error| error.message().into_owned())?;
        let access = self.code.make_writable(BUNDLE_SYMBOL)?;
        Ok(Some(LoadedBundle { address: NonNull::from(bytes).cast(), size, access, tree }))
    }
}

/// Pointer variables that libraries may have, with their values.
fn slots(context: &Context) -> Vec<Slot> {
    let functions = SLOTS.iter().filter_map(|name| {
        Some(Slot { name: format!("__{name}"), value: exports::address_of(name)? })
    });
    let old = legacy::slots().map(|(name, value)| Slot { name: format!("__{name}"), value });
    let context = std::ptr::from_ref(context).cast_mut().cast();
    let contexts = [CONTEXT_SYMBOL, legacy::CONTEXT_SYMBOL];
    let contexts = contexts.map(|name| Slot { name: name.to_owned(), value: context });
    functions.chain(old).chain(contexts).collect()
}
