//! Engines: what compiles models, beyond opening programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex_graph::Module;
#[cfg(feature = "onnx")]
use reflex_graph::{Value, builder::FuncBuilder};
use reflex_lower::dispatch::Dispatch;
use reflex_lower::optimize_for::OptimizeFor;
use reflex_lower::pipeline::{self, WithoutCode};
#[cfg(feature = "onnx")]
use reflex_onnx::CustomNode;
use reflex_runtime::file_bytes::FileAccess;
use reflex_source::Dialect;
use reflex_tir::codegen::{Arch, Codegen};
use reflex_vm::executable::Executable;

use super::{Engine, EngineBuilder};
use crate::artifact::writer;
use crate::bound_dims;
use crate::compiler::Compiler;
use crate::dump;
use crate::error::{Error, Result};
use crate::model_source::import::OpenModel;
use crate::model_source::{ModelFormat, ModelSource};
use crate::operators::runs_foreign_code;
use crate::options::{Precision, Progress};
use crate::passes::Pipeline;
use crate::program::compiled::ObjectRetention;
use crate::program::loaded::LoadedProgram;
use crate::program::{PrintSource, Program};
use crate::schedule::Schedule;
use crate::specialise::Specialiser;
use crate::specialise::bind::bind_shapes;
use crate::specialise::profile::Shapes;
use crate::stored::{Entry, Found};
use crate::target::Target;
use crate::tier_policy::TierPolicy;

