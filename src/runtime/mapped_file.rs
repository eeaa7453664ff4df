//! Memory-mapped files, so that large constants are paged in when they are used.
//!
//! Files are not interpreted here; parsers get plain bytes.
//!
//! Decision: docs/decisions/0020-mapped-weights.md

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};

/// A file's bytes, private and read-only. Cloning shares them.
#[derive(Clone, Debug)]
pub struct MappedFile(Option<Arc<Mmap>>);

impl MappedFile {
    /// Maps a regular file. The file must not be truncated while the bytes are in use: as with
    /// an executable that runs, the system answers that with SIGBUS.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if meta.len() == 0 {
            return Ok(MappedFile(None));
        }
        // SAFETY: the map is private and read-only, it is handed out only as `&[u8]` bounded by
        // `self`, and it keeps the file's pages alive on its own. What remains is the file being
        // changed by another process, which the documentation above excludes.
        unsafe { Mmap::map(&file) }.map(|map| MappedFile(Some(Arc::new(map))))
    }

    /// Releases the pages of `bytes` to the system (`MADV_DONTNEED`), if they are the file's: they no
    /// longer count as this process's memory, and are read from the file again when they are used.
    pub fn release(&self, bytes: &[u8]) {
        let Some(map) = &self.0 else { return };
        let (of_map, range) = (map.as_ptr_range(), bytes.as_ptr_range());
        if bytes.is_empty() || range.start < of_map.start || range.end > of_map.end {
            return;
        }
        let offset = range.start.addr() - of_map.start.addr();
        // SAFETY: the map is private, backed by a file and never written, so what is dropped is a
        // clean copy of the file's pages: the next read gives the same bytes.
        let outcome =
            unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, bytes.len()) };
        // A hint: a system that does not take it keeps the pages.
        drop(outcome);
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.0.as_deref().map(AsRef::as_ref).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn maps_regular_files_only() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("mapped_file.rs");
        let mapped = MappedFile::open(&source).unwrap();
        assert_eq!(mapped.as_ref(), std::fs::read(&source).unwrap());
        mapped.release(&mapped.as_ref()[1..]);
        mapped.release(b"bytes of no mapped file");
        assert_eq!(mapped.as_ref(), std::fs::read(&source).unwrap());
        assert!(MappedFile::open(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err());
        assert!(MappedFile::open(&source.join("nowhere")).is_err());
    }
}
