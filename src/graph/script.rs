//! TVMScript text to graph modules: what [`crate::print`] writes, and what TVM 0.27 prints for
//! Relax.
//!
//! Operators that have no counterpart in [`crate::Op`] are rewritten into those that have, as
//! TVM's own legalisation does. Types of operators are inferred, not believed: an annotation
//! that contradicts inference is an error. A form that is not supported is refused with its
//! text and line; nothing is skipped in silence.
//!
//! Shapes are not values here: `R.shape`, `R.shape_of` and `R.tensor_to_shape` may be named and
//! used where a shape is expected, but not passed around. A kernel that is called by name
//! (`cls.f(x, y)`) works on the caller's tensors and becomes a packed call without results.
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
mod consts;
mod func;
mod index;
pub(crate) mod metadata;
mod module;
mod nn;
mod norm;
mod ops;
mod packed;
mod reflex;
mod shape;
pub(crate) mod table;
mod tree;
mod types;
mod value;
mod window;

use std::path::Path;

use ruff_python_ast::Expr as Py;
use ruff_text_size::{Ranged, TextSize};

use crate::Module;

pub use tree::Script;

/// Why a text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ScriptError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The form that is not accepted, or what is wrong with it.
    pub message: String,
}

/// Reads a module. `file` names the text in errors.
pub fn parse(text: &str, file: &str) -> Result<Module, ScriptError> {
    Script::read(text, file)?.lower()
}

/// Reads a module from a file.
pub fn parse_file(path: impl AsRef<Path>) -> Result<Module, ScriptError> {
    Script::read_file(path)?.lower()
}

type Read<T> = Result<T, ScriptError>;

/// The text and its name, for messages.
#[derive(Clone, Copy)]
struct Source<'s> {
    text: &'s str,
    file: &'s str,
}

impl Source<'_> {
    fn at_line(self, line: usize, message: impl Into<String>) -> ScriptError {
        ScriptError { file: self.file.to_string(), line, message: message.into() }
    }

    fn refuse(self, at: TextSize, message: impl Into<String>) -> ScriptError {
        self.at_line(reflex_tir::script::line_of(self.text, at), message)
    }

    /// The beginning of a form, to show it.
    fn shown(self, form: &impl Ranged) -> String {
        let range = form.range();
        let text = self.text.get(range.start().into()..range.end().into()).unwrap_or("");
        text.lines().next().unwrap_or("").chars().take(80).collect()
    }

    fn unsupported(self, form: &impl Ranged) -> ScriptError {
        self.refuse(form.start(), format!("`{}` is not supported", self.shown(form)))
    }

    fn expected(self, what: &str, found: &Py) -> ScriptError {
        self.refuse(found.start(), format!("expected {what}, found `{}`", self.shown(found)))
    }
}