/// Options of models that are compiled.
impl EngineBuilder {
    /// Lets the CPU run kernels that have no code for the device, on copies of their tensors. A program
    /// lists them ([`Program::cpu_kernels`]). Without this, they are an error.
    ///
    /// ```
    /// let engine = reflex::Engine::builder().allow_cpu().build()?;
    /// assert!(engine.load("examples/softmax.py")?.cpu_kernels().is_empty(), "the CPU is the device");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn allow_cpu(mut self) -> EngineBuilder {
        self.compiler.without_code = WithoutCode::RunOnCpu;
        self
    }

    /// Sets the architectures, such as `sm_80`, `sm_86` and `sm_90`, that a program for a GPU is saved
    /// with machine code for, which `ptxas` makes: `REFLEX_PTXAS` names it, or it is on the path. A device takes
    /// the newest of its generation that is not newer than itself; all others compile the PTX, which takes
    /// seconds for a model. By default code for `sm_80` gets `sm_80` and `sm_90`, if there is a `ptxas`; none are made
    /// for an empty list.
    ///
    /// ```
    /// let engine = reflex::Engine::builder().device("cuda:sm_80").cubins(["sm_86", "sm_90"]).build()?;
    /// let error = reflex::Engine::builder().cubins(["hopper"]).build().err().unwrap();
    /// assert_eq!(error.to_string(), "\"hopper\" is no architecture of a GPU such as sm_90");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn cubins<'a>(mut self, archs: impl IntoIterator<Item = &'a str>) -> EngineBuilder {
        let archs = archs.into_iter().map(str::to_owned).collect();
        self.compiler.execution.cubins.archs = Some(archs);
        self
    }

    /// Sets the arithmetic of f32 matmuls and convolutions in models that are compiled;
    /// an artifact has its own.
    ///
    /// ```
    /// use reflex::{Engine, Precision};
    ///
    /// let engine = Engine::builder().precision(Precision::F32Fast).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn precision(mut self, precision: Precision) -> EngineBuilder {
        self.compiler.precision = precision;
        self
    }

    /// Sets the goal of models that are compiled, where speed and size differ: by default calls are as
    /// short as can be, and weights may take more bytes than the model's.
    ///
    /// ```
    /// use reflex::{Engine, OptimizeFor};
    ///
    /// let engine = Engine::builder().optimize_for(OptimizeFor::Size).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn optimize_for(mut self, goal: OptimizeFor) -> EngineBuilder {
        self.compiler.optimize_for = goal;
        self
    }

    /// Schedules kernels for a GPU, `cuda:sm_80` or `cuda:sm_90a`, and runs its threads one after the
    /// other on this CPU. This is how the schedules are tested; it is slow. An artifact has its own
    /// kernels.
    ///
    /// ```
    /// use reflex::Engine;
    ///
    /// let engine = Engine::builder().schedule_for("cuda:sm_80").build()?;
    /// engine.load("examples/softmax.py")?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn schedule_for(mut self, gpu: &str) -> EngineBuilder {
        self.schedule_for = Some(gpu.to_owned());
        self
    }

    /// Compiles functions for these shapes of their inputs ahead of time, in addition to any shape:
    /// calls with these shapes run code that is specialised for them, in every mode, and
    /// [`Program::save`] keeps it. May be called several times, once for each set of shapes.
    /// Dimensions of inputs that are not named, and that these leave open, stay symbolic.
    ///
    /// ```
    /// use reflex::Engine;
    ///
    /// let engine = Engine::builder().shapes([("x", vec![1, 2])]).shapes([("x", vec![8, 2])]);
    /// let program = engine.build()?.load("examples/softmax.py")?;
    /// assert_eq!(program.functions(), ["main"]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn shapes<N: Into<String>>(
        mut self,
        shapes: impl IntoIterator<Item = (N, Vec<i64>)>,
    ) -> EngineBuilder {
        let shapes = shapes.into_iter().map(|(name, shape)| (name.into(), shape));
        self.compiler.shapes.push(shapes.collect());
        self
    }

    /// Makes symbolic dimensions of inputs constants, by the names that [`Program::signature`] gives: free dimension
    /// overrides. A program is that of a model which says so itself: for these sizes alone, unlike with
    /// [`EngineBuilder::shapes`], compiled sooner, and specialised from the first call. A name that no input has is an error
    /// when a model is loaded.
    ///
    /// ```
    /// use reflex::Engine;
    ///
    /// let program = Engine::builder().dims([("m", 4)]).build()?.load("examples/softmax.py")?;
    /// assert_eq!(program.signature("main")?.inputs[0].to_string(), "x: float32[4, n]");
    /// let engine = Engine::builder().dims([("rows", 4)]).build()?;
    /// let error = engine.load("examples/softmax.py").err().unwrap();
    /// assert!(error.to_string().ends_with(r#"no input has a dimension named "rows"; there are m, n"#));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn dims<N: Into<String>>(
        mut self,
        dims: impl IntoIterator<Item = (N, i64)>,
    ) -> EngineBuilder {
        self.compiler
            .import
            .dims
            .extend(dims.into_iter().map(|(name, value)| (name.into(), value)));
        self
    }

    /// Sets the passes that compile models, their order and their options, with passes and instruments
    /// of the caller's. An artifact is compiled already. Programs with callbacks in their pipeline are
    /// not specialised for the shapes of calls, since that would run them in the background.
    ///
    /// ```
    /// use reflex::{Engine, Pipeline};
    ///
    /// let engine = Engine::builder().pipeline(Pipeline::named("minimal")?).build()?;
    /// let text = engine.dump_after("examples/softmax.py", "fold_constants").unwrap_err();
    /// assert!(text.to_string().contains("there are canonicalize_loops, fuse_operators"), "{text}");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn pipeline(mut self, pipeline: Pipeline) -> EngineBuilder {
        self.compiler.pipeline = pipeline;
        self
    }

    /// Sets what models are compiled for: the level of a CPU, the threads of its kernels, and the
    /// architecture of a GPU, for which a program is saved and not run ([`EngineBuilder::device`]). With a target that is
    /// text (`c`, `opencl`) kernels are printed ([`Engine::source`]), and a model that is loaded is an error.
    ///
    /// ```
    /// use reflex::{Engine, Target};
    ///
    /// let target: Target = "llvm -mcpu=x86-64-v3".parse()?;
    /// Engine::builder().target(&target).build()?.load("examples/softmax.py")?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn target(mut self, target: &Target) -> EngineBuilder {
        if let Some(gpu) = &target.gpu {
            self = self.device(gpu);
        }
        if let Some(threads) = target.cpu.threads {
            self = self.threads(threads);
        }
        self.compiler.text = target.dialect();
        self.levels(target.cpu.level)
    }

    /// Sets a callback for the progress of compilation.
    ///
    /// ```
    /// use reflex::{Engine, Progress};
    ///
    /// let progress = Progress::new(|stage, done, total| eprintln!("{stage}: {done} of {total}"));
    /// let engine = Engine::builder().progress(progress).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn progress(mut self, progress: Progress) -> EngineBuilder {
        self.compiler.execution.cubins.progress = progress.clone();
        self.compiler.progress = progress;
        self
    }

    /// Sets the folder of the kernel cache. Default: `$REFLEX_CACHE`, else a folder of the user's
    /// cache.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// let engine = reflex::Engine::builder().cache(folder.path()).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.compiler.cache = Some(folder.into());
        self
    }

    /// Sets whether the cache stores programs of models, beside their kernels, so that a later start runs no graph pass.
    /// Default: it does. A program that is saved anyway is its own copy.
    ///
    /// ```
    /// let engine = reflex::Engine::builder().store_programs(false).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn store_programs(mut self, store: bool) -> EngineBuilder {
        self.compiler.stores_no_programs = !store;
        self
    }

    /// Sets the way in which models' files are held. Default: they are read, so that whatever
    /// happens to them later changes nothing.
    ///
    /// ```
    /// use reflex::{Engine, FileAccess};
    ///
    /// // Nothing changes these files in place.
    /// let engine = Engine::builder().file_access(FileAccess::Map).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn file_access(mut self, access: FileAccess) -> EngineBuilder {
        self.compiler.import.access = access;
        self
    }

    /// Sets the import of an ONNX operator, in place of a built-in one if there is one: `import`
    /// writes what a node means with the builder of graph IR, as other operators or as the call of
    /// a packed function. An artifact of such a model needs the function wherever it is opened.
    ///
    /// ```
    /// use reflex::{Any, Array, Engine, Function, Mode, Tensor, register_global_func};
    ///
    /// // `y = x + step`, in the caller's own code.
    /// let plus = Function::new(|args| {
    ///     let x: Tensor = reflex_runtime::function::arg(args, 0)?;
    ///     let step: i64 = reflex_runtime::function::arg(args, 1)?;
    ///     let sum: Vec<f32> = x.to_vec()?.iter().map(|v: &f32| v + step as f32).collect();
    ///     Ok(Any::from(Tensor::from_slice(x.shape(), &sum)?))
    /// });
    /// register_global_func("example.plus", plus)?;
    /// let engine = Engine::builder()
    ///     .onnx_operator("com.example", "Plus", |b, node| {
    ///         let step = node.int("step").ok_or("a Plus without a step")?;
    ///         let like_x = b.tensor(node.input(0)?).clone();
    ///         Ok(node.call_packed(b, "example.plus", vec![step.into()], vec![like_x]))
    ///     })
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "onnx")]
    pub fn onnx_operator<F>(mut self, domain: &str, operator: &str, import: F) -> EngineBuilder
    where
        F: Fn(&mut FuncBuilder<'_>, &CustomNode<'_>) -> std::result::Result<Vec<Value>, String>
            + Send
            + Sync
            + 'static,
    {
        self.compiler.import.operators.insert(domain, operator, Arc::new(import));
        self
    }

    /// Sets a code generator to use instead of the `reflex-codegen` process.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use reflex_lower::codegen_process::ProcessCodegen;
    ///
    /// let codegen = ProcessCodegen::at("no/such/reflex-codegen".into());
    /// if let Ok(codegen) = codegen {
    ///     reflex::Engine::builder().codegen(Arc::new(codegen)).build()?;
    /// }
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn codegen(mut self, codegen: Arc<dyn Codegen>) -> EngineBuilder {
        self.compiler.codegen = Some(codegen);
        self
    }
}

