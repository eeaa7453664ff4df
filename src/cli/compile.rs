//! `reflex compile`: a model to one shared library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::Result;

use super::args::EngineArgs;

/// Arguments of `compile`.
#[derive(Args)]
pub struct CompileArgs {
    /// Model: .onnx or .py (TVMScript).
    model: PathBuf,
    /// The library to write.
    #[arg(short, long, value_name = "FILE.so")]
    output: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the command.
pub fn run(args: &CompileArgs) -> Result<ExitCode> {
    let program = args.engine.engine()?.load(&args.model)?;
    let bytes = program.save(&args.output)?;
    eprintln!("{}: {:.1} KiB", args.output.display(), bytes as f64 / 1024.0);
    Ok(ExitCode::SUCCESS)
}
