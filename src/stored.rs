//! Programs of ONNX models and of PyTorch, stored as they were lowered: a start that finds one imports nothing, runs no pass
//! and packs no weights.
//!
//! An entry is named by the build, the options of compilation, and samples of the model's own file, so that a
//! start without an entry reads no file twice. The contents of all files of the model stand in the entry, and are
//! compared before it is used. What depends on code of the caller's is not stored.
//!
//! Decision: docs/decisions/0091-stored-programs.md

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use reflex_graph::registered;
use reflex_lower::compile::LoweredModule;
use reflex_lower::content_digest::ContentDigest;
use reflex_lower::kernel_cache::{self, KernelCache};
use reflex_lower::pipeline;
use reflex_lower::program_cache::{InputFile, Origin, Program, ProgramKey};

use crate::compiler::{Compiler, Lowered, StoreProgram};
use crate::model_source::import::OpenModel;
use crate::model_source::{ModelFormat, ModelSource};
use crate::signature::Signature;

/// Tells builds apart: a hash of their sources. Empty where the build script does not see them all.
const BUILD: &str = env!("REFLEX_SOURCES");

/// A program that was found.
pub(crate) struct Found {
    pub(crate) lowered: LoweredModule,
    pub(crate) signatures: BTreeMap<String, Signature>,
    pub(crate) model: OpenModel,
}

/// The entry of a model in the cache.
pub(crate) struct Entry {
    key: ProgramKey,
    cache: KernelCache,
}

impl Entry {
    /// The entry of a model; `None` if its program cannot be stored: it is neither ONNX nor PyTorch's, code of the caller's
    /// decides what it means, or there is no cache.
    pub(crate) fn of(source: &ModelSource, compiler: &Compiler) -> Option<Entry> {
        let format = source.format().ok()?;
        let is_file = matches!(format, ModelFormat::Onnx | ModelFormat::Torch);
        let target = &compiler.target;
        let on_cpu = target.device.is_none() && target.schedule_for.is_none();
        let pipeline = &compiler.pipeline;
        let own_code = pipeline.has_callbacks()
            || !pipeline.sequence().traces().is_empty()
            || compiler.imports_by_callbacks()
            || !registered::names().is_empty();
        if BUILD.is_empty() || !is_file || !on_cpu || own_code || !compiler.shapes.is_empty() {
            return None;
        }
        let folder = compiler.cache_folder()?;
        let options = format!("{:?} {:?}", compiler.pipeline_options(), compiler.import.dims);
        let sample = source.sample().ok()?;
        let key = ProgramKey::of(&[BUILD.as_bytes(), options.as_bytes(), &sample]);
        // Programs are of no code generator.
        let cache = KernelCache::new(folder, Some(""), kernel_cache::DEFAULT_LIMIT).unnoted();
        Some(Entry { key, cache })
    }

    /// The program, if it is there and the model's files have the contents that it was made of.
    pub(crate) fn find(&self, source: &ModelSource, compiler: &Compiler) -> Option<Found> {
        let (origin, lowered) = self.cache.program(&self.key)?;
        let files: Vec<(&str, ContentDigest)> =
            origin.inputs.iter().map(|file| (file.name.as_str(), file.digest)).collect();
        let model = OpenModel::unchanged(source, &compiler.import, &files).ok()??;
        let signatures = serde_json::from_slice(&origin.interface).ok()?;
        Some(Found { lowered, signatures, model })
    }

    /// Returns what stores the program of a model that was imported.
    pub(crate) fn store(self, model: Arc<OpenModel>) -> StoreProgram {
        Box::new(move |lowered, options| {
            let stored = self.try_store(&model, lowered, options);
            if let Err(error) = stored {
                tracing::warn!(%error, "a program was not stored: the next start makes it again");
            }
        })
    }

    fn try_store(
        &self,
        model: &OpenModel,
        lowered: &Lowered<'_>,
        options: &pipeline::Options,
    ) -> io::Result<()> {
        let input = |(name, digest)| InputFile { name, digest };
        let inputs = model.contents()?.into_iter().map(input).collect();
        let Lowered { executable, kernels, operations, signatures } = lowered;
        let interface = serde_json::to_vec(signatures).map_err(io::Error::other)?;
        let origin = Origin { inputs, interface };
        let program = Program { origin: &origin, executable, kernels, operations };
        self.cache.put_program(&self.key, &program, options).map_err(io::Error::other)
    }
}
