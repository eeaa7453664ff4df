//! Kernels that run on a GPU, as packed functions.

use std::collections::HashMap;
use std::sync::Arc;

use reflex_lower::compile::DeviceFunction;
use reflex_runtime::device::Device;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::load::Library;

use super::jit::JitKernels;
use crate::error::{Error, ErrorKind, Result};

mod host_entry;
mod host_expr;

/// The kernels of a program for a GPU: those that run on it, and those for host memory.
pub(crate) struct DeviceKernels {
    on_device: HashMap<String, Function>,
    /// Kernels of shape arithmetic, and those that the CPU runs for the GPU.
    on_cpu: JitKernels,
}

impl DeviceKernels {
    /// Loads the kernels of `functions` onto a device. Those in `for_device` run on the CPU, with
    /// tensors that are copied there and back.
    pub(crate) fn load(
        functions: &[DeviceFunction],
        on_cpu: JitKernels,
        for_device: &[String],
        device: &'static dyn Device,
    ) -> Result<DeviceKernels> {
        let failed = |e: Raised| Error::new(ErrorKind::Compile, e.message());
        let mut on_device = HashMap::new();
        for DeviceFunction { func, code } in functions {
            let entry = Arc::new(host_entry::build(func, code, device).map_err(failed)?);
            on_device.insert(func.name.clone(), Function::new(move |args| entry.call(args)));
        }
        for name in for_device {
            let Some(kernel) = on_cpu.function(name) else { continue };
            let function = Function::new(move |args| call_on_cpu(&kernel, args));
            on_device.insert(name.clone(), function);
        }
        Ok(DeviceKernels { on_device, on_cpu })
    }
}

impl Library for DeviceKernels {
    fn function(&self, name: &str) -> Option<Function> {
        self.on_device.get(name).cloned().or_else(|| self.on_cpu.function(name))
    }

    fn raw(&self, name: &str) -> Option<reflex_vm::kernel::RawKernel> {
        if self.on_device.contains_key(name) { None } else { self.on_cpu.raw(name) }
    }
}

/// Calls a kernel for CPUs on tensors of a device: all are copied to the host, and back, since any
/// may be written.
fn call_on_cpu(kernel: &Function, args: &[AnyView<'_>]) -> std::result::Result<Any, Raised> {
    let (mut moved, mut copies): (Vec<(Tensor, Tensor)>, Vec<Any>) = (vec![], vec![]);
    for arg in args {
        match arg.downcast_ref::<Tensor>() {
            Some(tensor) if !tensor.device().is_host() => {
                let copy = tensor.to_host()?;
                copies.push(copy.clone().into());
                moved.push((tensor.clone(), copy));
            }
            _ => copies.push(arg.to_owned()),
        }
    }
    let result = kernel.call(AnyView::slice(&copies))?;
    for (tensor, copy) in moved {
        // SAFETY: the program's code alone uses the tensor, on this thread.
        unsafe { tensor.assign(&copy)? };
    }
    Ok(result)
}
