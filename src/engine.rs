//! Engines: options, and loading models into programs.

#[cfg(feature = "compiler")]
mod compiling;

use reflex_runtime::library::Library;
use reflex_runtime::threads::THREAD_LIMIT;
use reflex_tir::codegen::Arch;
use reflex_tir::level::Level;

use crate::artifact::{loader, relay};
use crate::compiler::Compiler;
#[cfg(not(all(feature = "onnx", feature = "torch", feature = "script")))]
use crate::error::lacks;
use crate::error::{Error, ErrorKind, Result};
use crate::model_info::ModelInfo;
use crate::model_source::{ModelFormat, ModelSource};
use crate::options::{TargetDevice, devices};
use crate::program::Program;
use crate::tier_policy::TierPolicy;

/// Options of an [`Engine`].
#[must_use]
pub struct EngineBuilder {
    device: String,
    schedule_for: Option<String>,
    tier: Option<TierPolicy>,
    compiler: Compiler,
}

/// Loads models into programs.
#[derive(Clone)]
pub struct Engine {
    compiler: Compiler,
    /// Compiles the program for a GPU that is saved with one for CPUs.
    #[cfg(feature = "compiler")]
    companion: Option<Compiler>,
}

impl EngineBuilder {
    /// Sets the device that programs compute on: `cpu`, or a CUDA device such as `cuda:0`, which
    /// [`EngineBuilder::build`] opens. Inputs in host memory are copied to it; results stay there
    /// until they are read.
    ///
    /// `cuda:sm_80` and `cuda:sm_90a` name an architecture, and no device is needed: a program is
    /// compiled to be saved, and not run. `cpu,cuda:sm_80` compiles one for CPUs, which runs, and one for
    /// the GPU, which is saved with it.
    ///
    /// ```
    /// let error = reflex::Engine::builder().device("tpu").build().err().unwrap();
    /// assert_eq!(error.kind(), reflex::ErrorKind::Unsupported);
    /// ```
    pub fn device(mut self, device: &str) -> EngineBuilder {
        self.device = device.to_string();
        self
    }

    /// Sets the threads for parallel kernels, the caller's included. Default: 1.
    ///
    /// ```
    /// let engine = reflex::Engine::builder().threads(2).build()?;
    /// assert!(reflex::Engine::builder().threads(0).build().is_err());
    /// assert!(reflex::Engine::builder().threads(100_000).build().is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn threads(mut self, threads: usize) -> EngineBuilder {
        self.compiler.execution.threads = threads;
        self
    }

    /// CPU levels that models are compiled for, all in one program, of which the highest that
    /// this CPU has runs; of a library, only kernels of these levels are used. Default: models are
    /// compiled for this CPU with all its features, and of a library the best kernels run. A program
    /// for another architecture is saved here and runs there.
    ///
    /// ```
    /// use reflex::{Engine, Level};
    ///
    /// let engine = Engine::builder().levels(["v3".parse::<Level>().unwrap()]).build()?;
    /// engine.load("examples/softmax.py")?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn levels(mut self, levels: impl IntoIterator<Item = Level>) -> EngineBuilder {
        self.compiler.target.levels = levels.into_iter().collect();
        self
    }

    /// Sets the tier policy: when programs are compiled to machine code. Default: that of
    /// `REFLEX_TIER`.
    ///
    /// ```
    /// use reflex::{CompileMode, Engine, TierPolicy};
    ///
    /// let mut policy = TierPolicy::default();
    /// policy.compile_mode = CompileMode::Synchronous;
    /// let engine = Engine::builder().tier(policy).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn tier(mut self, policy: TierPolicy) -> EngineBuilder {
        self.tier = Some(policy);
        self
    }

    /// Checks the options and makes the engine.
    ///
    /// ```
    /// let engine = reflex::Engine::builder().threads(1).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn build(self) -> Result<Engine> {
        let mut compiler = self.compiler;
        let (device, companion) = match self.device.split_once(',') {
            Some(("cpu", gpu)) if gpu.starts_with("cuda") => ("cpu", Some(gpu)),
            _ => (self.device.as_str(), None),
        };
        compiler.target.device = TargetDevice::of(device)?;
        if compiler.target.device.is_none() {
            devices(device)?;
        }
        if let Some(gpu) = self.schedule_for {
            let gpu = gpu.parse().map_err(|why| Error::new(ErrorKind::Unsupported, why))?;
            compiler.target.schedule_for = Some(gpu);
        }
        if !(1..=THREAD_LIMIT).contains(&compiler.execution.threads) {
            let threads = compiler.execution.threads;
            let message = format!("{threads} threads: there can be 1 to {THREAD_LIMIT}");
            return Err(Error::input(message));
        }
        let levels = &compiler.target.levels;
        if let (Some(low), Some(high)) = (levels.first(), levels.last())
            && low.arch() != high.arch()
        {
            let message =
                format!("{low} and {high} are of two architectures; a library is for one");
            return Err(Error::input(message));
        }
        if levels.len() > 1 && levels.first().is_some_and(|level| level.arch() == Arch::Wasm32) {
            let message = "an artifact for WebAssembly has one level: a host refuses all of a module with \
                           instructions that it does not know";
            return Err(Error::input(message));
        }
        #[cfg(feature = "compiler")]
        compiler.execution.cubins.check()?;
        compiler.execution.policy = self.tier.map_or_else(TierPolicy::of_environment, Ok)?;
        let companion = companion.map(TargetDevice::of).transpose()?.flatten();
        Engine::of(compiler, companion)
    }
}

