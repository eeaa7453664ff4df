//! Shared libraries in TVM's layout: kernels, and the bundle they carry.
//!
//! After `dlopen` the loader fills the context slots: data symbols named `__` plus
//! the name of a function of ours, present only if the library uses it, through
//! which kernels reach the runtime. `__tvm_ffi__library_ctx` gets the library's
//! [`Context`]. Kernels are the symbols `__tvm_ffi_<name>`.
//!
//! Some functions are not reached through slots but linked by name, above all
//! `TVMFFIErrorSetRaisedFromCStrParts`; the process must export them, see
//! [`exports`]. Without that `open` refuses libraries, since their
//! first error would end the process.

use std::any::Any as StdAny;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::abi::SafeCall;
use crate::bundle::Bundle;
use crate::error::Error;
use crate::exports;
use crate::function::Function;
use crate::host;
use crate::registry;

/// Before the name of a kernel's packed entry.
pub const PACKED_PREFIX: &str = "__tvm_ffi_";
/// The bundle: a 64-bit size, then so many bytes.
pub const BUNDLE_SYMBOL: &str = "__tvm_ffi__library_bin";
/// Where the library wants its context.
pub const CONTEXT_SYMBOL: &str = "__tvm_ffi__library_ctx";
/// The function that libraries link by name, so that only a global symbol provides it.
const LINKED_BY_NAME: &CStr = c"TVMFFIErrorSetRaisedFromCStrParts";

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
    handle: NonNull<c_void>,
    path: PathBuf,
    context: Box<Context>,
    bundle: Option<LoadedBundle>,
}

#[derive(Debug)]
struct LoadedBundle {
    address: NonNull<u8>,
    size: usize,
    tree: Bundle,
}

// SAFETY: the handle and the bundle are only read, and the library stays loaded.
unsafe impl Send for Inner {}
// SAFETY: as for Send: shared use only reads the handle and the bundle.
unsafe impl Sync for Inner {}

/// The context of a library: the functions that its code looks up through its context pointer.
#[derive(Debug, Default)]
pub struct Context {
    imports: OnceLock<HashMap<String, Function>>,
    /// Global functions that the code has looked up, kept alive because it keeps their addresses.
    globals: Mutex<HashMap<String, Function>>,
}

impl Context {
    /// A function of an imported module, or else a global one. The context holds it too.
    pub(crate) fn import(&self, name: &str) -> Option<Function> {
        if let Some(function) = self.imports.get().and_then(|imports| imports.get(name)) {
            return Some(function.clone());
        }
        let mut globals = self.globals.lock();
        if let Some(function) = globals.get(name) {
            return Some(function.clone());
        }
        let function = registry::get(name)?;
        globals.insert(name.to_owned(), function.clone());
        Some(function)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: nothing that came from the library is left: functions and tensors hold
        // a clone of it.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

impl Library {
    /// Loads the library at `path`.
    ///
    /// # Safety
    /// The file's machine code is trusted: its initialisers run, and its kernels must
    /// keep to the calling convention. The bundle in it is not trusted.
    pub unsafe fn open(path: &Path) -> Result<Library, Error> {
        require_exports(path)?;
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| failure(path, "the path contains a NUL"))?;
        // SAFETY: the path is a C string; the caller trusts the library's initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| failure(path, &last_error()))?;
        let mut inner =
            Inner { handle, path: path.to_owned(), context: Box::default(), bundle: None };
        // SAFETY: slots are pointer variables, by TVM's layout.
        unsafe { inner.fill_slots() };
        inner.bundle = inner.read_bundle()?;
        Ok(Library(Arc::new(inner)))
    }

    /// The file it came from.
    pub fn path(&self) -> &Path {
        &self.0.path
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
        self.0.symbol(&CString::new(name).ok()?)
    }

    /// The bytes of a data symbol, as long as its file says it is, if they are mapped.
    pub fn data(&self, name: &str) -> Option<&[u8]> {
        let symbol = self.symbol(name)?;
        let size = size_of_symbol(symbol)?;
        // SAFETY: `size_of_symbol` checked that the library maps these bytes; read-only data
        // does not change while the library is open.
        Some(unsafe { std::slice::from_raw_parts(symbol.as_ptr().cast(), size) })
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
            .map_err(|_| failure(&self.0.path, "its imports are provided already"))
    }
}

impl Inner {
    fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open as long as `self`, and the name is a C string.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }

    /// # Safety
    /// Symbols with the names of slots are pointer variables.
    unsafe fn fill_slots(&self) {
        for name in SLOTS {
            let slot = CString::new(format!("__{name}")).ok().and_then(|name| self.symbol(&name));
            if let (Some(slot), Some(address)) = (slot, exports::address_of(name)) {
                // SAFETY: the caller vouches that slots are pointer variables; no code of the library
                // runs yet.
                unsafe { slot.cast::<*mut c_void>().write(address) };
            }
        }
        let name = CString::new(CONTEXT_SYMBOL).ok();
        if let Some(slot) = name.and_then(|name| self.symbol(&name)) {
            let context = std::ptr::from_ref(&*self.context).cast_mut().cast();
            // SAFETY: the caller vouches that the slot is a pointer variable; the context lives as
            // long as the library is open.
            unsafe { slot.cast::<*mut c_void>().write(context) };
        }
    }

