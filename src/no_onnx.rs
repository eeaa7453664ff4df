//! Stand-ins for types of `reflex_onnx` in builds without the feature `onnx`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reflex_runtime::file_bytes::{FileAccess, FileBytes};

/// Options of an import.
#[derive(Clone, Default)]
pub(crate) struct ImportOptions {
    pub(crate) access: FileAccess,
    pub(crate) dims: BTreeMap<String, i64>,
}

/// Where the external data of a model in memory is.
#[derive(Clone, Debug, Default)]
pub(crate) enum ExternalData {
    #[default]
    Absent,
    Folder(PathBuf),
    Memory(BTreeMap<String, FileBytes>),
}
