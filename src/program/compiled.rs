//! Programs whose kernels this process has compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use reflex_lower::compile::Compiled;
use reflex_tir::codegen::CpuTarget;

use super::loaded::{LoadedProgram, Resources, verified};
use super::shape_variant::NamedVariant;
use crate::artifact::metadata::missing_features;
use crate::error::Result;
use crate::kernels::jit::JitKernels;
use crate::kernels::objects::KernelObjects;
use crate::options::ExecutionOptions;
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
    host: &CpuTarget,
    execution: &ExecutionOptions,
    retention: ObjectRetention,
) -> Result<LoadedProgram> {
    let best = compiled.kernels.iter().rposition(|(cpu, _)| host.runs(&cpu.target));
    let (cpu, objects) = &compiled.kernels[best.unwrap_or(0)];
    let kernels = JitKernels::load(objects, &cpu.suffix)?;
    let missing_features = missing_features(&cpu.target.features, host);
    let objects = match retention {
        ObjectRetention::Keep => Some(Arc::new(KernelObjects::new(compiled.kernels))),
        ObjectRetention::Discard => None,
    };
    let resources = Resources {
        library: Arc::new(kernels),
        signatures: Arc::new(interface.signatures),
        variants: interface.variants.into(),
        objects,
        missing_features,
        execution: execution.clone(),
        origin: "compiled in this process".to_owned(),
        operations: Arc::new(compiled.operations),
        saved_code: None,
        listing: None,
    };
    LoadedProgram::link(verified(compiled.executable)?, resources)
}