/// Compiling models, and showing how.
impl Engine {
    /// Refuses a path that [`Program::save`] would refuse for this engine's programs, before a model is compiled.
    ///
    /// ```
    /// let error = reflex::Engine::new()?.check_save_path("softmax.dll").unwrap_err();
    /// assert!(error.to_string().ends_with("has a name that ends in .so"), "{error}");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn check_save_path(&self, path: impl AsRef<Path>) -> Result<()> {
        let level = self.compiler.target.levels.first();
        writer::check_name(path.as_ref(), level.map_or(Arch::HOST, |level| level.arch()))
    }

    /// The same engine with another pipeline.
    pub(crate) fn with_pipeline(&self, pipeline: Pipeline) -> Engine {
        let mut engine = self.clone();
        engine.compiler.pipeline = pipeline;
        engine
    }

    /// The same engine with a dispatch at the front of its pipeline.
    pub(crate) fn with_dispatch(&self, dispatch: Dispatch) -> Result<Engine> {
        let pipeline = self.compiler.pipeline.clone().dispatch(dispatch)?;
        Ok(self.with_pipeline(pipeline))
    }

    /// Returns why the kernels of models that are compiled are baseline: that of them which the kernel
    /// cache lacks is compiled by Cranelift. `None` if LLVM compiles them.
    ///
    /// ```
    /// use reflex::Engine;
    ///
    /// let engine = Engine::builder().tier("kernels=cranelift".parse()?).build()?;
    /// assert!(engine.baseline_reason().unwrap().ends_with("kernels=cranelift"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn baseline_reason(&self) -> Option<String> {
        self.compiler.baseline_reason()
    }

    /// Returns what compiles the kernels of models that are compiled, and when.
    ///
    /// ```
    /// use reflex::Engine;
    ///
    /// let engine = Engine::builder().tier("kernels=cranelift".parse()?).build()?;
    /// assert!(engine.kernels_note().starts_with("kernels are baseline"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn kernels_note(&self) -> String {
        self.compiler.kernels_note()
    }

    /// Returns why compiled kernels cannot be stored in the kernel cache, so that every start
    /// compiles them again; `None` if they can, or if the cache is switched off.
    ///
    /// ```
    /// let engine = reflex::Engine::builder().cache("README.md/no/folder").build()?;
    /// assert!(engine.cache_problem().unwrap().starts_with("README.md/no/folder: "));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn cache_problem(&self) -> Option<String> {
        self.compiler.cache_problem()
    }

    /// Returns the module as text after a pass of the pipeline. An unknown pass is an error that
    /// lists them.
    ///
    /// ```
    /// let engine = reflex::Engine::new()?;
    /// let error = engine.dump_after("examples/softmax.py", "no_pass").unwrap_err();
    /// let passes = error.to_string();
    /// assert!(passes.contains("fold_constants"), "{passes}");
    /// let text = engine.dump_after("examples/softmax.py", "fold_constants")?;
    /// assert!(text.contains("softmax"), "{text}");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn dump_after(&self, model: impl Into<ModelSource>, pass: &str) -> Result<String> {
        let source = model.into();
        let (module, options) = self.staged(&source, pass)?;
        dump::after(module, pass, &options, &self.compiler.pipeline).map_err(|e| e.at(source))
    }

    /// The module of a model, as the engine compiles it.
    fn import(&self, source: &ModelSource) -> Result<Module> {
        source.import_with(&self.compiler.import)
    }

    /// The module of a model, and the options of a pipeline that has the stage.
    fn staged(&self, source: &ModelSource, stage: &str) -> Result<(Module, pipeline::Options)> {
        source.check_is_module()?;
        let options = self.compiler.pipeline_options();
        let stages = pipeline::stages(&options.pipeline);
        if !stages.contains(&stage) {
            return Err(Error::input(format!(
                "no pass {stage:?}; there are {}",
                stages.join(", ")
            )));
        }
        Ok((self.import(source).map_err(|e| e.at(source))?, options))
    }

    /// Returns the nodes of a model as it was imported, in TVM's form ([`ir`](crate::ir)).
    ///
    /// ```
    /// use reflex::{Engine, ModelFormat, ModelSource, ir};
    ///
    /// let graph = Engine::nodes("examples/softmax.py")?;
    /// let saved = ModelSource::bytes(ModelFormat::Nodes, ir::save(&graph));
    /// assert_eq!(ir::first_mismatch(&graph, &Engine::nodes(saved)?), None);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    #[cfg(feature = "reflect")]
    pub fn nodes(model: impl Into<ModelSource>) -> Result<crate::ir::Graph> {
        let source = model.into();
        source.check_is_module()?;
        let nodes = || crate::ir::of_module(&source.import()?);
        nodes().map_err(|e| e.at(&source))
    }

    /// Returns the nodes of the module after a pass of the pipeline; after a pass of kernels, those of the
    /// kernels alone.
    ///
    /// ```
    /// use reflex::{Engine, ir};
    ///
    /// let engine = Engine::new()?;
    /// let (before, after) = (
    ///     Engine::nodes("examples/softmax.py")?,
    ///     engine.nodes_after("examples/softmax.py", "fuse_operators")?,
    /// );
    /// let mismatch = ir::first_mismatch(&before, &after).unwrap();
    /// assert!(mismatch.path.to_string().starts_with("<root>.functions["), "{mismatch}");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    #[cfg(feature = "reflect")]
    pub fn nodes_after(
        &self,
        model: impl Into<ModelSource>,
        pass: &str,
    ) -> Result<crate::ir::Graph> {
        let source = model.into();
        let (module, options) = self.staged(&source, pass)?;
        let module = dump::module_after(module, pass, &options, &self.compiler.pipeline);
        module.and_then(|module| crate::ir::of_module(&module)).map_err(|e| e.at(source))
    }

    /// Returns the module after one pass alone, with the options that the engine's pipeline has for it. A pass of
    /// kernels, `schedule` or `lower`, runs on all of them.
    ///
    /// ```
    /// use reflex::{Engine, ir};
    ///
    /// let module = ir::to_module(&Engine::nodes("examples/softmax.py")?)?;
    /// let legal = Engine::new()?.run_pass(module, "fuse_operators")?;
    /// assert!(legal.funcs.len() > 1, "the kernels of softmax");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn run_pass(&self, module: Module, pass: &str) -> Result<Module> {
        let options = self.compiler.pipeline_options();
        let mut made = Default::default();
        pipeline::run_one_pass(module, pass, &options, &mut made)
            .map_err(|e| Error::new(crate::error::ErrorKind::Compile, e.to_string()))
    }

    /// Returns the schedule of a kernel, to which primitives are applied by hand: the kernel as the graph
    /// passes leave it, before any rule. An unknown kernel is an error that lists them.
    ///
    /// ```
    /// let engine = reflex::Engine::new()?;
    /// let schedule = engine.schedule("examples/softmax.py", "softmax")?;
    /// assert!(schedule.as_text().contains("T.sblock"));
    /// assert!(engine.schedule("examples/softmax.py", "no_kernel").is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn schedule(&self, model: impl Into<ModelSource>, kernel: &str) -> Result<Schedule> {
        let source = model.into();
        source.check_is_module()?;
        let module = self.import(&source).map_err(|e| e.at(&source))?;
        let options = self.compiler.pipeline_options();
        let kernel = dump::kernel(module, kernel, &options).map_err(|e| e.at(source))?;
        Ok(Schedule::new(kernel))
    }

    /// Returns a text: of a script or Relay text as it was read, of another model TVMScript as it
    /// was imported.
    ///
    /// ```
    /// let text = reflex::Engine::script("examples/softmax.py")?;
    /// assert!(text.contains("R.nn.softmax"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn script(model: impl Into<ModelSource>) -> Result<String> {
        let source = model.into();
        source.check_is_module()?;
        let text = || match source.format()? {
            ModelFormat::Script => Ok(source.script()?.print()),
            ModelFormat::Relay => Ok(source.relay_text()?.to_string()),
            _ => Ok(reflex_graph::print::module_with_metadata(&source.import()?)),
        };
        text().map_err(|e: Error| e.at(&source))
    }

    /// Returns the schedule of a kernel of a model: the steps taken, and the rule of each stage.
    ///
    /// ```
    /// let engine = reflex::Engine::new()?;
    /// let error = engine.dump_schedule("examples/softmax.py", "no_kernel").unwrap_err();
    /// assert!(error.to_string().starts_with("examples/softmax.py: no kernel"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn dump_schedule(&self, model: impl Into<ModelSource>, kernel: &str) -> Result<String> {
        let source = model.into();
        source.check_is_module()?;
        let options = self.compiler.pipeline_options();
        let module = self.import(&source).map_err(|e| e.at(&source))?;
        dump::schedule(module, kernel, &options).map_err(|e| e.at(source))
    }

    /// Returns the PTX of a model's kernels, by name: of all, or of one. The engine schedules them
    /// for a GPU ([`EngineBuilder::schedule_for`]).
    ///
    /// ```
    /// use reflex::Engine;
    ///
    /// let engine = Engine::builder().schedule_for("cuda:sm_80").build()?;
    /// for (kernel, ptx) in engine.ptx("examples/softmax.py", None)? {
    ///     assert!(ptx.contains(".target sm_80"), "{kernel}");
    /// }
    /// assert!(Engine::new()?.ptx("examples/softmax.py", None).is_err(), "for which GPU?");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn ptx(
        &self,
        model: impl Into<ModelSource>,
        kernel: Option<&str>,
    ) -> Result<Vec<(String, String)>> {
        let source = model.into();
        source.check_is_module()?;
        let module = self.import(&source).map_err(|e| e.at(&source))?;
        self.compiler.ptx(module, kernel).map_err(|e| e.at(source))
    }

    /// Returns a model's kernels as text in a language, for a compiler of the caller's: all, or one. C has the
    /// entries that kernels have in artifacts; a kernel of CUDA or OpenCL has its grid in front. What a language cannot
    /// say is an error that names the kernel.
    ///
    /// ```
    /// use reflex::{Dialect, Engine};
    ///
    /// let engine = Engine::new()?;
    /// let c = engine.source("examples/softmax.py", Dialect::C, None)?;
    /// assert!(c.contains("int32_t __reflex_raw_softmax"));
    /// let cuda = engine.source("examples/softmax.py", Dialect::Cuda, Some("softmax"))?;
    /// assert!(cuda.contains("extern \"C\" __global__ void"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn source(
        &self,
        model: impl Into<ModelSource>,
        dialect: Dialect,
        kernel: Option<&str>,
    ) -> Result<String> {
        let source = model.into();
        source.check_is_module()?;
        let module = self.import(&source).map_err(|e| e.at(&source))?;
        self.compiler.source(module, dialect, kernel).map_err(|e| e.at(source))
    }

    /// Returns the assembly of a kernel of a model or of an artifact, which is read but not
    /// opened.
    ///
    /// ```
    /// let engine = reflex::Engine::new()?;
    /// let error = engine.assembly("examples/softmax.py", "no_kernel").unwrap_err();
    /// assert!(error.to_string().contains("there are"), "it lists the kernels");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn assembly(&self, model: impl Into<ModelSource>, kernel: &str) -> Result<String> {
        let source = model.into();
        if source.format()? != ModelFormat::Library {
            return self.load(source)?.assembly(kernel);
        }
        disassembly(&source.read()?, kernel).map_err(|e| e.at(source))
    }

    /// Compiles a module built in Rust, with the builder of the crate `reflex-graph`.
    ///
    /// ```
    /// use reflex::{Engine, Module};
    ///
    /// let error = Engine::new()?.compile(Module::default()).err().unwrap();
    /// assert_eq!(error.to_string(), "the executable defines no function");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn compile(&self, mut module: Module) -> Result<Program> {
        bound_dims::bind(&mut module, &self.compiler.import.dims)?;
        Ok(Program::new(self.compiler.compile(module, ObjectRetention::Keep)?, None))
    }

    /// Returns the program of an executable that was built by hand.
    pub(crate) fn link(&self, executable: Executable) -> Result<Program> {
        Ok(Program::new(self.compiler.link(executable)?, None))
    }

    pub(super) fn load_model(&self, source: &ModelSource) -> Result<Program> {
        let compiler = &self.compiler;
        compiler.check_runs()?;
        let entry = match &self.companion {
            None => Entry::of(source, compiler),
            Some(_) => None,
        };
        if let Some(found) = entry.as_ref().and_then(|entry| entry.find(source, compiler)) {
            let Found { lowered, signatures, model } = found;
            let model = Arc::new(model);
            let specialiser = self.specialiser(model.clone());
            let source = printer(compiler, &model, specialiser.is_some());
            let loaded = compiler.resume(lowered, signatures)?;
            return Ok(Program::new(loaded, specialiser).with_source(source));
        }
        let (model, module) = OpenModel::open(source, &compiler.import)?;
        let model = Arc::new(model);
        let again = |compiler| model.reopen().map(|module| (compiler, module));
        let companion = self.companion.as_ref().map(again).transpose()?;
        let alone = !compiler.pipeline.has_callbacks() && !runs_foreign_code(&module);
        let specialiser = alone.then(|| self.specialiser(model.clone())).flatten();
        let is_kept = specialiser.is_some();
        let source = alone.then(|| printer(compiler, &model, is_kept)).flatten();
        let stored = entry.filter(|_| !compiler.stores_no_programs);
        let store = stored.map(|entry| entry.store(model.clone()));
        let loaded = compiler.compile_to_store(module, ObjectRetention::Keep, store)?;
        let loaded = match companion {
            None => loaded,
            Some((compiler, module)) => {
                loaded.with_companion(compiler.compile(module, ObjectRetention::Keep)?)
            }
        };
        Ok(Program::new(loaded, specialiser).with_source(source))
    }

    /// The specialiser of a model whose compilation calls no code of the caller's.
    fn specialiser(&self, model: Arc<OpenModel>) -> Option<Arc<Specialiser>> {
        let policy = &self.compiler.execution.policy;
        // Specialised programs would hold their weights on the device again.
        let on_cpu = self.compiler.target.device.is_none();
        (policy.max_shapes > 0 && on_cpu)
            .then(|| specialiser(self.compiler.for_specialisation(), policy.clone(), model))
    }
}

