//! Programs whose kernels this process has compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use reflex_lower::compile::Compiled;
use reflex_lower::kernel_source::KernelSource;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::device;
use reflex_runtime::error::Error as Raised;
use reflex_tir::codegen::{KernelTier, ObjectFile};
use reflex_vm::load::Library;

use super::loaded::{LoadedProgram, Resources, verified};
use super::shape_variant::NamedVariant;
use crate::artifact::metadata::missing_features;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::device::DeviceCodes;
use crate::kernels::foreign::{self, ForeignKernels};
use crate::kernels::jit::JitKernels;
use crate::kernels::objects::KernelObjects;
use crate::kernels::tiered::{self, Recompile, Urgency, WhenIdle};
use crate::options::{ExecutionOptions, TargetDevice, TargetSelection};
use crate::signature::Signature;
use crate::tier_policy::KernelSwaps;

/// The size of a dimension that is not known, to compare kernels by.
const USUAL_DIM: u64 = 64;

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

/// Compiles one function again.
type CompileKernel = Box<
    dyn Fn(&KernelSource, usize, Urgency) -> std::result::Result<ObjectFile, String> + Send + Sync,
>;

/// Better code for kernels in the background.
pub(crate) struct Upgrade {
    pub(crate) recompile: CompileKernel,
    pub(crate) swaps: KernelSwaps,
    pub(crate) when_idle: Option<WhenIdle>,
}

/// Loads a compiled program, with the kernels for the highest CPU that `host` can run.
pub(crate) fn load(
    compiled: Compiled,
    interface: Interface,
    target: &TargetSelection,
    execution: &ExecutionOptions,
    retention: ObjectRetention,
    upgrade: Option<Upgrade>,
) -> Result<LoadedProgram> {
    let host = &target.host;
    let best = compiled.kernels.iter().rposition(|(cpu, _)| host.runs(&cpu.target));
    let best = best.unwrap_or(0);
    let (cpu, objects) = &compiled.kernels[best];
    let is_foreign = cpu.target.arch() != host.arch();
    let is_baseline = |object: &ObjectFile| object.tier == KernelTier::Baseline;
    let replaced = match upgrade.filter(|_| objects.iter().any(is_baseline)) {
        Some(upgrade) => {
            let Upgrade { recompile, swaps, when_idle } = upgrade;
            let sources = compiled.sources;
            let operations = &compiled.operations;
            // Dimensions that only a call knows count the same everywhere.
            let count = |name: &str| operations.get(name)?.count(|_, _| Some(USUAL_DIM));
            let suffix = cpu.suffix.clone();
            let recompile =
                Recompile::new(move |at, urgency| recompile(&sources[at], best, urgency));
            let work = |name: &str| count(name).unwrap_or(0);
            Some(tiered::start(objects, &suffix, work, recompile, swaps, when_idle)?)
        }
        None => None,
    };
    let library: Arc<dyn Library + Send + Sync> = match &replaced {
        Some(replaced) => replaced.clone(),
        None if is_foreign => Arc::new(ForeignKernels::of(objects, &cpu.suffix, cpu.target.arch())),
        None => Arc::new(JitKernels::load(objects, &cpu.suffix)?),
    };
    let obstacle = match is_foreign {
        true => Some(foreign::obstacle(cpu.target.arch())),
        false => missing_features(&cpu.target.features, host),
    };
    let failed = |e: Raised| Error::new(ErrorKind::Unsupported, e.message());
    let mut resources = Resources {
        library,
        tiered: replaced,
        device: DLDevice::CPU,
        on_cpu: compiled.on_cpu.as_slice().into(),
        signatures: Arc::new(interface.signatures),
        variants: interface.variants.into(),
        objects: None,
        imports: compiled.made.modules().iter().map(|made| made.module.clone()).collect(),
        device_code: None,
        device_code_source: None,
        obstacle,
        execution: execution.clone(),
        origin: "compiled in this process".to_owned(),
        operations: Arc::new(compiled.operations),
        saved_code: None,
        listing: None,
    };
    if let Some(TargetDevice { id, gpu }) = &target.device {
        let codes = DeviceCodes::of(&gpu.name, &compiled.device, &compiled.on_cpu);
        let codes = codes.map_err(|why| Error::new(ErrorKind::Compile, why))?;
        let device = id.map(device::get).transpose().map_err(failed)?;
        resources.compute_on(codes, device)?;
    }
    if retention == ObjectRetention::Keep {
        resources.objects = Some(Arc::new(KernelObjects::new(compiled.kernels)));
    }
    LoadedProgram::link(verified(compiled.executable)?, resources)
}
