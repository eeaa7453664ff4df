//! TVM's IR as a graph of nodes: JSON of `tvm.ir.save_json` both ways, structural equality with the path of
//! the first difference, structural hash.
//!
//! ```
//! use reflex::ir;
//!
//! let text = r#"{"root_index":1,"nodes":[{"type":"int","data":4},{"type":"ffi.Array","data":[0,0]}]}"#;
//! let graph = ir::load(text)?;
//! assert_eq!(ir::save(&graph), text);
//! let other = ir::load(&text.replace(":4", ":5"))?;
//! assert_eq!(ir::first_mismatch(&graph, &other).unwrap().to_string(), "<root>[0]: 4 is not 5");
//! assert_eq!(ir::structural_hash(&graph), ir::structural_hash(&graph.clone()));
//! # Ok::<(), ir::JsonError>(())
//! ```
//!
//! A model of any format is such a graph too, as it was imported ([`Engine::nodes`](crate::Engine::nodes)) and
//! after any pass ([`Engine::nodes_after`](crate::Engine::nodes_after)); and a graph is a model.

pub use reflex_node::builder::{Builder, Given};
pub use reflex_node::equal::{Mismatch, first_mismatch};
pub use reflex_node::graph::{Data, Field, Graph, Node, NodeId, Value};
pub use reflex_node::hash::structural_hash;
pub use reflex_node::json::{JsonError, load, save};
pub use reflex_node::path::{Path, Step};
pub use reflex_node::table::{Equality, FieldInfo, Role, TypeInfo, find as type_info};

#[cfg(feature = "reflect")]
use crate::error::{Error, ErrorKind, Result};

/// Returns the nodes of a module. What TVM has no node for is a call of an external function named `reflex.*`.
///
/// ```
/// use reflex::{Module, ir};
///
/// let graph = ir::of_module(&Module::default())?;
/// assert_eq!(&*graph.node(graph.root()).key, "ir.IRModule");
/// # Ok::<(), reflex::Error>(())
/// ```
#[cfg(feature = "reflect")]
pub fn of_module(module: &reflex_graph::Module) -> Result<Graph> {
    reflex_reflect::nodes(module).map_err(|e| Error::new(ErrorKind::Model, e.to_string()))
}

/// Returns the module that nodes are, ours or those of TVM, checked as a text is. A node that has no
/// counterpart here is an error that names it.
///
/// ```
/// use reflex::ir;
///
/// let list = ir::load(r#"{"root_index":0,"nodes":[{"type":"ffi.Array","data":[]}]}"#)?;
/// let error = ir::to_module(&list).unwrap_err().to_string();
/// assert_eq!(error, "ffi.Array where ir.IRModule is expected");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "reflect")]
pub fn to_module(graph: &Graph) -> Result<reflex_graph::Module> {
    reflex_reflect::module(graph).map_err(|e| Error::new(ErrorKind::Model, e.to_string()))
}
