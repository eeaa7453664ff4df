//! The TVMScript parser: reads the texts of [`crate::print`], and those that TVM 0.27 prints for
//! Relax, into modules.
//!
//! Operators that have no counterpart in [`crate::Op`] are rewritten into those that have, as
//! TVM's own legalisation does. Types of operators are inferred, not believed: an annotation
//! that contradicts inference is an error. A form that is not supported is refused with its text
//! and line; none is skipped.
//!
//! `R.shape`, `R.shape_of` and `R.tensor_to_shape` may be named and used where a shape is expected.
//! A kernel that is called by name (`cls.f(x, y)`) works on the caller's tensors and becomes a packed
//! call without results.
//!
//! A text is read in two steps: [`Script::read`] parses and checks the syntax (`syntax/`), and
//! [`Script::lower`] builds the two IRs (`module`, then `func` and the files of operators).
//!
//! ```
//! let text = r#"
//! @I.ir_module
//! class Module:
//!     @R.function
//!     def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
//!         y = R.nn.relu(x)
//!         return R.add(y, R.const(1.0, "float32"))
//! "#;
//! let module = reflex_graph::script::parse(text, "example.py")?;
//! let printed = reflex_graph::print::module(&module);
//! let again = reflex_graph::script::parse(&printed, "example.py")?;
//! assert_eq!(reflex_graph::print::module(&again), printed);
//! # Ok::<(), reflex_graph::script::ScriptError>(())
//! ```

mod args;
mod builtin;
mod call;
mod closure;
mod composed;
pub(crate) mod consts;
mod context;
mod control;
mod data;
mod detection;
mod effects;
mod einsum;
mod expr;
mod func;
mod gradient;
mod index;
mod inspected;
mod layout;
mod memory;
pub(crate) mod metadata;
mod module;
mod nn;
mod norm;
pub(crate) mod op_names;
mod ops;
mod packed;
mod parser;
mod pick;
mod pool_gradient;
mod reflex_ops;
mod registered;
mod roi;
mod sample;
mod selected;
mod shape;
mod signature;
mod source;
mod spatial;
mod suppression;
mod syntax;
mod types;

use std::path::Path;

use crate::Module;

pub use source::ScriptError;
pub use syntax::Script;

/// The value of an attribute as text has it; `None` for what is no number, string, truth value or list.
pub(crate) fn attr_value(
    text: &str,
    e: &ruff_python_ast::Expr,
) -> Option<crate::registered::AttrValue> {
    registered::attr_value(source::Source { text, file: "" }, e).ok()
}

/// Reads a module. `file` names the text in errors.
pub fn parse(text: &str, file: &str) -> Result<Module, ScriptError> {
    Script::read(text, file)?.lower()
}

/// Reads a module whose metadata table has these constants, in place of one in the text.
pub fn parse_with_constants(
    text: &str,
    file: &str,
    constants: Vec<crate::Literal>,
) -> Result<Module, ScriptError> {
    Script::read(text, file)?.lower_with(constants)
}

/// Reads a module from a file.
pub fn parse_file(path: impl AsRef<Path>) -> Result<Module, ScriptError> {
    Script::read_file(path)?.lower()
}
