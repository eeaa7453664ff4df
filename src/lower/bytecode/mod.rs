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

use reflex_graph::{FuncData, Module, Node};
use reflex_tir::PrimFunc;
use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::executable::Executable;
use reflex_vm::verify::{Fault, VerifyError};

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
    let executable = builder.finish().map_err(|error| refused(module, error))?;
    Ok(Bytecode { executable, shape_funcs })
}

/// The error of bytecode that the verifier refuses: the program's, where it calls what is refused by name, or else ours.
fn refused(module: &Module, error: BuildError) -> LowerError {
    let BuildError::Verify(VerifyError { faults }) = &error else { return error.into() };
    let mut called = HashSet::new();
    for func in module.funcs.values() {
        let FuncData::Graph(func) = func else { continue };
        func.body.walk(&mut |binding| {
            if let Node::CallPacked { name, .. } = &binding.node {
                called.insert(format!("`{name}`"));
            }
        });
    }
    let of_program =
        |fault: &Fault| called.iter().any(|name| fault.reason.starts_with(name.as_str()));
    match faults.iter().all(of_program) {
        true => {
            let reasons: Vec<&str> = faults.iter().map(|fault| fault.reason.as_str()).collect();
            LowerError::unsupported(format!("calls of the program: {}", reasons.join("; ")))
        }
        false => error.into(),
    }
}

impl From<BuildError> for LowerError {
    fn from(error: BuildError) -> LowerError {
        LowerError::internal(error.to_string())
    }
}
