//! Graph functions to bytecode: memory planning, the shape heap, checks, control flow.
//!
//! A function arrives after fusion: kernel calls, views, constants, `If`, canonical loops, tuples,
//! packed calls and shape matches. The result is an [`Executable`] as TVM's own compiler would
//! write it, and the small kernels that compute symbolic dimensions. Nothing here knows operators
//! or schedules.

mod checks;
mod control_flow;
mod emit;
mod memory_plan;
mod shape_heap;

use std::collections::HashSet;

use reflex_graph::{FuncData, Module};
use reflex_tir::PrimFunc;
use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::executable::Executable;

use crate::LowerError;

/// Bytecode and the kernels it needs in addition to the module's own.
pub struct Bytecode {
    /// The executable; kernels are packed functions by name.
    pub executable: Executable,
    /// `shape_func` kernels, in lowered form: they work on host memory, whatever the device.
    pub shape_funcs: Vec<PrimFunc>,
}

/// Emits every graph function of a module.
pub fn emit(module: &Module) -> Result<Bytecode, LowerError> {
    let mut names: HashSet<String> = module.funcs.values().map(|f| f.name().to_string()).collect();
    let (mut builder, mut shape_funcs) = (ExecBuilder::new(), vec![]);
    for func in module.funcs.values() {
        if let FuncData::Graph(func) = func {
            let mut emitter =
                emit::Emitter::new(module, func, &mut builder, &mut shape_funcs, &mut names);
            emitter.function()?;
        }
    }
    Ok(Bytecode { executable: builder.finish()?, shape_funcs })
}

impl From<BuildError> for LowerError {
    fn from(error: BuildError) -> LowerError {
        LowerError::internal(error.to_string())
    }
}
