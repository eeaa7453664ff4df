//! Writes shared libraries: kernels, data and the tables a dynamic linker needs, without a linker.
//!
//! The result opens with `dlopen` and with TVM's loader. Kernel objects are linked by the same
//! rules as in memory; pointer variables that the opener fills ([`crate::imports::SLOTS`])
//! become weak exported data; functions outside the library are bound when it opens, and
//! `DT_NEEDED` names exactly the libraries that are used. The bytes depend on the inputs only.
//!
//! File offsets equal virtual addresses, so a blob aligned to a page can be used in place from a
//! mapping of the file. Large blobs are written straight from the caller's memory.
//!
//! Rejected: `.gnu.hash` (its symbols would need an order of their own), lazy binding through a PLT
//! (one indirect jump per call either way, and lazy binding writes while code runs), symbol
//! versions (references bind to the library's default).

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::elf_writer::LinkedLibrary;
use crate::error::CodeError;
use crate::machine::Machine;
use crate::object_file::ObjectFile;

/// Bytes that are mapped read-only with the library.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'a> {
    /// Section that shows the bytes to tools, for example `.rodata` or `.reflex`.
    pub section: &'a str,
    /// Exported symbol at the first byte, when the blob is looked up by name.
    pub symbol: Option<&'a str>,
    /// Alignment in memory and in the file: a power of two, at most 4 KiB.
    pub align: u64,
    /// The contents.
    pub bytes: &'a [u8],
}

/// A shared library being put together. Parts keep the order in which they are added.
#[derive(Clone, Debug)]
pub struct SharedLibrary<'a> {
    pub(crate) machine: Machine,
    objects: Vec<(&'a str, &'a [u8])>,
    pub(crate) blobs: Vec<Blob<'a>>,
    pub(crate) unmapped: Vec<(&'a str, &'a [u8])>,
    pub(crate) slots: BTreeSet<&'a str>,
    pub(crate) soname: Option<&'a str>,
    pub(crate) initialiser: Option<&'a [u8]>,
}

impl<'a> SharedLibrary<'a> {
    /// An empty library for an architecture.
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            objects: vec![],
            blobs: vec![],
            unmapped: vec![],
            slots: BTreeSet::new(),
            soname: None,
            initialiser: None,
        }
    }

    /// Adds a relocatable object; its global functions and data become exports. `name` is used in
    /// messages.
    #[must_use]
    pub fn object(mut self, name: &'a str, bytes: &'a [u8]) -> Self {
        self.objects.push((name, bytes));
        self
    }

    /// Adds read-only data.
    #[must_use]
    pub fn blob(mut self, blob: Blob<'a>) -> Self {
        self.blobs.push(blob);
        self
    }

    /// Adds a section that is in the file and not mapped when the library opens.
    #[must_use]
    pub fn unmapped_section(mut self, name: &'a str, bytes: &'a [u8]) -> Self {
        self.unmapped.push((name, bytes));
        self
    }

    /// Exports the pointer variable `name` even when no object refers to it.
    #[must_use]
    pub fn slot(mut self, name: &'a str) -> Self {
        self.slots.insert(name);
        self
    }

    /// Sets the name that dynamic linkers know the library by.
    #[must_use]
    pub fn soname(mut self, name: &'a str) -> Self {
        self.soname = Some(name);
        self
    }

    /// Sets the function that dynamic linkers call when the library opens (`DT_INIT`): machine code that needs no
    /// relocation.
    #[must_use]
    pub fn initialiser(mut self, code: &'a [u8]) -> Self {
        self.initialiser = Some(code);
        self
    }

    /// Links everything and returns the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodeError> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes).map_err(|error| {
            let code = error.get_ref().and_then(|inner| inner.downcast_ref::<CodeError>());
            code.cloned().unwrap_or_else(|| CodeError::unsupported(error.to_string()))
        })?;
        Ok(bytes)
    }

    /// Links everything and writes the file. An error of linking comes as an
    /// [`io::ErrorKind::InvalidInput`] that wraps a [`CodeError`], before anything is written.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let invalid = |error: CodeError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let files = self
            .objects
            .iter()
            .map(|(name, bytes)| ObjectFile::parse(name, bytes))
            .collect::<Result<Vec<_>, _>>()
            .map_err(invalid)?;
        LinkedLibrary::gather(self, &files).map_err(invalid)?.write(out)
    }
}
