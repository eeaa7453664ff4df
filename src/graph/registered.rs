//! Operators registered from outside: a name, an inference rule, an implementation and a fusion kind.
//!
//! The table of [`crate::Op`] is closed; [`Op::Registered`](crate::Op::Registered) is its one open row. What
//! passes need of such an operator (types, kernel) is made when a call of it is built and is part of the
//! call. So no pass and no verifier runs code of the caller's, and a program that was compiled calls none of
//! it but packed functions.
//!
//! The registry is the process's, as that of packed functions: texts name operators, and a text means the same
//! wherever it is read. An operator that was registered stays as it is.
//!
//! Decision: docs/decisions/0079-operators-from-outside.md

mod call;
mod definition;
mod kernel;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

pub use crate::registered_op::{AttrKind, AttrValue, FusionKind, RegisteredCode, RegisteredOp};
pub use call::CallTypes;
pub use definition::OpDef;

static OPERATORS: RwLock<BTreeMap<String, Arc<OpDef>>> = RwLock::new(BTreeMap::new());

/// Registers an operator. A name that is taken or not of the form `SPACE.NAME`, and a definition without
/// inference or implementation, are refused.
pub fn register(def: OpDef) -> Result<(), String> {
    def.check()?;
    let mut operators = OPERATORS.write();
    if operators.contains_key(def.name()) {
        return Err(format!("operator {:?} is registered already", def.name()));
    }
    operators.insert(def.name().to_owned(), Arc::new(def));
    Ok(())
}

/// The operator of a name, with or without `relax.` before it.
pub fn find(name: &str) -> Option<Arc<OpDef>> {
    let name = name.strip_prefix("relax.").unwrap_or(name);
    OPERATORS.read().get(name).cloned()
}

/// The names of all operators.
pub fn names() -> Vec<String> {
    OPERATORS.read().keys().cloned().collect()
}

#[cfg(test)]
mod tests;
