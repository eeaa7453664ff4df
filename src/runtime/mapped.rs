//! Files mapped for reading, so that large constants are paged in when they are used.
//!
//! Nothing here interprets a file; parsers get plain bytes.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

/// A file's bytes, private and read-only.
#[derive(Debug)]
pub struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps a regular file. The file must not be truncated while the bytes are in use: as with
    /// an executable that runs, the system answers that with SIGBUS.
    pub fn open(path: &Path) -> io::Result<Mapped> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if meta.len() == 0 {
            return Ok(Mapped(None));
        }
        // SAFETY: the map is private and read-only, it is handed out only as `&[u8]` bounded by
        // `self`, and it keeps the file's pages alive on its own. What remains is the file being
        // changed by someone else, which the documentation above excludes.
        unsafe { Mmap::map(&file) }.map(|map| Mapped(Some(map)))
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn maps_regular_files_only() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("mapped.rs");
        let mapped = Mapped::open(&source).unwrap();
        assert_eq!(mapped.as_ref(), std::fs::read(&source).unwrap());
        assert!(Mapped::open(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err());
        assert!(Mapped::open(&source.join("nowhere")).is_err());
    }
}
