//! From a module to an executable and its kernels' objects.
//!
//! [`lower`] runs the graph passes, [`generate`] makes code of kernels; between them a program can be stored
//! ([`crate::program_cache`]).
//!
//! Kernels are independent, so worker threads take them one by one: look in the cache, schedule,
//! lower, generate code. The order of the result does not depend on who was faster.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reflex_graph::Module;
use reflex_tir::PrimFunc;
use reflex_tir::codegen::{
    Codegen, DeviceCode, GpuTarget, ObjectFile, PROTOCOL, Request, Response, Target,
};
use reflex_tir::flops::FlopCount;
use reflex_vm::executable::Executable;

use crate::LowerError;
use crate::error::ErrorKind;
use crate::kernel_cache::{KernelCache, RequestDigest};
use crate::kernel_name::{renamed, stand_in};
use crate::kernel_source::KernelSource;
use crate::parallel::in_parallel;
use crate::passes::sequence::RuntimeModules;
use crate::pipeline::{
    Cpu, DeviceTarget, Observer, Options, WithoutCode, lower_for_ptx, run_bytecode, run_kernel,
    run_passes,
};

/// The attribute of a kernel that names the GPU it is scheduled for, which decides its code.
const GPU_ATTR: &str = "reflex.gpu";

/// A compiled module.
#[derive(Debug)]
pub struct Compiled {
    /// The bytecode; its packed functions that are not builtins are the kernels.
    pub executable: Executable,
    /// The kernels for each CPU, the lowest first.
    pub kernels: Vec<(Cpu, Vec<ObjectFile>)>,
    /// The functions of these kernels before they were scheduled, in the same order.
    pub sources: Arc<[KernelSource]>,
    /// The kernels that run on a GPU; the others work on host memory.
    pub device: Vec<DeviceFunction>,
    /// The kernels without code for the GPU, which the CPU runs.
    pub on_cpu: Vec<String>,
    /// Operations of a call of each kernel, where their number is known.
    pub operations: BTreeMap<String, FlopCount>,
    /// The runtime modules that passes made, whose functions the program calls.
    pub made: RuntimeModules,
    /// Where the time went.
    pub report: Report,
}

/// A kernel that runs on a GPU.
#[derive(Clone, Debug)]
pub struct DeviceFunction {
    /// The function as it was lowered: the host's part is what is outside of launches.
    pub func: PrimFunc,
    /// The code of its launches.
    pub code: DeviceCode,
}

/// Where the time of a compilation went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Graph passes and bytecode, or finding the program that was stored.
    pub graph: Duration,
    /// Whether the program was stored, so that no graph pass ran.
    pub stored: bool,
    /// Everything about kernels, on the clock.
    pub kernels: Duration,
    /// Kernels found in the cache.
    pub cached: usize,
    /// Kernels generated, with the code generator's own time.
    pub generated: Vec<(String, Duration)>,
}

/// The progress of a compilation, after each kernel.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Kernels finished.
    pub done: usize,
    /// All kernels.
    pub total: usize,
    /// The kernel that finished.
    pub name: &'a str,
}

/// The services that a compilation uses: code generator, kernel cache, observers.
pub struct Toolchain<'a> {
    /// Generates code.
    pub codegen: &'a dyn Codegen,
    /// Kernels compiled before.
    pub cache: Option<&'a KernelCache>,
    /// Kernels of another code generator, which are preferred, and not added to.
    pub preferred: Option<&'a KernelCache>,
    /// Sees every stage; kernels found in the cache go through none.
    pub observer: &'a dyn Observer,
    /// Told of each finished kernel, from any thread.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// A module after its graph passes: bytecode, and kernels that are not scheduled yet.
#[derive(Debug)]
pub struct LoweredModule {
    /// As in [`Compiled`].
    pub executable: Executable,
    /// The kernels.
    pub kernels: Vec<KernelSource>,
    /// As in [`Compiled`].
    pub operations: BTreeMap<String, FlopCount>,
    /// As in [`Compiled`].
    pub made: RuntimeModules,
    /// The kernels that compute shapes, on the host of any device.
    pub(crate) of_host: BTreeSet<String>,
    /// Whether it was stored.
    pub(crate) stored: bool,
    /// The time that it took.
    pub(crate) took: Duration,
}

