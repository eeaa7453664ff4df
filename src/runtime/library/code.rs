//! The memory of a shared library: an image of our own loader, or what the system's loaded.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use super::elf_file::Definition;
use super::image::{Image, Loaded};
use super::loading::{BundleAccess, Reason, Slot};
use super::system;

/// A library's memory.
#[derive(Debug)]
pub(super) struct LoadedCode {
    // Dropped first: its finalisers may use the rest.
    memory: Memory,
    path: PathBuf,
    /// The file of a library from memory: while it is open, its path is that of no other one, by
    /// which the system's loader tells libraries apart.
    _unnamed: Option<File>,
}

#[derive(Debug)]
enum Memory {
    Own(Image),
    /// Of the system's loader, with what the file defines.
    System(system::Handle, HashMap<String, Definition>),
}

impl LoadedCode {
    /// Loads the library at `path`.
    ///
    /// # Safety
    /// The library's code is trusted, and symbols with the names of slots are pointer variables.
    pub(super) unsafe fn open(path: &Path, slots: &[Slot]) -> Result<LoadedCode, Reason> {
        // SAFETY: as the caller vouches.
        let memory = unsafe { Memory::load(path, slots)? };
        Ok(LoadedCode { memory, path: path.to_owned(), _unnamed: None })
    }

    /// Loads a library that is in memory, through a file without a name.
    ///
    /// # Safety
    /// As for [`LoadedCode::open`].
    pub(super) unsafe fn from_bytes(bytes: &[u8], slots: &[Slot]) -> Result<LoadedCode, Reason> {
        let file = memory_file(bytes)
            .map_err(|e| format!("a library in memory needs memfd_create: {e}"))?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // SAFETY: as the caller vouches.
        let memory = unsafe { Memory::load(&path, slots)? };
        Ok(LoadedCode { memory, path, _unnamed: Some(file) })
    }

    /// The file it came from.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the system's loader has it, which shares its variables with every other open of the file.
    pub(super) fn is_of_the_system(&self) -> bool {
        matches!(self.memory, Memory::System(..))
    }

    /// The address of a symbol.
    pub(super) fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        match &self.memory {
            Memory::Own(image) => image.symbol(name),
            Memory::System(handle, definitions) => {
                definitions.get(name)?;
                let address = handle.symbol(&CString::new(name).ok()?, None)?;
                NonNull::new(address as *mut c_void)
            }
        }
    }

    /// The bytes of a data symbol, as many as its file says.
    pub(super) fn data(&self, name: &str) -> Option<&[u8]> {
        match &self.memory {
            Memory::Own(image) => image.data(name),
            Memory::System(_, definitions) => {
                let size = usize::try_from(definitions.get(name)?.size).ok()?;
                let data = self.symbol(name)?.as_ptr().cast::<u8>();
                // SAFETY: the definition is inside a segment, which the system's loader mapped; data
                // that is asked for does not change.
                Some(unsafe { std::slice::from_raw_parts(data, size) })
            }
        }
    }

    /// Makes the data of a symbol writable, where that is possible.
    pub(super) fn make_writable(&self, name: &str) -> Result<BundleAccess, Reason> {
        match &self.memory {
            Memory::Own(image) if image.make_writable(name)? => Ok(BundleAccess::CopyOnWrite),
            _ => Ok(BundleAccess::Read),
        }
    }
}

impl Memory {
    /// # Safety
    /// As for [`LoadedCode::open`].
    unsafe fn load(path: &Path, slots: &[Slot]) -> Result<Memory, Reason> {
        // SAFETY: as the caller vouches.
        let definitions = match unsafe { Image::load(path, slots)? } {
            Loaded::Image(image) => return Ok(Memory::Own(image)),
            Loaded::ThreadLocal(definitions) => definitions,
        };
        // SAFETY: the caller trusts the library's code.
        let handle = unsafe { system::Handle::open_path(path)? };
        for Slot { name, value } in slots {
            let name = CString::new(name.as_str()).map_err(|_| "a slot's name has a NUL")?;
            if let Some(slot) = handle.symbol(&name, None) {
                // SAFETY: the caller vouches that slots are pointer variables.
                unsafe { (slot as *mut *mut c_void).write(*value) };
            }
        }
        Ok(Memory::System(handle, definitions))
    }
}

/// A file in memory with these bytes.
fn memory_file(bytes: &[u8]) -> io::Result<File> {
    // SAFETY: a C string; the result is checked.
    let descriptor = unsafe { libc::memfd_create(c"reflex".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an open descriptor that nothing else owns.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes)?;
    Ok(file)
}
