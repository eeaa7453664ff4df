//! The archive: a zip file with one root folder, as `torch.export.save` writes it.
//!
//! Tensors are stored as they are, so they stay in the file until they are used. What is deflated is inflated within a
//! budget that the length of the file gives.

use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use reflex_runtime::file_bytes::{FileAccess, FileBytes, FileStamp, SourceFile, open_regular};
use reflex_runtime::late_file::LateFile;
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use crate::error::{ImportError, ImportErrorKind, Result, malformed, unsupported};

/// The file that says what the archive is.
const FORMAT: &str = "archive_format";
/// The archive begins with the file. It is not looked for: examples of inputs are a zip file inside it.
const FROM_START: Config = Config { archive_offset: ArchiveOffset::Known(0) };
/// Bytes that may be inflated in any case.
const FREE: u64 = 64 << 20;
/// Bytes that may be inflated for each byte of the file.
const RATIO: u64 = 32;

/// A source that a zip file is read from.
trait Bytes: Read + Seek {}
impl<T: Read + Seek> Bytes for T {}

/// An open archive.
pub(crate) struct Archive {
    zip: ZipArchive<Box<dyn Bytes>>,
    root: String,
    holder: Holder,
    length: u64,
    budget: u64,
    source: Option<SourceFile>,
}

/// Where the bytes of stored files stay.
enum Holder {
    File(Arc<LateFile>),
    Bytes(FileBytes),
}

/// The bytes of a stored tensor.
pub(crate) enum Storage {
    /// In the file, from a byte on.
    Late(Arc<LateFile>, u64, usize),
    /// In memory, or in a map.
    Part(FileBytes, std::ops::Range<usize>),
    /// Inflated.
    Inflated(Vec<u8>),
}

impl Archive {
    /// The archive in a file.
    pub(crate) fn open(path: &Path, access: FileAccess) -> Result<Archive> {
        let (holder, bytes, stamp): (_, Box<dyn Bytes>, _) = match access {
            FileAccess::Read => {
                let file = open_regular(path).map_err(io)?;
                let stamp = FileStamp::of(&file).map_err(io)?;
                let late = LateFile::new(file.try_clone().map_err(io)?, stamp.clone());
                (Holder::File(late), Box::new(BufReader::new(file)), stamp)
            }
            FileAccess::Map => {
                let (bytes, stamp) = FileBytes::open(path, access).map_err(io)?;
                (Holder::Bytes(bytes.clone()), Box::new(Cursor::new(bytes)), stamp)
            }
        };
        let length = stamp.length();
        let mut archive = Archive::of(bytes, holder, length)?;
        archive.source = Some(SourceFile { path: path.to_path_buf(), stamp });
        Ok(archive)
    }

    /// The archive in memory.
    pub(crate) fn of_bytes(bytes: FileBytes) -> Result<Archive> {
        let length = bytes.as_ref().len() as u64;
        Archive::of(Box::new(Cursor::new(bytes.clone())), Holder::Bytes(bytes), length)
    }

    fn of(bytes: Box<dyn Bytes>, holder: Holder, length: u64) -> Result<Archive> {
        let zip = ZipArchive::with_config(FROM_START, bytes);
        let zip = zip.map_err(|e| malformed(format!("not a zip file: {e}")))?;
        let root = root(&zip)?;
        let budget = FREE.saturating_add(length.saturating_mul(RATIO));
        let mut archive = Archive { zip, root, holder, length, budget, source: None };
        archive.check_format()?;
        Ok(archive)
    }

    fn check_format(&mut self) -> Result<()> {
        let format = self.text(FORMAT)?;
        if format != "pt2" {
            return Err(unsupported(format!("an archive of format `{format}`, not `pt2`")));
        }
        if self.has("byteorder") {
            let order = self.text("byteorder")?;
            if order != "little" {
                return Err(unsupported(format!("tensors of byte order `{order}`")));
            }
        }
        Ok(())
    }

    /// The file that the archive is, where it is one.
    pub(crate) fn source(&self) -> Option<SourceFile> {
        self.source.clone()
    }

    /// The file that tensors may still have to be read from.
    pub(crate) fn late_file(&self) -> Option<Arc<LateFile>> {
        match &self.holder {
            Holder::File(late) => Some(Arc::clone(late)),
            Holder::Bytes(_) => None,
        }
    }

    /// Releases the pages of a map.
    pub(crate) fn release(&self) {
        if let Holder::Bytes(bytes) = &self.holder {
            bytes.release(bytes.as_ref());
        }
    }