/// Compiles a module.
pub fn compile(
    module: Module,
    options: &Options,
    tools: &Toolchain<'_>,
) -> Result<Compiled, LowerError> {
    generate(lower(module, options, tools.observer)?, options, tools)
}

/// Runs the graph passes on a module and emits its bytecode.
pub fn lower(
    module: Module,
    options: &Options,
    observer: &dyn Observer,
) -> Result<LoweredModule, LowerError> {
    let start = Instant::now();
    let mut made = RuntimeModules::default();
    let files = module.late_files.clone();
    let module = run_passes(module, options, observer, &mut made)?;
    let (code, kernels) = run_bytecode(module, observer)?;
    // All constants are where the program has them: what was read of files has to be right.
    let read = files.iter().try_for_each(|file| file.check());
    read.map_err(|e| LowerError::new(ErrorKind::Io, format!("weights of the model: {e}")))?;
    let known = |kernel: &PrimFunc| Some((kernel.name.clone(), FlopCount::of(kernel)?));
    let operations = kernels.iter().filter_map(known).collect();
    let of_host = code.shape_funcs.iter().map(|func| func.name.clone()).collect();
    let (executable, took) = (code.executable, start.elapsed());
    let kernels = kernels.into_iter().map(KernelSource::from).collect();
    let stored = false;
    Ok(LoweredModule { executable, kernels, operations, made, of_host, stored, took })
}

/// Makes code of the kernels of a module, or finds it in the cache.
pub fn generate(
    lowered: LoweredModule,
    options: &Options,
    tools: &Toolchain<'_>,
) -> Result<Compiled, LowerError> {
    let LoweredModule { executable, kernels, operations, made, of_host, stored, took } = lowered;
    let mut report = Report { graph: took, stored, ..Report::default() };
    let start = Instant::now();
    let parts = match &options.device {
        Some(device) => place(kernels, &of_host, device, options, tools)?,
        None => Parts { host: kernels, ..Parts::default() },
    };
    let Parts { host: kernels, device, on_cpu } = parts;
    let objects = compile_all(&kernels, options, tools).into_iter().map(|outcome| {
        let (object, generated) = outcome?;
        match generated {
            true => {
                let took = Duration::from_micros(object.micros);
                report.generated.push((object.signature.name.clone(), took));
            }
            false => report.cached += 1,
        }
        Ok(object)
    });
    let mut objects = objects.collect::<Result<Vec<_>, LowerError>>()?.into_iter();
    let of_cpu = |cpu: &Cpu| (cpu.clone(), objects.by_ref().take(kernels.len()).collect());
    let objects_by_cpu = options.cpus.iter().map(of_cpu).collect();
    if let Some(cache) = tools.cache.filter(|_| !report.generated.is_empty()) {
        cache.flush();
        cache.prune();
    }
    report.kernels = start.elapsed();
    Ok(Compiled {
        executable,
        kernels: objects_by_cpu,
        sources: kernels.into(),
        device,
        on_cpu,
        operations,
        made,
        report,
    })
}

/// Kernels by where they run.
#[derive(Default)]
struct Parts {
    /// Those for the CPUs.
    host: Vec<KernelSource>,
    device: Vec<DeviceFunction>,
    /// The names of those among `host` that the device lacks.
    on_cpu: Vec<String>,
}

