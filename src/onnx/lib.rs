//! ONNX importer: model files to graph IR.
//!
//! [`import`] reads a model and desugars its operators into the operators of graph IR
//! ([`reflex_graph::Op`]). An operator without an import is an error that names every unsupported
//! operator of the model at once. Shape arithmetic (`Shape`, `Gather`, `Concat`, `Reshape`) becomes
//! symbolic dimensions and leaves no run-time code.
//!
//! ```no_run
//! let module = reflex_onnx::import("model.onnx".as_ref())?;
//! println!("{}", reflex_graph::print::module(&module));
//! # Ok::<(), reflex_onnx::ImportError>(())
//! ```
//!
//! [`ModelInfo`] summarises a model without keeping it, [`read_tensor_pb`] reads the tensors of
//! ONNX's test cases.
//!
//! # Where to look
//!
//! | file | content |
//! |---|---|
//! | `proto`, `tensor` | protobuf messages, tensors to [`reflex_graph::Literal`] |
//! | `external_data` | where weights in other files are, and their names |
//! | `model`, `opset`, `info` | decoded model, operator sets, summary |
//! | `strings` | tensors of strings as tensors of bytes |
//! | `value`, `fold`, `emit` | values with known elements, folding, helpers that emit graph operators |
//! | `context`, `node_order`, `call` | scopes and the walk over nodes; one node as its operator reads it |
//! | `ops/` | the table of operators by family, with how to add one |
//! | `operator_table` | what is done with each operator that ONNX has |
//! | `moved_strings`, `objects` | data movement of strings; sequences and optionals of a run |
//! | `case_value` | values in the files of ONNX's test cases, and how close to them results are |
//! | `custom` | operators that users import themselves |
//! | `registered` | operators that are registered with the graph IR |
//! | `import` | all of it in order |
//! | `quantize/` | a float32 model to a quantized one |
//!
//! # Limits
//!
//! Model files are hostile input: every error names file, node and reason, and nothing is allocated
//! by a size that the file only claims. This is the only crate that knows protobuf. It does not
//! optimise, and it refuses training graphs and sparse initialisers.
#![forbid(unsafe_code)]

mod call;
mod case_value;
mod context;
mod custom;
mod dim;
mod emit;
mod error;
mod external_data;
mod fold;
mod function;
mod half_precision;
mod import;
mod info;
mod model;
mod model_file;
mod moved_integers;
mod moved_strings;
mod narrow;
mod narrow_cast;
mod node_order;
mod objects;
mod operator_table;
mod ops;
mod opset;
pub mod proto;
pub mod quantize;
mod registered;
mod strings;
mod tensor;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use reflex_graph::Module;
use reflex_runtime::file_bytes::{FileAccess, FileBytes, SourceFile};

use prost::bytes::Bytes;

pub use case_value::{CaseValue, MapKeys, Side, case_atol, read_case_values};
pub use custom::{CustomImport, CustomNode, CustomOperators};
pub use dim::Dim;
pub use error::{ImportError, ImportErrorKind};
pub use external_data::ExternalData;
pub use info::{ModelInfo, ValueInfo};
pub use model::UnsupportedOperator;
pub use operator_table::{OnnxOperator, onnx_operators};
pub use tensor::read_tensor_pb;

/// Imports a model file as a module with the function `main`.
///
/// Its parameters are the graph's inputs and its results the graph's outputs, by name and in
/// order. Free dimensions are symbolic; equal `dim_param` names share one symbol.
pub fn import(path: &Path) -> Result<Module, ImportError> {
    let (module, _) = import_files(path, &ImportOptions::default())?;
    whole(module).map_err(|e| e.at(path.display()))
}

/// A module whose constants are all in memory.
fn whole(module: Module) -> Result<Module, ImportError> {
    let read = module.read_constants();
    read.map_err(|e| ImportError::new(ImportErrorKind::Io, e.to_string()))?;
    Ok(module)
}

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The way the model's files are held.
    pub access: FileAccess,
    /// Operators besides those that the importer knows.
    pub operators: CustomOperators,
    /// Free dimensions of inputs that are these constants, by name: free dimension overrides, as ONNX Runtime has them.
    pub dims: BTreeMap<String, i64>,
}

/// As [`import`], with options; also says which files the model was read from. Large constants may still have to be
/// read from them: those that compile the module check [`Module::late_files`] afterwards, as `reflex_lower` does,
/// and others call [`Module::read_constants`].
pub fn import_files(
    path: &Path,
    options: &ImportOptions,
) -> Result<(Module, Vec<SourceFile>), ImportError> {
    let import = || {
        let mut model = model::Model::open(path, options.access)?;
        model.custom = options.operators.clone();
        model.dims = options.dims.clone();
        model.files.read_late();
        let mut module = import::import_model(&model)?;
        module.late_files = model.files.late_files();
        // What describes the graph is not read again; weights have hardly been read yet.
        model.files.release();
        Ok((module, model.files.sources()))
    };
    import().map_err(|e: ImportError| e.at(path.display()))
}

/// Imports a model from memory with the default options; `folder` is that of its external data, if
/// it has any.
pub fn import_bytes(bytes: Vec<u8>, folder: Option<&Path>) -> Result<Module, ImportError> {
    let folder = folder.map(Path::to_path_buf);
    let data = folder.map_or(ExternalData::Absent, ExternalData::Folder);
    let (module, _) = import_memory(bytes.into(), data, &ImportOptions::default())?;
    whole(module)
}

/// The names of a model's external data, relative to the model's folder, each once. None leads out of
/// that folder: such a model is refused.
pub fn external_files(bytes: FileBytes) -> Result<Vec<String>, ImportError> {
    let model = model::Model::decode(Bytes::from_owner(bytes), ExternalData::Absent)?;
    Ok(external_data::names(&model.proto)?.into_iter().collect())
}

/// As [`import_files`], from memory: the files are those of external data in a folder, whose large constants may
/// still have to be read.
pub fn import_memory(
    bytes: FileBytes,
    data: ExternalData,
    options: &ImportOptions,
) -> Result<(Module, Vec<SourceFile>), ImportError> {
    let mut model = model::Model::decode(Bytes::from_owner(bytes), data)?;
    model.files.set_access(options.access);
    model.custom = options.operators.clone();
    model.dims = options.dims.clone();
    model.files.read_late();
    let mut module = import::import_model(&model)?;
    module.late_files = model.files.late_files();
    model.files.release();
    Ok((module, model.files.sources()))
}
