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

pub use reflex_node::equal::{Mismatch, first_mismatch};
pub use reflex_node::graph::{Data, Field, Graph, Node, NodeId, Value};
pub use reflex_node::hash::structural_hash;
pub use reflex_node::json::{JsonError, load, save};
pub use reflex_node::path::{Path, Step};
pub use reflex_node::table::{Equality, FieldInfo, Role, TypeInfo, find as type_info};
