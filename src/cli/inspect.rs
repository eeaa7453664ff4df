//! `reflex inspect`: bytecode, passes, schedules, assembly, tiers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::{Dialect, Engine, Error, Mode, Result, TierDetail, TierReport};

use super::args::EngineArgs;
use super::inputs::InputArgs;
use super::output::println;

/// Arguments of `inspect`.
#[derive(Args)]
pub struct InspectArgs {
    /// Model: .onnx, .pt2 (PyTorch), .py (TVMScript), .json (nodes), .so, or .ro (Relay).
    model: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    view: View,
    /// With `--tiers`: runs of `main` before the report.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    runs: usize,
    /// With `--tiers`: execution mode of these runs.
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
struct View {
    /// Bytecode (the default but for a .ro, which is listed as TVM lists it).
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
    /// Kernels, with the code generator of each; where they are replaced while calls go on, after a
    /// run of `main` and with the reason.
    #[arg(long)]
    kernel_tiers: bool,
    /// State of the tiers after some runs: traces, guards, side exits, evictions, bailouts.
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
    /// The module as it was imported, or after a pass of the pipeline, as nodes: the JSON of tvm.ir.save_json.
    #[arg(long, value_name = "PASS", num_args = 0..=1)]
    nodes: Option<Option<String>>,
    /// Schedule of a kernel: the steps taken, and the rule of each stage.
    #[arg(long, value_name = "FUNC")]
    schedule: Option<String>,
    /// Assembly of a kernel.
    #[arg(long, value_name = "FUNC")]
    asm: Option<String>,
    /// Kernels as text in a language.
    #[arg(long, value_name = "c|cuda|opencl")]
    source: Option<Dialect>,
    /// PTX of a kernel, or of all, for the GPU of --schedule-for.
    #[arg(long, value_name = "FUNC", num_args = 0..=1)]
    ptx: Option<Option<String>>,
}

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<ExitCode> {
    let engine = match args.view.kernel_tiers {
        true => args.engine.engine()?,
        false => args.engine.settled_builder()?.build()?,
    };
    if args.json && !(args.view.tiers || args.view.tiers_code) {
        return Err(Error::input("--json goes with --tiers or --tiers-code"));
    }
    let text = match &args.view {
        View { after: Some(pass), .. } => engine.dump_after(&args.model, pass)?,
        View { nodes: Some(None), .. } => reflex::ir::save(&Engine::nodes(&args.model)?),
        View { nodes: Some(Some(pass)), .. } => {
            reflex::ir::save(&engine.nodes_after(&args.model, pass)?)
        }
        View { schedule: Some(func), .. } => engine.dump_schedule(&args.model, func)?,
        View { asm: Some(func), .. } => engine.assembly(&args.model, func)?,
        View { source: Some(dialect), .. } => engine.source(&args.model, *dialect, None)?,
        View { ptx: Some(func), .. } => {
            let codes = engine.ptx(&args.model, func.as_deref())?;
            codes.into_iter().map(|(_, ptx)| ptx).collect()
        }
        View { script: true, .. } => Engine::script(&args.model)?,
        View { python: true, .. } => engine.load(args.engine.source(&args.model))?.as_python(),
        View { rust: true, .. } => engine.load(args.engine.source(&args.model))?.as_rust(),
        View { stats: true, .. } => engine.load(args.engine.source(&args.model))?.stats(),
        View { kernel_tiers: true, .. } => kernels(&engine, args)?,
        View { tiers: true, .. } | View { tiers_code: true, .. } => {
            let tiers = tiers(&engine, args)?;
            match args.json {
                true => serde_json::to_string(&tiers).expect("plain data"),
                false => tiers.to_string(),
            }
        }
        view => {
            let program = engine.load(args.engine.source(&args.model))?;
            match program.relay_listing().filter(|_| !view.text) {
                Some(listing) => listing.to_owned(),
                None => program.as_text(),
            }
        }
    };
    println!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Lists the kernels with their tiers, those that are replaced after a run of `main`.
fn kernels(engine: &Engine, args: &InspectArgs) -> Result<String> {
    let program = engine.load(args.engine.source(&args.model))?;
    if program.kernel_states().is_empty() {
        let kernels = program.kernels()?;
        return Ok(kernels.iter().map(|(name, tier)| format!("{tier:10} {name}\n")).collect());
    }
    let prepared = program.prepare("main", &args.inputs.feed(&program, "main")?)?;
    let mut session = program.session(args.mode)?;
    session.call(&prepared)?;
    program.wait_for_kernels();
    Ok(program.kernel_states().iter().map(|kernel| format!("{kernel}\n")).collect())
}

/// Reports the state of the tiers after runs of `main`.
fn tiers(engine: &Engine, args: &InspectArgs) -> Result<TierReport> {
    let program = engine.load(args.engine.source(&args.model))?;
    let prepared = program.prepare("main", &args.inputs.feed(&program, "main")?)?;
    let mut session = program.session(args.mode)?;
    for _ in 0..args.runs {
        session.call(&prepared)?;
    }
    let detail = match args.view.tiers_code {
        true => TierDetail::Code,
        false => TierDetail::Summary,
    };
    Ok(program.tier_report(&session, detail))
}
