//! `reflex check`: every feed of a reference file on one program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::remote::RemoteMachine;
use reflex::stats::Difference;
use reflex::{Array, Prepared, Result, Session, numpy};
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
    #[arg(long, value_name = "REF.npz")]
    npz: PathBuf,
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
    max_abs: f64,
    /// Largest error over its tolerance.
    worst: f64,
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
    let cases = numpy::read_cases(&args.npz)?;
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
            let verdict = verdicts
                .entry(name.clone())
                .or_insert(Verdict { matches: true, ..Verdict::default() });
            let difference = match actual.get(name) {
                Some(a) => Difference::of(a, expected, args.rtol, args.atol),
                None => Err("the program has no such output".to_string()),
            };
            verdict.add(k, difference);
        }
    }
    let matches = verdicts.values().all(|v| v.matches) && !verdicts.is_empty();
    if args.json {
        let mode = args.model.mode.to_string();
        let feeds = cases.len();
        println!(
            "{}",
            serde_json::json!({ "mode": mode, "feeds": feeds, "matches": matches, "outputs": verdicts })
        );
    } else {
        for (name, v) in &verdicts {
            let word = if v.matches { "ok" } else { "MISMATCH" };
            println!(
                "{word:8} {name}: max abs error {:.3e}, {:.3} of tolerance",
                v.max_abs, v.worst
            );
            if let Some(reason) = &v.reason {
                println!("         {reason}");
            }
        }
        println!("{} feeds, mode {}", cases.len(), args.model.mode);
    }
    Ok(if matches { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Verdict {
    fn add(&mut self, feed: usize, difference: std::result::Result<Difference, String>) {
        let reason = match difference {
            Ok(d) => {
                self.max_abs = self.max_abs.max(d.max_abs);
                self.worst = self.worst.max(d.worst);
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
