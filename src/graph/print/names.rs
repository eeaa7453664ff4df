//! Unique, valid Python names for what a function calls its values and dimensions.

use std::collections::HashMap;

/// Names with another meaning in a script, Python's keywords among them.
const RESERVED: &[&str] = &[
    "T", "R", "I", "cls", "Module", "TypeVar", "metadata", "tvm", "False", "None", "True", "and",
    "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
    "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Names given so far in one function. None is given twice, whatever scopes there are.
#[derive(Default)]
pub(super) struct Names {
    /// Name to the number that the next collision with it tries first.
    used: HashMap<String, usize>,
}

impl Names {
    /// `hint`, made an identifier; `hint_1`, `hint_2`, ... when it is taken.
    pub fn fresh(&mut self, hint: &str) -> String {
        self.unique(&identifier(hint), "_")
    }

    /// A name for a value without a hint: `gv`, `gv1`, ...
    pub fn anonymous(&mut self) -> String {
        self.unique("gv", "")
    }

    fn unique(&mut self, base: &str, separator: &str) -> String {
        if !RESERVED.contains(&base) && !self.used.contains_key(base) {
            self.used.insert(base.to_string(), 1);
            return base.to_string();
        }
        let mut number = self.used.get(base).copied().unwrap_or(1);
        loop {
            let name = format!("{base}{separator}{number}");
            number += 1;
            if !self.used.contains_key(&name) {
                self.used.insert(base.to_string(), number);
                self.used.insert(name.clone(), 1);
                return name;
            }
        }
    }
}

/// The nearest Python identifier.
pub(super) fn identifier(hint: &str) -> String {
    let mut name: String =
        hint.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        name.insert(0, '_');
    }
    name
}