    fn read_bundle(&self) -> Result<Option<LoadedBundle>, Error> {
        const HEADER: usize = size_of::<u64>();
        let name = CString::new(BUNDLE_SYMBOL).ok();
        let Some(symbol) = name.and_then(|name| self.symbol(&name)) else { return Ok(None) };
        let symbol_size =
            size_of_symbol(symbol).ok_or_else(|| failure(&self.path, "its bundle has no size"))?;
        let bad = || failure(&self.path, "its bundle is larger than the symbol that holds it");
        let available = symbol_size.checked_sub(HEADER).ok_or_else(bad)?;
        // SAFETY: the symbol has at least a header; it need not be aligned.
        let size = u64::from_le(unsafe { symbol.cast::<u64>().read_unaligned() });
        let size = usize::try_from(size).ok().filter(|size| *size <= available).ok_or_else(bad)?;
        // SAFETY: the header is part of the symbol.
        let address = unsafe { symbol.cast::<u8>().add(HEADER) };
        // SAFETY: the symbol has these bytes, and the library does not change them.
        let bytes = unsafe { std::slice::from_raw_parts(address.as_ptr(), size) };
        let tree = Bundle::parse(bytes).map_err(|error| failure(&self.path, &error.message()))?;
        Ok(Some(LoadedBundle { address, size, tree }))
    }
}

/// Bytes of the symbol at `address`, as its file says, if they are really mapped.
fn size_of_symbol(address: NonNull<c_void>) -> Option<usize> {
    const RTLD_DL_SYMENT: i32 = 1;
    // SAFETY: an all-zero Dl_info is a valid one to overwrite.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut entry: *mut libc::Elf64_Sym = std::ptr::null_mut();
    // SAFETY: both results are locals of the types that this request fills.
    let found = unsafe {
        libc::dladdr1(address.as_ptr(), &mut info, (&raw mut entry).cast(), RTLD_DL_SYMENT)
    };
    if found == 0 || entry.is_null() || info.dli_saddr != address.as_ptr() {
        return None;
    }
    // SAFETY: the entry is in the symbol table of a library that is open.
    let size = usize::try_from(unsafe { (*entry).st_size }).ok()?;
    is_mapped(address, size).then_some(size)
}

/// Whether `size` bytes at `address` are in one loaded, readable segment.
fn is_mapped(address: NonNull<c_void>, size: usize) -> bool {
    struct Query {
        start: usize,
        end: usize,
        inside: bool,
    }
    unsafe extern "C" fn visit(
        object: *mut libc::dl_phdr_info,
        _: usize,
        query: *mut c_void,
    ) -> i32 {
        // SAFETY: the walk passes a valid object, and the query below.
        let (object, query) = unsafe { (&*object, &mut *query.cast::<Query>()) };
        for index in 0..usize::from(object.dlpi_phnum) {
            // SAFETY: the dynamic linker passes an object with `dlpi_phnum` headers at `dlpi_phdr`.
            let segment = unsafe { &*object.dlpi_phdr.add(index) };
            let readable = segment.p_flags & libc::PF_R != 0;
            let start = (object.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize);
            let end = start.saturating_add(segment.p_memsz as usize);
            if segment.p_type == libc::PT_LOAD
                && readable
                && start <= query.start
                && query.end <= end
            {
                query.inside = true;
                return 1;
            }
        }
        0
    }
    let start = address.addr().get();
    let Some(end) = start.checked_add(size) else { return false };
    let mut query = Query { start, end, inside: false };
    // SAFETY: the callback matches the query it is given.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut query).cast()) };
    query.inside
}

/// Checks that libraries will find what they link by name.
fn require_exports(path: &Path) -> Result<(), Error> {
    if is_exported() {
        return Ok(());
    }
    publish();
    if is_exported() {
        return Ok(());
    }
    Err(failure(
        path,
        "this process does not export TVMFFIErrorSetRaisedFromCStrParts; link it with \
         -rdynamic, or export the names in reflex_runtime::exports::EXPORTED_SYMBOLS",
    ))
}

fn is_exported() -> bool {
    host::global_symbol(LINKED_BY_NAME).is_some()
}

/// Makes the symbols of the shared library that this code is in globally visible, as
/// hosts open their plugins privately. Does nothing in an executable.
fn publish() {
    // SAFETY: an all-zero Dl_info is a valid one to overwrite.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = publish as *const c_void;
    // SAFETY: an address of this code, and a local to fill.
    if unsafe { libc::dladdr(here, &mut info) } == 0 || info.dli_fname.is_null() {
        return;
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_GLOBAL;
    // SAFETY: loads nothing, as the library is this one. The reference that this adds is
    // kept: what has been made visible must stay.
    unsafe { libc::dlopen(info.dli_fname, flags) };
}

/// The last error of the dynamic linker.
fn last_error() -> String {
    // SAFETY: the result is null or a string that stays until the next call.
    let error: *const c_char = unsafe { libc::dlerror() };
    if error.is_null() {
        return "the dynamic linker gave no reason".to_owned();
    }
    // SAFETY: not null, so a C string that stays until the next call of the dynamic linker.
    unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
}

#[cold]
fn failure(path: &Path, why: &str) -> Error {
    Error::runtime_error(format!("cannot load {}: {why}", path.display()))
}
