//! Running the pipeline, stage by stage, so that one can watch, stop and time it.
//!
//! Which passes run, in which order and with which options is the value
//! [`Pipeline`]. Graph passes turn a module of operators into a module of kernel calls; the bytecode stage
//! emits the executable; kernel passes run on each kernel alone, so they run in parallel. A
//! verifier runs after every graph pass.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reflex_graph::{ConstantPool, FuncData, Literal, Module, verify};
use reflex_runtime::aligned_bytes::AlignedBytes;
use reflex_tir::codegen::{CpuTarget, GpuTarget, Target};
use reflex_tir::level::Level;
use reflex_tir::verify::verify_gpu;
use reflex_tir::{PrimFunc, lower};

use crate::bytecode::{self, Bytecode};
use crate::interface::Interface;
use crate::optimize_for::{DeviceKind, OptimizeFor};
use crate::parallel::in_parallel;
use crate::passes::sequence::{Pass, Pipeline, RuntimeModules, Step};
use crate::passes::table::{PassContext, PassKind};
use crate::precision::Precision;
use crate::schedule_by_trace::{Processors, UNSCHEDULED_ATTR, schedule_by_traces};
use crate::{LowerError, schedule};

/// Constants of so many bytes are copied by all cores.
const WORTH_THREADS: usize = 1 << 20;

/// A CPU that kernels are generated for, one version each (function multiversioning).
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Its level, where it stands for all CPUs of one.
    pub level: Option<Level>,
    /// Suffix of the kernels' names.
    pub suffix: String,
    /// The CPU.
    pub target: CpuTarget,
}

/// Targets and options of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPUs that kernels are generated for, the lowest first.
    pub cpus: Vec<Cpu>,
    /// The GPU that kernels are scheduled for; the CPUs run its threads one after the other.
    pub schedule_for: Option<GpuTarget>,
    /// The GPU that kernels run on; without one, the CPUs do.
    pub device: Option<DeviceTarget>,
    /// Arithmetic of float32 contractions.
    pub precision: Precision,
    /// The goal where speed and size differ.
    pub optimize_for: OptimizeFor,
    /// The passes, their order and their options.
    pub pipeline: Pipeline,
    /// Code generators at work at once; 0 is one per core.
    pub jobs: usize,
}

/// A GPU that kernels run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTarget {
    /// The GPU.
    pub gpu: GpuTarget,
    /// The treatment of kernels that have no code for it.
    pub without_code: WithoutCode,
}

/// The treatment of kernels that have no code for the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutCode {
    /// They are an error, by name.
    #[default]
    Refuse,
    /// The CPU runs them, on copies of their tensors.
    RunOnCpu,
}

impl Options {
    /// Options for a CPU, with defaults for the rest.
    pub fn new(target: CpuTarget) -> Options {
        let cpu = Cpu { level: None, suffix: String::new(), target };
        Options::of_cpus(vec![cpu])
    }

    /// Options for CPU levels: one program, with kernels for each. Those of the lowest have the
    /// plain names.
    pub fn of_levels(levels: &BTreeSet<Level>) -> Options {
        let cpus = levels.iter().enumerate().map(|(n, level)| Cpu {
            level: Some(*level),
            suffix: if n == 0 { String::new() } else { level.suffix() },
            target: level.target(),
        });
        Options::of_cpus(cpus.collect())
    }

    fn of_cpus(cpus: Vec<Cpu>) -> Options {
        let (precision, optimize_for) = (Precision::F32, OptimizeFor::Speed);
        let (pipeline, schedule_for, device) = (Pipeline::default(), None, None);
        Options { cpus, schedule_for, device, precision, optimize_for, pipeline, jobs: 0 }
    }

    /// The kind of processor that kernels are scheduled for.
    pub fn device_kind(&self) -> DeviceKind {
        match self.schedule_for.is_some() || self.device.is_some() {
            true => DeviceKind::Gpu,
            false => DeviceKind::Cpu,
        }
    }

    /// Whether all CPUs that kernels are compiled for have dot products of 8-bit integers.
    fn has_int8_dots(&self) -> bool {
        let cpu = self.device_kind() == DeviceKind::Cpu && !self.cpus.is_empty();
        cpu && self.cpus.iter().all(|cpu| cpu.target.has_int8_dots())
    }

