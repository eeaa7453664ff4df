//! Loads models: what is common to all programs of a process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use reflex_graph::Module;
use reflex_graph::script::Script;
use reflex_lower::codegen_process::ProcessCodegen;
use reflex_lower::compile::{self, Toolchain};
use reflex_lower::kernel_cache::{self, KernelCache};
use reflex_lower::{pipeline, precision};
use reflex_runtime::alloc::heap;
use reflex_runtime::library::Library;
use reflex_tir::codegen::{Codegen, Target};
use reflex_tir::level::Level;

use crate::error::{Error, ErrorKind, Result};
use crate::options::check_device;
use crate::program::{Program, Purpose};
use crate::specialise::Specialiser;
use crate::{ModelInfo, Precision, Progress, Signature, TierPolicy, artifact, disassemble, dump};

/// Options of an [`Engine`].
pub struct EngineBuilder {
    device: String,
    threads: usize,
    precision: Precision,
    levels: BTreeSet<Level>,
    progress: Progress,
    cache: Option<PathBuf>,
    codegen: Option<Arc<dyn Codegen>>,
    tier: Option<TierPolicy>,
}

/// Loads models into programs.
#[derive(Clone)]
pub struct Engine {
    threads: usize,
    precision: Precision,
    progress: Progress,
    target: Target,
    levels: BTreeSet<Level>,
    cache: Option<PathBuf>,
    codegen: Option<Arc<dyn Codegen>>,
    tier: TierPolicy,
}

impl EngineBuilder {
    /// Where programs run. There is only `cpu`.
    pub fn device(mut self, device: &str) -> EngineBuilder {
        self.device = device.to_string();
        self
    }

    /// Threads for parallel kernels, the caller's included. Default: 1.
    pub fn threads(mut self, threads: usize) -> EngineBuilder {
        self.threads = threads;
        self
    }

    /// Arithmetic of f32 products in models that are compiled; a library has its own.
    pub fn precision(mut self, precision: Precision) -> EngineBuilder {
        self.precision = precision;
        self
    }

    /// CPU levels that models are compiled for, all in one program, of which the highest that
    /// this CPU has runs; of a library, only kernels of these levels are used. Default: models are
    /// compiled for this CPU with all its features, and of a library the best kernels run.
    pub fn levels(mut self, levels: impl IntoIterator<Item = Level>) -> EngineBuilder {
        self.levels = levels.into_iter().collect();
        self
    }

    /// Told of compilation's progress.
    pub fn progress(mut self, progress: Progress) -> EngineBuilder {
        self.progress = progress;
        self
    }

    /// Folder of the kernel cache. Default: `$REFLEX_CACHE`, else below the user's cache folder.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.cache = Some(folder.into());
        self
    }

    /// A code generator to use instead of the `reflex-codegen` process.
    pub fn codegen(mut self, codegen: Arc<dyn Codegen>) -> EngineBuilder {
        self.codegen = Some(codegen);
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
        if self.threads == 0 {
            return Err(Error::input("threads must be at least 1"));
        }
        let tier = self.tier.map_or_else(TierPolicy::of_environment, Ok)?;
        Ok(Engine {
            tier,
            threads: self.threads,
            precision: self.precision,
            progress: self.progress,
            target: Target::host(),
            levels: self.levels,
            cache: self.cache,
            codegen: self.codegen,
        })
    }
}

impl Engine {
    /// An engine with the default options: the CPU, one thread.
    pub fn new() -> Result<Engine> {
        Engine::builder().build()
    }

