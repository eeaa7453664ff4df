//! Graph IR and loop IR as nodes of TVM's IR, and back.
//!
//! [`nodes`] makes a graph of nodes of a module, which `tvm.ir.load_json` reads once it is saved; [`module`] makes
//! a module of one, be it ours or TVM's. Both work from one table (`table.rs`): the operators that TVM has with
//! their attributes, the arithmetic and the intrinsics of kernels. What TVM has no node for is a call of an
//! external function named `reflex.*`, which TVM carries along.
//!
//! ```
//! use reflex_node::equal::first_mismatch;
//!
//! let text = r#"
//! @I.ir_module
//! class Module:
//!     @R.function
//!     def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
//!         return R.nn.relu(x)
//! "#;
//! let module = reflex_graph::script::parse(text, "example.py")?;
//! let graph = reflex_reflect::nodes(&module)?;
//! let again = reflex_reflect::module(&graph)?;
//! assert_eq!(first_mismatch(&graph, &reflex_reflect::nodes(&again)?), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Decision: docs/decisions/0083-own-ir-as-nodes.md
#![forbid(unsafe_code)]

mod error;
mod export;
mod import;
mod table;

pub use error::ReflectError;
use reflex_graph::Module;
use reflex_node::graph::Graph;

/// Returns the nodes of a module; the root is an `ir.IRModule`.
///
/// # Errors
/// A value that nothing defines: the module is faulty.
pub fn nodes(module: &Module) -> Result<Graph, ReflectError> {
    export::nodes(module)
}

/// Returns the module that nodes are, checked.
///
/// # Errors
/// The root is no `ir.IRModule`; a node has no counterpart here, and is named; or the module is faulty.
pub fn module(graph: &Graph) -> Result<Module, ReflectError> {
    import::module(graph)
}