    /// The processors that kernels are scheduled for.
    fn processors(&self) -> Processors<'_> {
        let device = self.device.as_ref().map(|device| &device.gpu);
        match device.or(self.schedule_for.as_ref()) {
            Some(gpu) => Processors::Gpu(gpu),
            None => Processors::Cpus(self.cpus.iter().map(|cpu| &cpu.target).collect()),
        }
    }

    /// The device that kernels for `cpu` are scheduled for.
    pub fn target(&self, cpu: &Cpu) -> Target {
        match &self.schedule_for {
            Some(gpu) => Target::Gpu(gpu.clone()),
            None => Target::Cpu(cpu.target.clone()),
        }
    }
}

/// A kernel pass by name.
pub type KernelPass = (&'static str, fn(&PrimFunc, &Target) -> PrimFunc);

/// The kernel passes for a CPU, in order.
pub const KERNEL_PASSES: &[KernelPass] =
    &[("schedule", schedule::schedule), ("lower", |f, _| lower::lower(f))];

/// The kernel passes for a GPU whose threads a CPU runs, in order.
pub const GPU_KERNEL_PASSES: &[KernelPass] = &[
    ("schedule", schedule::schedule),
    ("lower", lower_launches),
    ("serialise_threads", |f, _| lower::simplify(&lower::serialise(f))),
];

/// A kernel as a GPU runs it: the kernel passes without the last one, which is for CPUs.
pub fn lower_for_gpu(kernel: &PrimFunc, gpu: &GpuTarget) -> PrimFunc {
    let target = Target::Gpu(gpu.clone());
    let skipped = usize::from(is_scheduled(kernel));
    let passes = GPU_KERNEL_PASSES.iter().take(GPU_KERNEL_PASSES.len() - 1).skip(skipped);
    passes.fold(kernel.clone(), |func, (_, pass)| pass(&func, &target))
}

/// A kernel as code for a GPU is generated of it.
pub fn lower_for_ptx(kernel: &PrimFunc, gpu: &GpuTarget) -> PrimFunc {
    let lowered = lower_for_gpu(kernel, gpu);
    lower::DEVICE_PASSES.iter().fold(lowered, |func, (_, pass)| pass(&func))
}

/// Lowers a kernel for a GPU. A fault in the result is a bug of the passes.
fn lower_launches(func: &PrimFunc, target: &Target) -> PrimFunc {
    let lowered = lower::lower_gpu(func);
    if let Target::Gpu(gpu) = target {
        debug_assert_eq!(verify_gpu(&lowered, gpu), Ok(()), "{}", func.name);
    }
    lowered
}

/// Name of the stage that emits the executable.
pub const BYTECODE: &str = "bytecode";

/// Whether the module is verified after each pass, so that a faulty one is named. Without, it is verified after the last:
/// fifteen verifications take a twentieth of a cold start.
const VERIFY_EACH: bool = cfg!(debug_assertions);

/// The names of all stages of a pipeline, in order.
pub fn stages(pipeline: &Pipeline) -> Vec<&str> {
    let graph = pipeline.module_steps().map(Step::name);
    graph.chain([BYTECODE]).chain(GPU_KERNEL_PASSES.iter().map(|(name, _)| *name)).collect()
}

/// The result of a stage.
pub enum StageOutput<'a> {
    /// After a graph pass.
    Graph(&'a Module),
    /// After the bytecode stage.
    Bytecode(&'a Bytecode),
    /// After a kernel pass, one kernel.
    Kernel(&'a PrimFunc),
}

/// Whether a pass runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It does.
    Run,
    /// It is left out, which those that are needed may not be.
    Skip,
}

/// Sees every stage's result and how long it took, and decides which passes run.
pub trait Observer: Sync {
    /// Called before each pass that works on the module, with what it will work on. An error ends the
    /// compilation.
    fn before(&self, pass: &str, module: &Module) -> Result<Decision, String> {
        let _ = (pass, module);
        Ok(Decision::Run)
    }

    /// Called after each stage; for kernel passes once per kernel, from any thread.
    fn after(&self, stage: &str, took: Duration, result: StageOutput<'_>);
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn after(&self, _: &str, _: Duration, _: StageOutput<'_>) {}
}

/// The module after its graph passes, its kernels scheduled where they have traces.
pub fn run_graph(
    module: Module,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Module, LowerError> {
    run_passes(module, options, observer, &mut RuntimeModules::default())
}

/// The module after its graph passes, its kernels scheduled where they have traces, and the runtime
/// modules that passes made.
pub fn run_passes(
    module: Module,
    options: &Options,
    observer: &dyn Observer,
    made: &mut RuntimeModules,
) -> Result<Module, LowerError> {
    let mut module = run_graph_passes(module, options, observer, made)?;
    if !options.pipeline.schedules() {
        leave_unscheduled(&mut module, options)?;
    }
    schedule_by_traces(&mut module, options.pipeline.traces(), &options.processors())?;
    Ok(module)
}

/// The module after its graph passes, and the runtime modules that passes made.
pub fn run_graph_passes(
    mut module: Module,
    options: &Options,
    observer: &dyn Observer,
    made: &mut RuntimeModules,
) -> Result<Module, LowerError> {
    let pairs = options.precision == Precision::Bf16 && options.device_kind() == DeviceKind::Cpu;
    let fits = |cpu: &Cpu| !pairs || cpu.target.has_avx512_bf16();
    if let Some(cpu) = options.cpus.iter().find(|cpu| !fits(cpu)) {
        let name = cpu.level.map_or_else(|| "this CPU".to_owned(), |level| level.to_string());
        let text = format!(
            "precision bf16 needs AVX512_BF16, which {name} lacks; use f32, or levels v4+bf16 and v4+amx"
        );
        return Err(LowerError::unsupported(text));
    }
    if options.precision == Precision::Int8 && options.device_kind() == DeviceKind::Gpu {
        let text = "precision int8 is for CPUs; use f32 or bf16";
        return Err(LowerError::unsupported(text));
    }
    check(&module, "import")?;
    for step in options.pipeline.module_steps() {
        let name = step.name();
        if observer.before(name, &module).map_err(LowerError::outside)? == Decision::Skip {
            if matches!(step.pass(), Pass::Own(info) if info.needed) {
                let text = format!("the pass {name} is needed: an instrument may not skip it");
                return Err(LowerError::unsupported(text));
            }
            continue;
        }
        let start = Instant::now();
        run_step(step, &mut module, options, made)?;
        if VERIFY_EACH {
            check(&module, name)?;
        }
        observer.after(name, start.elapsed(), StageOutput::Graph(&module));
    }
    if !VERIFY_EACH {
        check(&module, "all passes")?;
    }
    Ok(module)
}

/// The module after one pass of the pipeline alone, which may be one of kernels: it runs on all of them.
pub fn run_one_pass(
    mut module: Module,
    pass: &str,
    options: &Options,
    made: &mut RuntimeModules,
) -> Result<Module, LowerError> {
    check(&module, "import")?;
    if let Some(step) = options.pipeline.module_steps().find(|step| step.name() == pass) {
        run_step(step, &mut module, options, made)?;
        check(&module, pass)?;
        return Ok(module);
    }
    let target = options.cpus.first().map(|cpu| options.target(cpu));
    let passes = match &target {
        Some(Target::Gpu(_)) => GPU_KERNEL_PASSES,
        _ => KERNEL_PASSES,
    };
    let found = passes.iter().find(|(name, _)| *name == pass);
    let (Some((_, run)), Some(target)) = (found, target) else {
        let own = options.pipeline.module_steps().map(Step::name);
        let names: Vec<&str> = own.chain(passes.iter().map(|(name, _)| *name)).collect();
        let text = format!("no pass {pass:?}; there are {}", names.join(", "));
        return Err(LowerError::unsupported(text));
    };
    for func in module.funcs.values_mut() {
        if let FuncData::Prim(kernel) = func {
            *kernel = run(kernel, &target);
        }
    }
    Ok(module)
}

/// Marks the kernels of a module as those that are not scheduled.
fn leave_unscheduled(module: &mut Module, options: &Options) -> Result<(), LowerError> {
    if options.device_kind() == DeviceKind::Gpu {
        let text =
            "kernels for a GPU are launched as they are scheduled: the pass schedule is needed";
        return Err(LowerError::unsupported(text));
    }
    for func in module.funcs.values_mut() {
        if let FuncData::Prim(kernel) = func {
            kernel.attrs.insert(UNSCHEDULED_ATTR.to_owned(), "1".to_owned());
        }
    }
    Ok(())
}

/// Runs a pass on the module, and checks what one from outside leaves.
fn run_step(
    step: &Step,
    module: &mut Module,
    options: &Options,
    made: &mut RuntimeModules,
) -> Result<(), LowerError> {
    let name = step.name();
    match step.pass() {
        Pass::Own(info) => {
            let PassKind::Module(run) = info.kind else { return Ok(()) };
            let context = PassContext {
                precision: options.precision,
                optimize_for: options.optimize_for,
                device: options.device_kind(),
                has_int8_dots: options.has_int8_dots(),
                settings: step.settings(),
                has_trace: &|kernel| options.pipeline.traces().contains_key(kernel),
            };
            run(module, &context)
        }
        Pass::Outside { run, .. } => {
            let failed = |why: String| LowerError::outside(format!("pass {name}: {why}"));
            let before = Interface::of(module);
            let pool = module.pool.clone();
            *module = run.run(std::mem::take(module), made).map_err(failed)?;
            module.pool = pool;
            faults(module).map_err(|list| failed(format!("leaves a faulty module: {list}")))?;
            before.check(&Interface::of(module)).map_err(failed)
        }
    }
}

/// The executable of a module that has been through the graph passes, and all its kernels,
/// not yet scheduled, marked where they shall not be.
pub fn run_bytecode(
    mut module: Module,
    observer: &dyn Observer,
) -> Result<(Bytecode, Vec<PrimFunc>), LowerError> {
    let start = Instant::now();
    align_constants(&mut module);
    let code = bytecode::emit(&module)?;
    observer.after(BYTECODE, start.elapsed(), StageOutput::Bytecode(&code));
    let used = |f: &PrimFunc| code.executable.function_index(&f.name).is_some();
    let mut kernels: Vec<PrimFunc> = module
        .funcs
        .into_iter()
        .filter_map(|(_, f)| match f {
            FuncData::Prim(f) => Some(f),
            FuncData::Graph(_) => None,
        })
        .filter(used)
        .collect();
    kernels.extend(code.shape_funcs.iter().cloned());
    Ok((code, kernels))
}

/// Moves constants to addresses that programs use in place, each core one at a time: copying all at load
/// would hold every constant twice. Constants that the session knows already share their memory.
fn align_constants(module: &mut Module) {
    let size: usize = module.consts.values().map(Literal::size).sum();
    let jobs = if size < WORTH_THREADS { 1 } else { 0 };
    let pool = &module.pool;
    let literals: Vec<_> = module.consts.values_mut().map(Mutex::new).collect();
    in_parallel(literals.len(), jobs, |at| {
        let mut literal = literals[at].lock().expect("each is locked once");
        align(pool, &mut literal);
    });
}

fn align(pool: &ConstantPool, literal: &mut Literal) {
    *literal = pool.intern(literal.clone());
    let bytes = literal.bytes();
    if bytes.as_ptr().addr().is_multiple_of(64) {
        return;
    }
    let copy = Arc::new(AlignedBytes::copy_of(bytes));
    literal.release();
    let moved = Literal::new(literal.dtype(), literal.shape().to_vec(), copy);
    *literal = moved.expect("the same bytes under the same type");
}

/// True if the schedule rules leave a kernel alone: it has a trace, or the pipeline does not schedule.
pub fn is_scheduled(kernel: &PrimFunc) -> bool {
    kernel.attrs.contains_key(UNSCHEDULED_ATTR)
}

/// One kernel through the kernel passes of a target.
pub fn run_kernel(kernel: &PrimFunc, target: &Target, observer: &dyn Observer) -> PrimFunc {
    let unscheduled = is_scheduled(kernel);
    let mut func = Cow::Borrowed(kernel);
    let passes = match target {
        Target::Cpu(_) => KERNEL_PASSES,
        Target::Gpu(_) => GPU_KERNEL_PASSES,
    };
    for (name, pass) in passes.iter().filter(|(name, _)| !unscheduled || *name != "schedule") {
        let start = Instant::now();
        func = Cow::Owned(pass(&func, target));
        observer.after(name, start.elapsed(), StageOutput::Kernel(&func));
    }
    func.into_owned()
}

fn check(module: &Module, after: &str) -> Result<(), LowerError> {
    faults(module).map_err(|list| LowerError::internal(format!("after {after}: {list}")))
}

fn faults(module: &Module) -> Result<(), String> {
    verify::verify(module).map_err(|faults| {
        let list: Vec<String> = faults.iter().take(8).map(ToString::to_string).collect();
        list.join("; ")
    })
}
