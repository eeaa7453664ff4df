//! `reflex inspect`: what the compiler made.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::{Engine, Error, Mode, Result, TierDetail, TierReport};

use super::EngineArgs;
use super::inputs::InputArgs;
use super::output::println;

/// Arguments of `inspect`.
#[derive(Args)]
pub struct InspectArgs {
    /// Model: .onnx, .py (TVMScript) or .so.
    model: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    what: What,
    /// With `--tiers`: how often `main` runs before.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    runs: usize,
    /// With `--tiers`: how VM functions run meanwhile.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    mode: Mode,
    /// With `--tiers` or `--tiers-code`: print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    inputs: InputArgs,
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
    /// What the tiers make of the program while it runs: traces, guards, exits, evictions, reasons.
    #[arg(long)]
    tiers: bool,
    /// The same with traces as text, and with all machine code as assembly; in JSON also each trace as
    /// it was recorded, and after each pass that changed it.
    #[arg(long)]
    tiers_code: bool,
    /// TVMScript: a script as it was read, a model as it was imported.
    #[arg(long)]
    script: bool,
    /// The module after a pass of the pipeline.
    #[arg(long, value_name = "PASS")]
    after: Option<String>,
    /// How a kernel is scheduled: the steps taken, and the rule of each stage.
    #[arg(long, value_name = "FUNC")]
    schedule: Option<String>,
    /// Assembly of a kernel.
    #[arg(long, value_name = "FUNC")]
    asm: Option<String>,
}

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<ExitCode> {
    let engine = args.engine.engine()?;
    if args.json && !(args.what.tiers || args.what.tiers_code) {
        return Err(Error::input("--json goes with --tiers or --tiers-code"));
    }
    let text = match &args.what {
        What { after: Some(pass), .. } => engine.dump_after(&args.model, pass)?,
        What { schedule: Some(func), .. } => engine.dump_schedule(&args.model, func)?,
        What { asm: Some(func), .. } => engine.assembly(&args.model, func)?,
        What { script: true, .. } => Engine::script(&args.model)?,
        What { python: true, .. } => engine.load(&args.model)?.as_python(),
        What { rust: true, .. } => engine.load(&args.model)?.as_rust(),
        What { stats: true, .. } => engine.load(&args.model)?.stats(),
        What { tiers: true, .. } | What { tiers_code: true, .. } => {
            let tiers = tiers(&engine, args)?;
            match args.json {
                true => serde_json::to_string(&tiers).expect("plain data"),
                false => tiers.to_string(),
            }
        }
        _ => engine.load(&args.model)?.as_text(),
    };
    println!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}

/// What the tiers have made after `main` has run.
fn tiers(engine: &Engine, args: &InspectArgs) -> Result<TierReport> {
    let program = engine.load(&args.model)?;
    let prepared = program.prepare("main", &args.inputs.feed(&program, "main")?)?;
    let mut session = program.session(args.mode)?;
    for _ in 0..args.runs {
        session.call(&prepared)?;
    }
    let code = if args.what.tiers_code { TierDetail::Code } else { TierDetail::Summary };
    Ok(session.tiers(&program, code))
}
