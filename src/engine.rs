//! Engines: options, and loading models into programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex_graph::Module;
use reflex_graph::script::Script;
use reflex_lower::pipeline;
use reflex_tir::codegen::{Codegen, Target};
use reflex_tir::level::Level;

use crate::artifact::loader;
use crate::compiler::Compiler;
use crate::error::{Error, Result};
use crate::model_file::{self, Format, ModelFile};
use crate::model_info::ModelInfo;
use crate::options::{ExecutionOptions, Precision, Progress, TargetSelection, check_device};
use crate::program::Program;
use crate::program::compiled::ObjectRetention;
use crate::program::loaded::LoadedProgram;
use crate::specialise::Specialiser;
use crate::specialise::bind::bind_shapes;
use crate::specialise::profile::Shapes;
use crate::tier_policy::TierPolicy;
use crate::{disassemble, dump};

/// Options of an [`Engine`].
#[must_use]
pub struct EngineBuilder {
    device: String,
    tier: Option<TierPolicy>,
    compiler: Compiler,
}

/// Loads models into programs.
#[derive(Clone)]
pub struct Engine {
    compiler: Compiler,
}

impl EngineBuilder {
    /// Where programs run. There is only `cpu`.
    pub fn device(mut self, device: &str) -> EngineBuilder {
        self.device = device.to_string();
        self
    }

    /// Threads for parallel kernels, the caller's included. Default: 1.
    pub fn threads(mut self, threads: usize) -> EngineBuilder {
        self.compiler.execution.threads = threads;
        self
    }

    /// Arithmetic of f32 products in models that are compiled; a library has its own.
    pub fn precision(mut self, precision: Precision) -> EngineBuilder {
        self.compiler.precision = precision;
        self
    }

    /// CPU levels that models are compiled for, all in one program, of which the highest that
    /// this CPU has runs; of a library, only kernels of these levels are used. Default: models are
    /// compiled for this CPU with all its features, and of a library the best kernels run.
    pub fn levels(mut self, levels: impl IntoIterator<Item = Level>) -> EngineBuilder {
        self.compiler.target.levels = levels.into_iter().collect();
        self
    }

    /// Told of compilation's progress.
    pub fn progress(mut self, progress: Progress) -> EngineBuilder {
        self.compiler.progress = progress;
        self
    }

    /// Folder of the kernel cache. Default: `$REFLEX_CACHE`, else below the user's cache folder.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.compiler.cache = Some(folder.into());
        self
    }

    /// A code generator to use instead of the `reflex-codegen` process.
    pub fn codegen(mut self, codegen: Arc<dyn Codegen>) -> EngineBuilder {
        self.compiler.codegen = Some(codegen);
        self
    }

    /// When programs become machine code. Default: what `REFLEX_TIER` says, or the usual policy.
    pub fn tier(mut self, policy: TierPolicy) -> EngineBuilder {
        self.tier = Some(policy);
        self
    }

    /// Checks the options.
    pub fn build(self) -> Result<Engine> {
        check_device(&self.device)?;
        let mut compiler = self.compiler;
        if compiler.execution.threads == 0 {
            return Err(Error::input("threads must be at least 1"));
        }
        compiler.execution.policy = self.tier.map_or_else(TierPolicy::of_environment, Ok)?;
        Ok(Engine { compiler })
    }
}

impl Engine {
    /// An engine with the default options: the CPU, one thread.
    pub fn new() -> Result<Engine> {
        Engine::builder().build()
    }

    /// An engine with options.
    pub fn builder() -> EngineBuilder {
        let host = Target::host();
        let compiler = Compiler {
            precision: Precision::default(),
            target: TargetSelection { host, levels: Default::default() },
            execution: ExecutionOptions { threads: 1, policy: TierPolicy::default() },
            progress: Progress::silent(),
            cache: None,
            codegen: None,
        };
        EngineBuilder { device: "cpu".to_string(), tier: None, compiler }
    }

