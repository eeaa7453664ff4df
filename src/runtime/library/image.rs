//! A library that Reflex loads itself: mapped, linked and initialised without the system's loader.
//!
//! The functions of tvm-ffi that it wants are bound to this crate's, whatever the executable
//! exports; every other symbol is bound before any of its code runs, and one that is not found is
//! an error. Each load has its own variables, also of a file that is loaded already.
//!
//! Decision: docs/decisions/0045-own-library-loader.md

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

use ::object::ReadCache;

use super::elf_file::{Definition, ElfFile, Headers};
use super::link::{Linker, Needed};
use super::loading::{Reason, Slot};
use super::memory::Memory;
use super::system;

/// A loaded library. Its finalisers run when this is dropped.
#[derive(Debug)]
pub(super) struct Image {
    memory: Memory,
    symbols: HashMap<String, Definition>,
    finalisers: Vec<usize>,
    unwind_table: Option<usize>,
    // Libraries that it needs stay as long as its code.
    _needed: Vec<system::Handle>,
}

/// A library that was loaded, or that only the system's loader can load.
pub(super) enum Loaded {
    Image(Image),
    /// It has variables of which each thread has its own. These are its definitions.
    ThreadLocal(HashMap<String, Definition>),
}

/// Initialisers and finalisers, as the loader calls them.
type Initialiser = unsafe extern "C" fn(i32, *const *const c_char, *const *const c_char);
type Finaliser = unsafe extern "C" fn();

// The unwinder's, which Rust's standard library links.
unsafe extern "C" {
    fn __register_frame(table: *const u8);
    fn __deregister_frame(table: *const u8);
}

impl Image {
    /// Loads the library at `path`, and fills its slots.
    ///
    /// # Safety
    /// The library's machine code is trusted, and its symbols with the names of slots are pointer
    /// variables.
    pub(super) unsafe fn load(path: &Path, slots: &[Slot]) -> Result<Loaded, Reason> {
        let file = File::open(path).map_err(|e| e.to_string())?;
        let size = file.metadata().map_err(|e| e.to_string())?.len();
        let headers = Headers::parse(&ReadCache::new(&file), size)?;
        let memory = Memory::map(&file, &headers.segments)?;
        let copies = writable_parts(&file, &headers)?;
        let parts = headers.segments.iter().zip(&copies);
        let contents = parts.map(|(segment, copy)| match copy {
            Some(copy) => &**copy,
            None => memory.contents(segment),
        });
        let elf = ElfFile::parse(&headers, contents.collect())?;
        let relocations = elf.relocations()?;
        if elf.has_thread_locals(&relocations) {
            return Ok(Loaded::ThreadLocal(elf.definitions()?));
        }
        let linker = Linker { memory: &memory, elf: &elf, needed: Needed::open(&elf, path)? };
        let symbols = elf.definitions()?;
        // SAFETY: nothing else uses the memory yet; the caller trusts the code and vouches for slots.
        unsafe {
            linker.relocate(&relocations)?;
            for Slot { name, value } in slots {
                if let Some(slot) = symbols.get(name) {
                    memory.write(slot.address, value.addr())?;
                }
            }
        }
        if let Some(range) = elf.read_only_after_relocation() {
            memory.seal(&range)?;
        }
        let initialisers = linker.functions(&elf.initialisers())?;
        let mut finalisers = linker.functions(&elf.finalisers())?;
        finalisers.reverse();
        let unwind_table = elf.unwind_table().map(|table| memory.address(table));
        let _needed = linker.needed.into_handles();
        let image = Image { memory, symbols, finalisers, unwind_table, _needed };
        // SAFETY: everything is linked, and the caller trusts the code.
        unsafe { image.initialise(&initialisers) };
        Ok(Loaded::Image(image))
    }

    /// The address of a symbol.
    pub(super) fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        let Definition { address, size } = self.symbols.get(name)?;
        self.memory.readable(*address, *size).map(NonNull::cast)
    }

    /// The bytes of a data symbol, as many as its file says.
    pub(super) fn data(&self, name: &str) -> Option<&[u8]> {
        let Definition { address, size } = *self.symbols.get(name)?;
        let data = self.memory.readable(address, size)?;
        // SAFETY: the library maps these bytes; data that is asked for does not change.
        Some(unsafe { std::slice::from_raw_parts(data.as_ptr(), usize::try_from(size).ok()?) })
    }

    /// Makes the data of a symbol writable: writes go to this process's own pages. Returns false
    /// where the data lies among code.
    pub(super) fn make_writable(&self, name: &str) -> Result<bool, Reason> {
        let Some(Definition { address, size }) = self.symbols.get(name).copied() else {
            return Ok(false);
        };
        self.memory.make_writable(&(address..address.saturating_add(size)))
    }

    /// Registers the unwind table and runs the initialisers.
    ///
    /// # Safety
    /// The library is linked, its code is trusted, and initialisers are in it.
    unsafe fn initialise(&self, initialisers: &[usize]) {
        if let Some(table) = self.unwind_table {
            // SAFETY: the table ends inside its segment, which stays until it is deregistered.
            unsafe { __register_frame(table as *const u8) };
        }
        // An empty command line: a pointer that ends the list.
        let arguments = [std::ptr::null()];
        for function in initialisers {
            // SAFETY: the caller trusts the code; this is how the system's loader calls it.
            unsafe {
                let run: Initialiser = std::mem::transmute(*function);
                run(0, arguments.as_ptr(), environment());
            }
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        for function in &self.finalisers {
            // SAFETY: they are the library's code, which the caller of `load` trusts; nothing that came
            // from the library is left.
            unsafe {
                let run: Finaliser = std::mem::transmute(*function);
                run();
            }
        }
        if let Some(table) = self.unwind_table {
            // SAFETY: it was registered when the library was initialised.
            unsafe { __deregister_frame(table as *const u8) };
        }
    }
}

/// Copies of the file's part of writable segments, which change while they are read.
fn writable_parts(file: &File, headers: &Headers) -> Result<Vec<Option<Vec<u8>>>, Reason> {
    let copy = |segment: &super::elf_file::Segment| {
        let mut bytes = vec![0; (segment.file.end - segment.file.start) as usize];
        file.read_exact_at(&mut bytes, segment.file.start).map(|()| bytes)
    };
    let parts = headers.segments.iter().map(|it| it.writable.then(|| copy(it)).transpose());
    parts.collect::<std::io::Result<_>>().map_err(|e| e.to_string())
}

fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library defines it; no thread may change the environment meanwhile, as Rust's
    // standard library says of `set_var`.
    unsafe { environ }
}
