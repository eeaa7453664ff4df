//! Kernels that are scheduled by a trace, in place of the schedule rules.
//!
//! A trace comes from the pipeline, by the name of a kernel, or from the attribute
//! [`TRACE_ATTR`] of a kernel in TVMScript. It is applied after the graph passes, where a refusal is
//! still an error of the compilation; the rules then leave the kernel alone. Every primitive checks
//! that no bit changes, so what is checked here is only that the result suits its processor.
//!
//! Decision: docs/decisions/0080-schedule-traces.md

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reflex_graph::{FuncData, Module};
use reflex_tir::codegen::{CpuTarget, GpuTarget};
use reflex_tir::schedule_trace::{Replay, Trace};
use reflex_tir::verify::{IrForm, verify, verify_gpu};
use reflex_tir::{ForKind, PrimFunc, Scope, Stmt, lower};

use crate::LowerError;

/// The attribute of a kernel that holds its trace.
pub const TRACE_ATTR: &str = "reflex.schedule";

/// The attribute of a kernel that the rules leave alone, which decides its code.
pub const UNSCHEDULED_ATTR: &str = "reflex.unscheduled";

/// The processors that a kernel is for.
pub(crate) enum Processors<'a> {
    Gpu(&'a GpuTarget),
    Cpus(Vec<&'a CpuTarget>),
}

/// Schedules the kernels that have traces: those of `asked` by name, and their own.
pub(crate) fn schedule_by_traces(
    module: &mut Module,
    asked: &BTreeMap<String, Arc<Trace>>,
    processors: &Processors<'_>,
) -> Result<(), LowerError> {
    let mut names = BTreeSet::new();
    for func in module.funcs.values_mut() {
        let FuncData::Prim(kernel) = func else { continue };
        names.insert(kernel.name.clone());
        let own = match kernel.attrs.remove(TRACE_ATTR) {
            Some(text) => {
                let trace: Trace = text.parse().map_err(|e| failed(kernel, &e))?;
                Some(Arc::new(trace))
            }
            None => None,
        };
        let Some(trace) = asked.get(&kernel.name).cloned().or(own) else { continue };
        let mut replay = Replay::new(kernel.clone());
        replay.apply_all(&trace).map_err(|e| failed(kernel, &e))?;
        let mut scheduled = replay.into_func();
        if let Err(faults) = verify(&scheduled, IrForm::Scheduled) {
            let name = &kernel.name;
            return Err(LowerError::internal(format!("kernel {name}, scheduled: {}", faults[0])));
        }
        check_processor(&scheduled, processors).map_err(|why| failed(kernel, &why))?;
        scheduled.attrs.insert(UNSCHEDULED_ATTR.to_owned(), "1".to_owned());
        *kernel = scheduled;
    }
    match asked.keys().find(|name| !names.contains(*name)) {
        None => Ok(()),
        Some(name) => {
            let list: Vec<&str> = names.iter().map(String::as_str).collect();
            let text =
                format!("the schedule of {name}: no such kernel; there are {}", list.join(", "));
            Err(LowerError::unsupported(text))
        }
    }
}

fn failed(kernel: &PrimFunc, why: &dyn std::fmt::Display) -> LowerError {
    LowerError::unsupported(format!("the schedule of {}, {why}", kernel.name))
}

/// Checks that a scheduled kernel has nothing that its processors lack.
fn check_processor(func: &PrimFunc, processors: &Processors<'_>) -> Result<(), String> {
    match processors {
        Processors::Gpu(gpu) => check_gpu(func, gpu),
        Processors::Cpus(cpus) => cpus.iter().try_for_each(|cpu| check_cpu(func, cpu)),
    }
}

fn check_gpu(func: &PrimFunc, gpu: &GpuTarget) -> Result<(), String> {
    let faults = verify_gpu(&lower::lower_gpu(func), gpu);
    faults.map_err(|faults| format!("on {}: {}", gpu.name, faults[0]))
}

fn check_cpu(func: &PrimFunc, cpu: &CpuTarget) -> Result<(), String> {
    let mut fault = None;
    func.body.visit(&mut |s| match s {
        Stmt::For(l) => {
            if let ForKind::ThreadBinding(axis) = &l.kind {
                let name = &func.vars[l.var].name;
                fault =
                    Some(format!("loop `{name}` is bound to {}, which a CPU lacks", axis.name()));
            }
        }
        Stmt::Tile(_) if !cpu.has_amx_bf16() => {
            fault = Some("there is a tile instruction, which this CPU or level lacks".to_owned());
        }
        _ => {}
    });
    let shared = func.buffers.values().find(|b| b.scope == Scope::Shared);
    if let Some(buffer) = shared {
        fault = Some(format!("`{}` lies in shared memory, which a CPU lacks", buffer.name));
    }
    fault.map_or(Ok(()), Err)
}
