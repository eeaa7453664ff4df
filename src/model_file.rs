//! Model files: formats by extension, import, and changes on disk.

use std::path::{Path, PathBuf};

use reflex_graph::Module;
use reflex_onnx::{ImportOptions, SourceFile};
use reflex_runtime::file_bytes::FileStamp;

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
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
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
    import_files(path, &ImportOptions::default()).map(|(module, _)| module)
}

/// Imports a module; also says which files it was read from.
fn import_files(path: &Path, options: &ImportOptions) -> Result<(Module, Vec<SourceFile>)> {
    if Format::of(path)? != Format::Script {
        return Ok(reflex_onnx::import_files(path, options)?);
    }
    let stamp = || FileStamp::at(path).map_err(|e| Error::io(path, &e));
    let before = stamp()?;
    let module = reflex_graph::script::parse_file(path)?;
    match stamp()? == before {
        true => Ok((module, vec![SourceFile { path: path.to_path_buf(), stamp: before }])),
        false => Err(changed(path, "while it was read")),
    }
}

fn changed(path: &Path, when: &str) -> Error {
    Error::new(ErrorKind::Io, format!("the file has changed {when}: {}", path.display()))
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

/// A model that is imported again for each specialisation.
pub(crate) struct ModelFile {
    path: PathBuf,
    options: ImportOptions,
    sources: Vec<SourceFile>,
}

impl ModelFile {
    /// Imports the model at `path`, and remembers its files.
    pub(crate) fn open(path: &Path, options: &ImportOptions) -> Result<(ModelFile, Module)> {
        let (module, mut sources) = import_files(path, options)?;
        // Another folder may be the current one later.
        let absolute = |path: &Path| std::path::absolute(path).map_err(|e| Error::io(path, &e));
        for source in &mut sources {
            source.path = absolute(&source.path)?;
        }
        Ok((ModelFile { path: absolute(path)?, options: options.clone(), sources }, module))
    }

    /// Imports the same model again; an error if one of its files has changed.
    pub(crate) fn reopen(&self) -> Result<Module> {
        let same =
            |source: &&SourceFile| FileStamp::at(&source.path).ok() == Some(source.stamp.clone());
        let since = "since it was loaded";
        if let Some(source) = self.sources.iter().find(|source| !same(source)) {
            return Err(changed(&source.path, since));
        }
        // It is what was read that counts.
        let (module, sources) = import_files(&self.path, &self.options)?;
        match sources == self.sources {
            true => Ok(module),
            false => Err(changed(&self.path, since)),
        }
    }
}
