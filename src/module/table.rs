//! Modules of functions that a host lists, such as what an external code generator gives.

use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::Function;
use reflex_runtime::module::{Functions, Module};

/// Functions by name.
struct FunctionTable {
    kind: String,
    functions: Vec<(String, Function)>,
    bytes: Option<Vec<u8>>,
}

impl Functions for FunctionTable {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Raised> {
        let found = self.functions.iter().find(|(known, _)| known == name);
        Ok(found.map(|(_, function)| function.clone()))
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        self.bytes.clone()
    }
}

/// A module of these functions. With bytes it can be saved in an artifact, and the global function
/// `ffi.Module.load_from_bytes.KIND` makes it again.
pub(crate) fn module(
    kind: &str,
    functions: Vec<(String, Function)>,
    bytes: Option<Vec<u8>>,
) -> Module {
    Module::new(FunctionTable { kind: kind.to_owned(), functions, bytes })
}
