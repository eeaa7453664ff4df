//! Models as they are given, as files or as bytes in memory: formats, import, and changes on disk.

#[cfg(feature = "compiler")]
mod contents;
#[cfg(feature = "compiler")]
pub(crate) mod import;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[cfg(feature = "onnx")]
use reflex_onnx::ExternalData;
use reflex_runtime::file_bytes::FileBytes;

use crate::error::{Error, ErrorKind, Result};
#[cfg(not(feature = "onnx"))]
use crate::no_onnx::ExternalData;

/// The format of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelFormat {
    /// ONNX: `.onnx`.
    Onnx,
    /// TVMScript: `.py`.
    Script,
    /// A program that PyTorch exported, as `torch.export.save` writes it: `.pt2`, or an archive of any name.
    Torch,
    /// Nodes of TVM's IR, as `tvm.ir.save_json` and [`ir::save`](crate::ir::save) write them: `.json`.
    Nodes,
    /// Relay text, of TVM 0.8 to 0.19: `.relay`, or a file of any name that begins with
    /// `#[version = "0.0.5"]`.
    Relay,
    /// A shared library, `.so`: an artifact, or an executable that TVM exported. An artifact for WebAssembly is
    /// a module, `.wasm`.
    Library,
    /// An executable of TVM's Relay virtual machine, `.ro`, whose kernels are in a library of their
    /// own.
    RelayExecutable,
}

/// The extension of the format's files.
impl fmt::Display for ModelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelFormat::Onnx => "onnx",
            ModelFormat::Torch => "pt2",
            ModelFormat::Script => "py",
            ModelFormat::Nodes => "json",
            ModelFormat::Relay => "relay",
            ModelFormat::Library => "so",
            ModelFormat::RelayExecutable => "ro",
        })
    }
}

/// ```
/// use reflex::ModelFormat;
///
/// assert_eq!("onnx".parse(), Ok(ModelFormat::Onnx));
/// assert!("pt".parse::<ModelFormat>().is_err());
/// ```
impl FromStr for ModelFormat {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<ModelFormat, String> {
        use ModelFormat::{Library, Nodes, Onnx, Relay, RelayExecutable, Script, Torch};
        let all = [Onnx, Torch, Script, Nodes, Relay, Library, RelayExecutable];
        // An artifact for WebAssembly is a library of its kind.
        let text = if text == "wasm" { "so" } else { text };
        let found = all.into_iter().find(|format| format.to_string() == text);
        found.ok_or_else(|| {
            format!(
                "a model of format {text:?}; expected onnx, pt2, py, json, relay, so, wasm or ro"
            )
        })
    }
}

impl ModelFormat {
    /// Returns the words for a model of this format that has no name.
    fn in_memory(self) -> &'static str {
        match self {
            ModelFormat::Onnx => "the ONNX model in memory",
            ModelFormat::Torch => "the exported program in memory",
            ModelFormat::Script => "the TVMScript in memory",
            ModelFormat::Nodes => "the nodes in memory",
            ModelFormat::Relay => "the Relay text in memory",
            ModelFormat::Library => "the library in memory",
            ModelFormat::RelayExecutable => "the Relay executable in memory",
        }
    }

    /// Returns the format of a file by its extension, in either case; of one with another
    /// extension by its content, if it is Relay text or an archive of PyTorch's.
    pub(crate) fn of_path(path: &Path) -> Result<ModelFormat> {
        ModelFormat::of_name(path).or_else(|unknown| match head(path) {
            Some(head) if is_relay_text(&head) => Ok(ModelFormat::Relay),
            Some(head) if head.starts_with(ZIP) && is_torch_archive(path) => Ok(ModelFormat::Torch),
            _ => Err(unknown),
        })
    }

    /// Returns the format by the extension of a name, in either case.
    fn of_name(name: &Path) -> Result<ModelFormat> {
        let extension = name.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        extension.and_then(|extension| extension.parse().ok()).ok_or_else(|| {
            let what =
                "not a model by its name; expected .onnx, .pt2, .py, .json, .relay, .so, .wasm or .ro";
            Error::new(ErrorKind::Unsupported, format!("{}: {what}", name.display()))
        })
    }
}

/// The first bytes of a zip file.
const ZIP: &[u8] = b"PK\x03\x04";

/// The first bytes of a regular file.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = vec![];
    // No device, whose end may never come.
    let is_file = path.metadata().is_ok_and(|meta| meta.is_file());
    let read = |file: File| file.take(256).read_to_end(&mut head);
    (is_file && File::open(path).and_then(read).is_ok()).then_some(head)
}

#[cfg(feature = "torch")]
fn is_torch_archive(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| reflex_torch::is_archive(io::BufReader::new(file)))
}

#[cfg(not(feature = "torch"))]
fn is_torch_archive(_: &Path) -> bool {
    false
}

#[cfg(feature = "script")]
fn is_relay_text(head: &[u8]) -> bool {
    reflex_graph::relay::RelayText::is_relay(head)
}

