//! `reflex bench`: modes interleaved in one process, feeds cycled call by call.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use reflex::stats::Latency;
use reflex::{Error, Feed, Mode, Prepared, Program, Result, Session, numpy};
use serde::Serialize;

use super::EngineArgs;
use super::compare;
use super::inputs::InputArgs;
use super::output::println;

/// Arguments of `bench`.
#[derive(Args)]
pub struct BenchArgs {
    /// Model: .onnx, .py (TVMScript) or .so.
    model: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
    /// Modes to measure.
    #[arg(long, default_value = "bytecode,compiled,tiered", value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Compare two modes instead: ratio with a confidence interval, tails, histogram.
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "A,B", conflicts_with = "modes")]
    ab: Vec<Mode>,
    /// Draw the comparison's histogram to a file.
    #[arg(long, value_name = "FILE", requires = "ab")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    /// Feeds from a reference file instead.
    #[arg(long, value_name = "REF.npz", conflicts_with_all = ["inputs", "shapes"])]
    npz: Option<PathBuf>,
    /// Seconds to measure each mode.
    #[arg(long, default_value_t = 1.5, value_name = "S")]
    min_time: f64,
    /// Print one JSON object a mode.
    #[arg(long)]
    json: bool,
}

/// One mode's measurements.
pub struct Lane {
    pub mode: Mode,
    session: Session,
    load_ms: f64,
    first_ms: f64,
    /// Microseconds by call.
    pub sample: Vec<f64>,
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

/// Most calls measured a mode.
const MAX_CALLS: usize = 200_000;

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let start = Instant::now();
    let program = args.engine.engine()?.load(&args.model)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let feeds: Vec<Feed> = match &args.npz {
        Some(path) => numpy::read_cases(path)?.into_iter().map(|c| c.inputs).collect(),
        None => vec![args.inputs.feed(&program, "main")?],
    };
    let feeds: Vec<Prepared> =
        feeds.iter().map(|f| program.prepare("main", f)).collect::<Result<_>>()?;
    let open = |mode: Mode| {
        Lane::open(&program, mode, load_ms, &feeds).map_err(|e| e.at(args.model.display()))
    };
    match args.ab[..] {
        [] => {}
        [a, b] => {
            let svg = args.svg.as_deref();
            return compare::run([a, b], open, &feeds, args.min_time, svg, args.json);
        }
        _ => return Err(Error::input("--ab takes two modes, as in --ab bytecode,tiered")),
    }
    let mut lanes = args.modes.iter().map(|mode| open(*mode)).collect::<Result<Vec<Lane>>>()?;
    measure(&mut lanes, &feeds, args.min_time)?;
    report(lanes, args.json);
    Ok(ExitCode::SUCCESS)
}

impl Lane {
    /// A lane with a program of its own, so that no mode runs what another compiled.
    fn open(program: &Program, mode: Mode, load_ms: f64, feeds: &[Prepared]) -> Result<Lane> {
        let program = program.fork()?;
        let start = Instant::now();
        let mut session = program.session(mode)?;
        let open_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        session.call(&feeds[0])?;
        let first_ms = start.elapsed().as_secs_f64() * 1e3;
        let mut lane = Lane { mode, session, load_ms: load_ms + open_ms, first_ms, sample: vec![] };
        lane.warm_up(feeds)?;
        Ok(lane)
    }

    /// One call that is not measured.
    pub fn call(&mut self, feed: &Prepared) -> Result<()> {
        self.session.call(feed).map(drop)
    }

    /// One measured call, its outputs' release included.
    pub fn measure(&mut self, feed: &Prepared) -> Result<()> {
        let start = Instant::now();
        self.call(feed)?;
        self.sample.push(start.elapsed().as_nanos() as f64 / 1e3);
        Ok(())
    }

    /// What is hot is compiled; then every feed once, and a fifth of a second: caches and clocks
    /// settle.
    fn warm_up(&mut self, feeds: &[Prepared]) -> Result<()> {
        self.session.warm_up_all(feeds)?;
        let start = Instant::now();
        for k in 0.. {
            if k >= feeds.len() && start.elapsed() > Duration::from_millis(200) {
                break;
            }
            self.session.call(&feeds[k % feeds.len()])?;
        }
        self.sample.reserve(1 << 16);
        Ok(())
    }
}

/// Rounds of a few calls a mode, so that drift of the machine hits all modes alike.
fn measure(lanes: &mut [Lane], feeds: &[Prepared], min_time: f64) -> Result<()> {
    let budget = Duration::from_secs_f64(min_time.max(0.0)) * lanes.len() as u32;
    let start = Instant::now();
    let mut next = 0;
    loop {
        for lane in lanes.iter_mut() {
            let round = Instant::now();
            for k in next..next + feeds.len().max(8) {
                lane.measure(&feeds[k % feeds.len()])?;
                if round.elapsed() > Duration::from_millis(100) && feeds.len() == 1 {
                    break;
                }
            }
        }
        next += feeds.len().max(8);
        let n = lanes.iter().map(|l| l.sample.len()).min().unwrap_or(0);
        if (start.elapsed() >= budget && n >= 30) || n >= MAX_CALLS {
            return Ok(());
        }
        if start.elapsed() >= budget * 8 && n >= 3 {
            return Ok(());
        }
    }
}

fn report(lanes: Vec<Lane>, json: bool) {
    let rss_peak_mb = peak_rss_mb();
    let rows = lanes.into_iter().filter_map(|lane| {
        let (mode, load_ms, first_ms) = (lane.mode.to_string(), lane.load_ms, lane.first_ms);
        Latency::of(&lane.sample).map(|latency| Row {
            mode,
            latency,
            load_ms,
            first_ms,
            rss_peak_mb,
        })
    });
    if !json {
        println!(
            "{:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>8} {:>9} {:>9}",
            "mode", "p50 us", "p90 us", "p99 us", "min us", "mean us", "n", "load ms", "first ms"
        );
    }
    for row in rows {
        if json {
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
    if !json {
        println!("peak memory {rss_peak_mb:.1} MB");
    }
}

/// The process's largest resident set so far.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
