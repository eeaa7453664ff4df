//! ONNX to graph IR: the only crate that knows protobuf.
//!
//! [`import`] reads a model and desugars its operators into the graph's primitive set; what has
//! no import is refused with every unsupported operator's name at once. Model files are
//! hostile input: errors name file, node and reason. There is no optimisation here beyond
//! keeping shape arithmetic symbolic, and training graphs are refused.
#![forbid(unsafe_code)]

mod call;
mod context;
mod emit;
mod error;
mod fold;
mod function;
mod import;
mod info;
mod model;
mod ops;
mod opset;
mod proto;
mod tensor;
mod value;

use std::path::Path;

use reflex_graph::Module;

use prost::bytes::Bytes;

pub use error::{ImportError, ImportErrorKind};
pub use info::{Dim, ModelInfo, ValueInfo};
pub use model::UnsupportedOperator;
pub use tensor::read_tensor_pb;

/// Imports a model file as a module with the function `main`.
///
/// Its parameters are the graph's inputs and its results the graph's outputs, by name and in
/// order. Free dimensions are symbolic; equal `dim_param` names share one symbol.
pub fn import(path: &Path) -> Result<Module, ImportError> {
    let import = || {
        let model = model::Model::open(path)?;
        let module = import::import_model(&model)?;
        // What describes the graph is not read again; weights have hardly been read yet.
        if let Some(file) = &model.file {
            file.release(file.as_ref());
        }
        Ok(module)
    };
    import().map_err(|e: ImportError| e.at(path.display()))
}

/// Imports a model from memory; `base_dir` is where its external data may be.
pub fn import_bytes(bytes: Vec<u8>, base_dir: Option<&Path>) -> Result<Module, ImportError> {
    let folder = base_dir.map(Path::to_path_buf);
    import::import_model(&model::Model::decode(Bytes::from(bytes), folder)?)
}
