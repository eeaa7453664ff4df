//! Programs whose kernels this process has compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use reflex_lower::compile::Compiled;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::device;
use reflex_runtime::error::Error as Raised;
use reflex_vm::load::Library;

use super::loaded::{LoadedProgram, Resources, verified};
use super::shape_variant::NamedVariant;
use crate::artifact::metadata::missing_features;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::DeviceKernels;
use crate::kernels::jit::JitKernels;
use crate::kernels::objects::KernelObjects;
use crate::options::{ExecutionOptions, TargetSelection};
use crate::signature::Signature;

/// The use of a program's object files after its kernels are loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectRetention {
    /// They are kept, for a program that can be saved.
    Keep,
    /// They are dropped.
    Discard,
}

/// The interface of a program: what its module says and its code does not.
pub(crate) struct Interface {
    pub(crate) signatures: BTreeMap<String, Signature>,
    pub(crate) variants: Vec<NamedVariant>,
}

/// Loads a compiled program, with the kernels for the highest CPU that `host` can run.
pub(crate) fn load(
    compiled: Compiled,
    interface: Interface,
    target: &TargetSelection,
    execution: &ExecutionOptions,
    retention: ObjectRetention,
) -> Result<LoadedProgram> {
    let host = &target.host;
    let best = compiled.kernels.iter().rposition(|(cpu, _)| host.runs(&cpu.target));
    let (cpu, objects) = &compiled.kernels[best.unwrap_or(0)];
    let kernels = JitKernels::load(objects, &cpu.suffix)?;
    let missing_features = missing_features(&cpu.target.features, host);
    let device = target.device.as_ref().map_or(DLDevice::CPU, |device| device.id);
    let library: Arc<dyn Library + Send + Sync> = match device.is_cpu() {
        true => Arc::new(kernels),
        false => {
            let failed = |e: Raised| Error::new(ErrorKind::Unsupported, e.message());
            let device = device::get(device).map_err(failed)?;
            let (functions, on_cpu) = (&compiled.device, &compiled.on_cpu);
            Arc::new(DeviceKernels::load(functions, kernels, on_cpu, device)?)
        }
    };
    let objects = match retention {
        // What a library can hold is host code alone, so far.
        _ if !device.is_cpu() => None,
        ObjectRetention::Keep => Some(Arc::new(KernelObjects::new(compiled.kernels))),
        ObjectRetention::Discard => None,
    };
    let resources = Resources {
        library,
        device,
        on_cpu: compiled.on_cpu.into(),
        signatures: Arc::new(interface.signatures),
        variants: interface.variants.into(),
        objects,
        imports: [].into(),
        missing_features,
        execution: execution.clone(),
        origin: "compiled in this process".to_owned(),
        operations: Arc::new(compiled.operations),
        saved_code: None,
        listing: None,
    };
    LoadedProgram::link(verified(compiled.executable)?, resources)
}
