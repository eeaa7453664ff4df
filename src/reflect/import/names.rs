//! Unique, valid Python names for variables.

use std::collections::{HashMap, HashSet};

use reflex_node::graph::NodeId;
use reflex_tir::script::{identifier, is_reserved};

/// Names with another meaning around functions.
const MODULE_NAMES: [&str; 4] = ["cls", "Module", "metadata", "tvm"];

/// Names in scope. A scope's names are free again when it is left.
#[derive(Default)]
pub(super) struct Names {
    scopes: Vec<HashSet<String>>,
    /// The number that the next collision with a name tries first.
    next: HashMap<String, usize>,
    of: HashMap<NodeId, String>,
}

impl Names {
    pub fn enter(&mut self) {
        self.scopes.push(HashSet::new());
    }

    pub fn leave(&mut self) {
        for name in self.scopes.pop().into_iter().flatten() {
            self.next.remove(&name);
        }
    }

    /// Names a variable: `hint`, made an identifier, or `hint_1`, `hint_2` and so on.
    pub fn define(&mut self, var: NodeId, hint: &str) -> String {
        let name = self.fresh(hint);
        self.of.insert(var, name.clone());
        name
    }

    /// The name of a variable.
    pub fn get(&self, var: NodeId) -> Option<&str> {
        self.of.get(&var).map(String::as_str)
    }

    fn fresh(&mut self, hint: &str) -> String {
        let base = identifier(hint);
        let is_free = |name: &str| {
            !is_reserved(name)
                && !MODULE_NAMES.contains(&name)
                && !self.scopes.iter().any(|scope| scope.contains(name))
        };
        let mut number = self.next.get(&base).copied().unwrap_or(0);
        let mut name = if number == 0 { base.clone() } else { format!("{base}_{number}") };
        while !is_free(&name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        self.next.insert(base, number);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone());
        }
        name
    }
}
