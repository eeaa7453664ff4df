//! Compiles modules into loaded programs.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use reflex_graph::Module;
use reflex_lower::codegen_process::ProcessCodegen;
use reflex_lower::compile::{self, Compiled, LoweredModule, Report, Toolchain};
use reflex_lower::kernel_cache::{self, KernelCache};
use reflex_lower::kernel_source::KernelSource;
use reflex_lower::optimize_for::OptimizeFor;
use reflex_lower::passes::sequence::RuntimeModules;
use reflex_lower::pipeline::{DeviceTarget, Observer, WithoutCode};
use reflex_lower::{LowerError, pipeline, precision};
#[cfg(feature = "onnx")]
use reflex_onnx::ImportOptions;
use reflex_runtime::alloc::heap;
use reflex_source::Dialect;
use reflex_tir::codegen::{Codegen, GpuTarget, Request, Response};
use reflex_vm::executable::Executable;

use crate::artifact::tvm_signatures;
use crate::baseline::{self, CraneliftCodegen, Effort};
use crate::dump;
use crate::error::{Error, ErrorKind, Result};
use crate::jit::CompileMode;
use crate::kernels::tiered::{Urgency, WhenIdle};
#[cfg(not(feature = "onnx"))]
use crate::no_onnx::ImportOptions;
use crate::options::{ExecutionOptions, Precision, Progress, TargetDevice, TargetSelection};
use crate::passes::Pipeline;
use crate::program::compiled::{self, Interface, ObjectRetention, Upgrade};
use crate::program::loaded::{LoadedProgram, verified};
use crate::program::shape_variant::{self, InputShapes};
use crate::signature::{KernelOperations, Signature};
use crate::tier_policy::{KernelGenerator, KernelSwaps};

/// A program without code of kernels.
pub(crate) struct Lowered<'a> {
    pub(crate) executable: &'a Executable,
    pub(crate) kernels: &'a [KernelSource],
    pub(crate) operations: &'a KernelOperations,
    pub(crate) signatures: &'a BTreeMap<String, Signature>,
}