/// Generates the device's code, and says which kernels are for the CPUs: those that are the host's,
/// and those that the device has no code for, where that is allowed.
fn place(
    kernels: Vec<KernelSource>,
    of_host: &BTreeSet<String>,
    target: &DeviceTarget,
    options: &Options,
    tools: &Toolchain<'_>,
) -> Result<Parts, LowerError> {
    let (host, wanted): (Vec<_>, Vec<_>) =
        kernels.into_iter().partition(|kernel| of_host.contains(&kernel.name));
    let done = AtomicUsize::new(0);
    let codes = in_parallel(wanted.len(), options.jobs, |at| {
        let func = wanted[at].func();
        let code = func.and_then(|func| device_code(&func, &target.gpu, options, tools));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let (total, name) = (wanted.len(), wanted[at].name.as_str());
        (tools.progress)(Progress { done, total, name });
        code
    });
    let mut parts = Parts { host, ..Parts::default() };
    for (kernel, code) in wanted.into_iter().zip(codes) {
        match (code, target.without_code) {
            (Ok(function), _) => parts.device.push(function),
            (Err(_), WithoutCode::RunOnCpu) => {
                parts.on_cpu.push(kernel.name.clone());
                parts.host.push(kernel);
            }
            (Err(why), WithoutCode::Refuse) => {
                let text = format!(
                    "{why}; {} has no code for this kernel, and the CPU runs it if allowed to (--allow-cpu)",
                    target.gpu.name
                );
                return Err(LowerError::codegen(text));
            }
        }
    }
    Ok(parts)
}

/// The code of one kernel for a GPU.
fn device_code(
    kernel: &PrimFunc,
    gpu: &GpuTarget,
    options: &Options,
    tools: &Toolchain<'_>,
) -> Result<DeviceFunction, LowerError> {
    let func = lower_for_ptx(kernel, gpu);
    let request = Request {
        protocol: PROTOCOL,
        funcs: vec![func],
        target: Target::Gpu(gpu.clone()),
        opt: options.pipeline.opt_level(),
        want_asm: false,
    };
    let name = &kernel.name;
    let message = match tools.codegen.compile(&request) {
        Response::Device(mut codes) if codes.len() == 1 => {
            let (code, mut funcs) = (codes.remove(0), request.funcs);
            return Ok(DeviceFunction { func: funcs.remove(0), code });
        }
        Response::Failed { message, .. } => message,
        Response::Device(_) | Response::Objects(_) => "not the code that was asked for".to_owned(),
    };
    Err(LowerError::codegen(format!("kernel {name}: {message}")))
}

type Outcome = Result<(ObjectFile, bool), LowerError>;

/// As many kernels as are looked up in the time in which a thread starts.
const FEW: usize = 8;

