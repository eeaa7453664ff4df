//! From the tree to operations: names become registers and offsets, functions are inlined.

mod arith;
mod asynchronous;
mod compare;
mod context;
mod control;
mod matrix;
mod memory;
mod modifiers;
mod operand;

use crate::op::Kernel;
use crate::parse::error::{ParseError, Position};
use crate::parse::tree::{Tree, Variable};

use context::Context;

/// A variable of a module.
#[derive(Clone, Debug)]
pub struct ModuleVariable {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Its initial value; empty for zeros.
    pub init: Vec<u8>,
    /// Whether it is constant.
    pub constant: bool,
}

/// The contents of a module after decoding.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    /// The target, such as `sm_80`.
    pub target: String,
    /// Kernels.
    pub kernels: Vec<Kernel>,
    /// Variables in global and constant memory.
    pub variables: Vec<ModuleVariable>,
}

/// Decodes all kernels of a module.
pub fn decode(tree: &Tree<'_>) -> Result<Decoded, ParseError> {
    if tree.version.is_empty() || tree.target.is_empty() {
        return Err(ParseError::new(Position::default(), "no .version and .target"));
    }
    let in_memory = |v: &&Variable<'_>| v.space != ".shared";
    let mut decoded = Decoded { target: tree.target.to_owned(), ..Decoded::default() };
    for variable in tree.variables.iter().filter(in_memory) {
        let size = variable.size.ok_or_else(|| {
            ParseError::new(variable.position, format!("{} has no size", variable.name))
        })?;
        decoded.variables.push(ModuleVariable {
            name: variable.name.to_owned(),
            size,
            init: variable.init.clone(),
            constant: variable.space == ".const",
        });
    }
    for function in tree.functions.iter().filter(|f| f.entry) {
        decoded.kernels.push(Context::new(tree).kernel(function)?);
    }
    Ok(decoded)
}