/// Stores a program.
pub(crate) type StoreProgram = Box<dyn FnOnce(&Lowered<'_>, &pipeline::Options) + Send>;

/// The ending of the names of kernels in host memory that a program for a GPU has.
const COMPANION_SUFFIX: &str = ".gpu";

/// The options of compilation, and of the programs that it makes.
#[derive(Clone, Default)]
pub(crate) struct Compiler {
    pub(crate) import: ImportOptions,
    pub(crate) precision: Precision,
    pub(crate) optimize_for: OptimizeFor,
    pub(crate) target: TargetSelection,
    pub(crate) execution: ExecutionOptions,
    pub(crate) without_code: WithoutCode,
    /// Whether its programs are saved beside those for CPUs, so that their kernels have other names.
    pub(crate) is_companion: bool,
    /// Shapes that functions are compiled for ahead of time, in addition to any shape.
    pub(crate) shapes: Vec<InputShapes>,
    pub(crate) pipeline: Pipeline,
    pub(crate) progress: Progress,
    /// Folder of the kernel cache; `None` is the user's.
    pub(crate) cache: Option<PathBuf>,
    /// Whether programs are not stored in it, beside their kernels.
    pub(crate) stores_no_programs: bool,
    /// A code generator in this process; `None` is the `reflex-codegen` process.
    pub(crate) codegen: Option<Arc<dyn Codegen>>,
    /// The language of a target that is text, which nothing here runs.
    pub(crate) text: Option<Dialect>,
}

impl Compiler {
    /// Compiles a module.
    pub(crate) fn compile(
        &self,
        module: Module,
        retention: ObjectRetention,
    ) -> Result<LoadedProgram> {
        self.compile_to_store(module, retention, None)
    }

    /// Compiles a module, whose program may be stored before its kernels are scheduled.
    pub(crate) fn compile_to_store(
        &self,
        mut module: Module,
        retention: ObjectRetention,
        store: Option<StoreProgram>,
    ) -> Result<LoadedProgram> {
        self.check_runs()?;
        if self.pipeline.sequence().has_outside() && !self.shapes.is_empty() {
            let text = "a pass from outside sees the module as text, which does not hold variants for \
                        given shapes: leave out one of the two";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let signatures = Signature::of_module(&module);
        let variants = shape_variant::add(&mut module, &self.shapes)?;
        let interface = Interface { signatures, variants };
        self.generate(
            |options, observer| compile::lower(module, options, observer),
            interface,
            retention,
            store,
        )
    }

    /// Makes a program of a module that was lowered before.
    pub(crate) fn resume(
        &self,
        lowered: LoweredModule,
        signatures: BTreeMap<String, Signature>,
    ) -> Result<LoadedProgram> {
        let interface = Interface { signatures, variants: vec![] };
        self.generate(|_, _| Ok(lowered), interface, ObjectRetention::Keep, None)
    }

    /// Makes a program of what `lower` gives.
    fn generate(
        &self,
        lower: impl FnOnce(
            &pipeline::Options,
            &dyn Observer,
        ) -> std::result::Result<LoweredModule, LowerError>,
        interface: Interface,
        retention: ObjectRetention,
        store: Option<StoreProgram>,
    ) -> Result<LoadedProgram> {
        let failed = |e: &dyn Display| Error::new(ErrorKind::Compile, e.to_string());
        let generator = self.generator();
        let folder = self.cache_folder();
        let open = |identity: Option<&str>| {
            let folder = folder.as_ref()?;
            Some(KernelCache::new(folder, identity, kernel_cache::DEFAULT_LIMIT))
        };
        // Without the program that is named, what both generators left before still serves.
        let wanted = self.execution.policy.kernels;
        let only_cached = matches!(wanted, KernelGenerator::Auto | KernelGenerator::Tiered)
            && generator.identity().is_none();
        let cache = match &generator {
            _ if only_cached => open(Some(&baseline::QUICK_IDENTITY)).map(KernelCache::unnoted),
            Generator::Baseline { .. } | Generator::Tiered(_) => {
                open(generator.identity()).map(KernelCache::unnoted)
            }
            Generator::Given(_) | Generator::Process(_) => open(generator.identity()),
        };
        // Kernels that LLVM made while it was there run faster.
        let swaps = self.execution.policy.kernel_swaps;
        let preferred = match &generator {
            // There are both to swap.
            Generator::Tiered(_) if swaps == KernelSwaps::Forced => None,
            Generator::Tiered(first) => open(first.llvm.identity()).map(KernelCache::unnoted),
            _ => (generator.is_stand_in() || only_cached).then(|| open(None)).flatten(),
        };
        let progress = |p: compile::Progress<'_>| self.progress.report("kernels", p.done, p.total);
        let observer = self.pipeline.watched(&pipeline::NoObserver);
        let tools = Toolchain {
            codegen: generator.codegen(),
            cache: cache.as_ref(),
            preferred: preferred.as_ref(),
            observer: &observer,
            progress: &progress,
        };
        let options = self.pipeline_options();
        let lowered = lower(&options, &observer).map_err(|e| failed(&e))?;
        let compiled = compile::generate(lowered, &options, &tools).map_err(|e| failed(&e))?;
        observer.finish().map_err(|why| failed(&why))?;
        let report = &compiled.report;
        tracing::info!(
            kernels = report.cached + report.generated.len(),
            cached = report.cached,
            stored = report.stored,
            graph_ms = report.graph.as_millis(),
            kernels_ms = report.kernels.as_millis(),
            "compiled"
        );
        for (kernel, took) in &report.generated {
            tracing::debug!(%kernel, ms = took.as_secs_f64() * 1e3, "kernel generated");
        }
        for kernel in &compiled.on_cpu {
            tracing::warn!(%kernel, "the device has no code for a kernel: the CPU runs it");
        }
        let store = store.filter(|_| compiled.made.modules().is_empty());
        let store = store.map(|store| {
            let executable = compiled.executable.clone();
            let (kernels, operations) = (compiled.sources.clone(), compiled.operations.clone());
            let signatures = interface.signatures.clone();
            let options = options.clone();
            move || {
                let (kernels, operations, signatures) = (&*kernels, &operations, &signatures);
                let executable = &executable;
                store(&Lowered { executable, kernels, operations, signatures }, &options);
            }
        });
        // A first answer is not kept waiting: a start that makes no kernel stores the program, or the
        // thread that replaces kernels.
        let mut when_idle: Option<WhenIdle> = None;
        let awaited = !compiled.report.generated.is_empty();
        match (&generator, store) {
            (Generator::Tiered(_), Some(store)) if awaited => when_idle = Some(Box::new(store)),
            (Generator::Baseline { .. }, Some(_)) if awaited => {}
            (_, Some(store)) => store(),
            (_, None) => {}
        }
        let upgrade = match &generator {
            Generator::Tiered(first) => {
                let cache = open(first.llvm.identity());
                Some(self.upgrade(first.llvm.clone(), options.clone(), cache, when_idle))
            }
            _ => None,
        };
        let (target, execution) = (&self.target, &self.execution);
        // Finding everything leaves little to release, and a first answer is not kept waiting.
        let made_garbage = awaited || !compiled.report.stored;
        let program = compiled::load(compiled, interface, target, execution, retention, upgrade);
        match (made_garbage, execution.policy.compile_mode) {
            (false, _) => {}
            (true, CompileMode::Background) => heap::trim_in_background(),
            (true, CompileMode::Synchronous) => heap::trim(),
        }
        program
    }

    /// Whether code of the caller's imports operators.
    #[cfg(feature = "onnx")]
    pub(crate) fn imports_by_callbacks(&self) -> bool {
        !self.import.operators.is_empty()
    }

    #[cfg(not(feature = "onnx"))]
    pub(crate) fn imports_by_callbacks(&self) -> bool {
        false
    }

    /// The folder of the kernel cache, if there is one.
    pub(crate) fn cache_folder(&self) -> Option<PathBuf> {
        self.cache.clone().or_else(KernelCache::default_dir)
    }

    /// Links an executable that was built by hand, whose packed functions are registered ones.
    pub(crate) fn link(&self, executable: Executable) -> Result<LoadedProgram> {
        let executable = verified(executable)?;
        let signatures = tvm_signatures::signatures(&executable);
        let cpus = self.pipeline_options().cpus;
        let compiled = Compiled {
            executable: Executable::clone(&executable),
            kernels: cpus.into_iter().map(|cpu| (cpu, vec![])).collect(),
            sources: [].into(),
            device: vec![],
            on_cpu: vec![],
            operations: BTreeMap::new(),
            made: RuntimeModules::default(),
            report: Report::default(),
        };
        let interface = Interface { signatures, variants: vec![] };
        let retention = ObjectRetention::Keep;
        compiled::load(compiled, interface, &self.target, &self.execution, retention, None)
    }

    /// Returns what compiles kernels again by LLVM, into the cache that LLVM's kernels have.
    fn upgrade(
        &self,
        process: Arc<ProcessCodegen>,
        options: pipeline::Options,
        cache: Option<KernelCache>,
        when_idle: Option<WhenIdle>,
    ) -> Upgrade {
        // Its threads must not drop a caller's passes: Python's need a lock that no other thread gets
        // once Python ends.
        let options = pipeline::Options { pipeline: options.pipeline.without_outside(), ..options };
        // Processes of its own, which have the priority of the threads that wait for them.
        let awaited = Generator::process();
        let recompile = move |kernel: &KernelSource, cpu: usize, urgency: Urgency| {
            let codegen = match urgency {
                Urgency::Background => process.as_ref(),
                Urgency::Awaited => &awaited,
            };
            let tools = Toolchain {
                codegen,
                cache: cache.as_ref(),
                preferred: None,
                observer: &pipeline::NoObserver,
                progress: &|_| {},
            };
            let compiled = compile::compile_kernel(kernel, cpu, &options, &tools);
            compiled.map_err(|error| error.to_string())
        };
        let swaps = self.execution.policy.kernel_swaps;
        Upgrade { recompile: Box::new(recompile), swaps, when_idle }
    }

    /// Returns the PTX of a module's kernels, by name and in the order of their first calls: of all, or
    /// of one.
    pub(crate) fn ptx(
        &self,
        module: Module,
        kernel: Option<&str>,
    ) -> Result<Vec<(String, String)>> {
        let Some(gpu) = &self.target.schedule_for else {
            return Err(Error::input("PTX is for a GPU: name one to schedule kernels for"));
        };
        let options = self.pipeline_options();
        match &self.codegen {
            Some(codegen) => dump::ptx(module, kernel, &options, gpu, codegen.as_ref()),
            None => dump::ptx(module, kernel, &options, gpu, &Generator::process()),
        }
    }

    /// Returns an error if the target is text.
    pub(crate) fn check_runs(&self) -> Result<()> {
        let Some(dialect) = self.text else { return Ok(()) };
        let text = format!(
            "the target {dialect} is text, which no program has: print kernels by `Engine::source` or `reflex compile --emit {dialect}`"
        );
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    /// Returns a module's kernels as text in a language: all, or one. Those for a GPU are scheduled for the one that
    /// the engine names, or for the least that there is.
    pub(crate) fn source(
        &self,
        module: Module,
        dialect: Dialect,
        kernel: Option<&str>,
    ) -> Result<String> {
        let named = self.target.schedule_for.clone();
        let named = named.or_else(|| self.target.device.as_ref().map(|device| device.gpu.clone()));
        let gpu = match dialect {
            Dialect::OpenCl => reflex_source::opencl_gpu(),
            Dialect::C | Dialect::Cuda => {
                let [least, _] = GpuTarget::known();
                named.unwrap_or(least)
            }
        };
        let mut options = self.pipeline_options();
        options.schedule_for = (dialect != Dialect::C).then(|| gpu.clone());
        options.device = None;
        dump::source(module, kernel, options, dialect, &gpu)
    }

    /// Returns the code generator of kernels that the policy chooses.
    fn generator(&self) -> Generator {
        if let Some(codegen) = &self.codegen {
            return Generator::Given(codegen.clone());
        }
        let wanted = self.execution.policy.kernels;
        if wanted == KernelGenerator::Cranelift {
            return Generator::Baseline { absence: None };
        }
        let process = Generator::process();
        let absence = process.absence().map(str::to_owned);
        match (wanted, absence) {
            // A program that is named and cannot be used is an error.
            (KernelGenerator::Auto | KernelGenerator::Tiered, None)
                if baseline::IS_BUILT && self.can_be_tiered() && process.identity().is_some() =>
            {
                Generator::Tiered(CraneliftFirst { llvm: Arc::new(process) })
            }
            // Only LLVM has code for a GPU.
            (KernelGenerator::Auto | KernelGenerator::Best, Some(reason))
                if baseline::IS_BUILT && self.target.device.is_none() =>
            {
                Generator::Baseline { absence: Some(reason) }
            }
            _ => Generator::Process(process),
        }
    }

    /// Returns true where both generators have code, and kernels run as they are compiled: not on a GPU, nor
    /// for an artifact of several levels.
    fn can_be_tiered(&self) -> bool {
        let TargetSelection { levels, schedule_for, device, .. } = &self.target;
        levels.is_empty() && schedule_for.is_none() && device.is_none()
    }

    /// Returns why kernels are baseline; `None` if they are not.
    pub(crate) fn baseline_reason(&self) -> Option<String> {
        let consequence = "kernels are baseline: Cranelift compiles them, and they run slower";
        match self.generator() {
            Generator::Baseline { absence: Some(reason) } => {
                Some(format!("{consequence}; {reason}"))
            }
            Generator::Baseline { absence: None } => {
                Some(format!("{consequence}; the tier policy says kernels=cranelift"))
            }
            Generator::Given(_) | Generator::Process(_) | Generator::Tiered(_) => None,
        }
    }

    /// Returns what compiles kernels, and when.
    pub(crate) fn kernels_note(&self) -> String {
        let note = match self.generator() {
            Generator::Baseline { .. } => return self.baseline_reason().unwrap_or_default(),
            Generator::Tiered(_) => {
                "kernels are tiered: Cranelift's first, LLVM's replace them while calls go on"
            }
            Generator::Process(_) => "kernels are LLVM's from the first call on",
            Generator::Given(_) => "kernels are those of the code generator that was given",
        };
        note.to_owned()
    }

    /// Returns why kernels cannot be stored in the cache, if so; the log does not repeat it.
    pub(crate) fn cache_problem(&self) -> Option<String> {
        let remedy = kernel_cache::REMEDY;
        let Some(folder) = self.cache_folder() else {
            let off = std::env::var_os("REFLEX_CACHE").is_some_and(|value| value == "off");
            return (!off).then(|| format!("neither XDG_CACHE_HOME nor HOME is set: {remedy}"));
        };
        let error = KernelCache::check(&folder).err()?;
        KernelCache::suppress_warning(&folder);
        Some(format!("{}: kernels cannot be stored: {error}; {remedy}", folder.display()))
    }

    /// Returns the compiler of a program's specialisations: silent, for this CPU alone.
    pub(crate) fn for_specialisation(&self) -> Compiler {
        let TargetSelection { host, levels, schedule_for, device } = &self.target;
        let best = levels.iter().rev().find(|level| host.runs(&level.target()));
        let levels = best.into_iter().copied().collect();
        let (host, schedule_for) = (host.clone(), schedule_for.clone());
        let target = TargetSelection { host, levels, schedule_for, device: device.clone() };
        let mut execution = self.execution.clone();
        if let KernelGenerator::Tiered | KernelGenerator::Auto = execution.policy.kernels {
            // It is compiled in the background, to be faster than what it replaces.
            execution.policy.kernels = KernelGenerator::Best;
        }
        let progress = Progress::silent();
        Compiler { progress, target, execution, shapes: vec![], ..self.clone() }
    }

    /// Returns the compiler of programs for a GPU that are saved beside those of this one.
    pub(crate) fn for_companion(&self, device: TargetDevice) -> Compiler {
        let target = TargetSelection { device: Some(device), ..self.target.clone() };
        Compiler { target, is_companion: true, ..self.clone() }
    }

    /// Returns the options of the lowering pipeline.
    pub(crate) fn pipeline_options(&self) -> pipeline::Options {
        let options = match self.target.levels.is_empty() {
            true => pipeline::Options::new(self.target.host.clone()),
            false => pipeline::Options::of_levels(&self.target.levels),
        };
        let precision = match self.precision {
            Precision::F32 => precision::Precision::F32,
            Precision::F32Fast => precision::Precision::F32Fast,
            Precision::Bf16 => precision::Precision::Bf16,
            Precision::Int8 => precision::Precision::Int8,
        };
        let optimize_for = self.optimize_for;
        let schedule_for = self.target.schedule_for.clone();
        let without_code = self.without_code;
        let device = self.target.device.as_ref();
        let device = device.map(|device| DeviceTarget { gpu: device.gpu.clone(), without_code });
        let pipeline = self.pipeline.sequence().clone();
        let mut options = pipeline::Options {
            precision,
            optimize_for,
            schedule_for,
            device,
            pipeline,
            ..options
        };
        if self.is_companion {
            options.cpus.iter_mut().for_each(|cpu| cpu.suffix.push_str(COMPANION_SUFFIX));
        }
        options
    }
}

/// A code generator of kernels.
enum Generator {
    /// The one that the engine was given.
    Given(Arc<dyn Codegen>),
    /// LLVM, in the process `reflex-codegen`.
    Process(ProcessCodegen),
    /// Cranelift, and then LLVM.
    Tiered(CraneliftFirst),
    /// Cranelift.
    Baseline {
        /// Why there is no LLVM, where the policy would have it.
        absence: Option<String>,
    },
}

/// Cranelift, and LLVM for what Cranelift refuses.
struct CraneliftFirst {
    llvm: Arc<ProcessCodegen>,
}

impl Codegen for CraneliftFirst {
    fn compile(&self, request: &Request) -> Response {
        match (CraneliftCodegen { effort: Effort::Quick }).compile(request) {
            Response::Failed { .. } => self.llvm.compile(request),
            answer => answer,
        }
    }
}

impl Generator {
    #[cfg(feature = "llvm")]
    fn process() -> ProcessCodegen {
        ProcessCodegen::find(crate::install::codegen_folders())
    }

    #[cfg(not(feature = "llvm"))]
    fn process() -> ProcessCodegen {
        ProcessCodegen::absent(crate::error::lacks("llvm").to_string())
    }

    fn codegen(&self) -> &dyn Codegen {
        match self {
            Generator::Given(codegen) => codegen.as_ref(),
            Generator::Process(process) => process,
            Generator::Tiered(first) => first,
            Generator::Baseline { .. } => &CraneliftCodegen { effort: Effort::Full },
        }
    }

    /// Returns what tells its kernels from others' in the kernel cache; `None` for those of the
    /// generator that wrote last.
    fn identity(&self) -> Option<&str> {
        match self {
            Generator::Given(_) => Some("in process"),
            Generator::Process(process) => process.identity(),
            Generator::Baseline { .. } => Some(&baseline::IDENTITY),
            Generator::Tiered(_) => Some(&baseline::QUICK_IDENTITY),
        }
    }

    /// Returns true for Cranelift where LLVM is wanted.
    fn is_stand_in(&self) -> bool {
        matches!(self, Generator::Baseline { absence: Some(_) })
    }
}
