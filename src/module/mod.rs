//! Modules as values: programs, sessions, stateful models and libraries, with their functions by name.
//!
//! They are tvm-ffi's `ffi.Module`, so TVM's Python package calls them as its own, and RPC clients of a
//! server too.
//!
//! Decision: docs/decisions/0072-modules.md

mod executable;
mod kinds;
mod library;
mod stateful;
pub(crate) mod table;
mod virtual_machine;

use reflex_runtime::module::Module;

use crate::artifact::loader;
use crate::engine::Engine;
use crate::error::Result;
use crate::model_source::{ModelFormat, ModelSource};
use crate::options::Mode;
use crate::program::Program;

impl Program {
    /// Returns the program as a module, whose sessions run in `mode`.
    ///
    /// Its functions are `vm_load_executable`, which gives a module with the functions of TVM's virtual
    /// machine, `as_text`, `stats`, and one for each function of the program: called with a device, it
    /// gives a module that keeps inputs and outputs in place, with `set_input`, `run` and `get_output`.
    ///
    /// ```
    /// use reflex::{Any, Engine, Imports, Mode, RuntimeModule, Tensor};
    ///
    /// let module = Engine::new()?.load("examples/softmax.py")?.module(Mode::Tiered);
    /// let model = RuntimeModule::try_from(module.require("main")?.call(&[])?)?;
    /// let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// model.require("set_input")?.call(&[Any::from("x").view(), x.view()])?;
    /// model.require("run")?.call(&[])?;
    /// let y = Tensor::try_from(model.require("get_output")?.call(&[0_i64.into()])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn module(&self, mode: Mode) -> Module {
        let module = Module::new(executable::ExecutableModule::new(self.clone(), mode));
        for import in self.imported_modules() {
            module.import(import).expect("a module that was just made is no import of another one");
        }
        module
    }
}

impl Engine {
    /// Loads a file as a module: a model as [`Program::module`] gives it, or a shared library without a
    /// program, whose packed functions are those of the module.
    ///
    /// Opening a library runs machine code of its author's choice.
    ///
    /// ```
    /// use reflex::{Engine, Mode};
    ///
    /// let module = Engine::new()?.load_module("examples/softmax.py", Mode::Tiered)?;
    /// assert_eq!(module.kind()?, "relax.VMExecutable");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load_module(&self, model: impl Into<ModelSource>, mode: Mode) -> Result<Module> {
        let source = model.into();
        if source.format()? != ModelFormat::Library {
            return Ok(self.load(source)?.module(mode));
        }
        let open = || {
            let library = loader::open(&source)?;
            match loader::has_program(&library) {
                true => Ok(self.program_of(library, &source)?.module(mode)),
                false => library::module(&library),
            }
        };
        open().map_err(|e| e.at(&source))
    }
}
