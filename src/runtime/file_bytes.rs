//! The bytes of whole files: read into memory, or mapped, so that they are paged in when used.
//!
//! Files are not interpreted here; parsers get plain bytes.
//!
//! Decision: docs/decisions/0048-model-files-in-memory.md

use std::fs::{File, Metadata};
use std::io::{self, Read};
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
#[cfg(unix)]
use memmap2::UncheckedAdvice;

/// The way the files of a model are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// They are read: whatever happens to them once the model is loaded changes nothing.
    #[default]
    Read,
    /// They are mapped, which takes less time and memory. Nothing may change them, in place, until
    /// the model is loaded, and for as long as it may be compiled for other shapes: as with an
    /// executable that runs, other contents would be other weights, and a shorter file ends the
    /// process (`SIGBUS`). A file that is renamed over them is none of these changes.
    Map,
}

/// A file's identity and the times of its last changes; the same only if its contents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStamp {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file that a model was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    /// The file that was there.
    pub stamp: FileStamp,
}

/// A file's bytes. Cloning shares them.
#[derive(Clone, Debug)]
pub struct FileBytes(Arc<Source>);

#[derive(Debug)]
enum Source {
    Memory(Vec<u8>),
    Static(&'static [u8]),
    Mapped(Mmap),
}

impl FileStamp {
    /// The stamp of an open file.
    pub fn of(file: &File) -> io::Result<FileStamp> {
        file.metadata().map(|meta| FileStamp::of_metadata(&meta))
    }

    /// The stamp of the file at a path.
    pub fn at(path: &Path) -> io::Result<FileStamp> {
        path.metadata().map(|meta| FileStamp::of_metadata(&meta))
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// An error unless an open file still has this stamp.
    pub fn check(&self, file: &File) -> io::Result<()> {
        match FileStamp::of(file)? == *self {
            true => Ok(()),
            false => Err(io::Error::other("the file was changed while it was read")),
        }
    }

    #[cfg(unix)]
    fn of_metadata(meta: &Metadata) -> FileStamp {
        FileStamp {
            file: (meta.dev(), meta.ino()),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The system tells less.
    #[cfg(not(unix))]
    fn of_metadata(meta: &Metadata) -> FileStamp {
        let since = meta.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map_or((0, 0), |t| (t.as_secs() as i64, i64::from(t.subsec_nanos())));
        FileStamp { file: (0, 0), length: meta.len(), modified, changed: modified }
    }
}

/// Opens a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

impl FileBytes {
    /// The bytes of a regular file and its stamp; an error if the file changes while it is read.
    pub fn open(path: &Path, access: FileAccess) -> io::Result<(FileBytes, FileStamp)> {
        let mut file = open_regular(path)?;
        let stamp = FileStamp::of(&file)?;
        let source = match access {
            // A map of nothing is an error.
            FileAccess::Map if stamp.length > 0 => {
                // SAFETY: the map is private and read-only, it is handed out only as `&[u8]` bounded
                // by `self`, and it keeps the file's pages alive on its own. What remains is the
                // file being changed, which callers that ask for a map promise not to happen.
                Source::Mapped(unsafe { Mmap::map(&file) }?)
            }
            FileAccess::Read | FileAccess::Map => {
                let mut bytes = vec![];
                let length = usize::try_from(stamp.length).map_err(io::Error::other)?;
                bytes.try_reserve_exact(length)?;
                (&mut file).take(stamp.length).read_to_end(&mut bytes)?;
                stamp.check(&file)?;
                Source::Memory(bytes)
            }
        };
        Ok((FileBytes(Arc::new(source)), stamp))
    }

    /// Returns true if the bytes are mapped, so that keeping some of them keeps no memory.
    pub fn is_mapped(&self) -> bool {
        matches!(*self.0, Source::Mapped(_))
    }

    /// Releases the pages of `bytes` to the system (`MADV_DONTNEED`), if they are of a mapped file:
    /// they no longer count as this process's memory, and are read from the file again when they
    /// are used.
    #[cfg(unix)]
    pub fn release(&self, bytes: &[u8]) {
        let Source::Mapped(map) = &*self.0 else { return };
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

    /// Does nothing: this system maps no files.
    #[cfg(not(unix))]
    pub fn release(&self, _bytes: &[u8]) {}
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> FileBytes {
        FileBytes(Arc::new(Source::Memory(bytes)))
    }
}

impl From<&'static [u8]> for FileBytes {
    fn from(bytes: &'static [u8]) -> FileBytes {
        FileBytes(Arc::new(Source::Static(bytes)))
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Source::Memory(bytes) => bytes,
            Source::Static(bytes) => bytes,
            Source::Mapped(map) => map,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESSES: [FileAccess; 2] = [FileAccess::Read, FileAccess::Map];

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn opens_regular_files_only() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("file_bytes.rs");
        for access in ACCESSES {
            let (bytes, stamp) = FileBytes::open(&source, access).unwrap();
            assert_eq!(bytes.as_ref(), std::fs::read(&source).unwrap());
            assert_eq!(
                (bytes.is_mapped(), stamp),
                (access == FileAccess::Map, FileStamp::at(&source).unwrap())
            );
            bytes.release(&bytes.as_ref()[1..]);
            bytes.release(b"bytes of no file");
            assert_eq!(bytes.as_ref(), std::fs::read(&source).unwrap());
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
            assert!(FileBytes::open(folder, access).is_err());
            assert!(FileBytes::open(&source.join("nowhere"), access).is_err());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn changes_are_seen_in_the_stamp_and_not_in_bytes_that_were_read() {
        let folder = std::env::temp_dir().join(format!("reflex-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        std::fs::write(&path, "before").unwrap();
        let (bytes, stamp) = FileBytes::open(&path, FileAccess::Read).unwrap();
        let file = File::open(&path).unwrap();
        stamp.check(&file).unwrap();
        std::fs::write(&path, "").unwrap();
        assert_eq!(bytes.as_ref(), b"before");
        assert!(stamp.check(&file).unwrap_err().to_string().contains("changed while it was read"));
        assert_ne!(FileStamp::at(&path).unwrap(), stamp);
        for access in ACCESSES {
            assert!(FileBytes::open(&path, access).unwrap().0.as_ref().is_empty());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
