//! Options that commands share.

use std::path::{Path, PathBuf};

use clap::Args;
use reflex::{
    Dialect, Engine, EngineBuilder, FileAccess, KernelGenerator, Level, Mode, ModelSource,
    OptimizeFor, Pipeline, Precision, Program, Result, Target, TierPolicy,
};

use super::progress;

/// Options of every command that compiles or runs.
#[derive(Args)]
pub struct EngineArgs {
    /// Device: the CPU, or a CUDA device such as cuda:0. `compile` also takes cuda, for every GPU and
    /// without one here, cuda:sm_90a, and cpu,cuda for both in one file.
    #[arg(long, default_value = "cpu", value_name = "cpu|cuda[:N]")]
    device: String,
    /// Let the CPU run kernels that have no code for the device.
    #[arg(long)]
    allow_cpu: bool,
    /// Threads for parallel kernels.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Arithmetic of f32 matmuls and convolutions in a model that is compiled.
    #[arg(long, default_value = "f32", value_name = "f32|f32-fast|bf16|int8")]
    precision: Precision,
    /// Goal of a model that is compiled: the shortest calls, or weights of no more bytes than the
    /// model's.
    #[arg(long, default_value = "speed", value_name = "speed|size")]
    optimize_for: OptimizeFor,
    /// A symbolic dimension of inputs that is a constant in a model that is compiled, which then takes less time to
    /// compile; `reflex info` has the names. May be given several times.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    dims: Vec<(String, i64)>,
    /// CPU levels that a model is compiled for, of v3, v4, v4+vnni, v4+bf16 and v4+amx of x86-64 or armv8-a,
    /// armv8-a+dotprod and armv8-a+i8mm of AArch64, or whose kernels of a .so are used (default: this CPU,
    /// with all its features).
    #[arg(long, value_name = "LEVELS", value_delimiter = ',')]
    levels: Vec<Level>,
    /// Target that a model is compiled for, in place of --levels, --threads and --device: a kind with
    /// options (`llvm -mcpu=haswell -num-cores=2`, `llvm -mtriple=aarch64-linux-gnu`), a tag
    /// (nvidia/nvidia-h100, raspberry-pi/4b-aarch64) or JSON, as TVM has them.
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["levels", "threads", "device"])]
    target: Option<Target>,
    /// Development: schedule kernels for a GPU, cuda:sm_80 or cuda:sm_90a, and run its threads one
    /// after the other on this CPU.
    #[arg(long, value_name = "GPU", hide = true)]
    schedule_for: Option<String>,
    /// Passes of a model that is compiled: `default` or `minimal`, and edits such as
    /// -simplify,fuse_operators.max_operators=8,after:simplify=mine.so:pass (`reflex passes` has the list).
    #[arg(long, default_value = "default", value_name = "PIPELINE", allow_hyphen_values = true)]
    pipeline: String,
    /// Map the model's files instead of reading them: loading takes less memory, but nothing may
    /// change them in place meanwhile.
    #[arg(long)]
    map: bool,
    /// Tier policy: `off`, or keys and values such as `threshold=10,compile=sync`
    /// (default: $REFLEX_TIER).
    #[arg(long, value_name = "POLICY")]
    tier: Option<String>,
    #[command(flatten)]
    relay: RelayArgs,
}

/// The files beside an executable of TVM's Relay virtual machine.
#[derive(Args)]
pub struct RelayArgs {
    /// Library with the kernels of a .ro (default: the .so of the same name).
    #[arg(long, value_name = "FILE.so")]
    kernels: Option<PathBuf>,
    /// Late-bound constants of a .ro or of a .so that holds one, as TVM's `save_params` writes them.
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
}

/// `NAME=N`.
fn dim(text: &str) -> std::result::Result<(String, i64), String> {
    let dim = text.rsplit_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?)));
    dim.ok_or_else(|| "expected NAME=N, such as batch=1".to_owned())
}

