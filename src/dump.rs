//! The module as text after any stage of the pipeline, schedules, and code for a GPU.

use std::sync::Mutex;
use std::time::Duration;

use reflex_graph::{FuncData, Module};
use reflex_lower::passes::sequence::RuntimeModules;
use reflex_lower::pipeline::{self, Cpu, Observer, Options, StageOutput};
use reflex_lower::schedule;
use reflex_source::Dialect;
use reflex_tir::PrimFunc;
use reflex_tir::codegen::{Codegen, GpuTarget, PROTOCOL, Request, Response, Target};

use crate::error::{Error, ErrorKind, Result};
use crate::passes::Pipeline;

/// An observer that records the text of one stage.
struct StageText<'a> {
    stage: &'a str,
    text: Mutex<String>,
}

impl Observer for StageText<'_> {
    fn after(&self, stage: &str, _: Duration, result: StageOutput<'_>) {
        if stage != self.stage {
            return;
        }
        let text = match result {
            StageOutput::Graph(module) => reflex_graph::print::module(module),
            StageOutput::Bytecode(code) => reflex_vm::text::as_text(&code.executable),
            StageOutput::Kernel(func) => reflex_tir::script::print(func),
        };
        let mut recorded = self.text.lock().expect("printing does not panic");
        recorded.push_str(&text);
        recorded.push('\n');
    }
}

/// An observer that keeps the module that one stage leaves.
struct StageModule<'a> {
    stage: &'a str,
    module: Mutex<Option<Module>>,
}

impl Observer for StageModule<'_> {
    fn after(&self, stage: &str, _: Duration, result: StageOutput<'_>) {
        if stage != self.stage {
            return;
        }
        let mut kept = self.module.lock().expect("copies do not panic");
        match result {
            StageOutput::Graph(module) => *kept = Some(module.clone()),
            StageOutput::Kernel(kernel) => {
                kept.get_or_insert_default().funcs.push(FuncData::Prim(kernel.clone()));
            }
            StageOutput::Bytecode(_) => {}
        }
    }
}

/// Runs the pipeline without generating code, and returns the module that `stage` leaves, or the kernels alone.
pub(crate) fn module_after(
    module: Module,
    stage: &str,
    options: &Options,
    pipeline: &Pipeline,
) -> Result<Module> {
    let keeper = StageModule { stage, module: Mutex::default() };
    run(module, options, pipeline, &keeper)?;
    let kept = keeper.module.into_inner().expect("copies do not panic");
    kept.ok_or_else(|| Error::input(format!("the stage {stage} leaves no module")))
}

/// Runs the pipeline without generating code, and prints what `stage` leaves. The instruments of
/// `pipeline` watch.
pub(crate) fn after(
    module: Module,
    stage: &str,
    options: &Options,
    pipeline: &Pipeline,
) -> Result<String> {
    let recorder = StageText { stage, text: Mutex::default() };
    run(module, options, pipeline, &recorder)?;
    Ok(recorder.text.into_inner().expect("printing does not panic"))
}

fn run(
    module: Module,
    options: &Options,
    pipeline: &Pipeline,
    observer: &dyn Observer,
) -> Result<()> {
    let failed = |e: reflex_lower::LowerError| Error::new(ErrorKind::Compile, e.to_string());
    let watched = pipeline.watched(observer);
    let module = pipeline::run_graph(module, options, &watched).map_err(failed)?;
    watched.finish().map_err(|why| Error::new(ErrorKind::Compile, why))?;
    let (_, kernels) = pipeline::run_bytecode(module, observer).map_err(failed)?;
    for cpu in &options.cpus {
        for kernel in &kernels {
            pipeline::run_kernel(kernel, &options.target(cpu), observer);
        }
    }
    Ok(())
}

/// Returns the schedule of a kernel of the module: the steps taken and the rule of each stage.
pub(crate) fn schedule(module: Module, kernel: &str, options: &Options) -> Result<String> {
    let failed = |e: reflex_lower::LowerError| Error::new(ErrorKind::Compile, e.to_string());
    let module = pipeline::run_graph(module, options, &pipeline::NoObserver).map_err(failed)?;
    let (_, kernels) = pipeline::run_bytecode(module, &pipeline::NoObserver).map_err(failed)?;
    match kernels.iter().find(|k| k.name == kernel) {
        Some(found) => {
            if pipeline::is_scheduled(found) {
                return Ok(format!("{kernel}\n  as its trace says, or not at all\n"));
            }
            let of = |cpu: &Cpu| schedule::schedule_for(found, &options.target(cpu)).to_string();
            Ok(options.cpus.iter().map(of).collect())
        }
        None => Err(no_kernel(kernel, &kernels)),
    }
}