    /// Returns true if there is a file of a name below the root.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(&self.path(name)).is_some()
    }

    /// The names of a folder's files that end in something, without both.
    pub(crate) fn stems(&self, folder: &str, end: &str) -> Vec<String> {
        let folder = self.path(folder);
        let stem = |name: &[u8]| {
            let name = std::str::from_utf8(name).ok()?;
            let stem = name.strip_prefix(&folder)?.strip_suffix(end)?;
            (!stem.contains('/')).then(|| stem.to_owned())
        };
        let mut stems: Vec<String> = self.zip.file_names_raw().filter_map(stem).collect();
        stems.sort();
        stems
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.root)
    }

    fn text(&mut self, name: &str) -> Result<String> {
        let bytes = self.read(name)?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| malformed(format!("`{name}` is not text")))?;
        Ok(text.trim_end().to_owned())
    }

    /// All bytes of a file.
    pub(crate) fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        let path = self.path(name);
        let at = |e: String| malformed(format!("`{name}`: {e}"));
        let file = self.zip.by_name(&path).map_err(|e| at(e.to_string()))?;
        let budget = self.budget;
        let mut bytes = vec![];
        let mut file = file.take(budget.saturating_add(1));
        file.read_to_end(&mut bytes).map_err(|e| at(e.to_string()))?;
        self.budget = budget.checked_sub(bytes.len() as u64).ok_or_else(|| {
            at("it is inflated to more bytes than an archive of this length may have".into())
        })?;
        Ok(bytes)
    }

    /// The bytes of a tensor, which are left where they are if they are not deflated.
    pub(crate) fn storage(&mut self, name: &str) -> Result<Storage> {
        let path = self.path(name);
        let at = |e: &str| malformed(format!("`{name}`: {e}"));
        let file = self.zip.by_name(&path).map_err(|e| at(&e.to_string()))?;
        let stored = file.compression() == CompressionMethod::Stored && !file.encrypted();
        if !stored {
            drop(file);
            return self.read(name).map(Storage::Inflated);
        }
        let begin = file.data_start().ok_or_else(|| at("its bytes are not found"))?;
        let size = file.size();
        let end = begin.checked_add(size).filter(|end| *end <= self.length);
        if end.is_none() || file.compressed_size() != size {
            return Err(at("it does not fit into the file"));
        }
        let number = |n: u64| usize::try_from(n).map_err(|_| at("it is too large"));
        let len = number(size)?;
        Ok(match &self.holder {
            Holder::File(late) => Storage::Late(Arc::clone(late), begin, len),
            Holder::Bytes(bytes) => {
                let begin = number(begin)?;
                Storage::Part(bytes.clone(), begin..begin + len)
            }
        })
    }
}

/// Returns true if a reader is of an archive of exported programs.
pub(crate) fn is_archive(bytes: impl Read + Seek) -> bool {
    let archive = ZipArchive::with_config(FROM_START, bytes);
    archive.is_ok_and(|zip| find_root(&zip).is_some())
}

fn find_root<R: Read + Seek>(zip: &ZipArchive<R>) -> Option<String> {
    let root = |name: &[u8]| {
        let name = std::str::from_utf8(name).ok()?;
        let root = name.strip_suffix(FORMAT)?;
        let folder = root.strip_suffix('/')?;
        (!folder.is_empty() && !folder.contains('/')).then(|| root.to_owned())
    };
    zip.file_names_raw().find_map(root)
}

/// The root folder with a slash, or the reason that there is none.
fn root(zip: &ZipArchive<Box<dyn Bytes>>) -> Result<String> {
    if let Some(root) = find_root(zip) {
        return Ok(root);
    }
    let has = |end: &str| {
        let mut names = zip.file_names_raw();
        names.any(|name| name.ends_with(end.as_bytes()))
    };
    let export = "export it by torch.export.save of PyTorch 2.8 or newer";
    Err(if has("serialized_exported_program.json") {
        unsupported(format!("an archive of PyTorch before 2.8; {export}"))
    } else if has("constants.pkl") {
        unsupported(format!("an archive of TorchScript, which is not imported; {export}"))
    } else if has("data.pkl") {
        unsupported(format!("pickled objects of torch.save, which have no graph; {export}"))
    } else {
        malformed("not an archive of torch.export.save: no file `archive_format`")
    })
}

fn io(error: std::io::Error) -> ImportError {
    ImportError::new(ImportErrorKind::Io, error.to_string())
}
