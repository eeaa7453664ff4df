//! Programs whose kernels this process has compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use reflex_lower::compile::Compiled;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::device;
use reflex_runtime::error::Error as Raised;

use super::loaded::{LoadedProgram, Resources, verified};
use super::shape_variant::NamedVariant;
use crate::artifact::metadata::missing_features;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::DeviceCodes;
use crate::kernels::jit::JitKernels;
use crate::kernels::objects::KernelObjects;
use crate::options::{ExecutionOptions, TargetDevice, TargetSelection};
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
    let failed = |e: Raised| Error::new(ErrorKind::Unsupported, e.message());
    let mut resources = Resources {
        library: Arc::new(kernels),
        device: DLDevice::CPU,
        on_cpu: compiled.on_cpu.as_slice().into(),
        signatures: Arc::new(interface.signatures),
        variants: interface.variants.into(),
        objects: None,
        imports: [].into(),
        device_code: None,
        obstacle: missing_features,
        execution: execution.clone(),
        origin: "compiled in this process".to_owned(),
        operations: Arc::new(compiled.operations),
        saved_code: None,
        listing: None,
    };
    if let Some(TargetDevice { id, target }) = &target.device {
        let codes = DeviceCodes::of(&target.gpu.name, &compiled.device, &compiled.on_cpu);
        let codes = codes.map_err(|why| Error::new(ErrorKind::Compile, why))?;
        let device = id.map(device::get).transpose().map_err(failed)?;
        resources.compute_on(codes, device)?;
    }
    if retention == ObjectRetention::Keep {
        resources.objects = Some(Arc::new(KernelObjects::new(compiled.kernels)));
    }
    LoadedProgram::link(verified(compiled.executable)?, resources)
}
