//! `reflex conformance`: ONNX's backend-test cases.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reflex::conformance::{self, CaseResult, Status};
use reflex::{Error, Mode, Result};

use super::EngineArgs;
use super::output::println;

/// Arguments of `conformance`.
#[derive(Args)]
pub struct ConformanceArgs {
    /// Folder of cases: NAME/model.onnx, NAME/test_data_set_*/{input,output}_*.pb.
    dir: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    /// How VM functions run.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    mode: Mode,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print one JSON object a case, then totals.
    #[arg(long)]
    json: bool,
}

/// Runs the command; exit code 1 when a case fails.
pub fn run(args: &ConformanceArgs) -> Result<ExitCode> {
    let engine = args.engine.engine()?;
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    for case in cases(&args.dir, args.filter.as_deref())? {
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let CaseResult { status, reason } = conformance::run_case(&engine, &case, args.mode);
        match status {
            Status::Pass => passed += 1,
            Status::Fail => failed += 1,
            Status::Unsupported => unsupported += 1,
        }
        if args.json {
            println!("{}", serde_json::json!({ "case": name, "status": status, "reason": reason }));
        } else if status != Status::Pass {
            println!("{status:?}: {name}: {reason}");
        }
    }
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "pass": passed, "fail": failed, "unsupported": unsupported })
        );
    } else {
        println!("{passed} pass, {failed} fail, {unsupported} unsupported");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The folders with a model, sorted by name.
fn cases(dir: &Path, filter: Option<&str>) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io(dir, &e))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|p| p.join("model.onnx").is_file())
        .filter(|p| filter.is_none_or(|f| p.to_string_lossy().contains(f)))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(Error::input(format!("{}: no NAME/model.onnx below it", dir.display())));
    }
    Ok(found)
}
