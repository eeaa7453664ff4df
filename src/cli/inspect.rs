//! `reflex inspect`: what the compiler made.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::Result;

use super::EngineArgs;

/// Arguments of `inspect`.
#[derive(Args)]
pub struct InspectArgs {
    /// Model: .onnx, .py (TVMScript) or .so.
    model: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    what: What,
}

#[derive(Args)]
#[group(multiple = false)]
struct What {
    /// Bytecode (the default).
    #[arg(long)]
    text: bool,
    /// Bytecode as a Python program for TVM's ExecBuilder.
    #[arg(long)]
    python: bool,
    /// Bytecode as a Rust function for the VM's ExecBuilder.
    #[arg(long)]
    rust: bool,
    /// Sizes and counts.
    #[arg(long)]
    stats: bool,
    /// The module after a pass of the pipeline.
    #[arg(long, value_name = "PASS")]
    after: Option<String>,
    /// Assembly of a kernel.
    #[arg(long, value_name = "FUNC")]
    asm: Option<String>,
}

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<ExitCode> {
    let engine = args.engine.engine()?;
    let text = match &args.what {
        What { after: Some(pass), .. } => engine.dump_after(&args.model, pass)?,
        What { asm: Some(func), .. } => engine.load(&args.model)?.assembly(func)?,
        What { python: true, .. } => engine.load(&args.model)?.as_python(),
        What { rust: true, .. } => engine.load(&args.model)?.as_rust(),
        What { stats: true, .. } => engine.load(&args.model)?.stats(),
        _ => engine.load(&args.model)?.as_text(),
    };
    println!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}
