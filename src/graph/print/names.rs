//! Unique, valid Python names for what a function calls its values and dimensions.

use std::collections::HashMap;

use reflex_tir::script::{identifier, is_reserved};

/// Names with another meaning around functions.
const MODULE_NAMES: [&str; 4] = ["cls", "Module", "metadata", "tvm"];

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
        let reserved = is_reserved(base) || MODULE_NAMES.contains(&base);
        if !reserved && !self.used.contains_key(base) {
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
