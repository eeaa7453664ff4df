//! The pipeline: every pass in order, as a list one can read, stop and time.
//!
//! Graph passes turn a module of operators into a module of kernel calls; the bytecode stage
//! emits the executable; kernel passes run on each kernel alone, so they run in parallel. A
//! verifier runs after every graph pass.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reflex_graph::{FuncData, Literal, Module, verify};
use reflex_tir::codegen::{CpuTarget, GpuTarget, OptLevel, Target};
use reflex_tir::level::Level;
use reflex_tir::verify::verify_gpu;
use reflex_tir::{PrimFunc, lower};
use reflex_vm::executable::AlignedBytes;

use crate::bytecode::{self, Bytecode};
use crate::graph::{
    canonicalize_loops, decompose_conv_transpose, eliminate_dead_code, fold_constants,
    hoist_invariants, propagate_strides, simplify,
};
use crate::optimize_for::{DeviceKind, OptimizeFor};
use crate::precision::Precision;
use crate::{LowerError, fuse, schedule};

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
    /// Arithmetic of float32 contractions.
    pub precision: Precision,
    /// The goal where speed and size differ.
    pub optimize_for: OptimizeFor,
    /// LLVM's level.
    pub opt: OptLevel,
    /// Code generators at work at once; 0 is one per core.
    pub jobs: usize,
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
        let (opt, schedule_for) = (OptLevel::O3, None);
        Options { cpus, schedule_for, precision, optimize_for, opt, jobs: 0 }
    }

    /// The kind of processor that kernels are scheduled for.
    pub fn device_kind(&self) -> DeviceKind {
        match self.schedule_for {
            Some(_) => DeviceKind::Gpu,
            None => DeviceKind::Cpu,
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

/// A graph pass by name.
pub type GraphPass = (&'static str, fn(&mut Module, &Options) -> Result<(), LowerError>);

/// The graph passes, in order.
pub const GRAPH_PASSES: &[GraphPass] = &[
    ("decompose_conv_transpose", |m, _| decompose_conv_transpose(m)),
    ("fold_constants", |m, _| fold_constants(m)),
    ("simplify", |m, _| simplify(m)),
    ("propagate_strides", |m, _| propagate_strides(m)),
    ("canonicalize_loops", |m, _| canonicalize_loops(m)),
    ("hoist_invariants", |m, _| hoist_invariants(m)),
    ("eliminate_dead_code", |m, _| eliminate_dead_code(m)),
    ("fuse_operators", |m, o| {
        fuse::fuse_operators(m, o.precision, o.optimize_for, o.device_kind())
    }),
];

/// A kernel pass by name.
pub type KernelPass = (&'static str, fn(&PrimFunc, &Target) -> PrimFunc);

/// The kernel passes for a CPU, in order.
pub const KERNEL_PASSES: &[KernelPass] =
    &[("schedule", schedule::schedule), ("lower", |f, _| lower::lower(f))];

/// The kernel passes for a GPU whose threads a CPU runs, in order.
pub const GPU_KERNEL_PASSES: &[KernelPass] = &[
    ("schedule", schedule::schedule),
    ("lower", lower_launches),
    ("serialise_threads", |f, _| lower::simplify(&lower::serialise_threads(f))),
];

/// A kernel as a GPU runs it: the kernel passes without the last one, which is for CPUs.
pub fn lower_for_gpu(kernel: &PrimFunc, gpu: &GpuTarget) -> PrimFunc {
    let target = Target::Gpu(gpu.clone());
    let passes = GPU_KERNEL_PASSES.iter().take(GPU_KERNEL_PASSES.len() - 1);
    passes.fold(kernel.clone(), |func, (_, pass)| pass(&func, &target))
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

/// The names of all stages, in order.
pub fn stages() -> Vec<&'static str> {
    let graph = GRAPH_PASSES.iter().map(|(name, _)| *name);
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

/// Sees every stage's result and how long it took.
pub trait Observer: Sync {
    /// Called after each stage; for kernel passes once per kernel, from any thread.
    fn after(&self, stage: &'static str, took: Duration, result: StageOutput<'_>);
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn after(&self, _: &'static str, _: Duration, _: StageOutput<'_>) {}
}

/// The module after its graph passes.
pub fn run_graph(
    mut module: Module,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Module, LowerError> {
    let fits = |cpu: &Cpu| options.precision != Precision::Bf16 || cpu.target.has_avx512_bf16();
    if let Some(cpu) = options.cpus.iter().find(|cpu| !fits(cpu)) {
        let name = cpu.level.map_or_else(|| "this CPU".to_owned(), |level| level.to_string());
        let text = format!(
            "precision bf16 needs AVX512_BF16, which {name} lacks; use f32, or levels v4+bf16 and v4+amx"
        );
        return Err(LowerError::unsupported(text));
    }
    check(&module, "import")?;
    for (name, pass) in GRAPH_PASSES {
        let start = Instant::now();
        pass(&mut module, options)?;
        observer.after(name, start.elapsed(), StageOutput::Graph(&module));
        check(&module, name)?;
    }
    Ok(module)
}

/// The executable of a module that has been through the graph passes, and all its kernels,
/// not yet scheduled.
pub fn run_bytecode(
    mut module: Module,
    observer: &dyn Observer,
) -> Result<(Bytecode, Vec<PrimFunc>), LowerError> {
    let start = Instant::now();
    align_constants(&mut module);
    let mut code = bytecode::emit(&module)?;
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
    kernels.append(&mut code.shape_funcs);
    Ok((code, kernels))
}

/// Moves constants to addresses that programs use in place, one at a time: copying all at load
/// would hold every constant twice. Constants that the session knows already share their memory.
fn align_constants(module: &mut Module) {
    for literal in module.consts.values_mut() {
        *literal = module.pool.intern(literal.clone());
        let bytes = literal.bytes();
        if bytes.as_ptr().addr().is_multiple_of(64) && !literal.keeps_file() {
            continue;
        }
        let copy = Arc::new(AlignedBytes::copy_of(bytes));
        literal.release();
        let moved = Literal::new(literal.dtype(), literal.shape().to_vec(), copy);
        *literal = moved.expect("the same bytes under the same type");
    }
}

/// One kernel through the kernel passes of a target.
pub fn run_kernel(kernel: &PrimFunc, target: &Target, observer: &dyn Observer) -> PrimFunc {
    let mut func = kernel.clone();
    let passes = match target {
        Target::Cpu(_) => KERNEL_PASSES,
        Target::Gpu(_) => GPU_KERNEL_PASSES,
    };
    for (name, pass) in passes {
        let start = Instant::now();
        func = pass(&func, target);
        observer.after(name, start.elapsed(), StageOutput::Kernel(&func));
    }
    func
}

fn check(module: &Module, after: &str) -> Result<(), LowerError> {
    verify::verify(module).map_err(|faults| {
        let list: Vec<String> = faults.iter().take(8).map(ToString::to_string).collect();
        LowerError::internal(format!("after {after}: {}", list.join("; ")))
    })
}
