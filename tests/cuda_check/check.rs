//! Runs a folder on the device.
//!
//! Parts run in a process of their own, which this one starts again after a part that ends it or loses
//! the device, so that one failure hides no other.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Args;
use reflex::Engine;
use reflex_runtime::device::{DEVICE_LOST, Device};
use serde::{Deserialize, Serialize};

use crate::ceilings::{CEILINGS, Figures, Size};
use crate::facts::Facts;
use crate::packed::{ANCHORS, Manifest, Pack};
use crate::report::{FIRST_ANSWER, FIRST_ANSWER_OF_PTX, Kind, PartResult, Report, Status, VERSION};
use crate::{probes, programs};

/// Arguments of `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The folder that `pack` wrote (default: the one that holds this program).
    folder: Option<PathBuf>,
    /// Where report.json and report.md are written (default: the working folder).
    #[arg(long, default_value = ".")]
    out: PathBuf,
    /// Number of the CUDA device.
    #[arg(long, default_value_t = 0)]
    device: u16,
    /// Seconds after which no further part is begun.
    #[arg(long, default_value_t = 540)]
    budget: u64,
    /// Let the driver compile the PTX of programs, in place of their cubins: what the first answers of the
    /// report then take is under its own name.
    #[arg(long)]
    jit: bool,
    /// Run the parts from this number on, a line of JSON for each: what the check does with itself.
    #[arg(long, hide = true)]
    worker_from: Option<usize>,
}

/// A message of a worker.
#[derive(Serialize, Deserialize)]
enum Line {
    /// A part begins.
    Begin(usize),
    /// It has ended.
    End(PartResult),
}

/// The exit code where something failed on the device, or differs.
const DIFFERS: u8 = 1;
/// The exit code where there is no device to check.
const NO_DEVICE: u8 = 3;
/// The exit code of a worker that lost the device.
const LOST: u8 = 4;

/// Runs a folder, and writes the report.
pub fn check(args: &CheckArgs) -> Result<ExitCode, String> {
    let mut pack = Pack::open(&folder(args)?)?;
    let device = match reflex_cuda::open(i32::from(args.device)) {
        Ok(device) => device,
        Err(why) => {
            eprintln!("reflex-cuda-check: no device to check: {}", why.message());
            return Ok(ExitCode::from(NO_DEVICE));
        }
    };
    let capability = device.properties().compute_capability;
    let fits = |only: Option<(u32, u32)>| only.is_none_or(|only| capability == Some(only));
    pack.manifest.probes.retain(|probe| fits(probe.capability));
    pack.manifest.cases.retain(|case| fits(case.capability));
    if let Some(from) = args.worker_from {
        return work(&pack, device, args, from);
    }
    let facts = Facts::of(device)?;
    let mut results = supervise(args, &pack.manifest)?;
    if !facts.is_stand_in() {
        results.extend(anchors(&pack));
    }
    let reflex = pack.manifest.reflex.clone();
    let report = Report { version: VERSION, reflex, facts, results };
    write(&args.out, "report.json", &serde_json::to_string_pretty(&report).map_err(text)?)?;
    write(&args.out, "report.md", &report.to_string())?;
    print!("{report}");
    Ok(match report.is_passed() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DIFFERS),
    })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn folder(args: &CheckArgs) -> Result<PathBuf, String> {
    if let Some(folder) = &args.folder {
        return Ok(folder.clone());
    }
    let own = std::env::current_exe().map_err(text)?;
    Ok(own.parent().unwrap_or(Path::new(".")).to_owned())
}

/// The parts of a check, in order.
fn parts(manifest: &Manifest) -> Vec<(Kind, String)> {
    let probes = manifest.probes.iter().map(|probe| (Kind::Probe, probe.form.clone()));
    let cases = manifest.cases.iter().map(|case| (Kind::Program, case.name.clone()));
    let ceilings = CEILINGS.iter().map(|(name, _)| (Kind::Ceiling, (*name).to_owned()));
    probes.chain(cases).chain(ceilings).collect()
}

fn result(part: &(Kind, String), status: Status, detail: String) -> PartResult {
    let (kind, name, figures) = (part.0, part.1.clone(), Default::default());
    PartResult { kind, name, status, detail, figures, hash: None }
}

/// The time that a part may take beyond the budget, which is looked at between parts.
const GRACE: Duration = Duration::from_secs(20);

/// Starts workers until every part has an outcome, or the time is up.
fn supervise(args: &CheckArgs, manifest: &Manifest) -> Result<Vec<PartResult>, String> {
    let (parts, start) = (parts(manifest), Instant::now());
    let mut results: Vec<PartResult> = vec![];
    while results.len() < parts.len() {
        let left = Duration::from_secs(args.budget).saturating_sub(start.elapsed());
        if left.is_zero() {
            let rest = parts[results.len()..].iter();
            let skip = |part| result(part, Status::Skipped, "the time was up".to_owned());
            results.extend(rest.map(skip));
            break;
        }
        let before = results.len();
        let mut worker = start_worker(args, before, left)?;
        let (begun, in_time) = follow(&mut worker, left + GRACE, &mut results)?;
        let status = worker.wait().map_err(text)?;
        if begun.is_some_and(|at| at == results.len()) {
            let why = match in_time {
                true => format!("the process ended: {status}"),
                false => "it did not end in time".to_owned(),
            };
            let part = &parts[results.len()];
            results.push(result(part, Status::Fail, why));
        } else if results.len() == before && !status.success() {
            if results.is_empty() {
                return Err(format!("the worker ended without a result: {status}"));
            }
            let why = format!("the device cannot be used any more: {status}");
            let rest = parts[before..].iter();
            results.extend(rest.map(|part| result(part, Status::Skipped, why.clone())));
        }
    }
    Ok(results)
}