#[cfg(not(feature = "script"))]
fn is_relay_text(_: &[u8]) -> bool {
    false
}

/// A model to load: the path of a file, or the model itself in memory.
///
/// Paths convert into it, so `engine.load("model.onnx")` needs no mention of it.
///
/// ```
/// use reflex::{Engine, ModelFormat, ModelSource};
///
/// let bytes = std::fs::read("examples/softmax.py")?;
/// let source = ModelSource::bytes(ModelFormat::Script, bytes).named("my softmax");
/// let program = Engine::new()?.load(source)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelSource {
    origin: Origin,
    relay: RelayFiles,
}

/// The files beside an executable of Relay's virtual machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelayFiles {
    /// The library with its kernels.
    pub(crate) kernels: Option<PathBuf>,
    /// Its late-bound constants.
    pub(crate) params: Option<PathBuf>,
}

impl From<Origin> for ModelSource {
    fn from(origin: Origin) -> ModelSource {
        ModelSource { origin, relay: RelayFiles::default() }
    }
}

#[derive(Clone, Debug)]
enum Origin {
    File(PathBuf),
    Memory { format: ModelFormat, bytes: FileBytes, name: String, external_data: ExternalData },
}

impl<P: AsRef<Path> + ?Sized> From<&P> for ModelSource {
    fn from(path: &P) -> ModelSource {
        Origin::File(path.as_ref().to_path_buf()).into()
    }
}

impl From<PathBuf> for ModelSource {
    fn from(path: PathBuf) -> ModelSource {
        Origin::File(path).into()
    }
}

impl From<String> for ModelSource {
    fn from(path: String) -> ModelSource {
        PathBuf::from(path).into()
    }
}

/// The path, or the name that errors use for a model in memory.
impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::File(path) => path.display().fmt(f),
            Origin::Memory { name, .. } => f.write_str(name),
        }
    }
}

