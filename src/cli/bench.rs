//! `reflex bench`: modes interleaved in one process, feeds cycled call by call.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use reflex::remote::RemoteProgram;
use reflex::stats::Latency;
use reflex::{Error, Feed, KernelGenerator, Mode, Prepared, Program, Result, TierPolicy, numpy};
use serde::Serialize;

use super::args::{EngineArgs, note_kernels, warn_of_cache};
use super::compare::{self, Comparing};
use super::inputs::InputArgs;
use super::measured_mode::MeasuredMode;
use super::output::{Format, println};
use super::remote::RemoteArgs;

/// Arguments of `bench`.
#[derive(Args)]
pub struct BenchArgs {
    /// Model: .onnx, .pt2 (PyTorch), .py (TVMScript), .json (nodes) or .so.
    model: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    /// Modes to measure.
    #[arg(long, default_value = "bytecode,compiled,tiered", value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Compare two modes instead, or two code generators of kernels in mode `tiered`, as in
    /// kernels=cranelift,kernels=llvm: ratio with a confidence interval, percentiles, histogram.
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "A,B",
        conflicts_with_all = ["modes", "remote", "tracker"])]
    ab: Vec<Compared>,
    /// Draw the comparison's histogram to a file.
    #[arg(long, value_name = "FILE", requires = "ab")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Feeds from a reference file instead.
    #[arg(long, value_name = "REF.npz", conflicts_with_all = ["inputs", "shapes"])]
    npz: Option<PathBuf>,
    /// Seconds to measure each mode.
    #[arg(long, default_value_t = 1.5, value_name = "S")]
    min_time: f64,
    /// Print one JSON object per mode.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    mode: String,
    #[serde(flatten)]
    latency: Latency,
    load_ms: f64,
    first_ms: f64,
    rss_peak_mb: f64,
}

/// A thing that `--ab` compares.
#[derive(Clone)]
enum Compared {
    /// A mode, with the kernels of the tier policy.
    Mode(Mode),
    /// A code generator of kernels, as it was written.
    Kernels(KernelGenerator, String),
}

impl FromStr for Compared {
    type Err = Error;

    fn from_str(text: &str) -> Result<Compared> {
        match text.starts_with("kernels=") {
            true => Ok(Compared::Kernels(text.parse::<TierPolicy>()?.kernels, text.to_owned())),
            false => Ok(Compared::Mode(text.parse().map_err(|e: String| Error::input(e))?)),
        }
    }
}

/// One side of a comparison.
struct Side {
    name: String,
    program: Program,
    mode: Mode,
    load_ms: f64,
}

