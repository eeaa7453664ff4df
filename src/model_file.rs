//! Model files: formats by extension, import, and changes on disk.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use reflex_graph::Module;

use crate::error::{Error, ErrorKind, Result};

/// The format of a model file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `.onnx`
    Onnx,
    /// `.py`: TVMScript.
    Script,
    /// `.so`: an artifact, or an executable that TVM exported.
    Library,
}

impl Format {
    /// Returns the format of a file by its extension.
    pub(crate) fn of(path: &Path) -> Result<Format> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("onnx") => Ok(Format::Onnx),
            Some("py") => Ok(Format::Script),
            Some("so") => Ok(Format::Library),
            _ => {
                let what = "not a model by its name; expected .onnx, .py or .so";
                let message = format!("{}: {what}", path.display());
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

/// Imports the module of a model that is compiled.
pub(crate) fn import(path: &Path) -> Result<Module> {
    match path.extension().is_some_and(|e| e == "py") {
        true => Ok(reflex_graph::script::parse_file(path)?),
        false => Ok(reflex_onnx::import(path)?),
    }
}

/// Refuses files that hold no module.
pub(crate) fn check_is_module(path: &Path) -> Result<()> {
    match Format::of(path) {
        Ok(Format::Onnx | Format::Script) => Ok(()),
        _ => {
            let text = "passes run on models, not on compiled libraries";
            Err(Error::input(format!("{}: {text}", path.display())))
        }
    }
}

/// A model file that is imported again for each specialisation.
pub(crate) struct ModelFile {
    path: PathBuf,
    stamp: Stamp,
}

/// Length and modification time of a file, which change when it is replaced.
#[derive(PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(path: &Path) -> Result<Stamp> {
        let meta = std::fs::metadata(path).map_err(|e| Error::io(path, &e))?;
        Ok(Stamp { length: meta.len(), modified: meta.modified().ok() })
    }
}

impl ModelFile {
    /// Imports the model at `path`, and remembers the file.
    pub(crate) fn open(path: &Path) -> Result<(ModelFile, Module)> {
        let stamp = Stamp::of(path)?;
        let module = import(path)?;
        let path = path.canonicalize().map_err(|e| Error::io(path, &e))?;
        Ok((ModelFile { path, stamp }, module))
    }

    /// Imports the same model again; an error if the file has changed.
    pub(crate) fn reopen(&self) -> Result<Module> {
        match Stamp::of(&self.path)? == self.stamp {
            true => import(&self.path),
            false => Err(Error::new(ErrorKind::Io, "the file has changed since it was loaded")),
        }
    }
}
