//! GPU kernels: each launch of a function becomes an entry of one PTX module.
//!
//! Arithmetic is `emit`'s, so a GPU computes what a CPU computes: operations round to nearest
//! (`.rn`), nothing is contracted, denormals stay (no `.ftz`). Pointers have the address space of
//! their memory. Grids and what is between launches are the host's ([`DeviceKernel`]).
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", version 8.0; LLVM, "User Guide for NVPTX
//! Back-end".
//!
//! Decision: docs/decisions/0053-ptx-from-launches.md

mod async_copy;
mod copy_waits;
mod kernel;
mod mma;
mod target_machine;
mod warp_specialised;
mod wgmma;

use inkwell::context::Context;
use inkwell::module::Module;
use reflex_tir::PrimFunc;
use reflex_tir::codegen::{DeviceCode, DeviceKernel, GpuTarget, OptLevel};
use reflex_tir::launch::Launch;
use reflex_tir::verify::verify_gpu;

use crate::error::{CodegenError, Result};
use crate::passes;

/// Generates PTX for a function that [`reflex_tir::lower::lower_gpu`] has lowered.
pub fn compile(func: &PrimFunc, target: &GpuTarget, opt: OptLevel) -> Result<DeviceCode> {
    let context = Context::create();
    let machine = target_machine::create(target, opt)?;
    let (module, kernels) = build_module(&context, func, target, opt)?;
    passes::optimise(&module, &machine, opt, passes::FOR_GPU)?;
    let ptx = kernel::with_clusters(passes::assembly(&module, &machine)?);
    Ok(DeviceCode { ptx, kernels })
}

/// The LLVM IR of a function's kernels before optimisation, for people.
pub fn llvm_ir(func: &PrimFunc, target: &GpuTarget) -> Result<String> {
    let context = Context::create();
    Ok(build_module(&context, func, target, OptLevel::O3)?.0.print_to_string().to_string())
}

fn build_module<'c>(
    context: &'c Context,
    func: &PrimFunc,
    target: &GpuTarget,
    opt: OptLevel,
) -> Result<(Module<'c>, Vec<DeviceKernel>)> {
    verify_gpu(func, target).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
        CodegenError::new(format!("not a lowered GPU function: {}", list.join("; ")))
    })?;
    let module = context.create_module(&func.name);
    // None, where there is nothing to compute: an output without elements.
    let launches = Launch::all(func);
    let kernels = launches.iter().enumerate().map(|(number, launch)| {
        let name = match launches.len() {
            1 => func.name.clone(),
            _ => format!("{}_{number}", func.name),
        };
        kernel::build(context, &module, func, launch, name, opt)
    });
    let kernels = kernels.collect::<Result<Vec<_>>>()?;
    Ok((module, kernels))
}
