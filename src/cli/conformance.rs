//! `reflex conformance`: ONNX's backend-test cases.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reflex::conformance::{self, CaseList, CaseResult, Change, Status};
use reflex::{Error, Mode, Result};

use super::args::EngineArgs;
use super::output::{Format, println};

/// Arguments of `conformance`.
#[derive(Args)]
pub struct ConformanceArgs {
    /// Folder of cases: NAME/model.onnx, NAME/test_data_set_*/{input,output}_*.pb.
    dir: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    /// Execution mode of VM functions.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    mode: Mode,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// List of cases and their statuses that this run is held to; a listed failure is none then.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Record the statuses of this run as such a list.
    #[arg(long, value_name = "FILE", conflicts_with = "filter")]
    write_expect: Option<PathBuf>,
    /// Print one JSON object per case, then totals.
    #[arg(long)]
    json: bool,
}

/// Runs the command. Exit code 1 when a case fails or, with a list, when one does worse than there
/// or is missing.
pub fn run(args: &ConformanceArgs) -> Result<ExitCode> {
    let engine = args.engine.settled_builder()?.build()?;
    let expected = args.expect.as_deref().map(CaseList::read).transpose()?;
    let mut statuses = vec![];
    for case in cases(&args.dir, args.filter.as_deref())? {
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let CaseResult { status, reason } = conformance::run_case(&engine, &case, args.mode);
        if args.json {
            println!("{}", serde_json::json!({ "case": name, "status": status, "reason": reason }));
        } else if status != Status::Pass {
            println!("{status:?}: {name}: {reason}");
        }
        statuses.push((name, status));
    }
    let count = |wanted| statuses.iter().filter(|(_, status)| *status == wanted).count();
    let totals = [Status::Pass, Status::Fail, Status::Unsupported].map(count);
    let found: CaseList = statuses.into_iter().collect();
    if let Some(path) = &args.write_expect {
        found.write(path)?;
    }
    let changes = expected.map(|mut expected| {
        expected.retain(|case| selected(case, args.filter.as_deref()));
        expected.changes(&found).into_iter().partition(Change::is_regression)
    });
    report(totals, changes.as_ref(), Format::of(args.json));
    let passed = match &changes {
        Some((regressions, _)) => regressions.is_empty(),
        None => totals[1] == 0,
    };
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints the totals; with a list, also its regressions and the other changes.
fn report(
    [pass, fail, unsupported]: [usize; 3],
    changes: Option<&(Vec<Change>, Vec<Change>)>,
    format: Format,
) {
    if format == Format::Json {
        let mut totals =
            serde_json::json!({ "pass": pass, "fail": fail, "unsupported": unsupported });
        if let Some((regressions, others)) = changes {
            let names = |list: &[Change]| list.iter().map(|c| c.case.clone()).collect::<Vec<_>>();
            totals["regressed"] = names(regressions).into();
            totals["changed"] = names(others).into();
        }
        println!("{totals}");
        return;
    }
    println!("{pass} pass, {fail} fail, {unsupported} unsupported");
    if let Some((regressions, others)) = changes {
        regressions.iter().for_each(|change| println!("regressed: {change}"));
        others.iter().for_each(|change| println!("changed: {change}"));
        println!("{} regressed, {} changed otherwise", regressions.len(), others.len());
    }
}

/// Returns true if the option `--filter` lets the case run.
fn selected(case: &str, filter: Option<&str>) -> bool {
    filter.is_none_or(|text| case.contains(text))
}

/// The folders with a model, sorted by name.
fn cases(dir: &Path, filter: Option<&str>) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io(dir, &e))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|p| p.join("model.onnx").is_file())
        .filter(|p| selected(&p.file_name().unwrap_or_default().to_string_lossy(), filter))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(Error::input(format!("{}: no NAME/model.onnx below it", dir.display())));
    }
    Ok(found)
}
