//! Compatibility with TVM 0.27: forms that it prints but does not parse, in a spelling that it
//! parses.
//!
//! - `T.int64` among the fields of `R.Tuple` is `R.Prim("int64")`.
//! - A result type that mentions `I.StringType()` is left out; TVM infers it again.
//! - A dimension that a function declares under a name of the module's is renamed.
//!
//! Decision: docs/decisions/0026-script-tree.md

use std::collections::{HashMap, HashSet};

use reflex_tir::script::string;
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{self as ast, Expr as Py, Stmt};

use super::expr::ExprPrinter;
use crate::script::types::is_path;

/// A type annotation.
pub(super) fn annotation(w: &ExprPrinter<'_>, e: &Py) -> String {
    match e {
        Py::Call(call) if is_path(&call.func, "R.Tuple") && call.arguments.keywords.is_empty() => {
            format!("R.Tuple({})", fields(w, &call.arguments.args))
        }
        _ => w.expr(e),
    }
}

/// The types of a list.
pub(super) fn fields(w: &ExprPrinter<'_>, list: &[Py]) -> String {
    let fields = list.iter().map(|e| match e {
        Py::List(l) => format!("[{}]", fields(w, &l.elts)),
        Py::Attribute(_) => match reflex_tir::script::path(e) {
            Some(path) if path.starts_with("T.") => format!("R.Prim(\"{}\")", &path[2..]),
            _ => w.expr(e),
        },
        _ => annotation(w, e),
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// Dimensions of a type; names may be in quotes.
pub(super) fn dims(w: &ExprPrinter<'_>, e: &Py) -> String {
    match e {
        Py::StringLiteral(s) => string(&rename_in(s.value.to_str(), &w.names)),
        Py::Tuple(t) if t.elts.len() == 1 => format!("({},)", dims(w, &t.elts[0])),
        Py::Tuple(ast::ExprTuple { elts, .. }) | Py::List(ast::ExprList { elts, .. }) => {
            let list = elts.iter().map(|e| dims(w, e)).collect::<Vec<_>>().join(", ");
            if matches!(e, Py::List(_)) { format!("[{list}]") } else { format!("({list})") }
        }
        _ => w.inner(e),
    }
}

/// `text` with some of its identifiers replaced.
fn rename_in(text: &str, names: &HashMap<String, String>) -> String {
    let in_identifier = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| in_identifier(c) == in_identifier(first);
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        out += names.get(run).map_or(run, String::as_str);
        rest = after;
    }
    out
}

/// Returns true if TVM parses the type where it prints it.
pub(super) fn readable(e: &Py) -> bool {
    struct Strings(bool);
    impl Visitor<'_> for Strings {
        fn visit_expr(&mut self, e: &Py) {
            self.0 |= is_path(e, "I.StringType");
            walk_expr(self, e);
        }
    }
    let mut strings = Strings(false);
    strings.visit_expr(e);
    !strings.0
}

/// New names for the dimensions of a function that clash with the module's.
pub(super) fn clashes(
    def: &ast::StmtFunctionDef,
    symbols: &HashSet<String>,
) -> HashMap<String, String> {
    let mut renamed = HashMap::new();
    for stmt in &def.body {
        let Stmt::Assign(a) = stmt else { continue };
        let ([Py::Name(name)], Py::Call(call)) = (&a.targets[..], &*a.value) else { continue };
        let name = name.id.as_str();
        if is_path(&call.func, "T.int64") && call.arguments.is_empty() && symbols.contains(name) {
            let free = |n: &usize| !symbols.contains(&format!("{name}_{n}"));
            let n = (1..).find(free).unwrap_or(0);
            renamed.insert(name.to_string(), format!("{name}_{n}"));
        }
    }
    renamed
}