impl ModelSource {
    /// A model in memory. The bytes are kept as long as the program may need them to compile for
    /// other shapes.
    ///
    /// ```
    /// use reflex::{Engine, ErrorKind, ModelFormat, ModelSource};
    ///
    /// let source = ModelSource::bytes(ModelFormat::Onnx, *b"not a model");
    /// let error = Engine::new()?.load(source).err().unwrap();
    /// assert!(error.to_string().starts_with("the ONNX model in memory: not an ONNX model"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn bytes(format: ModelFormat, bytes: impl Into<Vec<u8>>) -> ModelSource {
        ModelSource::memory(format, bytes.into().into())
    }

    /// A model in the program itself, such as one of `include_bytes!`: nothing is copied.
    ///
    /// ```
    /// use reflex::{Engine, ModelFormat, ModelSource};
    ///
    /// static MODEL: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/softmax.py"));
    /// let program = Engine::new()?.load(ModelSource::embedded(ModelFormat::Script, MODEL))?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn embedded(format: ModelFormat, bytes: &'static [u8]) -> ModelSource {
        ModelSource::memory(format, bytes.into())
    }

    fn memory(format: ModelFormat, bytes: FileBytes) -> ModelSource {
        let name = format.in_memory().to_owned();
        Origin::Memory { format, bytes, name, external_data: ExternalData::Absent }.into()
    }

    /// A model that is read to its end, such as from an archive or an encrypted file.
    ///
    /// ```
    /// use reflex::{Engine, ModelFormat, ModelSource};
    ///
    /// let file = std::fs::File::open("examples/softmax.py")?;
    /// let program = Engine::new()?.load(ModelSource::reader(ModelFormat::Script, file)?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reader(format: ModelFormat, mut reader: impl Read) -> Result<ModelSource> {
        let mut bytes = vec![];
        let failed = |e| Error::io(format.in_memory().as_ref(), &e);
        reader.read_to_end(&mut bytes).map_err(failed)?;
        Ok(ModelSource::bytes(format, bytes))
    }

    /// A model of a store that is no folder, such as an encrypted archive: `read` gives the bytes of what
    /// it is asked for by name. That is the model, whose name has the extension of its format, and then
    /// the external data of an ONNX model, by names in the model's folder: a model cannot ask for names
    /// outside of it. All is read here and kept in memory; `read` is called no more.
    ///
    /// ```
    /// use std::io;
    ///
    /// use reflex::{Engine, ErrorKind, ModelSource};
    ///
    /// let decrypt = |sealed: &[u8]| sealed.iter().map(|byte| byte ^ 0x5a).collect::<Vec<u8>>();
    /// let sealed = decrypt(&std::fs::read("examples/softmax.py")?);
    /// let mut read = |name: &str| match name {
    ///     "models/softmax.py" => Ok(decrypt(&sealed)),
    ///     _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    /// };
    /// let program = Engine::new()?.load(ModelSource::store("models/softmax.py", &mut read)?)?;
    ///
    /// let error = ModelSource::store("models/other.py", &mut read).err().unwrap();
    /// assert_eq!(error.kind(), ErrorKind::Io);
    /// assert_eq!(error.to_string(), "models/other.py: entity not found");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(
        name: &str,
        mut read: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<ModelSource> {
        let format = ModelFormat::of_name(Path::new(name))?;
        let mut get = |name: &str| read(name).map_err(|e| Error::io(name.as_ref(), &e));
        let bytes = FileBytes::from(get(name)?);
        let mut data = BTreeMap::new();
        if format == ModelFormat::Onnx {
            for file in external_files(&bytes).map_err(|e| e.at(name))? {
                let folder = Path::new(name).parent().unwrap_or(Path::new(""));
                let path = folder.join(&file).to_string_lossy().into_owned();
                data.insert(file, get(&path).map_err(|e| e.at(name))?.into());
            }
        }
        let external_data = ExternalData::Memory(data);
        Ok(Origin::Memory { format, bytes, name: name.to_owned(), external_data }.into())
    }

    /// Sets the name of a model in memory, for messages. A file has its path.
    ///
    /// ```
    /// use reflex::{ModelFormat, ModelSource};
    ///
    /// let source = ModelSource::bytes(ModelFormat::Onnx, vec![]).named("vad from the bundle");
    /// assert_eq!(source.to_string(), "vad from the bundle");
    /// ```
    #[must_use]
    pub fn named(mut self, new: impl Into<String>) -> ModelSource {
        if let Origin::Memory { name, .. } = &mut self.origin {
            *name = new.into();
        }
        self
    }

    /// Sets the folder that external data of an ONNX model in memory is in. Without it, a model with
    /// external data is refused. A file's is its own folder.
    ///
    /// ```
    /// use reflex::{ModelFormat, ModelSource};
    ///
    /// let source = ModelSource::bytes(ModelFormat::Onnx, vec![]).external_data("weights");
    /// ```
    #[must_use]
    pub fn external_data(mut self, folder: impl AsRef<Path>) -> ModelSource {
        if let Origin::Memory { external_data, .. } = &mut self.origin {
            *external_data = ExternalData::Folder(folder.as_ref().to_path_buf());
        }
        self
    }

    /// Sets the library with the kernels of an executable of TVM's Relay virtual machine. Without it,
    /// those of a `.ro` file are in the `.so` of the same name, if there is one, and otherwise
    /// registered functions.
    ///
    /// ```
    /// use reflex::ModelSource;
    ///
    /// let source = ModelSource::from("model.ro").kernels("lib.so").params("model.params");
    /// ```
    #[must_use]
    pub fn kernels(mut self, library: impl AsRef<Path>) -> ModelSource {
        self.relay.kernels = Some(library.as_ref().to_path_buf());
        self
    }

    /// Sets the file with the late-bound constants of an executable of TVM's Relay virtual machine,
    /// as TVM's `save_params` and `move_late_bound_consts` write them. Every one needs a value.
    ///
    /// ```
    /// use reflex::ModelSource;
    ///
    /// let source = ModelSource::from("model.ro").params("model.params");
    /// ```
    #[must_use]
    pub fn params(mut self, file: impl AsRef<Path>) -> ModelSource {
        self.relay.params = Some(file.as_ref().to_path_buf());
        self
    }

    /// The files beside an executable of Relay's virtual machine.
    pub(crate) fn relay(&self) -> &RelayFiles {
        &self.relay
    }

    /// Returns the format: of a file, by its extension.
    pub(crate) fn format(&self) -> Result<ModelFormat> {
        match &self.origin {
            Origin::File(path) => ModelFormat::of_path(path),
            Origin::Memory { format, .. } => Ok(*format),
        }
    }

    /// Returns the path of a file, or else the bytes.
    pub(crate) fn path_or_bytes(&self) -> std::result::Result<&Path, &FileBytes> {
        match &self.origin {
            Origin::File(path) => Ok(path),
            Origin::Memory { bytes, .. } => Err(bytes),
        }
    }

    /// Returns all bytes of the model's own file.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        match &self.origin {
            Origin::File(path) => std::fs::read(path).map_err(|e| Error::io(path, &e)),
            Origin::Memory { bytes, .. } => Ok(bytes.as_ref().to_vec()),
        }
    }

    /// Returns the number of bytes of the model's own file.
    pub(crate) fn size(&self) -> u64 {
        match &self.origin {
            Origin::File(path) => path.metadata().map_or(0, |meta| meta.len()),
            Origin::Memory { bytes, .. } => bytes.as_ref().len() as u64,
        }
    }
}

#[cfg(feature = "onnx")]
fn external_files(model: &FileBytes) -> Result<Vec<String>> {
    Ok(reflex_onnx::external_files(model.clone())?)
}

#[cfg(not(feature = "onnx"))]
fn external_files(_: &FileBytes) -> Result<Vec<String>> {
    Err(crate::error::lacks("onnx"))
}
