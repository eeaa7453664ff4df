//! `reflex check`: every feed of a reference file on one program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reflex::conformance::{Tolerance, check_data_set};
use reflex::remote::RemoteMachine;
use reflex::stats::Difference;
use reflex::{Array, Error, Prepared, Result, Session, numpy};
use serde::Serialize;

use super::args::ModelArgs;
use super::output::println;
use super::remote::RemoteArgs;

/// Arguments of `check`.
#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Reference: keys in.<k>.<input> and out.<k>.<output> for feed k.
    #[arg(long, value_name = "REF.npz", required_unless_present = "data")]
    npz: Option<PathBuf>,
    /// Reference: a folder with input_<k>.pb and output_<k>.pb, as ONNX's backend tests have it; may be given
    /// several times. Values may be sequences, optionals and maps. MODEL is .onnx, or --types is given.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["npz", "remote", "tracker"])]
    data: Vec<PathBuf>,
    /// The .onnx that says the types of the files in --data, where MODEL was compiled from it.
    #[arg(long, value_name = "FILE.onnx", requires = "data")]
    types: Option<PathBuf>,
    /// Relative tolerance.
    #[arg(long, default_value_t = 1e-3, value_name = "R")]
    rtol: f64,
    /// Absolute tolerance.
    #[arg(long, default_value_t = 1e-4, value_name = "A")]
    atol: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The verdict on one output over all feeds.
#[derive(Default, Serialize)]
struct Verdict {
    matches: bool,
    /// Of references in a .npz file.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_abs: Option<f64>,
    /// Largest error over its tolerance.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<f64>,
    /// The first difference, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The session under check.
enum Caller {
    Local(Session),
    Remote(RemoteMachine),
}

impl Caller {
    fn call(&mut self, prepared: &Prepared) -> Result<Vec<(String, Array)>> {
        match self {
            Caller::Local(session) => session.call(prepared)?.arrays(),
            Caller::Remote(machine) => machine.call("main", prepared),
        }
    }
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    match &args.npz {
        Some(npz) => check_npz(args, npz),
        None => check_data(args),
    }
}

/// Compares with the references in folders of ONNX's backend tests.
fn check_data(args: &CheckArgs) -> Result<ExitCode> {
    let model = &args.model.model;
    let types = args.types.as_ref().unwrap_or(model);
    if !types.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx")) {
        let message = "--data needs --types FILE.onnx, which says the types of its files";
        return Err(Error::input(message).at(model.display()));
    }
    let program = args.model.engine.load(model)?;
    let mut session = program.session(args.model.mode)?;
    let tolerance = Tolerance { rtol: args.rtol, atol: args.atol };
    let mut verdicts: BTreeMap<String, Verdict> = BTreeMap::new();
    for set in &args.data {
        let differences = check_data_set(&mut session, types, set, tolerance);
        for (name, difference) in differences.map_err(|e| e.at(set.display()))? {
            let verdict = verdicts.entry(name).or_insert(Verdict::matching());
            let reason = difference.map(|reason| format!("{}: {reason}", set.display()));
            verdict.matches &= reason.is_none();
            verdict.reason = verdict.reason.take().or(reason);
        }
    }
    Ok(report(args, &verdicts, args.data.len()))
}

/// Compares with the references in a file of NumPy.
fn check_npz(args: &CheckArgs, npz: &Path) -> Result<ExitCode> {
    let cases = numpy::read_cases(npz)?;
    let (model, mode) = (&args.model.model, args.model.mode);
    let remote = args.remote.open(&args.model.engine, model)?;
    let program = match &remote {
        Some(remote) => remote.program().clone(),
        None => args.model.engine.load(model)?,
    };
    let mut caller = match &remote {
        Some(remote) => Caller::Remote(remote.virtual_machine(mode)?),
        None => Caller::Local(program.session(mode)?),
    };
    let mut verdicts: BTreeMap<String, Verdict> = BTreeMap::new();
    for (k, case) in cases.iter().enumerate() {
        let location = || format!("{}: feed {k}", args.model.model.display());
        let prepared = program.prepare("main", &case.inputs).map_err(|e| e.at(location()))?;
        let outputs = caller.call(&prepared).map_err(|e| e.at(location()))?;
        let actual: BTreeMap<_, _> = outputs.into_iter().collect();
        for (name, expected) in &case.outputs {
            let verdict = verdicts.entry(name.clone()).or_insert(Verdict::matching());
            let difference = match actual.get(name) {
                Some(a) => Difference::of(a, expected, args.rtol, args.atol),
                None => Err("the program has no such output".to_string()),
            };
            verdict.add(k, difference);
        }
    }
    Ok(report(args, &verdicts, cases.len()))
}

/// Prints the verdicts; exit code 1 on a mismatch.
fn report(args: &CheckArgs, verdicts: &BTreeMap<String, Verdict>, feeds: usize) -> ExitCode {
    let matches = verdicts.values().all(|v| v.matches) && !verdicts.is_empty();
    if args.json {
        let mode = args.model.mode.to_string();
        println!(
            "{}",
            serde_json::json!({ "mode": mode, "feeds": feeds, "matches": matches, "outputs": verdicts })
        );
    } else {
        for (name, v) in verdicts {
            let word = if v.matches { "ok" } else { "MISMATCH" };
            match (v.max_abs, v.worst) {
                (Some(error), Some(worst)) => {
                    println!("{word:8} {name}: max abs error {error:.3e}, {worst:.3} of tolerance")
                }
                _ => println!("{word:8} {name}"),
            }
            if let Some(reason) = &v.reason {
                println!("         {reason}");
            }
        }
        println!("{feeds} feeds, mode {}", args.model.mode);
    }
    if matches { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

impl Verdict {
    fn matching() -> Verdict {
        Verdict { matches: true, ..Verdict::default() }
    }

    fn add(&mut self, feed: usize, difference: std::result::Result<Difference, String>) {
        let reason = match difference {
            Ok(d) => {
                let most = |known: Option<f64>, new| Some(known.unwrap_or(0.0).max(new));
                self.max_abs = most(self.max_abs, d.max_abs);
                self.worst = most(self.worst, d.worst);
                (!d.matches()).then(|| {
                    format!("feed {feed}, element {}: {} instead of {}", d.at, d.actual, d.expected)
                })
            }
            Err(reason) => Some(format!("feed {feed}: {reason}")),
        };
        self.matches &= reason.is_none();
        self.reason = self.reason.take().or(reason);
    }
}
