//! External data: where it is, and the names that a model has for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use reflex_runtime::file_bytes::FileBytes;

use crate::error::{ImportError, Result, invalid, malformed};
use crate::proto::{GraphProto, LOCATION_EXTERNAL, ModelProto, NodeProto, TensorProto};

/// Where the external data of a model in memory is.
#[derive(Clone, Debug, Default)]
pub enum ExternalData {
    /// Nowhere: a model that has some is refused.
    #[default]
    Absent,
    /// In files below a folder.
    Folder(PathBuf),
    /// In memory, by the names of [`external_files`](crate::external_files).
    Memory(BTreeMap<String, FileBytes>),
}

/// The location of a tensor's external data.
pub(crate) fn location(tensor: &TensorProto) -> Result<&str> {
    let entry = tensor.external_data.iter().find(|entry| entry.key == "location");
    entry.map(|e| e.value.as_str()).ok_or_else(|| malformed("external data: no location"))
}

/// The error of a location outside of the model's folder.
pub(crate) fn outside(location: &str) -> ImportError {
    invalid(format!("external data: `{location}` leaves the model's folder"))
}

/// The name of a location below the model's folder: `a/b` for `./a/b`. No `..` is followed.
pub(crate) fn name(location: &str) -> Result<String> {
    let mut parts = vec![];
    for component in Path::new(location).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            Component::CurDir => {}
            _ => return Err(outside(location)),
        }
    }
    match parts.is_empty() {
        true => Err(malformed(format!("external data: location `{location}`"))),
        false => Ok(parts.join("/")),
    }
}

/// The names of all external data of a model, each once.
pub(crate) fn names(model: &ModelProto) -> Result<BTreeSet<String>> {
    let mut names = Names(BTreeSet::new());
    model.graph.iter().try_for_each(|graph| names.graph(graph))?;
    for function in &model.functions {
        names.nodes(&function.node)?;
    }
    Ok(names.0)
}

/// Returns true if an attribute of a node, or of one inside it, has external data.
pub(crate) fn in_attributes(node: &NodeProto) -> bool {
    let mut names = Names(BTreeSet::new());
    names.nodes(std::slice::from_ref(node)).is_err() || !names.0.is_empty()
}

struct Names(BTreeSet<String>);

impl Names {
    fn graph(&mut self, graph: &GraphProto) -> Result<()> {
        graph.initializer.iter().try_for_each(|tensor| self.tensor(tensor))?;
        for sparse in &graph.sparse_initializer {
            let mut parts = sparse.values.iter().chain(&sparse.indices);
            parts.try_for_each(|tensor| self.tensor(tensor))?;
        }
        self.nodes(&graph.node)
    }

    fn nodes(&mut self, nodes: &[NodeProto]) -> Result<()> {
        for attribute in nodes.iter().flat_map(|node| &node.attribute) {
            let sparse = attribute.sparse_tensor.iter();
            let sparse = sparse.flat_map(|sparse| sparse.values.iter().chain(&sparse.indices));
            let mut tensors = attribute.t.iter().chain(&attribute.tensors).chain(sparse);
            tensors.try_for_each(|tensor| self.tensor(tensor))?;
            let mut graphs = attribute.g.iter().chain(&attribute.graphs);
            graphs.try_for_each(|graph| self.graph(graph))?;
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &TensorProto) -> Result<()> {
        if tensor.data_location == LOCATION_EXTERNAL {
            let named = location(tensor).and_then(name);
            self.0.insert(named.map_err(|e| e.at(format_args!("tensor `{}`", tensor.name)))?);
        }
        Ok(())
    }
}