    /// An engine with options.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            device: "cpu".to_string(),
            threads: 1,
            precision: Precision::default(),
            levels: BTreeSet::new(),
            progress: Progress::silent(),
            cache: None,
            codegen: None,
            tier: None,
        }
    }

    /// Loads a model: `.onnx` and `.py` (TVMScript) are compiled, `.so` is opened.
    ///
    /// Opening a `.so` runs machine code of its author's choice, as with any library.
    pub fn load(&self, path: &Path) -> Result<Program> {
        match extension(path) {
            "onnx" | "py" => self.load_model(path).map_err(|e| e.at(path.display())),
            "so" => self.open(path).map_err(|e| e.at(path.display())),
            _ => Err(unknown_kind(path)),
        }
    }

    /// What a model is, without compiling or running any of it.
    pub fn info(path: &Path) -> Result<ModelInfo> {
        match extension(path) {
            "onnx" => ModelInfo::of_onnx(path),
            "py" => Ok(ModelInfo::of_script(&module(path)?)),
            "so" => {
                let engine = Engine::builder().build()?;
                Ok(engine.open(path).map_err(|e| e.at(path.display()))?.info())
            }
            _ => Err(unknown_kind(path)),
        }
    }

    /// The module as text after a pass of the pipeline.
    pub fn dump_after(&self, path: &Path, pass: &str) -> Result<String> {
        only_models(path)?;
        let stages = pipeline::stages();
        if !stages.contains(&pass) {
            return Err(Error::input(format!("no pass {pass:?}; there are {}", stages.join(", "))));
        }
        let options = self.options();
        dump::after(module(path)?, pass, &options).map_err(|e| e.at(path.display()))
    }

    /// TVMScript: a script as it was read, before anything is rewritten, or a model as it was
    /// imported.
    pub fn script(path: &Path) -> Result<String> {
        only_models(path)?;
        match extension(path) {
            "py" => Ok(Script::read_file(path)?.print()),
            _ => Ok(reflex_graph::print::module_with_metadata(&module(path)?)),
        }
    }

    /// How a kernel of a model is scheduled.
    pub fn dump_schedule(&self, path: &Path, kernel: &str) -> Result<String> {
        only_models(path)?;
        let options = self.options();
        dump::schedule(module(path)?, kernel, &options).map_err(|e| e.at(path.display()))
    }

    /// Assembly of a kernel of a model, or of a compiled library, which is read but not opened.
    pub fn assembly(&self, path: &Path, kernel: &str) -> Result<String> {
        if extension(path) != "so" {
            return self.load(path)?.assembly(kernel);
        }
        let data = std::fs::read(path).map_err(|e| Error::io(path, &e))?;
        disassemble::library(&data, kernel).map_err(|e| e.at(path.display()))
    }

    /// Compiles a model, which is read again when calls make programs for their extents worth it.
    fn load_model(&self, path: &Path) -> Result<Program> {
        let stamp = stamp(path)?;
        let imported = module(path)?;
        let absolute = path.canonicalize().map_err(|e| Error::io(path, &e))?;
        let again = move || match self::stamp(&absolute)? == stamp {
            true => module(&absolute),
            false => Err(Error::new(ErrorKind::Io, "the file has changed since it was loaded")),
        };
        let specialiser = (self.tier.shapes > 0).then(|| {
            let best = self.levels.iter().rev().find(|l| self.target.runs(&l.target()));
            let levels = best.into_iter().copied().collect();
            let quiet = Engine { progress: Progress::silent(), levels, ..self.clone() };
            Arc::new(Specialiser::new(quiet, self.tier.clone(), Arc::new(again)))
        });
        self.build(imported, Purpose::General(specialiser))
    }

    /// Compiles a module built in Rust.
    pub fn compile(&self, module: Module) -> Result<Program> {
        self.build(module, Purpose::General(None))
    }

    /// Compiles a module that is much like that of `program`, whose constants it shares.
    pub(crate) fn compile_like(&self, module: Module, program: &Program) -> Result<Program> {
        self.build(Module { pool: program.constants(), ..module }, Purpose::Extents)
    }

    fn build(&self, module: Module, purpose: Purpose) -> Result<Program> {
        let signatures = Signature::of_module(&module);
        let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Compile, e.to_string());
        let process;
        let (codegen, identity): (&dyn Codegen, &str) = match &self.codegen {
            Some(codegen) => (codegen.as_ref(), "in process"),
            None => {
                process = ProcessCodegen::find().map_err(|e| failed(&e))?;
                (&process, process.identity())
            }
        };
        let folder = self.cache.clone().or_else(KernelCache::default_dir);
        let cache = folder.map(|f| KernelCache::new(f, identity, kernel_cache::DEFAULT_LIMIT));
        let progress = |p: compile::Progress<'_>| self.progress.report("kernels", p.done, p.total);
        let observer = &pipeline::NoObserver;
        let tools = Toolchain { codegen, cache: cache.as_ref(), observer, progress: &progress };
        let options = self.options();
        let compiled = compile::compile(module, &options, &tools).map_err(|e| failed(&e))?;
        let policy = (self.threads, &self.tier);
        let program = Program::from_compiled(compiled, signatures, &self.target, policy, purpose);
        heap::trim();
        program
    }

    fn options(&self) -> pipeline::Options {
        let options = match self.levels.is_empty() {
            true => pipeline::Options::new(self.target.clone()),
            false => pipeline::Options::of_levels(&self.levels),
        };
        let precision = match self.precision {
            Precision::F32 => precision::Precision::F32,
            Precision::F32Fast => precision::Precision::F32Fast,
            Precision::Bf16 => precision::Precision::Bf16,
        };
        pipeline::Options { precision, ..options }
    }

    fn open(&self, path: &Path) -> Result<Program> {
        let file = std::fs::File::open(path).map_err(|e| Error::io(path, &e))?;
        artifact::check_whole(file)?;
        let absolute = path.canonicalize().map_err(|e| Error::io(path, &e))?;
        // SAFETY: the caller trusts the library's machine code, as the documentation of `load`
        // says; its data is checked.
        let library = unsafe { Library::open(&absolute) }
            .map_err(|e| Error::new(ErrorKind::Model, e.message()))?;
        let host = (&self.target, &self.levels);
        Program::from_library(library, host, (self.threads, &self.tier))
    }
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or_default()
}

/// The module of a model that is compiled.
fn module(path: &Path) -> Result<Module> {
    match extension(path) {
        "py" => Ok(reflex_graph::script::parse_file(path)?),
        _ => Ok(reflex_onnx::import(path)?),
    }
}

/// What tells that a file was replaced: its length and when it was written.
fn stamp(path: &Path) -> Result<(u64, Option<SystemTime>)> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io(path, &e))?;
    Ok((meta.len(), meta.modified().ok()))
}

fn only_models(path: &Path) -> Result<()> {
    match extension(path) {
        "onnx" | "py" => Ok(()),
        _ => {
            let text = "passes run on models, not on compiled libraries";
            Err(Error::input(format!("{}: {text}", path.display())))
        }
    }
}

fn unknown_kind(path: &Path) -> Error {
    let what = "not a model by its name; expected .onnx, .py or .so";
    Error::new(ErrorKind::Unsupported, format!("{}: {what}", path.display()))
}
