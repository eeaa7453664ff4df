//! `reflex info`: the interface and operators of a model, without compiling it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::{Engine, OnnxOperator, Result, ValueInfo, onnx_operators};

use super::args::{RelayArgs, is_compiled, note_baseline, warn_of_cache};
use super::output::println;

/// Arguments of `info`.
#[derive(Args)]
pub struct InfoArgs {
    /// Model: .onnx, .pt2 (PyTorch), .py (TVMScript), .json (nodes), .so, or .ro (Relay).
    #[arg(required_unless_present = "operators")]
    model: Option<PathBuf>,
    /// Print the operators of ONNX and ONNX Runtime instead, with the versions at which they changed, and which
    /// are imported.
    #[arg(long, conflicts_with = "model")]
    operators: bool,
    #[command(flatten)]
    relay: RelayArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &InfoArgs) -> Result<ExitCode> {
    let Some(model) = &args.model else {
        print_operators(args.json);
        return Ok(ExitCode::SUCCESS);
    };
    let info = Engine::info(args.relay.source(model))?;
    let engine = Engine::new()?;
    warn_of_cache(&engine, model);
    note_baseline(&engine, model);
    if args.json {
        println!("{}", serde_json::to_string(&info).expect("plain data"));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}: {}", model.display(), info.kind);
    let size = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    println!("file: {}", size(info.file_bytes));
    println!("parameters: {} ({})", info.parameters, size(info.parameter_bytes));
    if !info.metadata.is_empty() {
        println!("metadata:");
        info.metadata.iter().for_each(|(key, value)| println!("  {key}: {}", value.trim_end()));
    }
    let list = |title: &str, values: &[ValueInfo]| {
        println!("{title}:");
        values.iter().for_each(|v| println!("  {v}"));
    };
    list("inputs", &info.inputs);
    list("outputs", &info.outputs);
    if !info.symbols.is_empty() {
        println!("dynamic dimensions: {}", info.symbols.join(", "));
    }
    if !info.variants.is_empty() {
        println!("variants for known shapes:");
        info.variants.iter().for_each(|variant| println!("  {variant}"));
    }
    println!("{}:", info.operators_title);
    for (name, count) in &info.operators {
        println!("  {count:5} {name}");
    }
    if is_compiled(model) {
        println!("{}", engine.kernels_note());
    }
    if info.unsupported.is_empty() {
        println!("unsupported: nothing");
    } else {
        println!("unsupported:");
        info.unsupported.iter().for_each(|u| println!("  {u}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what becomes of each operator of ONNX: a line each, or a JSON object each.
fn print_operators(json: bool) {
    for operator in onnx_operators() {
        if !json {
            println!("{operator}");
            continue;
        }
        let OnnxOperator { domain, name, versions, types, imported, refused } = operator;
        let versions: Vec<i64> = versions.iter().filter_map(|v| v.parse().ok()).collect();
        println!(
            "{}",
            serde_json::json!({
                "domain": domain,
                "name": name,
                "versions": versions,
                "types": types,
                "imported": imported,
                "refused": refused,
            })
        );
    }
}
