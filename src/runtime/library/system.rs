//! The system's loader: for libraries that others need, and for those with variables of which each
//! thread has its own, which only it can give them.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use super::loading::Reason;

/// An open library of the system's loader; it is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Handle(NonNull<c_void>);

// SAFETY: the system's loader may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as for Send: a shared handle is only looked up in.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nothing that came from the library is left: all holders of addresses of it hold
        // the handle.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

impl Handle {
    /// Opens a library by its name or path. Everything that it calls is bound at once.
    pub(super) fn open(name: &str) -> Result<Handle, Reason> {
        let name = CString::new(name).map_err(|_| "a name contains a NUL".to_owned())?;
        Handle::open_c(&name)
    }

    fn open_c(name: &CStr) -> Result<Handle, Reason> {
        // SAFETY: a C string; the caller trusts the library and those that it names.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Handle).ok_or_else(last_error)
    }

    /// Opens a whole library that Reflex does not load itself. What it calls of tvm-ffi comes from
    /// the global scope, to which the shared library that this code may be in is added.
    ///
    /// # Safety
    /// The library's initialisers are trusted.
    pub(super) unsafe fn open_path(path: &Path) -> Result<Handle, Reason> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| "the path contains a NUL".to_owned())?;
        Handle::open_c(&name).or_else(|_| {
            publish();
            Handle::open_c(&name)
        })
    }

    /// The executable, the libraries it links, and those opened globally.
    pub(super) fn global() -> Option<Handle> {
        // SAFETY: a null name asks for the global scope.
        let handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        NonNull::new(handle).map(Handle)
    }

    /// The address of a symbol in it or in what it needs, of the asked-for version if that is there.
    pub(super) fn symbol(&self, name: &CStr, version: Option<&CStr>) -> Option<usize> {
        let handle = self.0.as_ptr();
        // musl has no versions of symbols.
        #[cfg(not(target_env = "gnu"))]
        let of_version = |_: &CStr| None;
        #[cfg(target_env = "gnu")]
        let of_version = |version: &CStr| {
            // SAFETY: an open handle and two C strings.
            NonNull::new(unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) })
        };
        let of_any = || {
            // SAFETY: an open handle and a C string.
            NonNull::new(unsafe { libc::dlsym(handle, name.as_ptr()) })
        };
        version.and_then(of_version).or_else(of_any).map(|address| address.addr().get())
    }
}

/// Makes the symbols of the shared library that this code is in globally visible, as hosts open
/// their plugins privately. Does nothing in an executable.
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

/// The last error of the system's loader.
fn last_error() -> Reason {
    // SAFETY: the result is null or a string that stays until the next call.
    let error: *const c_char = unsafe { libc::dlerror() };
    if error.is_null() {
        return "the system's loader gave no reason".to_owned();
    }
    // SAFETY: not null, so a C string that stays until the next call of the loader.
    unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
}
