//! `reflex quantize`: a float32 ONNX model to one of 8-bit integers or 4-bit weights.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use reflex::quantize::{
    LayerReport, Method, OPERATORS, QuantizeOptions, Quantized, Quantizer, ValueError,
};
use reflex::{Engine, Error, Feed, Result, numpy};

use super::args::EngineArgs;
use super::output::println;

/// Examples of the command.
pub const EXAMPLES: &str = "Examples:
  reflex quantize model.onnx -o model.int8.onnx
  reflex quantize model.onnx -o model.int8.onnx --method static --calibration runs.npz
  reflex quantize model.onnx -o model.int4.onnx --method weights4 --block 32 --calibration runs.npz
  reflex quantize model.onnx -o model.int8.onnx --operators MatMul,Gemm --exclude /head/MatMul --json

MatMul, Gemm and Conv with constant float32 weights are quantized; the rest of the file is kept byte by
byte. The written model is standard ONNX, for any engine.";

/// Arguments of `quantize`.
#[derive(Args)]
pub struct QuantizeArgs {
    /// Model: .onnx with float32 weights.
    model: PathBuf,
    /// The model to write; external data becomes a part of it.
    #[arg(short, long, value_name = "FILE.onnx")]
    output: PathBuf,
    /// The way to quantize.
    #[arg(long, value_enum, default_value_t = Way::Dynamic)]
    method: Way,
    /// Inputs to calibrate with and to measure errors on: keys in.<k>.<input> for feed k, as for `check`.
    #[arg(long, value_name = "RUNS.npz")]
    calibration: Option<PathBuf>,
    /// A node to leave as it is; may be given several times.
    #[arg(long = "exclude", value_name = "NODE")]
    exclude: Vec<String>,
    /// Operators to quantize.
    #[arg(long, value_name = "OP[,OP..]", value_delimiter = ',', default_values = OPERATORS)]
    operators: Vec<String>,
    /// Weights of a block, which share one scale (weights4): a power of two from 16.
    #[arg(long, default_value_t = 32, value_name = "N")]
    block: usize,
    /// 7-bit weights, for engines whose 8-bit products saturate on CPUs without VNNI.
    #[arg(long)]
    reduce_range: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// 8-bit weights; activations are quantized in each call.
    Dynamic,
    /// 8-bit weights; ranges of activations are those of --calibration.
    Static,
    /// 4-bit weights in blocks; activations stay float32.
    Weights4,
}

/// Runs the command.
pub fn run(args: &QuantizeArgs) -> Result<ExitCode> {
    if same_file(args) {
        return Err(Error::input("--output is the model itself: give another file"));
    }
    let method = match args.method {
        Way::Dynamic => Method::Dynamic,
        Way::Static if args.calibration.is_none() => {
            let message = "--method static needs --calibration RUNS.npz, with typical inputs";
            return Err(Error::input(message));
        }
        Way::Static => Method::Static(Default::default()),
        Way::Weights4 => Method::Weights4(args.block),
    };
    let options = QuantizeOptions {
        exclude: args.exclude.iter().cloned().collect(),
        operators: args.operators.iter().cloned().collect(),
        reduce_range: args.reduce_range,
        ..QuantizeOptions::new(method)
    };
    let cases = args.calibration.as_ref().map(|path| numpy::read_cases(path)).transpose()?;
    let feeds: Vec<Feed> = cases.into_iter().flatten().map(|case| case.inputs).collect();
    let engine = args.engine.settled_builder()?.build()?;
    let quantized = Quantizer::open(&engine, &args.model)?.quantize(options, &feeds)?;
    std::fs::write(&args.output, &quantized.bytes).map_err(|e| Error::io(&args.output, &e))?;
    let before = Engine::info(args.model.as_path())?.file_bytes;
    match args.json {
        true => print_json(&quantized, before, feeds.len()),
        false => print_text(args, &quantized, before),
    }
    Ok(ExitCode::SUCCESS)
}

fn same_file(args: &QuantizeArgs) -> bool {
    let canonical = |path: &PathBuf| std::fs::canonicalize(path).ok();
    canonical(&args.output).is_some_and(|output| Some(output) == canonical(&args.model))
}

fn print_json(quantized: &Quantized, before: u64, feeds: usize) {
    let mut report = quantized.report();
    report["bytes_before"] = before.into();
    report["feeds"] = feeds.into();
    println!("{report}");
}

fn print_text(args: &QuantizeArgs, quantized: &Quantized, before: u64) {
    let width = quantized.layers.iter().map(|layer| layer.node.chars().count());
    let width = width.max().unwrap_or(0).clamp(5, 48);
    println!("{:width$} operator     weights  weights dB  result dB  largest error", "layer");
    for layer in &quantized.layers {
        let LayerReport { node, operator, elements, weight_sqnr_db, output, .. } = layer;
        let (db, largest) = output.as_ref().map_or(("-".into(), "-".into()), measured);
        let weights = decibels(*weight_sqnr_db);
        println!("{node:width$} {operator:8} {elements:11} {weights:>11} {db:>10} {largest:>14}");
    }
    for kept in &quantized.kept {
        println!("{:width$} {:8} kept: {}", kept.node, kept.operator, kept.reason);
    }
    for output in &quantized.outputs {
        let (db, largest) = measured(output);
        println!("output {}: {db} dB, largest error {largest}", output.name);
    }
    let (file, mib) = (args.output.display(), |bytes: u64| bytes as f64 / f64::from(1 << 20));
    let after = mib(quantized.bytes.len() as u64);
    let layers = quantized.layers.len();
    println!("{file}: {layers} layers quantized, {after:.1} MiB of {:.1}", mib(before));
}

fn measured(error: &ValueError) -> (String, String) {
    (decibels(error.sqnr_db), format!("{:.3e}", error.max_abs))
}

/// Decibels, or that there is no noise.
fn decibels(value: Option<f64>) -> String {
    value.map_or_else(|| "exact".to_owned(), |db| format!("{db:.1}"))
}