/// Reads a worker's results until it ends; it is killed where that is not within `limit`. Returns the part
/// that it has begun and not ended, and whether it ended in time.
fn follow(
    worker: &mut Child,
    limit: Duration,
    results: &mut Vec<PartResult>,
) -> Result<(Option<usize>, bool), String> {
    let out = BufReader::new(worker.stdout.take().ok_or("no output")?);
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let (start, mut begun) = (Instant::now(), None);
    loop {
        let line = match lines.recv_timeout(limit.saturating_sub(start.elapsed())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok((begun, true)),
            Err(RecvTimeoutError::Timeout) => {
                worker.kill().map_err(text)?;
                return Ok((begun, false));
            }
        };
        // Libraries may write lines of their own.
        match serde_json::from_str(&line) {
            Ok(Line::Begin(at)) => begun = Some(at),
            Ok(Line::End(result)) => {
                begun = None;
                results.push(result);
            }
            Err(_) => {}
        }
    }
}

/// Figures of PyTorch on the device, where the machine's Python has it.
fn anchors(pack: &Pack) -> Vec<PartResult> {
    #[derive(Deserialize)]
    struct Anchor {
        name: String,
        figures: Figures,
    }
    let python = Command::new("python3").arg(pack.path(ANCHORS)).output();
    let output = match python {
        Ok(output) => output,
        Err(why) => {
            eprintln!("reflex-cuda-check: no figures of PyTorch: python3: {why}");
            return vec![];
        }
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it says nothing");
        eprintln!("reflex-cuda-check: figures of PyTorch are missing: {last}");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let anchors = text.lines().filter_map(|line| serde_json::from_str::<Anchor>(line).ok());
    let pass = |a: Anchor| {
        let part = (Kind::Anchor, a.name);
        PartResult { figures: a.figures, ..result(&part, Status::Pass, String::new()) }
    };
    anchors.map(pass).collect()
}

fn start_worker(args: &CheckArgs, from: usize, left: Duration) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(text)?;
    let mut command = Command::new(own);
    command.arg("check").arg(folder(args)?).args(["--device", &args.device.to_string()]);
    command.args(["--budget", &left.as_secs().max(1).to_string()]);
    command.args(["--worker-from", &from.to_string()]).stdout(Stdio::piped());
    if args.jit {
        command.arg("--jit").env(reflex_cuda::JIT_VARIABLE, "1");
    }
    command.spawn().map_err(text)
}

/// Runs parts and says what became of each, until the device is lost or the time is up.
fn work(
    pack: &Pack,
    device: &'static dyn Device,
    args: &CheckArgs,
    from: usize,
) -> Result<ExitCode, String> {
    let name = format!("cuda:{}", args.device);
    let engine = Engine::builder().device(&name).build().map_err(text)?;
    let size = if Facts::of(device)?.is_stand_in() { Size::Small } else { Size::Full };
    let (start, budget) = (Instant::now(), Duration::from_secs(args.budget));
    for (at, part) in parts(&pack.manifest).iter().enumerate().skip(from) {
        if start.elapsed() > budget {
            say(&Line::End(result(part, Status::Skipped, "the time was up".to_owned())))?;
            continue;
        }
        say(&Line::Begin(at))?;
        let found = run_part(pack, device, &engine, args, size, at);
        let lost = device.synchronize(Default::default()).is_err_and(|e| e.kind() == DEVICE_LOST);
        let outcome = match found {
            Ok((figures, hash)) => {
                PartResult { figures, hash, ..result(part, Status::Pass, String::new()) }
            }
            Err(detail) => result(part, Status::Fail, detail),
        };
        say(&Line::End(outcome))?;
        if lost {
            return Ok(ExitCode::from(LOST));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn say(line: &Line) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line).map_err(text)?).map_err(text)?;
    out.flush().map_err(text)
}

fn run_part(
    pack: &Pack,
    device: &'static dyn Device,
    engine: &Engine,
    args: &CheckArgs,
    size: Size,
    at: usize,
) -> Result<(Figures, Option<String>), String> {
    let Manifest { probes, cases, .. } = &pack.manifest;
    if let Some(probe) = probes.get(at) {
        return Ok((Figures::new(), Some(probes::run(device, pack, probe)?)));
    }
    let at = at - probes.len();
    if let Some(case) = cases.get(at) {
        let mut figures = programs::run(engine, pack, case, device.id(), size)?;
        if let (true, Some(us)) = (args.jit, figures.get(FIRST_ANSWER).copied()) {
            figures.remove(FIRST_ANSWER);
            figures.insert(FIRST_ANSWER_OF_PTX.to_owned(), us);
        }
        return Ok((figures, None));
    }
    let (_, measure) = CEILINGS[at - cases.len()];
    Ok((measure(device, size).map_err(|e| e.message().to_string())?, None))
}
