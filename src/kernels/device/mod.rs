//! Kernels that run on a GPU, as packed functions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use reflex_runtime::device::waits::Wait;
use reflex_runtime::device::{CodeSource, Device, KernelCode, LoadedKernels};
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::tensor::transfer::host_copy_of;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::load::Library;

use crate::error::{Error, ErrorKind, Result};

mod code;
mod deflated;
mod host_entry;
mod host_expr;
mod host_plan;
mod parallel;
#[cfg(feature = "compiler")]
pub(crate) mod ptxas;

pub(crate) use code::{DeviceCodes, FunctionCode};
use host_entry::HostEntry;

/// The kernels of a program for a GPU: those that run on it, and those for host memory.
pub(crate) struct DeviceKernels {
    on_device: HashMap<String, Function>,
    /// Kernels of shape arithmetic, and those that the CPU runs for the GPU.
    on_cpu: Arc<dyn Library + Send + Sync>,
    /// The origin of each function that is loaded.
    sources: Vec<CodeSource>,
}

impl DeviceKernels {
    /// Loads verified kernels onto a device. Those that it has no code for run on the CPU, with
    /// tensors that are copied there and back.
    pub(crate) fn load(
        codes: &DeviceCodes,
        on_cpu: Arc<dyn Library + Send + Sync>,
        device: &'static dyn Device,
    ) -> Result<DeviceKernels> {
        let failed = |e: Raised| Error::new(ErrorKind::Compile, e.message());
        let mut on_device = HashMap::new();
        let kernels = load_all(&codes.functions, device).map_err(failed)?;
        let sources = kernels.iter().map(|kernels| kernels.source().clone()).collect();
        for (FunctionCode { plan, .. }, kernels) in codes.functions.iter().zip(kernels) {
            let entry = Arc::new(HostEntry::new(plan.clone(), device, kernels));
            on_device.insert(plan.name().to_owned(), Function::new(move |args| entry.call(args)));
        }
        for name in &codes.on_cpu {
            let Some(kernel) = on_cpu.function(name) else { continue };
            let function = Function::new(move |args| call_on_cpu(&kernel, args));
            on_device.insert(name.clone(), function);
        }
        Ok(DeviceKernels { on_device, on_cpu, sources })
    }

    /// The origins of its functions, with their number: `12 functions from cubins for sm_90`.
    pub(crate) fn made_of(&self) -> String {
        let (mut counts, mut first) = (BTreeMap::<String, usize>::new(), None);
        for source in &self.sources {
            let made = match source {
                CodeSource::Image(arch) => format!("from cubins for {arch}"),
                CodeSource::Text { refused: None } => {
                    "from PTX, which the driver compiled".to_owned()
                }
                CodeSource::Text { refused: Some(why) } => {
                    first.get_or_insert(why);
                    "from PTX, as the driver refused their cubins".to_owned()
                }
            };
            *counts.entry(made).or_default() += 1;
        }
        let parts = counts.iter().map(|(made, count)| {
            format!("{count} {} {made}", if *count == 1 { "function" } else { "functions" })
        });
        let text = parts.collect::<Vec<_>>().join(", ");
        first.map_or_else(|| text.clone(), |why| format!("{text} ({why})"))
    }

    /// Kernels of a program that is read or saved, and not run: there is no device.
    pub(crate) fn closed(
        codes: &DeviceCodes,
        on_cpu: Arc<dyn Library + Send + Sync>,
    ) -> DeviceKernels {
        let text = needs_device(&codes.gpu);
        let names = codes.functions.iter().map(|function| function.plan.name());
        let closed = names.chain(codes.on_cpu.iter().map(String::as_str)).map(|name| {
            let text = text.clone();
            let refuse = move |_: &[AnyView<'_>]| Err(Raised::value_error(text.clone()));
            (name.to_owned(), Function::new(refuse))
        });
        DeviceKernels { on_device: closed.collect(), on_cpu, sources: vec![] }
    }
}

/// The kernels of each function; equal texts are loaded once. One after another: a driver's compiler takes
/// longer for texts that several threads give it.
fn load_all(
    functions: &[FunctionCode],
    device: &dyn Device,
) -> std::result::Result<Vec<Arc<dyn LoadedKernels>>, Raised> {
    let (mut distinct, mut numbers) = (vec![], HashMap::new());
    let places = functions.iter().map(|FunctionCode { plan, ptx, images, .. }| {
        let kernels = plan.kernels();
        let key = kernels.iter().map(|kernel| (kernel.name.clone(), kernel.shared_bytes));
        *numbers.entry((ptx.as_str(), key.collect::<Vec<_>>())).or_insert_with(|| {
            distinct.push((KernelCode { text: ptx, images }, kernels));
            distinct.len() - 1
        })
    });
    let places: Vec<usize> = places.collect();
    let load = |(code, kernels): (_, Vec<_>)| device.load(&code, &kernels).map(Arc::from);
    let loaded = distinct.into_iter().map(load);
    let loaded = loaded.collect::<std::result::Result<Vec<Arc<dyn LoadedKernels>>, _>>()?;
    Ok(places.into_iter().map(|at| loaded[at].clone()).collect())
}

/// Why a program for a GPU does not run where no device was opened for it.
pub(crate) fn needs_device(gpu: &str) -> String {
    format!("its kernels are for {gpu}: load it for a device, such as cuda:0 (--device cuda:0)")
}

impl Library for DeviceKernels {
    fn function(&self, name: &str) -> Option<Function> {
        self.on_device.get(name).cloned().or_else(|| self.on_cpu.function(name))
    }

    fn raw(&self, name: &str) -> Option<reflex_vm::kernel::RawKernel> {
        if self.on_device.contains_key(name) { None } else { self.on_cpu.raw(name) }
    }

    fn provide(&self, functions: &HashMap<String, Function>) {
        self.on_cpu.provide(functions);
    }
}

/// Calls a kernel for CPUs on tensors of a device: all are copied to the host, and back, since any
/// may be written.
fn call_on_cpu(kernel: &Function, args: &[AnyView<'_>]) -> std::result::Result<Any, Raised> {
    let (mut moved, mut copies): (Vec<(Tensor, Tensor)>, Vec<Any>) = (vec![], vec![]);
    for arg in args {
        match arg.downcast_ref::<Tensor>() {
            Some(tensor) if !tensor.device().is_host() => {
                let copy = host_copy_of(tensor.dl(), Wait::CpuKernel)?;
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
