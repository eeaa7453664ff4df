//! `reflex compile`: a model to one shared library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::{Dialect, EngineBuilder, Error, Program, Result};

use super::args::{EngineArgs, note_kernels, warn_of_cache};
use super::inputs::dims;

/// Arguments of `compile`.
#[derive(Args)]
pub struct CompileArgs {
    /// Model: .onnx, .pt2 (PyTorch), .py (TVMScript) or .json (nodes).
    model: PathBuf,
    /// The library to write, or the text of --emit.
    #[arg(short, long, value_name = "FILE.so")]
    output: PathBuf,
    /// Write the kernels as text in a language, in place of a library.
    #[arg(long, value_name = "c|cuda|opencl", conflicts_with_all = ["shapes", "cubins"])]
    emit: Option<Dialect>,
    /// Shapes of inputs to compile a variant for, in addition to any shape; a call with these shapes
    /// runs it. May be given several times, once for each variant.
    #[arg(long = "shape", value_name = "NAME=1x3x224x224[,NAME=..]", value_parser = input_shapes)]
    shapes: Vec<InputShapes>,
    /// Architectures of GPUs to have machine code for, such as sm_86,sm_90, or none; ptxas makes it
    /// (REFLEX_PTXAS, or on the path). Default: sm_80,sm_90 for --device cuda, if there is a ptxas.
    #[arg(long, value_name = "SM[,SM..]")]
    cubins: Option<String>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Shapes of inputs, by name.
type InputShapes = Vec<(String, Vec<i64>)>;

fn input_shapes(text: &str) -> std::result::Result<InputShapes, String> {
    let shape = |part: &str| {
        let (name, shape) = part.rsplit_once('=')?;
        Some((name.to_owned(), dims(shape)?))
    };
    let shapes: Option<InputShapes> = text.split(',').map(shape).collect();
    shapes.ok_or_else(|| "expected NAME=1x3x224x224, inputs separated by commas".to_owned())
}

/// The device to compile for: code for `cuda` alone runs on every GPU, and needs none here.
fn target(device: &str) -> String {
    match device {
        "cuda" | "cpu,cuda" => format!("{device}:sm_80"),
        device => device.to_owned(),
    }
}

/// Writes the kernels as text.
fn emit(args: &CompileArgs, dialect: Dialect) -> Result<ExitCode> {
    let engine = args.engine.settled_builder()?.build()?;
    let text = engine.source(&args.model, dialect, None)?;
    let failed = |e: std::io::Error| Error::input(format!("{}: {e}", args.output.display()));
    std::fs::write(&args.output, &text).map_err(failed)?;
    eprintln!("{}: {:.1} KiB of {dialect}", args.output.display(), text.len() as f64 / 1024.0);
    Ok(ExitCode::SUCCESS)
}

/// Runs the command.
pub fn run(args: &CompileArgs) -> Result<ExitCode> {
    if let Some(dialect) = args.emit.or(args.engine.dialect()) {
        return emit(args, dialect);
    }
    let builder = args.engine.settled_builder()?.device(&target(args.engine.device()));
    let builder = args.shapes.iter().cloned().fold(builder, EngineBuilder::shapes);
    let builder = match args.cubins.as_deref() {
        None => builder,
        Some("none") => builder.cubins([]),
        Some(archs) => builder.cubins(archs.split(',')),
    };
    // The library has what a stored program would.
    let engine = builder.store_programs(false).build()?;
    engine.check_save_path(&args.output)?;
    warn_of_cache(&engine, &args.model);
    note_kernels(&engine, &args.model);
    if args.engine.device().contains("cuda") && args.cubins.is_none() && !Program::has_ptxas()? {
        eprintln!(
            "reflex: no ptxas is on the path or in REFLEX_PTXAS: there are no cubins, so the driver compiles PTX when the library is loaded"
        );
    }
    let program = engine.load(&args.model)?;
    let bytes = program.save(&args.output)?;
    eprintln!("{}: {:.1} KiB", args.output.display(), bytes as f64 / 1024.0);
    Ok(ExitCode::SUCCESS)
}