#[cfg(feature = "disassembly")]
fn disassembly(library: &[u8], kernel: &str) -> Result<String> {
    crate::disassemble::library(library, kernel)
}

#[cfg(not(feature = "disassembly"))]
fn disassembly(_: &[u8], _: &str) -> Result<String> {
    Err(crate::error::lacks("disassembly"))
}

/// Returns what prints the kernels of `model`, which is imported anew for each text. The bytes of a model in memory are
/// not kept for it alone.
fn printer(compiler: &Compiler, model: &Arc<OpenModel>, is_kept: bool) -> Option<PrintSource> {
    if !is_kept && !model.is_in_files() {
        return None;
    }
    let (compiler, model) = (compiler.clone(), model.clone());
    Some(Arc::new(move |language| {
        let dialect = language.parse().map_err(|e: String| Error::input(e))?;
        compiler.source(model.reopen()?, dialect, None)
    }))
}

/// Returns the specialiser of `model`, which is imported anew for each set of shapes.
fn specialiser(compiler: Compiler, policy: TierPolicy, model: Arc<OpenModel>) -> Arc<Specialiser> {
    let compile = move |func: &str, shapes: &Shapes, general: &LoadedProgram| {
        let mut module = model.reopen().map_err(|e| e.to_string())?;
        bind_shapes(&mut module, func, shapes)?;
        let module = Module { pool: general.constants(), ..module };
        compiler.compile(module, ObjectRetention::Discard).map_err(|e| e.to_string())
    };
    Arc::new(Specialiser::new(policy, Arc::new(compile)))
}
