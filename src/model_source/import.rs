//! Models that are compiled: reading, import, and changes on disk.

use std::path::{Path, PathBuf};

use reflex_graph::Module;
use reflex_graph::relay::RelayText;
use reflex_graph::script::Script;
#[cfg(feature = "onnx")]
use reflex_onnx::{ExternalData, ImportOptions};
use reflex_runtime::file_bytes::{FileStamp, SourceFile};

use super::{ModelFormat, ModelSource, Origin};
use crate::bound_dims;
use crate::error::{Error, ErrorKind, Result, lacks};
#[cfg(not(feature = "onnx"))]
use crate::no_onnx::{ExternalData, ImportOptions};

impl ModelSource {
    /// Returns the summary of an ONNX model.
    #[cfg(feature = "onnx")]
    pub(crate) fn onnx_info(&self) -> Result<reflex_onnx::ModelInfo> {
        Ok(match &self.origin {
            Origin::File(path) => reflex_onnx::ModelInfo::read(path)?,
            Origin::Memory { bytes, external_data, .. } => {
                reflex_onnx::ModelInfo::of_bytes(bytes.clone(), external_data.clone())?
            }
        })
    }

    /// Returns the summary of a program that PyTorch exported.
    #[cfg(feature = "torch")]
    pub(crate) fn torch_info(&self) -> Result<reflex_torch::ProgramInfo> {
        Ok(match &self.origin {
            Origin::File(path) => reflex_torch::ProgramInfo::read(path)?,
            Origin::Memory { bytes, .. } => reflex_torch::ProgramInfo::of_bytes(bytes.clone())?,
        })
    }

    /// Reads TVMScript as it is written.
    pub(crate) fn script(&self) -> Result<Script> {
        Ok(match &self.origin {
            Origin::File(path) => Script::read_file(path)?,
            Origin::Memory { bytes, name, .. } => {
                let text = std::str::from_utf8(bytes.as_ref())
                    .map_err(|e| Error::new(ErrorKind::Model, e.to_string()))?;
                Script::read(text, name)?
            }
        })
    }

    /// Reads Relay text as it is written.
    pub(crate) fn relay_text(&self) -> Result<RelayText> {
        let bytes = self.read()?;
        let text = String::from_utf8(bytes)
            .map_err(|e| Error::new(ErrorKind::Model, format!("not UTF-8: {e}")))?;
        let name = match &self.origin {
            Origin::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy(),
            Origin::Memory { name, .. } => name.into(),
        };
        Ok(RelayText::read(&text, &name)?)
    }

    /// Reads the module of a text.
    fn lower(&self) -> Result<Module> {
        if !cfg!(feature = "script") {
            return Err(lacks("script"));
        }
        match self.format()? {
            ModelFormat::Relay => Ok(self.relay_text()?.lower()?),
            ModelFormat::Nodes => self.module_of_nodes(),
            _ => Ok(self.script()?.lower()?),
        }
    }

    #[cfg(feature = "reflect")]
    fn module_of_nodes(&self) -> Result<Module> {
        let text = String::from_utf8(self.read()?)
            .map_err(|e| Error::new(ErrorKind::Model, format!("not UTF-8: {e}")))?;
        let graph = crate::ir::load(&text).map_err(|e| {
            Error::new(ErrorKind::Model, format!("not the JSON of tvm.ir.save_json: {e}"))
        })?;
        crate::ir::to_module(&graph)
    }

    #[cfg(not(feature = "reflect"))]
    fn module_of_nodes(&self) -> Result<Module> {
        Err(lacks("reflect"))
    }

    /// Refuses what holds no module.
    pub(crate) fn check_is_module(&self) -> Result<()> {
        match self.format() {
            Ok(
                ModelFormat::Onnx
                | ModelFormat::Torch
                | ModelFormat::Script
                | ModelFormat::Nodes
                | ModelFormat::Relay,
            ) => Ok(()),
            _ => {
                let text = "passes run on models, not on compiled libraries";
                Err(Error::input(format!("{self}: {text}")))
            }
        }
    }

    /// Imports the module of a model that is compiled.
    pub(crate) fn import(&self) -> Result<Module> {
        self.import_with(&ImportOptions::default())
    }

    /// [`ModelSource::import`] with options.
    pub(crate) fn import_with(&self, options: &ImportOptions) -> Result<Module> {
        let (module, _) = self.import_files(options)?;
        module.read_constants().map_err(|e| Error::new(ErrorKind::Io, format!("{self}: {e}")))?;
        Ok(module)
    }

