//! A module as it is written: operators, dataflow blocks, nested functions, annotations,
//! attributes and kernels with their own integer types, none of it rewritten.
//!
//! A text is read into this form. [`Script::print`] gives text again that TVM reads to a
//! structurally equal module, [`Script::lower`] makes the two IRs of it, which desugar.
//!
//! Decision: docs/decisions/0026-script-tree.md

mod expr;
mod stmt;
mod tvm_compat;

use std::collections::HashSet;
use std::path::Path;

use ruff_python_ast::{self as ast, Expr as Py, Stmt};
use ruff_text_size::Ranged;

use super::module;
use super::source::{Result, ScriptError, Source};
use crate::Module;

/// A module as it is written.
pub struct Script {
    text: String,
    file: String,
    body: Vec<Stmt>,
}

impl Script {
    /// Reads a text. Statements and expressions that TVMScript does not have are refused here;
    /// what has no meaning for the engine is refused by [`Script::lower`].
    pub fn read(text: &str, file: &str) -> Result<Script> {
        let source = Source { text, file };
        reflex_tir::script::check_nesting(text).map_err(|e| source.at_line(e.line, e.message))?;
        let parsed = ruff_python_parser::parse_module(text)
            .map_err(|e| source.refuse(e.location.start(), format!("not Python: {}", e.error)))?;
        let body: Vec<Stmt> = parsed.into_syntax().body.into_iter().collect();
        stmt::accept(source, &body)?;
        Ok(Script { text: text.to_string(), file: file.to_string(), body })
    }

    /// Reads a file.
    pub fn read_file(path: impl AsRef<Path>) -> Result<Script> {
        let path = path.as_ref();
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Script::read(&text, &file),
            Err(e) => Err(ScriptError { file, line: 1, message: format!("cannot be read: {e}") }),
        }
    }

    /// The module in graph IR and loop IR.
    pub fn lower(&self) -> Result<Module> {
        module::module(self.source(), &self.body, None)
    }

    /// [`Script::lower`] with the constants of a metadata table that the text does not have.
    pub(super) fn lower_with(&self, constants: Vec<crate::Literal>) -> Result<Module> {
        module::module(self.source(), &self.body, Some(constants))
    }

    /// The text. Where TVM 0.27 does not read what it prints itself, another spelling of the
    /// same is chosen that it does read.
    pub fn print(&self) -> String {
        stmt::print(self.source(), &self.body)
    }

    fn source(&self) -> Source<'_> {
        Source { text: &self.text, file: &self.file }
    }
}

/// The names that a module declares as `TypeVar`.
fn type_vars(body: &[Stmt]) -> HashSet<String> {
    let declared = body.iter().filter_map(|stmt| {
        let Stmt::Assign(ast::StmtAssign { targets, value, .. }) = stmt else { return None };
        match (&targets[..], &**value) {
            ([Py::Name(name)], Py::Call(call))
                if super::types::is_path(&call.func, "TypeVar")
                    || super::types::is_path(&call.func, "typing.TypeVar") =>
            {
                Some(name.id.to_string())
            }
            _ => None,
        }
    });
    declared.collect()
}

/// A form outside of TVMScript.
fn unsupported<T>(source: Source<'_>, form: &impl Ranged) -> Result<T> {
    Err(source.unsupported(form))
}
