//! The text that is read, and errors that point into it.

use ruff_python_ast::Expr as Py;
use ruff_text_size::{Ranged, TextSize};

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

/// Result of reading a part of a text.
pub(super) type Result<T> = std::result::Result<T, ScriptError>;

/// The text and its name, for messages.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub text: &'s str,
    pub file: &'s str,
}

impl Source<'_> {
    pub fn at_line(self, line: usize, message: impl Into<String>) -> ScriptError {
        ScriptError { file: self.file.to_string(), line, message: message.into() }
    }

    pub fn refuse(self, at: TextSize, message: impl Into<String>) -> ScriptError {
        self.at_line(reflex_tir::script::line_of(self.text, at), message)
    }

    /// The beginning of a form, to show it.
    pub fn shown(self, form: &impl Ranged) -> String {
        let range = form.range();
        let text = self.text.get(range.start().into()..range.end().into()).unwrap_or("");
        text.lines().next().unwrap_or("").chars().take(80).collect()
    }

    pub fn unsupported(self, form: &impl Ranged) -> ScriptError {
        self.refuse(form.start(), format!("`{}` is not supported", self.shown(form)))
    }

    pub fn expected(self, what: &str, found: &Py) -> ScriptError {
        self.refuse(found.start(), format!("expected {what}, found `{}`", self.shown(found)))
    }
}
