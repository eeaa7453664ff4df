//! Attributes of functions, loops and blocks, from text.

use std::collections::BTreeMap;

use ruff_python_ast::{self as ast, Expr as Py};

use super::parse::{Parser, Read, path, scalar_type};
use super::print::string;

/// A text as the value of an attribute or annotation, kept apart from the number or truth value that it
/// looks like.
pub(crate) fn text_attribute(text: &str) -> String {
    let looks_bare = text.parse::<i64>().is_ok() || ["True", "False"].contains(&text);
    match looks_bare || text.starts_with('"') {
        true => string(text),
        false => text.to_string(),
    }
}

impl Parser<'_> {
    /// The attributes of a function, but for the target, which is checked.
    pub fn func_attrs(&self, e: &Py) -> Read<BTreeMap<String, String>> {
        let Py::Dict(dict) = e else { return Err(self.unsupported(e)) };
        let mut own = dict.clone();
        own.items.retain(|item| !item.key.as_ref().is_some_and(|key| is_text(key, &["target"])));
        for item in &dict.items {
            if item.key.as_ref().is_some_and(|key| is_text(key, &["target"])) {
                self.target(&item.value)?;
            }
        }
        self.dict(&Py::Dict(own))
    }

    /// The target that TVM lowered a kernel for; only a CPU is accepted.
    fn target(&self, e: &Py) -> Read<()> {
        const KINDS: [&str; 2] = ["llvm", "c"];
        let Py::Call(call) = e else { return Err(self.unsupported(e)) };
        let cpu = match &call.arguments.args[..] {
            [Py::Dict(fields)] => fields.items.iter().any(|item| {
                item.key.as_ref().is_some_and(|key| is_text(key, &["kind"]))
                    && is_text(&item.value, &KINDS)
            }),
            [kind] => is_text(kind, &KINDS),
            _ => false,
        };
        match cpu && path(&call.func).as_deref() == Some("T.target") {
            true => Ok(()),
            false => Err(self.unsupported(e)),
        }
    }

    /// `{"key": value}` of attributes and annotations.
    pub fn dict(&self, e: &Py) -> Read<BTreeMap<String, String>> {
        let Py::Dict(dict) = e else { return Err(self.unsupported(e)) };
        let mut out = BTreeMap::new();
        for item in &dict.items {
            let Some(Py::StringLiteral(key)) = &item.key else { return Err(self.unsupported(e)) };
            out.insert(key.value.to_str().to_string(), self.attribute(&item.value)?);
        }
        Ok(out)
    }

    fn attribute(&self, e: &Py) -> Read<String> {
        Ok(match e {
            Py::StringLiteral(s) => text_attribute(s.value.to_str()),
            Py::BooleanLiteral(b) => if b.value { "True" } else { "False" }.to_string(),
            Py::NumberLiteral(n) => match &n.value {
                ast::Number::Int(i) => i.to_string(),
                _ => return Err(self.unsupported(e)),
            },
            Py::UnaryOp(u) if u.op == ast::UnaryOp::USub => {
                format!("-{}", self.attribute(&u.operand)?)
            }
            Py::Call(call) if path(&call.func).is_some_and(|p| scalar_type(&p).is_some()) => {
                match &call.arguments.args[..] {
                    [one @ (Py::NumberLiteral(_) | Py::BooleanLiteral(_))] => {
                        self.attribute(one)?
                    }
                    _ => return Err(self.unsupported(e)),
                }
            }
            _ => return Err(self.unsupported(e)),
        })
    }
}

/// Whether this is one of these strings.
fn is_text(e: &Py, texts: &[&str]) -> bool {
    e.as_string_literal_expr().is_some_and(|s| texts.contains(&s.value.to_str()))
}
