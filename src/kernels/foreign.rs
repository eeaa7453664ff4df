//! Kernels for another architecture, which a program that is compiled here and saved for there has.

use std::collections::HashSet;

use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_tir::codegen::{Arch, ObjectFile};
use reflex_vm::load::Library;

/// Names of kernels that this process cannot run: a program links to them, and a call of one is an error.
pub(crate) struct ForeignKernels {
    names: HashSet<String>,
    why: String,
}

impl ForeignKernels {
    /// Those of objects, by their names without `suffix`.
    pub(crate) fn of(objects: &[ObjectFile], suffix: &str, arch: Option<Arch>) -> ForeignKernels {
        let name = |object: &ObjectFile| {
            let name = &object.signature.name;
            name.strip_suffix(suffix).unwrap_or(name).to_owned()
        };
        ForeignKernels { names: objects.iter().map(name).collect(), why: obstacle(arch) }
    }
}

impl Library for ForeignKernels {
    fn function(&self, name: &str) -> Option<Function> {
        let text = format!("{name}: {}", self.names.get(name).map(|_| &self.why)?);
        Some(Function::new(move |_| Err(Error::runtime_error(text.as_str()))))
    }
}

/// Why no session runs kernels for an architecture.
pub(crate) fn obstacle(arch: Option<Arch>) -> String {
    let of = arch.map_or("another architecture".to_owned(), |arch| arch.to_string());
    format!("compiled for {of}, and this process is one for {}", Arch::HOST)
}