impl Side {
    /// Makes one side: with `program`, which took `load_ms`, or with one whose kernels come from another
    /// code generator.
    fn load(args: &BenchArgs, side: &Compared, program: &Program, load_ms: f64) -> Result<Side> {
        match side {
            &Compared::Mode(mode) => {
                let (name, program) = (mode.to_string(), program.fork()?);
                Ok(Side { name, program, mode, load_ms })
            }
            Compared::Kernels(kernels, name) => {
                let mut policy = args.engine.policy()?;
                policy.kernels = *kernels;
                let start = Instant::now();
                let engine = args.engine.builder()?.tier(policy).build()?;
                let program = engine.load(args.engine.source(&args.model))?;
                let load_ms = start.elapsed().as_secs_f64() * 1e3;
                Ok(Side { name: name.clone(), program, mode: Mode::Tiered, load_ms })
            }
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Most calls measured per mode.
const MAX_CALLS: usize = 200_000;

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let start = Instant::now();
    if let Some(remote) = args.remote.open(&args.engine, &args.model)? {
        let load_ms = start.elapsed().as_secs_f64() * 1e3;
        return bench_remote(args, &remote, load_ms);
    }
    let engine = args.engine.settled_builder()?.build()?;
    warn_of_cache(&engine, &args.model);
    note_kernels(&engine, &args.model);
    let program = engine.load(args.engine.source(&args.model))?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let feeds = feeds(args, &program)?;
    let open = |program: &Program, mode: Mode, load_ms: f64| {
        let measured = MeasuredMode::open(program, mode, load_ms, &feeds);
        measured.map_err(|e| args.inputs.explain(e, program, "main").at(args.model.display()))
    };
    match &args.ab[..] {
        [] => {}
        [a, b] => {
            let side = |compared| Side::load(args, compared, &program, load_ms);
            let options = Comparing {
                sides: [side(a)?, side(b)?],
                min_time: args.min_time,
                svg: args.svg.as_deref(),
                format: Format::of(args.json),
            };
            let open = |side: &Side| open(&side.program, side.mode, side.load_ms);
            return compare::run(&options, open, &feeds);
        }
        _ => {
            return Err(Error::input(
                "--ab takes two modes or code generators, as in --ab bytecode,tiered",
            ));
        }
    }
    let mut measured = args
        .modes
        .iter()
        .map(|mode| open(&program, *mode, load_ms))
        .collect::<Result<Vec<MeasuredMode>>>()?;
    measure(&mut measured, &feeds, args.min_time)?;
    report(measured, Format::of(args.json));
    Ok(ExitCode::SUCCESS)
}

/// The feeds to measure.
fn feeds(args: &BenchArgs, program: &Program) -> Result<Vec<Prepared>> {
    let feeds: Vec<Feed> = match &args.npz {
        Some(path) => numpy::read_cases(path)?.into_iter().map(|c| c.inputs).collect(),
        None => vec![args.inputs.feed(program, "main")?],
    };
    feeds.iter().map(|f| program.prepare("main", f)).collect()
}

/// Measures one mode after another at a server, on the first feed.
fn bench_remote(args: &BenchArgs, remote: &RemoteProgram, load_ms: f64) -> Result<ExitCode> {
    let feeds = feeds(args, remote.program())?;
    let at = |e: Error| e.at(args.model.display());
    let rows = args.modes.iter().map(|mode| {
        let machine = remote.virtual_machine(*mode)?;
        let start = Instant::now();
        machine.call("main", &feeds[0]).map_err(at)?;
        let first_ms = start.elapsed().as_secs_f64() * 1e3;
        let sample = machine.bench("main", &feeds[0], args.min_time).map_err(at)?;
        let none = || Error::input("the server measured nothing");
        let latency = Latency::of(&sample).ok_or_else(none)?;
        Ok(Row { mode: mode.to_string(), latency, load_ms, first_ms, rss_peak_mb: peak_rss_mb() })
    });
    print_rows(rows.collect::<Result<Vec<Row>>>()?, Format::of(args.json));
    Ok(ExitCode::SUCCESS)
}

/// Measures a few calls of each mode in turn, so that drift of the machine affects all alike.
fn measure(measured: &mut [MeasuredMode], feeds: &[Prepared], min_time: f64) -> Result<()> {
    let budget = Duration::from_secs_f64(min_time.max(0.0)) * measured.len() as u32;
    let start = Instant::now();
    let mut next = 0;
    loop {
        for mode in measured.iter_mut() {
            let round = Instant::now();
            for k in next..next + feeds.len().max(8) {
                mode.measure(&feeds[k % feeds.len()])?;
                if round.elapsed() > Duration::from_millis(100) && feeds.len() == 1 {
                    break;
                }
            }
        }
        next += feeds.len().max(8);
        let n = measured.iter().map(|l| l.sample.len()).min().unwrap_or(0);
        if (start.elapsed() >= budget && n >= 30) || n >= MAX_CALLS {
            return Ok(());
        }
        if start.elapsed() >= budget * 8 && n >= 3 {
            return Ok(());
        }
    }
}

fn report(measured: Vec<MeasuredMode>, format: Format) {
    let rss_peak_mb = peak_rss_mb();
    let rows = measured.into_iter().filter_map(|side| {
        let (mode, load_ms, first_ms) = (side.mode.to_string(), side.load_ms, side.first_ms);
        Latency::of(&side.sample).map(|latency| Row {
            mode,
            latency,
            load_ms,
            first_ms,
            rss_peak_mb,
        })
    });
    print_rows(rows, format);
    if format == Format::Text {
        println!("peak memory {rss_peak_mb:.1} MB");
    }
}

/// Prints a line for each mode.
fn print_rows(rows: impl IntoIterator<Item = Row>, format: Format) {
    if format == Format::Text {
        println!(
            "{:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>8} {:>9} {:>9}",
            "mode", "p50 us", "p90 us", "p99 us", "min us", "mean us", "n", "load ms", "first ms"
        );
    }
    for row in rows {
        if format == Format::Json {
            println!("{}", serde_json::to_string(&row).expect("plain data"));
            continue;
        }
        let l = &row.latency;
        println!(
            "{:10} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>8} {:>9.2} {:>9.3}",
            row.mode,
            l.p50_us,
            l.p90_us,
            l.p99_us,
            l.min_us,
            l.mean_us,
            l.n,
            row.load_ms,
            row.first_ms
        );
    }
}

/// The process's largest resident set so far.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
