//! Relay's text format: the texts that TVM 0.8 to 0.19 print and read, `#[version = "0.0.5"]`.
//!
//! A text is read into a tree of what is written ([`RelayText::read`]), which prints as it was, and
//! lowered to graph IR ([`RelayText::lower`]): types are inferred, inner functions lifted, matches
//! become branches on tests. What is not supported is refused by name, with line and column.
//!
//! ```
//! let text = r#"#[version = "0.0.5"]
//! def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
//!   %0 = nn.relu(%x);
//!   add(%0, 1f)
//! }
//! "#;
//! let module = reflex_graph::relay::RelayText::read(text, "example.relay")?;
//! assert_eq!(module.to_string(), text);
//! # Ok::<(), reflex_graph::relay::RelayError>(())
//! ```
//!
//! Decision: docs/decisions/0062-relay-text.md

mod ast;
mod lex;
mod lower;
mod number;
mod parser;
mod print;
mod source;

use std::fmt;

use crate::Module;
use source::Source;

pub use source::RelayError;

/// A Relay text that has been read.
#[derive(Clone, Debug)]
pub struct RelayText {
    tree: ast::RelayModule,
    text: String,
    file: String,
}

impl RelayText {
    /// Reads a text. `file` names it in errors.
    pub fn read(text: &str, file: &str) -> Result<RelayText, RelayError> {
        let tree = parser::parse(Source { text, file })?;
        Ok(RelayText { tree, text: text.to_string(), file: file.to_string() })
    }

    /// The module as graph IR.
    pub fn lower(&self) -> Result<Module, RelayError> {
        lower::lower(Source { text: &self.text, file: &self.file }, &self.tree)
    }

    /// Returns true if a text says that it is Relay.
    pub fn is_relay(text: &[u8]) -> bool {
        text.trim_ascii_start().starts_with(b"#[version = \"0.0.5\"]")
    }
}

/// The text, in the layout of TVM's printer.
impl fmt::Display for RelayText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::module(&self.tree))
    }
}