/// Returns a kernel of the module as the graph passes leave it.
pub(crate) fn kernel(module: Module, kernel: &str, options: &Options) -> Result<PrimFunc> {
    let mut made = RuntimeModules::default();
    let failed = |e: reflex_lower::LowerError| Error::new(ErrorKind::Compile, e.to_string());
    let module = pipeline::run_graph_passes(module, options, &pipeline::NoObserver, &mut made);
    let kernels = module.map_err(failed)?.funcs.into_iter().filter_map(|(_, func)| match func {
        FuncData::Prim(kernel) => Some(kernel),
        FuncData::Graph(_) => None,
    });
    let kernels: Vec<PrimFunc> = kernels.collect();
    let found = kernels.iter().find(|k| k.name == kernel).cloned();
    found.ok_or_else(|| no_kernel(kernel, &kernels))
}

/// Returns the PTX of kernels of the module: of all, or of the one that is named.
pub(crate) fn ptx(
    module: Module,
    kernel: Option<&str>,
    options: &Options,
    gpu: &GpuTarget,
    codegen: &dyn Codegen,
) -> Result<Vec<(String, String)>> {
    let failed = |e: reflex_lower::LowerError| Error::new(ErrorKind::Compile, e.to_string());
    let module = pipeline::run_graph(module, options, &pipeline::NoObserver).map_err(failed)?;
    let (_, kernels) = pipeline::run_bytecode(module, &pipeline::NoObserver).map_err(failed)?;
    if let Some(name) = kernel.filter(|name| kernels.iter().all(|k| k.name != *name)) {
        return Err(no_kernel(name, &kernels));
    }
    let wanted = kernels.iter().filter(|k| kernel.is_none_or(|name| k.name == name));
    let code = |kernel: &PrimFunc| {
        let request = Request {
            protocol: PROTOCOL,
            funcs: vec![pipeline::lower_for_ptx(kernel, gpu)],
            target: Target::Gpu(gpu.clone()),
            opt: options.pipeline.opt_level(),
            want_asm: false,
        };
        let name = &kernel.name;
        let message = match codegen.compile(&request) {
            Response::Device(codes) if codes.len() == 1 => {
                return Ok((name.clone(), codes.into_iter().map(|code| code.ptx).collect()));
            }
            Response::Failed { message, .. } => message,
            Response::Device(_) | Response::Objects(_) => "not the code that was asked for".into(),
        };
        Err(Error::new(ErrorKind::Compile, format!("kernel {name}: {message}")))
    };
    wanted.map(code).collect()
}

/// Returns kernels of the module as text in a language: all, or the one that is named. Those for a CPU are scheduled
/// without its matrix registers.
pub(crate) fn source(
    module: Module,
    kernel: Option<&str>,
    mut options: Options,
    dialect: Dialect,
    gpu: &GpuTarget,
) -> Result<String> {
    let failed = |e: reflex_lower::LowerError| Error::new(ErrorKind::Compile, e.to_string());
    options.cpus.truncate(1);
    for cpu in &mut options.cpus {
        cpu.target.features.retain(|feature| !feature.starts_with("amx"));
    }
    let module = pipeline::run_graph(module, &options, &pipeline::NoObserver).map_err(failed)?;
    let (_, kernels) = pipeline::run_bytecode(module, &pipeline::NoObserver).map_err(failed)?;
    if let Some(name) = kernel.filter(|name| kernels.iter().all(|k| k.name != *name)) {
        return Err(no_kernel(name, &kernels));
    }
    let wanted = kernels.iter().filter(|k| kernel.is_none_or(|name| k.name == name));
    let cpu = options.cpus.first().map(|cpu| Target::Cpu(cpu.target.clone()));
    let lowered = |kernel: &PrimFunc| match (dialect, &cpu) {
        (Dialect::C, Some(cpu)) => pipeline::run_kernel(kernel, cpu, &pipeline::NoObserver),
        _ => pipeline::lower_for_gpu(kernel, gpu),
    };
    let funcs: Vec<PrimFunc> = wanted.map(lowered).collect();
    let text = match dialect {
        Dialect::C => reflex_source::c(&funcs),
        Dialect::Cuda => reflex_source::cuda(&funcs, gpu).map(|source| source.text),
        Dialect::OpenCl => reflex_source::opencl(&funcs, gpu).map(|source| source.text),
    };
    text.map_err(|e| Error::new(ErrorKind::Compile, format!("no {dialect} of kernel {e}")))
}

fn no_kernel(name: &str, kernels: &[PrimFunc]) -> Error {
    let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
    Error::input(format!("no kernel {name:?}; there are {}", names.join(", ")))
}
