//! Files whose parts are read when they are first needed.
//!
//! Decision: docs/decisions/0048-model-files-in-memory.md

use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::aligned_bytes::AlignedBytes;
use crate::file_bytes::FileStamp;

/// Bytes that are compared at a time, at first and in the end: most tensors differ from others at once.
const CHUNKS: [usize; 2] = [4 << 10, 256 << 10];

/// An open file whose parts are read later.
#[derive(Debug)]
pub struct LateFile {
    file: File,
    stamp: FileStamp,
    /// Why a part could not be read.
    failed: OnceLock<String>,
}

/// A part of a file. Its bytes are read when they are first used, and freed with the part. They are zeros where
/// that failed: users call [`LateFile::check`] before they give away a result.
#[derive(Debug)]
pub struct LatePart {
    /// Until the bytes are read.
    file: Mutex<Option<Arc<LateFile>>>,
    at: u64,
    len: usize,
    bytes: OnceLock<AlignedBytes>,
}

impl LateFile {
    /// A file that has this stamp.
    pub fn new(file: File, stamp: FileStamp) -> Arc<LateFile> {
        Arc::new(LateFile { file, stamp, failed: OnceLock::new() })
    }

    /// The stamp of the file when it was opened.
    pub fn stamp(&self) -> &FileStamp {
        &self.stamp
    }

    /// Reads bytes at once.
    #[cfg(unix)]
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    /// Reads bytes at once, on a system with a single thread.
    #[cfg(not(unix))]
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = &self.file;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(into)
    }

    /// An error if a part could not be read, or the file was changed since it was opened.
    pub fn check(&self) -> io::Result<()> {
        match self.failed.get() {
            Some(failed) => Err(io::Error::other(failed.clone())),
            None => self.stamp.check(&self.file),
        }
    }

    /// A part of the file.
    pub fn part(self: &Arc<LateFile>, at: u64, len: usize) -> Arc<LatePart> {
        let file = Mutex::new(Some(Arc::clone(self)));
        Arc::new(LatePart { file, at, len, bytes: OnceLock::new() })
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        match self.read_at(at, into) {
            Ok(()) => true,
            Err(error) => {
                into.fill(0);
                // The first failure is the one that is told.
                let _ = self.failed.set(error.to_string());
                false
            }
        }
    }
}

impl LatePart {
    /// Number of bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Whether the bytes are these. Bytes that are not read yet are read piece by piece, and not kept.
    pub fn equals(&self, other: &[u8]) -> bool {
        let file = self.file.lock().clone();
        let (Some(file), None) = (file, self.bytes.get()) else { return self.as_ref() == other };
        let mut piece = vec![0; CHUNKS[1].min(self.len)];
        let (mut rest, mut at, mut chunk) = (other, self.at, CHUNKS[0]);
        let mut same = other.len() == self.len;
        while same && !rest.is_empty() {
            let (other, behind) = rest.split_at(chunk.min(rest.len()));
            let piece = &mut piece[..other.len()];
            same = file.read(at, piece) && piece == other;
            (rest, at, chunk) = (behind, at + other.len() as u64, CHUNKS[1]);
        }
        same
    }
}

impl AsRef<[u8]> for LatePart {
    fn as_ref(&self) -> &[u8] {
        let bytes = self.bytes.get_or_init(|| {
            let mut bytes = AlignedBytes::zeroed(self.len);
            if let Some(file) = self.file.lock().take() {
                file.read(self.at, bytes.as_mut());
            }
            bytes
        });
        bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(name: &str, bytes: &[u8]) -> (PathBuf, Arc<LateFile>) {
        let path = std::env::temp_dir().join(format!("reflex-late-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        let stamp = FileStamp::of(&file).unwrap();
        (path, LateFile::new(file, stamp))
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn parts_are_read_when_they_are_used() {
        let bytes: Vec<u8> = (0..3 * CHUNKS[1] + 5).map(|at| (at / 7) as u8).collect();
        let (path, late) = file("parts", &bytes);
        let whole = late.part(3, bytes.len() - 3);
        assert!(whole.equals(&bytes[3..]));
        let mut other = bytes[3..].to_vec();
        *other.last_mut().unwrap() ^= 1;
        assert!(!whole.equals(&other) && !whole.equals(&bytes[4..]));
        assert!(whole.bytes.get().is_none(), "comparing keeps nothing");
        assert_eq!(whole.as_ref().as_ref(), &bytes[3..]);
        assert!(whole.as_ref().as_ref().as_ptr().addr().is_multiple_of(64));
        assert!(whole.equals(&bytes[3..]) && !whole.equals(&other));
        late.check().unwrap();
        drop(late);
        assert!(whole.file.lock().is_none(), "the file is closed");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no files")]
    fn failures_and_changes_are_told() {
        let (path, late) = file("short", &[1; 100]);
        let part = late.part(90, 20);
        assert!(!part.equals(&[1; 20]));
        assert_eq!(part.as_ref().as_ref(), [0; 20]);
        assert!(late.check().is_err());
        std::fs::remove_file(&path).unwrap();
        let (path, late) = file("changed", &[1; 100]);
        late.check().unwrap();
        std::fs::write(&path, [2; 101]).unwrap();
        assert!(late.check().unwrap_err().to_string().contains("changed"));
        std::fs::remove_file(path).unwrap();
    }
}