impl RelayArgs {
    /// Returns a model with these files.
    pub fn source(&self, model: &Path) -> ModelSource {
        let mut source = ModelSource::from(model);
        if let Some(kernels) = &self.kernels {
            source = source.kernels(kernels);
        }
        if let Some(params) = &self.params {
            source = source.params(params);
        }
        source
    }
}

impl EngineArgs {
    /// Builds the engine.
    pub fn engine(&self) -> Result<Engine> {
        self.builder()?.build()
    }

    /// Returns the engine's options, to be completed.
    pub fn builder(&self) -> Result<EngineBuilder> {
        let mut builder = Engine::builder()
            .device(&self.device)
            .threads(self.threads)
            .precision(self.precision)
            .optimize_for(self.optimize_for)
            .levels(self.levels.iter().copied())
            .dims(self.dims.iter().cloned())
            .file_access(if self.map { FileAccess::Map } else { FileAccess::Read })
            .progress(progress::bar());
        let pipeline: Pipeline =
            self.pipeline.parse().map_err(|e: reflex::Error| e.at("--pipeline"))?;
        builder = builder.pipeline(pipeline);
        if let Some(target) = &self.target {
            builder = builder.target(target);
        }
        if self.allow_cpu {
            builder = builder.allow_cpu();
        }
        if let Some(gpu) = &self.schedule_for {
            builder = builder.schedule_for(gpu);
        }
        if self.tier.is_some() {
            builder = builder.tier(self.policy()?);
        }
        Ok(builder)
    }

    /// Returns the language of a target that is text.
    pub fn dialect(&self) -> Option<Dialect> {
        self.target.as_ref().and_then(Target::dialect)
    }

    /// Returns the tier policy: that of the options, or of the environment.
    pub fn policy(&self) -> Result<TierPolicy> {
        match &self.tier {
            Some(policy) => policy.parse().map_err(|e: reflex::Error| e.at("--tier")),
            None => TierPolicy::of_environment(),
        }
    }

    /// Returns the engine's options for a program that is saved or measured: where the policy leaves the
    /// choice, one code generator compiles its kernels, before the first call.
    pub fn settled_builder(&self) -> Result<EngineBuilder> {
        let mut policy = self.policy()?;
        if policy.kernels == KernelGenerator::Auto {
            policy.kernels = KernelGenerator::Best;
        }
        Ok(self.builder()?.tier(policy))
    }

    /// Returns the device, as it was given.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Loads a model.
    pub fn load(&self, model: &Path) -> Result<Program> {
        let engine = self.engine()?;
        warn_of_cache(&engine, model);
        engine.load(self.source(model))
    }

    /// Returns a model with the files that options name.
    pub fn source(&self, model: &Path) -> ModelSource {
        self.relay.source(model)
    }
}

/// Says on standard error if a model that is compiled would be compiled again at every start.
pub fn warn_of_cache(engine: &Engine, model: &Path) {
    if let Some(problem) = engine.cache_problem().filter(|_| is_compiled(model)) {
        eprintln!("reflex: warning: {problem}");
    }
}

/// Returns true if the kernels of a model are compiled when it is loaded.
pub fn is_compiled(model: &Path) -> bool {
    let opened = |e: &std::ffi::OsStr| e.eq_ignore_ascii_case("so") || e.eq_ignore_ascii_case("ro");
    !model.extension().is_some_and(opened)
}

/// Says on standard error if a model that is compiled gets baseline kernels.
pub fn note_baseline(engine: &Engine, model: &Path) {
    if let Some(reason) = engine.baseline_reason().filter(|_| is_compiled(model)) {
        eprintln!("reflex: note: {reason}");
    }
}

/// Says on standard error what compiles the kernels of a model that is compiled.
pub fn note_kernels(engine: &Engine, model: &Path) {
    if is_compiled(model) {
        eprintln!("reflex: note: {}", engine.kernels_note());
    }
}

/// A model and the mode to run it in.
#[derive(Args)]
pub struct ModelArgs {
    /// Model: .onnx, .pt2 (PyTorch), .py (TVMScript), .json (nodes), .so, or .ro (Relay).
    pub model: PathBuf,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Execution mode of VM functions.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    pub mode: Mode,
}