impl Engine {
    /// Makes an engine with the default options: the CPU, one thread.
    ///
    /// ```
    /// let engine = reflex::Engine::new()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn new() -> Result<Engine> {
        Engine::builder().build()
    }

    /// Returns the options of an engine, to be set.
    ///
    /// ```
    /// let engine = reflex::Engine::builder().threads(2).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn builder() -> EngineBuilder {
        let device = "cpu".to_string();
        EngineBuilder { device, schedule_for: None, tier: None, compiler: Compiler::default() }
    }

    #[cfg(feature = "compiler")]
    fn of(compiler: Compiler, companion: Option<TargetDevice>) -> Result<Engine> {
        let companion = companion.map(|device| compiler.for_companion(device));
        Ok(Engine { compiler, companion })
    }

    #[cfg(not(feature = "compiler"))]
    fn of(compiler: Compiler, companion: Option<TargetDevice>) -> Result<Engine> {
        match companion {
            None => Ok(Engine { compiler }),
            Some(_) => Err(lacks("compiler")),
        }
    }

    /// Loads a model: `.onnx`, `.pt2` (PyTorch), `.py` (TVMScript) and `.json` (nodes) are compiled, `.so` and `.ro` are opened. It is a
    /// path, or a [`ModelSource`] that holds the model in memory or names the files beside a `.ro`.
    ///
    /// Opening a `.so` runs machine code of its author's choice, as with any library.
    ///
    /// ```
    /// use reflex::{Engine, ErrorKind};
    ///
    /// let engine = Engine::new()?;
    /// let program = engine.load("examples/softmax.py")?;
    /// assert_eq!(engine.load("README.md").err().unwrap().kind(), ErrorKind::Unsupported);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn load(&self, model: impl Into<ModelSource>) -> Result<Program> {
        let source = model.into();
        let loaded = match source.format()? {
            #[cfg(feature = "compiler")]
            ModelFormat::Onnx
            | ModelFormat::Torch
            | ModelFormat::Script
            | ModelFormat::Nodes
            | ModelFormat::Relay => self.load_model(&source),
            #[cfg(not(feature = "compiler"))]
            ModelFormat::Onnx => Err(lacks("onnx")),
            #[cfg(not(feature = "compiler"))]
            ModelFormat::Torch => Err(lacks("torch")),
            #[cfg(not(feature = "compiler"))]
            ModelFormat::Script | ModelFormat::Relay => Err(lacks("script")),
            #[cfg(not(feature = "compiler"))]
            ModelFormat::Nodes => Err(lacks("reflect")),
            ModelFormat::Library => self.load_library(&source),
            ModelFormat::RelayExecutable => self.load_relay(&source),
        };
        loaded.map_err(|e| e.at(source))
    }

    /// Returns the interface and the operators of a model, without compiling or running any of
    /// it.
    ///
    /// ```
    /// let info = reflex::Engine::info("examples/softmax.py")?;
    /// assert_eq!(info.inputs[0].to_string(), "x: float32[m, n]");
    /// assert_eq!(info.operators, [("Softmax".to_owned(), 1)]);
    /// assert_eq!((info.parameters, info.parameter_bytes), (0, 0));
    /// assert!(info.file_bytes > 0 && info.metadata.is_empty());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn info(model: impl Into<ModelSource>) -> Result<ModelInfo> {
        let source = model.into();
        let read = || match source.format()? {
            #[cfg(feature = "onnx")]
            ModelFormat::Onnx => ModelInfo::of_onnx(&source),
            #[cfg(not(feature = "onnx"))]
            ModelFormat::Onnx => Err(lacks("onnx")),
            #[cfg(feature = "torch")]
            ModelFormat::Torch => ModelInfo::of_torch(&source),
            #[cfg(not(feature = "torch"))]
            ModelFormat::Torch => Err(lacks("torch")),
            #[cfg(not(feature = "script"))]
            ModelFormat::Script | ModelFormat::Relay | ModelFormat::Nodes => Err(lacks("script")),
            #[cfg(feature = "script")]
            ModelFormat::Script | ModelFormat::Relay | ModelFormat::Nodes => {
                let kind = match source.format()? {
                    ModelFormat::Relay => "Relay",
                    ModelFormat::Nodes => "nodes",
                    _ => "TVMScript",
                };
                Ok(ModelInfo::of_text(kind, &source, &source.import()?))
            }
            ModelFormat::Library => {
                let program = Engine::builder().build()?.load_library(&source)?;
                Ok(ModelInfo { file_bytes: source.size(), ..program.info() })
            }
            ModelFormat::RelayExecutable => {
                let program = Engine::builder().build()?.load_relay(&source)?;
                Ok(ModelInfo { file_bytes: source.size(), ..program.info() })
            }
        };
        read().map_err(|e| e.at(&source))
    }

    fn load_relay(&self, source: &ModelSource) -> Result<Program> {
        Ok(Program::new(relay::open(source, &self.compiler.execution)?, None))
    }

    fn load_library(&self, source: &ModelSource) -> Result<Program> {
        self.program_of(loader::open(source)?, source)
    }

    /// Returns the program of a library that was opened from `source`.
    pub(crate) fn program_of(&self, library: Library, source: &ModelSource) -> Result<Program> {
        let Compiler { target, execution, .. } = &self.compiler;
        Ok(Program::new(loader::load(library, source, target, execution)?, None))
    }
}
