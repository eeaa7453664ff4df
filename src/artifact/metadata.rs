//! The description inside an artifact: signatures, and the CPU variants of its kernels.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(feature = "compiler")]
use reflex_lower::pipeline::Cpu;
use reflex_tir::abi::RawSignature;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::level::Level;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "compiler")]
use crate::kernels::objects::ByCpu;
use crate::options::TargetSelection;
#[cfg(feature = "compiler")]
use crate::program::loaded::Resources;
use crate::program::shape_variant::NamedVariant;
use crate::signature::{KernelOperations, Signature};

/// Version of [`Metadata`].
const VERSION: u32 = 3;

/// The description that TVM's format has no field for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Metadata {
    version: u32,
    /// The variants of the kernels, the lowest CPU first.
    cpus: Vec<CpuVariant>,
    /// By function.
    pub(crate) signatures: BTreeMap<String, Signature>,
    /// The functions that were compiled for known shapes.
    pub(crate) variants: Vec<NamedVariant>,
    /// The signatures of the kernels' raw entries, under their plain names.
    pub(crate) kernels: Vec<RawSignature>,
    /// The operation counts of kernels, where they are known.
    pub(crate) operations: KernelOperations,
    /// The GPU that the program beside is for, and its cubins.
    #[serde(default)]
    pub(crate) gpu: Option<String>,
}

/// The kernels for one kind of CPU.
#[derive(Serialize, Deserialize)]
pub(crate) struct CpuVariant {
    /// Its level, or `one CPU`.
    pub(crate) name: String,
    /// The ending of the kernels' names.
    pub(crate) suffix: String,
    /// Features the kernels use, as LLVM names them.
    features: BTreeSet<String>,
}

impl Metadata {
    /// Whether kernels may use the CPU's matrix registers (AMX).
    pub(crate) fn uses_matrix_registers(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.features.contains("amx-tile"))
    }

    /// Describes the kernels of a program and their signatures.
    #[cfg(feature = "compiler")]
    pub(crate) fn new(kernels: &ByCpu, resources: &Resources) -> Metadata {
        let lowest = kernels.first().into_iter().flat_map(|(_, objects)| objects);
        Metadata {
            version: VERSION,
            cpus: kernels.iter().map(|(cpu, _)| CpuVariant::new(cpu)).collect(),
            signatures: BTreeMap::clone(&resources.signatures),
            variants: resources.variants.to_vec(),
            kernels: lowest.map(|object| object.signature.clone()).collect(),
            operations: KernelOperations::clone(&resources.operations),
            gpu: None,
        }
    }

    /// The description of a program of which nothing but signatures is known.
    pub(crate) fn of_signatures(signatures: BTreeMap<String, Signature>) -> Metadata {
        Metadata {
            version: VERSION,
            cpus: vec![],
            signatures,
            variants: vec![],
            kernels: vec![],
            operations: KernelOperations::new(),
            gpu: None,
        }
    }

    /// Reads the description of an opened library; `None` when it is not of our version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Metadata> {
        let meta: Metadata = serde_json::from_slice(bytes).ok()?;
        (meta.version == VERSION).then_some(meta)
    }

    /// Returns the variant for the highest CPU that `host` can run, of the levels that `target`
    /// lists where it lists any.
    pub(crate) fn best(&self, target: &TargetSelection) -> Result<&CpuVariant> {
        let TargetSelection { host, levels, .. } = target;
        let asked = |cpu: &&CpuVariant| {
            let of = |l: &Level| cpu.features.is_subset(&l.target().features);
            levels.is_empty() || levels.iter().any(of)
        };
        let runs = |cpu: &&CpuVariant| cpu.features.is_subset(&host.features);
        let best = self.cpus.iter().rev().filter(asked).find(runs);
        best.ok_or_else(|| {
            let lowest = self.cpus.first().and_then(|cpu| missing_features(&cpu.features, host));
            let text = match lowest {
                None => {
                    let names = self.names().join(", ");
                    format!("holds kernels for {names} alone, not for what was asked")
                }
                Some(missing) => format!("{missing}; compile it for this one"),
            };
            Error::new(ErrorKind::Unsupported, text)
        })
    }

    /// Returns the names of the CPUs.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.cpus.iter().map(|cpu| cpu.name.as_str()).collect()
    }
}

/// Returns a message that lists the features of `features` that `host` lacks; `None` if it has all.
pub(crate) fn missing_features(features: &BTreeSet<String>, host: &CpuTarget) -> Option<String> {
    let lacks: Vec<&str> = features.difference(&host.features).map(String::as_str).collect();
    let list = lacks.join(", ");
    (!lacks.is_empty()).then(|| format!("compiled for CPUs with {list}, which this one lacks"))
}

#[cfg(feature = "compiler")]
impl CpuVariant {
    fn new(cpu: &Cpu) -> CpuVariant {
        let name = cpu.level.map_or_else(|| "one CPU".to_owned(), |level| level.to_string());
        CpuVariant { name, suffix: cpu.suffix.clone(), features: cpu.target.features.clone() }
    }
}
