//! The module of a program.

use std::sync::Arc;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{self, Function};
use reflex_runtime::module::{Functions, Module};
use reflex_runtime::value::{Any, AnyView};

use super::kinds;
use super::stateful::StatefulModule;
use super::virtual_machine::VirtualMachine;
use crate::error::Error;
use crate::options::{Mode, SessionOptions};
use crate::program::Program;

/// The name of the function that TVM's factories of models call the only model of a library.
const DEFAULT: &str = "default";

/// The module of a loaded program.
pub(super) struct ExecutableModule {
    program: Program,
    mode: Mode,
}

impl ExecutableModule {
    pub(super) fn new(program: Program, mode: Mode) -> ExecutableModule {
        ExecutableModule { program, mode }
    }

    /// The function of the program that a factory of this name makes modules of.
    fn model(&self, name: &str) -> Option<String> {
        let functions = self.program.functions();
        let known = |name: &str| functions.iter().any(|known| known == name);
        match name {
            name if known(name) => Some(name.to_owned()),
            DEFAULT if known("main") => Some("main".to_owned()),
            DEFAULT if functions.len() == 1 => functions.first().cloned(),
            _ => None,
        }
    }
}

impl Functions for ExecutableModule {
    fn kind(&self) -> &str {
        kinds::EXECUTABLE
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Raised> {
        let (program, mode) = (self.program.clone(), self.mode);
        Ok(match name {
            "vm_load_executable" => Some(Function::new(move |args| {
                let mode = match args.first().and_then(|name| name.as_str()) {
                    Some(name) => name.parse().map_err(|e: String| Raised::value_error(e))?,
                    None => mode,
                };
                Ok(Module::new(VirtualMachine::open(&program, mode)?).into())
            })),
            "stats" => Some(Function::new(move |_| Ok(Any::from(&*program.stats())))),
            "as_text" => Some(Function::new(move |_| Ok(Any::from(&*program.as_text())))),
            "as_python" => Some(Function::new(move |_| Ok(Any::from(&*program.as_python())))),
            name => self.model(name).map(|func| factory(program, mode, func.into())),
        })
    }

    /// Kernels by the name of a language, or the bytecode.
    fn source(&self, format: &str) -> String {
        match format {
            "c" | "cuda" | "cl" | "opencl" => self.program.source(format).unwrap_or_default(),
            _ => self.program.as_text(),
        }
    }
}

/// `(device...)`: a module that keeps the inputs and outputs of `func` in place, on the first of the
/// devices, or that of the program.
fn factory(program: Program, mode: Mode, func: Arc<str>) -> Function {
    Function::new(move |args| {
        let mut options = SessionOptions::new(mode);
        if !args.is_empty() {
            options = options.device(&devices(args)?);
        }
        let session = program.open(&options).map_err(|e: Error| e.to_object())?;
        Ok(Module::new(StatefulModule::new(&program, session, &func)?).into())
    })
}

/// Devices as text.
fn devices(args: &[AnyView<'_>]) -> Result<String, Raised> {
    let name = |at| match function::arg::<DLDevice>(args, at)? {
        // One CPU is any of them.
        DLDevice { device_type: DLDevice::KIND_CPU, .. } if args.len() == 1 => Ok("cpu".to_owned()),
        device => Ok(device.to_string()),
    };
    let names: Result<Vec<String>, Raised> = (0..args.len()).map(name).collect();
    Ok(names?.join(","))
}
