//! CUDA C and OpenCL C of a GPU function: each launch becomes a kernel.
//!
//! Grids, and what is between launches, are the host's, as they are for PTX.

mod kernel;

use std::collections::HashSet;

use reflex_tir::codegen::{DeviceKernel, GpuTarget};
use reflex_tir::launch::Launch;
use reflex_tir::lower;
use reflex_tir::verify::verify_gpu;
use reflex_tir::{DType, Expr, PrimFunc};

use crate::dialect::Dialect;
use crate::error::{Result, SourceError};
use crate::helpers::Helpers;
use crate::names;
use crate::print::Printer;

/// Text for a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSource {
    /// All kernels.
    pub text: String,
    /// Those of each function: one for each launch, in program order.
    pub kernels: Vec<Vec<DeviceKernel>>,
}

/// The text of functions that [`lower_gpu`](reflex_tir::lower::lower_gpu) has lowered.
pub fn module(funcs: &[PrimFunc], gpu: &GpuTarget, dialect: Dialect) -> Result<DeviceSource> {
    let mut helpers = Helpers::new(dialect);
    let mut taken = HashSet::new();
    let (mut bodies, mut kernels) = (String::new(), vec![]);
    for func in funcs {
        let named = |e: SourceError| SourceError::new(format!("{}: {e}", func.name));
        let (text, of_func) =
            function(func, gpu, dialect, &mut helpers, &mut taken).map_err(named)?;
        bodies.push_str(&text);
        kernels.push(of_func);
    }
    let text = format!("{}{}{bodies}", head(dialect, helpers.has_double), helpers.text());
    Ok(DeviceSource { text, kernels })
}

/// The beginning of each text.
fn head(dialect: Dialect, has_double: bool) -> String {
    match dialect {
        Dialect::OpenCl => {
            let double = match has_double {
                true => "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
                false => "",
            };
            format!(
                "/* OpenCL C 1.2, by Reflex. Build it with -cl-fp32-correctly-rounded-divide-sqrt, and without options that relax\n * arithmetic. Fused multiply-adds are written as such. */\n#pragma OPENCL FP_CONTRACT OFF\n{double}"
            )
        }
        _ => "/* CUDA C, by Reflex. Compile it without --use_fast_math; products are written such that none becomes part of a fused\n * multiply-add. Shared memory is dynamic: a launch says how much. */\n".to_owned(),
    }
}

fn function(
    func: &PrimFunc,
    gpu: &GpuTarget,
    dialect: Dialect,
    helpers: &mut Helpers,
    taken: &mut HashSet<String>,
) -> Result<(String, Vec<DeviceKernel>)> {
    verify_gpu(func, gpu).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
        SourceError::new(format!("not a lowered GPU function: {}", list.join("; ")))
    })?;
    let func = &lower::lower_bf16_dots(func);
    // None, where there is nothing to compute: an output without elements.
    let launches = Launch::all(func);
    let (mut text, mut kernels) = (String::new(), vec![]);
    for (number, launch) in launches.iter().enumerate() {
        let name = match launches.len() {
            1 => func.name.clone(),
            _ => format!("{}_{number}", func.name),
        };
        let name = names::kernel_name(name);
        if !names::is_identifier(&name) || !taken.insert(name.clone()) {
            return Err(SourceError::new(format!(
                "no kernel of {dialect} can be called {name:?}, or another one is; give it another name"
            )));
        }
        let (body, kernel) = kernel::print(func, launch, name, dialect, helpers)?;
        text.push_str(&format!("\n{}{body}", described(func, &kernel)?));
        kernels.push(kernel);
    }
    Ok((text, kernels))
}

/// A comment that says how a kernel is launched.
fn described(func: &PrimFunc, kernel: &DeviceKernel) -> Result<String> {
    let mut helpers = Helpers::new(Dialect::C);
    let mut p = Printer::new(Dialect::C, func, &mut helpers);
    let mut grid = vec![];
    for extent in &kernel.grid {
        extent.visit(&mut |e: &Expr| {
            if let Some(var) = e.as_var().filter(|_| e.dtype() == DType::I64) {
                p.vars.insert(var, func.vars[var].name.to_string());
                p.positions.insert(var);
            }
        });
        grid.push(p.index(extent)?.as_str().replace("*/", "* /"));
    }
    let [x, y, z] = kernel.block;
    let (grid, shared) = (grid.join(", "), kernel.shared_bytes);
    Ok(format!("/* grid {grid}; block {x}, {y}, {z}; {shared} bytes of shared memory */\n"))
}
