//! Command line: one file per subcommand. Scripts rely on the forms, so they are fixed.
//!
//! Results go to standard output, progress and errors to standard error. Exit code 0 is
//! success, 1 an answer that differs from its reference, 2 an error.

mod bench;
mod check;
mod compare;
mod compile;
mod conformance;
mod info;
mod inputs;
mod inspect;
mod output;
mod plot;
mod progress;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use reflex::{Engine, Level, Mode, Precision, Result};

/// Runs tensor programs: ONNX models, TVM executables and compiled artifacts.
#[derive(Parser)]
#[command(name = "reflex", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  reflex info model.onnx
  reflex run model.onnx --input x=cat.npy --out answers/
  reflex run model.onnx --shape x=1x3x224x224 --mode compiled
  reflex check model.onnx --npz reference.npz
  reflex bench model.onnx --modes bytecode,compiled,tiered
  reflex bench model.onnx --ab bytecode,tiered --svg ab.svg
  reflex compile model.onnx -o model.so && reflex run model.so
  reflex compile model.onnx -o model.so --levels v3,v4
  reflex inspect model.onnx --text

MODEL is a .onnx file, a .py file (TVMScript), or a .so made by `reflex compile` or by TVM.";

#[derive(Subcommand)]
enum Command {
    /// Inputs, outputs, operators, and what is unsupported.
    Info(info::InfoArgs),
    /// Run a model once and print or save its outputs.
    Run(run::RunArgs),
    /// Compare with reference outputs; exit code 1 on a mismatch.
    Check(check::CheckArgs),
    /// Measure latency, modes interleaved in one process.
    Bench(bench::BenchArgs),
    /// Compile to one shared library that runs without a compiler.
    Compile(compile::CompileArgs),
    /// Print bytecode, passes, or assembly.
    Inspect(inspect::InspectArgs),
    /// Run a folder of ONNX backend-test cases.
    Conformance(conformance::ConformanceArgs),
}

/// What every command that compiles or runs shares.
#[derive(Args)]
struct EngineArgs {
    /// Device.
    #[arg(long, default_value = "cpu", value_name = "cpu|cuda:0")]
    device: String,
    /// Threads for parallel kernels.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Arithmetic of f32 products in a model that is compiled.
    #[arg(long, default_value = "f32", value_name = "f32|f32-fast|bf16")]
    precision: Precision,
    /// CPU levels that a model is compiled for, of v3, v4, v4+bf16 and v4+amx, or whose kernels of a
    /// .so are used (default: this CPU, with all its features).
    #[arg(long, value_name = "LEVELS", value_delimiter = ',')]
    levels: Vec<Level>,
    /// When code is compiled: `off`, or keys and values such as `threshold=10,compile=sync`
    /// (default: $REFLEX_TIER).
    #[arg(long, value_name = "POLICY")]
    tier: Option<String>,
}

impl EngineArgs {
    fn engine(&self) -> Result<Engine> {
        let mut builder = Engine::builder()
            .device(&self.device)
            .threads(self.threads)
            .precision(self.precision)
            .levels(self.levels.iter().copied())
            .progress(progress::bar());
        if let Some(policy) = &self.tier {
            builder = builder.tier(policy.parse().map_err(|e: reflex::Error| e.at("--tier"))?);
        }
        builder.build()
    }
}

/// A model and the mode to run it in.
#[derive(Args)]
struct ModelArgs {
    /// Model: .onnx, .py (TVMScript) or .so.
    model: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    /// How VM functions run.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    mode: Mode,
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Info(args) => info::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Conformance(args) => conformance::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("reflex: {error}");
            ExitCode::from(2)
        }
    }
}