    /// Loads a model: `.onnx` and `.py` (TVMScript) are compiled, `.so` is opened.
    ///
    /// Opening a `.so` runs machine code of its author's choice, as with any library.
    pub fn load(&self, path: &Path) -> Result<Program> {
        let loaded = match Format::of(path)? {
            Format::Onnx | Format::Script => self.load_model(path),
            Format::Library => self.load_library(path),
        };
        loaded.map_err(|e| e.at(path.display()))
    }

    /// What a model is, without compiling or running any of it.
    pub fn info(path: &Path) -> Result<ModelInfo> {
        match Format::of(path)? {
            Format::Onnx => ModelInfo::of_onnx(path),
            Format::Script => Ok(ModelInfo::of_script(&model_file::import(path)?)),
            Format::Library => {
                let engine = Engine::builder().build()?;
                Ok(engine.load_library(path).map_err(|e| e.at(path.display()))?.info())
            }
        }
    }

    /// The module as text after a pass of the pipeline.
    pub fn dump_after(&self, path: &Path, pass: &str) -> Result<String> {
        model_file::check_is_module(path)?;
        let stages = pipeline::stages();
        if !stages.contains(&pass) {
            return Err(Error::input(format!("no pass {pass:?}; there are {}", stages.join(", "))));
        }
        let options = self.compiler.pipeline_options();
        dump::after(model_file::import(path)?, pass, &options).map_err(|e| e.at(path.display()))
    }

    /// TVMScript: a script as it was read, before anything is rewritten, or a model as it was
    /// imported.
    pub fn script(path: &Path) -> Result<String> {
        model_file::check_is_module(path)?;
        match Format::of(path)? {
            Format::Script => Ok(Script::read_file(path)?.print()),
            _ => Ok(reflex_graph::print::module_with_metadata(&model_file::import(path)?)),
        }
    }

    /// How a kernel of a model is scheduled.
    pub fn dump_schedule(&self, path: &Path, kernel: &str) -> Result<String> {
        model_file::check_is_module(path)?;
        let options = self.compiler.pipeline_options();
        dump::schedule(model_file::import(path)?, kernel, &options)
            .map_err(|e| e.at(path.display()))
    }

    /// Assembly of a kernel of a model, or of a compiled library, which is read but not opened.
    pub fn assembly(&self, path: &Path, kernel: &str) -> Result<String> {
        if Format::of(path)? != Format::Library {
            return self.load(path)?.assembly(kernel);
        }
        let data = std::fs::read(path).map_err(|e| Error::io(path, &e))?;
        disassemble::library(&data, kernel).map_err(|e| e.at(path.display()))
    }

    /// Compiles a module built in Rust.
    pub fn compile(&self, module: Module) -> Result<Program> {
        Ok(Program::new(self.compiler.compile(module, ObjectRetention::Keep)?, None))
    }

    fn load_model(&self, path: &Path) -> Result<Program> {
        let (file, module) = ModelFile::open(path)?;
        let policy = &self.compiler.execution.policy;
        let specialiser = (policy.max_shapes > 0)
            .then(|| specialiser(self.compiler.for_specialisation(), policy.clone(), file));
        let loaded = self.compiler.compile(module, ObjectRetention::Keep)?;
        Ok(Program::new(loaded, specialiser))
    }

    fn load_library(&self, path: &Path) -> Result<Program> {
        let Compiler { target, execution, .. } = &self.compiler;
        Ok(Program::new(loader::open(path, target, execution)?, None))
    }
}

/// Returns the specialiser of the model in `file`, which is imported anew for each set of shapes.
fn specialiser(compiler: Compiler, policy: TierPolicy, file: ModelFile) -> Arc<Specialiser> {
    let compile = move |func: &str, shapes: &Shapes, general: &LoadedProgram| {
        let mut module = file.reopen().map_err(|e| e.to_string())?;
        bind_shapes(&mut module, func, shapes)?;
        let module = Module { pool: general.constants(), ..module };
        compiler.compile(module, ObjectRetention::Discard).map_err(|e| e.to_string())
    };
    Arc::new(Specialiser::new(policy, Arc::new(compile)))
}
