//! Reflex beside other engines: latency, peak memory, time to start, as Markdown tables.
//!
//! Latency: the engines take turns in rounds of calls, so that the machine's drift hits all alike
//! while each has its own data in the caches. A pause before each round lets the others' threads
//! go to sleep (ONNX Runtime's spin for a while after a call). The first round settles tiers and
//! caches and is not counted.

mod engines;
mod start;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engines::{OpenVino, Ort, Peer, Reflex, Result, Rten};
use reflex::Mode;
use reflex::npz::{self, Feed};
use reflex::stats::{Comparison, Tail};

struct Options {
    data: PathBuf,
    reflex: PathBuf,
    threads: Vec<usize>,
    models: Vec<String>,
    min_time: f64,
    mode: Mode,
    /// Python with OpenVINO; without it, OpenVINO is left out.
    openvino: Option<PathBuf>,
    rten: bool,
    /// Whether to measure memory and starts.
    processes: bool,
    /// Child mode: engine, model path, npz path.
    memory: Option<[String; 3]>,
}

const ROUND: Duration = Duration::from_millis(60);
const PAUSE: Duration = Duration::from_millis(15);
const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let options = parse()?;
    if let Some([engine, model, cases]) = &options.memory {
        let (feeds, threads) = (feeds(Path::new(cases))?, options.threads[0]);
        return start::memory_child(engine, Path::new(model), &feeds, threads, options.mode);
    }
    let cases = cases(&options)?;
    println!(
        "p50 in microseconds of a call, of the mean call of a pass over its shapes where a case \
         has several; Reflex in mode {}. Ratio: Reflex over ONNX Runtime, with a 95% \
         bootstrap interval over the medians of rounds. Best: Reflex over the fastest other.\n",
        options.mode
    );
    println!(
        "| model / case | threads | ONNX Runtime | OpenVINO f32 | rten | Reflex | Reflex p99 \
         | ratio | best | peak MB ONNX Runtime | Reflex |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    let mut ratios: Vec<(usize, f64, f64)> = vec![];
    for (name, model, cases) in &cases {
        for &threads in &options.threads {
            match row(model, cases, threads, &options) {
                Ok((text, ratio, best)) => {
                    println!("| {name} | {threads} | {text} |");
                    ratios.push((threads, ratio, best));
                }
                Err(error) => println!("| {name} | {threads} | {error} |"),
            }
        }
    }
    for &threads in &options.threads {
        let of = |pick: fn(&(usize, f64, f64)) -> f64| {
            let logs: Vec<f64> =
                ratios.iter().filter(|r| r.0 == threads).map(|r| pick(r).ln()).collect();
            (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
        };
        let (ratio, best) = (of(|r| r.1), of(|r| r.2));
        println!("\nGeometric means, {threads} threads: ratio {ratio:.3}, best {best:.3}");
    }
    if options.processes { starts(&cases, &options) } else { Ok(()) }
}

fn starts(cases: &[(String, PathBuf, PathBuf)], options: &Options) -> Result<()> {
    println!(
        "\nWhole processes of `reflex check` (bytecode), milliseconds: ONNX with an empty kernel \
         cache, with a warm one, and compiled to a .so.\n\n| model / case | cold | warm | .so |\n\
         |---|---|---|---|"
    );
    let mut seen: Vec<&PathBuf> = vec![];
    // The case called main first: its one feed is one answer.
    let main_first = |c: &&(String, PathBuf, PathBuf)| !c.0.ends_with("/ main");
    let mut cases: Vec<_> = cases.iter().collect();
    cases.sort_by_key(main_first);
    for (name, model, npz) in cases {
        if !seen.contains(&model) {
            let [cold, warm, opened] = start::starts(&options.reflex, model, npz, ROUNDS)?;
            println!("| {name} | {cold:.0} | {warm:.1} | {opened:.1} |");
            seen.push(model);
        }
    }
    Ok(())
}

fn parse() -> Result<Options> {
    let mut options = Options {
        data: "target/reflex".into(),
        reflex: "target/release/reflex".into(),
        threads: vec![1, 2],
        models: vec![],
        min_time: 2.0,
        mode: Mode::default(),
        openvino: None,
        rten: false,
        processes: true,
        memory: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--data" => options.data = value()?.into(),
            "--reflex" => options.reflex = value()?.into(),
            "--threads" => {
                let threads = value()?.split(',').map(str::parse).collect::<Vec<_>>();
                options.threads = threads.into_iter().collect::<std::result::Result<_, _>>()?;
            }
            "--models" => options.models = value()?.split(',').map(String::from).collect(),
            "--min-time" => options.min_time = value()?.parse()?,
            "--mode" => options.mode = value()?.parse()?,
            "--openvino" => options.openvino = Some(value()?.into()),
            "--rten" => options.rten = true,
            "--latency-only" => options.processes = false,
            "--memory" => options.memory = Some([value()?, value()?, value()?]),
            _ => return Err(format!("unknown option {flag}").into()),
        }
    }
    Ok(options)
}