/// Every kernel for the first CPU, then every kernel for the next.
fn compile_all(kernels: &[KernelSource], options: &Options, tools: &Toolchain<'_>) -> Vec<Outcome> {
    let cpus = 0..options.cpus.len();
    let wanted = cpus.flat_map(|cpu| kernels.iter().map(move |kernel| (cpu, kernel)));
    let wanted: Vec<_> = wanted.collect();
    if wanted.len() <= FEW
        && let Some(found) = all_found(&wanted, options, tools)
    {
        return found;
    }
    let (done, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    // The largest first, so that no thread is left alone with one at the end.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_cached_key(|at| Reverse(wanted[*at].1.weight()));
    let in_order = in_parallel(wanted.len(), options.jobs, |turn| {
        let (cpu, kernel) = wanted[order[turn]];
        if failed.load(Ordering::Relaxed) {
            return None;
        }
        let outcome = compile_one(kernel, cpu, options, tools);
        failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let (total, name) = (wanted.len(), kernel.name.as_str());
        (tools.progress)(Progress { done, total, name });
        Some(outcome)
    });
    let mut outcomes: Vec<Option<Outcome>> = in_order.iter().map(|_| None).collect();
    for (at, outcome) in order.into_iter().zip(in_order) {
        outcomes[at] = outcome;
    }
    // The first error stands for all: what came after it was not tried.
    if let Some(at) = outcomes.iter().position(|o| matches!(o, Some(Err(_)))) {
        return outcomes.swap_remove(at).into_iter().collect();
    }
    outcomes.into_iter().flatten().collect()
}

/// All kernels, if each is found by a digest that is known.
fn all_found(
    wanted: &[(usize, &KernelSource)],
    options: &Options,
    tools: &Toolchain<'_>,
) -> Option<Vec<Outcome>> {
    let found = |&(cpu, kernel): &(usize, &KernelSource)| {
        let object = look_up(kernel, cpu, &kernel.digest(cpu)?, options, tools)?;
        Some(Ok((object, false)))
    };
    let found: Option<Vec<Outcome>> = wanted.iter().map(found).collect();
    let total = wanted.len();
    for (done, (_, kernel)) in wanted.iter().enumerate().filter(|_| found.is_some()) {
        (tools.progress)(Progress { done: done + 1, total, name: &kernel.name });
    }
    found
}

/// The code of a kernel in the cache, under its own name.
fn look_up(
    kernel: &KernelSource,
    cpu: usize,
    digest: &RequestDigest,
    options: &Options,
    tools: &Toolchain<'_>,
) -> Option<ObjectFile> {
    let caches = tools.preferred.iter().chain(&tools.cache);
    let object = caches.into_iter().find_map(|cache| cache.get(&cache.key_of(digest)))?;
    renamed(object, &own_name(kernel, cpu, options))
}

fn own_name(kernel: &KernelSource, cpu: usize, options: &Options) -> String {
    format!("{}{}", kernel.name, options.cpus[cpu].suffix)
}

/// Compiles one of [`Compiled::sources`] for CPU number `cpu` of the options, or finds it in the cache.
pub fn compile_kernel(
    kernel: &KernelSource,
    cpu: usize,
    options: &Options,
    tools: &Toolchain<'_>,
) -> Result<ObjectFile, LowerError> {
    let compiled = compile_one(kernel, cpu, options, tools);
    if let Some(cache) = tools.cache {
        cache.flush();
    }
    compiled.map(|(object, _)| object)
}

/// The request for a kernel, which is not scheduled yet.
pub(crate) fn request(
    kernel: &KernelSource,
    cpu: usize,
    options: &Options,
) -> Result<Request, LowerError> {
    let mut func = kernel.func()?.into_owned();
    let cpu = &options.cpus[cpu];
    func.name.push_str(&cpu.suffix);
    if let Some(gpu) = &options.schedule_for {
        func.attrs.insert(GPU_ATTR.to_owned(), gpu.name.clone());
    }
    Ok(Request {
        protocol: PROTOCOL,
        funcs: vec![func],
        target: Target::Cpu(cpu.target.clone()),
        opt: options.pipeline.opt_level(),
        want_asm: false,
    })
}

fn compile_one(
    kernel: &KernelSource,
    cpu: usize,
    options: &Options,
    tools: &Toolchain<'_>,
) -> Outcome {
    let mut unscheduled = None;
    let digest = match kernel.digest(cpu) {
        Some(digest) => digest,
        None => RequestDigest::of(unscheduled.insert(request(kernel, cpu, options)?)),
    };
    if let Some(object) = look_up(kernel, cpu, &digest, options, tools) {
        return Ok((object, false));
    }
    let own_name = own_name(kernel, cpu, options);
    let mut request = unscheduled.map_or_else(|| request(kernel, cpu, options), Ok)?;
    for func in &mut request.funcs {
        *func = run_kernel(func, &options.target(&options.cpus[cpu]), tools.observer);
    }
    if let Some(cache) = tools.cache {
        request.funcs.iter_mut().for_each(|func| func.name = stand_in(&func.name));
        let object = object_of(kernel, &request, tools)?;
        cache.put(&cache.key_of(&digest), &object);
        if let Some(object) = renamed(object, &own_name) {
            return Ok((object, true));
        }
        request.funcs.iter_mut().for_each(|func| func.name.clone_from(&own_name));
    }
    Ok((object_of(kernel, &request, tools)?, true))
}

/// Has the code of one kernel generated.
fn object_of(
    kernel: &KernelSource,
    request: &Request,
    tools: &Toolchain<'_>,
) -> Result<ObjectFile, LowerError> {
    let name = &kernel.name;
    match tools.codegen.compile(request) {
        Response::Objects(mut objects) if objects.len() == 1 => Ok(objects.remove(0)),
        Response::Objects(objects) => {
            let text = format!("kernel {name}: {} objects for one function", objects.len());
            Err(LowerError::codegen(text))
        }
        Response::Device(_) => {
            Err(LowerError::codegen(format!("kernel {name}: code of a GPU for a CPU")))
        }
        Response::Failed { message, .. } => {
            Err(LowerError::codegen(format!("kernel {name}: {message}")))
        }
    }
}
