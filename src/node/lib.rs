//! TVM's IR as a graph of nodes, as `tvm.ir.save_json` writes it.
//!
//! A [`Graph`](graph::Graph) holds nodes of any type by their keys and fields, so that every file of TVM can
//! be read, looked at, changed and written again, byte for byte ([`json`]). The [`table`], which is generated
//! from TVM, says what the fields of a type mean: [`equal`] finds the first difference of two graphs, with its
//! path, and [`hash`] a number that equal graphs share. No walk recurses on the native stack, and every
//! reference points to a node before the one that holds it, so there are no cycles.
//!
//! ```
//! use reflex_node::{equal, json};
//!
//! let text = r#"{"root_index":1,"nodes":[{"type":"int","data":4},{"type":"ffi.Array","data":[0,0]}]}"#;
//! let graph = json::load(text)?;
//! assert_eq!(json::save(&graph), text);
//! let other = json::load(&text.replace("[0,0]", "[0]"))?;
//! assert_eq!(equal::first_mismatch(&graph, &other).unwrap().to_string(), "<root>[1]: only in the first");
//! # Ok::<(), reflex_node::json::JsonError>(())
//! ```
//!
//! It knows none of our own IRs.
//!
//! Decision: docs/decisions/0067-nodes.md
#![forbid(unsafe_code)]

pub mod builder;
pub mod equal;
mod equal_rules;
pub mod graph;
pub mod hash;
pub mod json;
pub mod path;
mod reader;
pub mod table;
mod writer;
