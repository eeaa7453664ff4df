//! The files of a session: plain names in one folder, and uploads by content that can be resumed.
//!
//! Contents lie in a folder that sessions share, under their blake3 hash, so that weights travel
//! once. A piece that has arrived stays when the connection breaks; the hash is checked when the
//! content is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use reflex_runtime::error::Error;

use crate::limits::{Limits, check};

/// Most bytes of a name.
const MAX_NAME: usize = 255;

/// The files of a session.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    contents: PathBuf,
    limits: Limits,
}

impl Store {
    /// The files in `folder`, with complete and partial contents in `contents`.
    pub fn new(folder: &Path, contents: &Path, limits: Limits) -> Store {
        Store { folder: folder.to_owned(), contents: contents.to_owned(), limits }
    }

    /// The path of a file of the session. Only plain names are names.
    pub fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let plain = |c: char| c != '/' && c != '\\' && !c.is_control();
        let is_name = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(plain);
        if !is_name || name.starts_with('.') {
            return Err(Error::value_error(format!(
                "{name:?} is no name of a file: it may not have separators, or start with a dot"
            )));
        }
        Ok(self.folder.join(name))
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name)?;
        self.check_room(bytes.len() as u64)?;
        fs::write(&path, bytes).map_err(|e| failed(name, &e))
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.path(name)?;
        let size = fs::metadata(&path).map_err(|e| failed(name, &e))?.len();
        check("packet bytes", size, self.limits.packet)?;
        fs::read(&path).map_err(|e| failed(name, &e))
    }

    /// Deletes a file, if it is there. TVM's clients also delete what may not exist, and in the end
    /// the folder, by no name: it goes with the session.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            return Ok(());
        }
        match fs::remove_file(self.path(name)?) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.map_err(|e| failed(name, &e)),
        }
    }

    /// The names of the files, in order.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let entries = fs::read_dir(&self.folder).map_err(|e| failed("the folder", &e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Refuses files that would pass the limit together.
    fn check_room(&self, more: u64) -> Result<(), Error> {
        let used = bytes_in(&self.folder);
        check("file bytes", used.saturating_add(more), self.limits.file_bytes)
    }

    /// Bytes of a content that are there: all of it, or the pieces that have arrived in order.
    pub fn have(&self, hash: &str) -> Result<u64, Error> {
        let (complete, partial) = self.content(hash)?;
        let size = |path: &Path| fs::metadata(path).map(|meta| meta.len()).ok();
        Ok(size(&complete).or_else(|| size(&partial)).unwrap_or(0))
    }

    /// Adds a piece where the last one ended. One that has arrived before changes nothing.
    pub fn chunk(&self, hash: &str, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (complete, partial) = self.content(hash)?;
        if complete.exists() {
            return Ok(());
        }
        let end = offset.saturating_add(bytes.len() as u64);
        check("file bytes", end, self.limits.file_bytes)?;
        let failed = |e: io::Error| failed(hash, &e);
        fs::create_dir_all(&self.contents).map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).truncate(false).write(true).open(&partial).map_err(failed)?;
        let there = file.metadata().map_err(failed)?.len();
        if offset > there {
            let text = format!("a piece at {offset}, of which only the first {there} are there");
            return Err(Error::value_error(text));
        }
        let grown = end.saturating_sub(there);
        let used = bytes_in(&self.contents).saturating_add(grown);
        check("content bytes", used, self.limits.file_bytes)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        file.write_all(bytes).map_err(failed)
    }

    /// Makes a complete content a file of the session. A content that is not what its hash says is
    /// deleted.
    pub fn commit(&self, hash: &str, size: u64, name: &str) -> Result<(), Error> {
        let (complete, partial) = self.content(hash)?;
        let path = self.path(name)?;
        let failed = |e: io::Error| failed(name, &e);
        if !complete.exists() {
            let there = fs::metadata(&partial).map_or(0, |meta| meta.len());
            if there != size {
                return Err(Error::value_error(format!("{there} of {size} bytes are there")));
            }
            if hash_of(&partial).map_err(failed)? != hash {
                fs::remove_file(&partial).map_err(failed)?;
                let text = "the bytes are not those of the hash; they are deleted";
                return Err(Error::value_error(text));
            }
            fs::rename(&partial, &complete).map_err(failed)?;
        }
        self.check_room(size)?;
        if path.exists() {
            fs::remove_file(&path).map_err(failed)?;
        }
        // A copy: a session may write its files, and a content stays what it is.
        fs::copy(&complete, &path).map(drop).map_err(failed)
    }

    /// Paths of a content: complete, and while it arrives.
    fn content(&self, hash: &str) -> Result<(PathBuf, PathBuf), Error> {
        if hash.len() != 64 || !hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Error::value_error("a blake3 hash has 64 digits, 0 to 9 and a to f"));
        }
        Ok((self.contents.join(hash), self.contents.join(format!("{hash}.part"))))
    }
}

