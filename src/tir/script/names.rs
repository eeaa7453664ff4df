//! Unique, valid Python names for what a function calls its parts.

use std::collections::HashSet;

/// Names in scope. A scope's names are free again when it is left.
#[derive(Default)]
pub(super) struct Names {
    used: Vec<HashSet<String>>,
}

/// Names with another meaning in a script, Python's keywords among them.
const RESERVED: &[&str] = &[
    "T", "R", "I", "False", "None", "True", "and", "as", "assert", "async", "await", "break",
    "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from",
    "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
    "range", "return", "try", "while", "with", "yield", "TypeVar",
];

impl Names {
    pub fn enter(&mut self) {
        self.used.push(HashSet::new());
    }

    pub fn leave(&mut self) {
        self.used.pop();
    }

    /// `hint`, made an identifier, or `hint_1`, `hint_2`, ... if that is taken.
    pub fn fresh(&mut self, hint: &str) -> String {
        let base = identifier(hint);
        let mut name = base.clone();
        let mut number = 0;
        while RESERVED.contains(&name.as_str()) || self.used.iter().any(|s| s.contains(&name)) {
            number += 1;
            name = format!("{base}_{number}");
        }
        self.used.last_mut().expect("a scope is open").insert(name.clone());
        name
    }
}

/// Whether a name means something else in a script.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The nearest Python identifier.
pub fn identifier(hint: &str) -> String {
    let mut name: String =
        hint.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        name.insert(0, '_');
    }
    name
}
