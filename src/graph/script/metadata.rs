//! The metadata table of a script: TVM's JSON graph of objects, of which constants are read.

use serde_json::Value as Json;

use crate::Literal;

/// The constants of a table, in order.
pub(super) fn constants(json: &str) -> Result<Vec<Literal>, String> {
    let graph: Json = serde_json::from_str(json).map_err(|e| format!("metadata: {e}"))?;
    let graph = Graph(&graph);
    let root = graph.node(&graph.0["root_index"], "ffi.Map")?;
    let pairs = list(root)?;
    for pair in pairs.chunks(2) {
        let [key, value] = pair else { break };
        if graph.node(key, "ffi.String")?.as_str() == Some("ir.GenericConst") {
            let entries = list(graph.node(value, "ffi.Array")?)?;
            return entries.iter().map(|entry| graph.constant(entry)).collect();
        }
    }
    Ok(vec![])
}

struct Graph<'j>(&'j Json);

impl<'j> Graph<'j> {
    /// The data of a node, whose type has to be `ty`.
    fn node(&self, index: &Json, ty: &str) -> Result<&'j Json, String> {
        let index = index.as_u64().ok_or("metadata: a node index is missing")?;
        let node = &self.0["nodes"][index as usize];
        match node["type"].as_str() {
            Some(found) if found == ty => Ok(&node["data"]),
            found => Err(format!("metadata: node {index} is {found:?}, expected {ty}")),
        }
    }

    fn constant(&self, index: &Json) -> Result<Literal, String> {
        let data = self.node(index, "ir.GenericConst")?;
        let text = self.node(&data["value"], "ffi.Tensor")?.as_str();
        let found = text.and_then(Literal::from_saved);
        found.ok_or_else(|| "metadata: a tensor is damaged".to_string())
    }
}

fn list(data: &Json) -> Result<&Vec<Json>, String> {
    data.as_array().ok_or_else(|| "metadata: a list is missing".to_string())
}