/// Bytes of the files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// The blake3 hash of a file, as text.
pub fn hash_of(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The error of a file of the session; its path is not the client's business.
fn failed(name: &str, error: &io::Error) -> Error {
    Error::new("OSError", format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("files")).unwrap();
        let limits = Limits { file_bytes: 1000, ..Limits::default() };
        let files = folder.path().join("files");
        let store = Store::new(&files, &folder.path().join("contents"), limits);
        (folder, store)
    }

    #[test]
    fn files_stay_in_their_folder() {
        let (_folder, store) = store();
        let absolute = "/tmp/x";
        for name in ["../x", "a/b", absolute, "", ".", "..", "a\\b", "a\0b", ".hidden"] {
            assert!(store.write(name, b"x").is_err(), "{name:?}");
        }
        assert!(store.write(&"x".repeat(256), b"x").is_err());
        store.write("m.so", b"abc").unwrap();
        assert_eq!((store.read("m.so").unwrap(), store.names().unwrap().len()), (b"abc".into(), 1));
        let error = store.write("big", &[0; 998]).unwrap_err();
        assert!(error.message().contains("`file bytes` is 1000"), "{error}");
        store.remove("m.so").unwrap();
        assert!(store.read("m.so").is_err() && store.remove("m.so").is_ok());
    }

    #[test]
    fn uploads_by_content_are_resumed_and_checked() {
        let (_folder, store) = store();
        let bytes: Vec<u8> = (0..100).collect();
        let hash = blake3::hash(&bytes).to_hex().to_string();
        assert_eq!(store.have(&hash).unwrap(), 0);
        store.chunk(&hash, 0, &bytes[..40]).unwrap();
        assert_eq!(store.have(&hash).unwrap(), 40);
        assert!(store.chunk(&hash, 41, &bytes[41..]).is_err(), "a gap");
        assert!(store.commit(&hash, 100, "a").is_err(), "not complete");
        store.chunk(&hash, 30, &bytes[30..]).unwrap();
        store.commit(&hash, 100, "a").unwrap();
        assert_eq!(store.read("a").unwrap(), bytes);
        store.commit(&hash, 100, "b").unwrap();
        let wrong = "0".repeat(64);
        store.chunk(&wrong, 0, b"xyz").unwrap();
        assert!(store.commit(&wrong, 3, "c").unwrap_err().message().contains("not those"));
        assert_eq!(store.have(&wrong).unwrap(), 0);
        for hash in ["", "../x", &"g".repeat(64), &"A".repeat(64)] {
            assert!(store.have(hash).is_err(), "{hash}");
        }
        let error = store.chunk(&"2".repeat(64), 0, &[0; 901]).unwrap_err();
        assert!(error.message().contains("`content bytes` is 1000"), "{error}");
        assert!(store.chunk(&hash[..63], 0, b"").is_err());
        assert!(store.chunk(&"1".repeat(64), u64::MAX, b"x").is_err());
    }
}