    /// Imports a module; also returns the files that it was read from.
    fn import_files(&self, options: &ImportOptions) -> Result<(Module, Vec<SourceFile>)> {
        bound_dims::check(&options.dims)?;
        let (mut module, files) = self.read_files(options)?;
        // Nodes of ONNX compute with shapes while they are imported.
        if self.format()? != ModelFormat::Onnx {
            bound_dims::bind(&mut module, &options.dims)?;
        }
        Ok((module, files))
    }

    fn read_files(&self, options: &ImportOptions) -> Result<(Module, Vec<SourceFile>)> {
        let format = self.format()?;
        let is_text =
            matches!(format, ModelFormat::Script | ModelFormat::Nodes | ModelFormat::Relay);
        match &self.origin {
            Origin::File(path) if is_text => {
                let stamp = || FileStamp::at(path).map_err(|e| Error::io(path, &e));
                let before = stamp()?;
                let module = self.lower()?;
                match stamp()? == before {
                    true => Ok((module, vec![SourceFile { path: path.clone(), stamp: before }])),
                    false => Err(changed(path, "while it was read")),
                }
            }
            Origin::Memory { .. } if is_text => Ok((self.lower()?, vec![])),
            _ if format == ModelFormat::Torch => self.import_torch(options),
            Origin::File(_) | Origin::Memory { .. } => self.import_onnx(options),
        }
    }

    #[cfg(feature = "onnx")]
    fn import_onnx(&self, options: &ImportOptions) -> Result<(Module, Vec<SourceFile>)> {
        Ok(match &self.origin {
            Origin::File(path) => reflex_onnx::import_files(path, options)?,
            Origin::Memory { bytes, external_data, .. } => {
                reflex_onnx::import_memory(bytes.clone(), external_data.clone(), options)?
            }
        })
    }

    #[cfg(not(feature = "onnx"))]
    fn import_onnx(&self, _: &ImportOptions) -> Result<(Module, Vec<SourceFile>)> {
        Err(lacks("onnx"))
    }

    #[cfg(feature = "torch")]
    fn import_torch(&self, options: &ImportOptions) -> Result<(Module, Vec<SourceFile>)> {
        Ok(match &self.origin {
            Origin::File(path) => reflex_torch::import_file(path, options.access)?,
            Origin::Memory { bytes, .. } => (reflex_torch::import_bytes(bytes.clone())?, vec![]),
        })
    }

    #[cfg(not(feature = "torch"))]
    fn import_torch(&self, _: &ImportOptions) -> Result<(Module, Vec<SourceFile>)> {
        Err(lacks("torch"))
    }

    /// The same source whatever the current folder is later.
    pub(super) fn absolute(&self) -> Result<ModelSource> {
        let mut source = self.clone();
        match &mut source.origin {
            Origin::File(path) => *path = absolute(path)?,
            Origin::Memory { external_data: ExternalData::Folder(folder), .. } => {
                *folder = absolute(folder)?;
            }
            Origin::Memory { .. } => {}
        }
        Ok(source)
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io(path, &e))
}

fn changed(path: &Path, when: &str) -> Error {
    Error::new(ErrorKind::Io, format!("the file has changed {when}: {}", path.display()))
}

/// A model that is imported again for each specialisation.
pub(crate) struct OpenModel {
    pub(super) source: ModelSource,
    pub(super) options: ImportOptions,
    pub(super) files: Vec<SourceFile>,
}

impl OpenModel {
    /// Imports a model, and remembers its files.
    pub(crate) fn open(
        source: &ModelSource,
        options: &ImportOptions,
    ) -> Result<(OpenModel, Module)> {
        let (module, mut files) = source.import_files(options)?;
        for file in &mut files {
            file.path = absolute(&file.path)?;
        }
        let source = source.absolute()?;
        Ok((OpenModel { source, options: options.clone(), files }, module))
    }

    /// Returns true if all of the model is in files, so that keeping it open holds none of its bytes.
    pub(crate) fn is_in_files(&self) -> bool {
        matches!(self.source.origin, Origin::File(_))
    }

    /// Imports the same model again; an error if one of its files has changed.
    pub(crate) fn reopen(&self) -> Result<Module> {
        let same = |file: &&SourceFile| FileStamp::at(&file.path).ok() == Some(file.stamp.clone());
        let since = "since it was loaded";
        if let Some(file) = self.files.iter().find(|file| !same(file)) {
            return Err(changed(&file.path, since));
        }
        // It is what was read that counts.
        let (module, files) = self.source.import_files(&self.options)?;
        match (files == self.files, self.files.first()) {
            (false, Some(file)) => Err(changed(&file.path, since)),
            _ => Ok(module),
        }
    }
}