/// Name, model and reference of every case, sorted.
fn cases(options: &Options) -> Result<Vec<(String, PathBuf, PathBuf)>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(options.data.join("refs"))? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((model, case)) = file.strip_suffix(".npz").and_then(|f| f.split_once('.')) else {
            continue;
        };
        if options.models.is_empty() || options.models.iter().any(|m| m == model) {
            let onnx = options.data.join("models").join(format!("{model}.onnx"));
            found.push((format!("{model} / {case}"), onnx, path.clone()));
        }
    }
    found.sort();
    Ok(found)
}

fn feeds(cases: &Path) -> Result<Vec<Feed>> {
    Ok(npz::read_cases(cases)?.into_iter().map(|c| c.inputs).collect())
}

/// An engine that measures a case, or why it does not.
struct Lane {
    peer: Result<Box<dyn Peer>>,
    /// Feeds of the case.
    feeds: usize,
    /// Mean microseconds of a call in each pass over the feeds.
    sample: Vec<f64>,
    medians: Vec<f64>,
}

impl Lane {
    fn new(peer: Result<Box<dyn Peer>>, feeds: usize) -> Lane {
        Lane { peer, feeds, sample: vec![], medians: vec![] }
    }

    /// A round; an engine that fails is out.
    fn round(&mut self, counted: bool) {
        let Ok(peer) = &mut self.peer else { return };
        std::thread::sleep(PAUSE);
        match peer.round(ROUND) {
            Ok(calls) if counted => {
                // Calls of several shapes have several medians; a pass over all of them has one.
                let passes = calls.chunks_exact(self.feeds);
                let sample: Vec<f64> =
                    passes.map(|pass| pass.iter().sum::<f64>() / pass.len() as f64).collect();
                self.medians.extend(Tail::of(&sample).map(|t| t.p50_us));
                self.sample.extend(sample);
            }
            Ok(_) => {}
            Err(error) => self.peer = Err(error),
        }
    }

    fn tail(&self) -> Option<Tail> {
        self.peer.as_ref().ok()?;
        Tail::of(&self.sample)
    }

    fn cell(&self) -> String {
        self.tail().map_or("-".to_string(), |t| format!("{:.1}", t.p50_us))
    }
}

fn boxed<T: Peer + 'static>(peer: Result<T>) -> Result<Box<dyn Peer>> {
    peer.map(|p| Box::new(p) as Box<dyn Peer>)
}

/// A row's cells, and Reflex over ONNX Runtime and over the fastest other.
fn row(
    model: &Path,
    cases: &Path,
    threads: usize,
    options: &Options,
) -> Result<(String, f64, f64)> {
    let feeds = feeds(cases)?;
    let openvino = match &options.openvino {
        Some(python) => boxed(OpenVino::open(python, model, cases, threads)),
        None => Err("left out".into()),
    };
    let rten = match options.rten {
        true => boxed(Rten::open(model, &feeds, threads)),
        false => Err("left out".into()),
    };
    let mut lanes = [
        Lane::new(boxed(Ort::open(model, &feeds, threads)), feeds.len()),
        Lane::new(openvino, feeds.len()),
        Lane::new(rten, feeds.len()),
        Lane::new(boxed(Reflex::open(model, &feeds, threads, options.mode)), feeds.len()),
    ];
    let start = Instant::now();
    for round in 0.. {
        lanes.iter_mut().for_each(|lane| lane.round(round > 0));
        let enough = lanes.iter().all(|l| l.peer.is_err() || l.sample.len() * feeds.len() >= 30);
        if enough && round >= ROUNDS && start.elapsed().as_secs_f64() > options.min_time {
            break;
        }
    }
    let [ort, openvino, rten, ours] = lanes;
    if let Err(error) = ours.peer {
        return Err(error);
    }
    let tail = ours.tail().ok_or("no sample")?;
    let others = [&ort, &openvino, &rten].into_iter().filter_map(Lane::tail);
    let fastest = others.map(|t| t.p50_us).fold(f64::INFINITY, f64::min);
    let best = tail.p50_us / fastest;
    let versus = Comparison::of(&ort.medians, &ours.medians, 0).ok_or("no ONNX Runtime")?;
    let peak = |engine| match options.processes {
        true => {
            start::peak_of(engine, model, cases, threads, options.mode).map(|mb| format!("{mb:.0}"))
        }
        false => Ok("-".to_string()),
    };
    let text = format!(
        "{} | {} | {} | {:.1} | {:.1} | {:.3} [{:.3}, {:.3}] | {best:.3} | {} | {}",
        ort.cell(),
        openvino.cell(),
        rten.cell(),
        tail.p50_us,
        tail.p99_us,
        versus.ratio,
        versus.low,
        versus.high,
        peak("ort")?,
        peak("reflex")?
    );
    Ok((text, versus.ratio, best))
}
