//! Reflex beside ONNX Runtime: latency, peak memory, time to start, as Markdown tables.
//!
//! Latency: both engines in one process, taking turns in rounds of some calls, so that the
//! machine's drift hits both alike while each has its own data in the caches. A pause before each
//! round lets the other's threads go to sleep (ONNX Runtime's spin for a while after a call).

mod engines;
mod start;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engines::{Ort, Reflex, Result, Run};
use reflex::Mode;
use reflex::npz::{self, Feed};
use reflex::stats::Latency;

struct Options {
    data: PathBuf,
    reflex: PathBuf,
    threads: Vec<usize>,
    models: Vec<String>,
    min_time: f64,
    mode: Mode,
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
        "| model / case | threads | ONNX Runtime p50 us | p99 | Reflex ({}) p50 us | p99 | ratio \
         | peak MB ONNX Runtime | Reflex |\n|---|---|---|---|---|---|---|---|---|",
        options.mode
    );
    for (name, model, cases) in &cases {
        for &threads in &options.threads {
            match row(model, cases, threads, &options) {
                Ok(text) => println!("| {name} | {threads} | {text} |"),
                Err(error) => println!("| {name} | {threads} | {error} |"),
            }
        }
    }
    println!(
        "\nWhole processes of `reflex check` (bytecode), milliseconds: ONNX with an empty kernel \
         cache, with a warm one, and compiled to a .so.\n\n| model / case | cold | warm | .so |\n\
         |---|---|---|---|"
    );
    let mut seen = vec![];
    for (name, model, cases) in &cases {
        if !seen.contains(&model) {
            let [cold, warm, opened] = start::starts(&options.reflex, model, cases, ROUNDS)?;
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

fn row(model: &Path, cases: &Path, threads: usize, options: &Options) -> Result<String> {
    let feeds = feeds(cases)?;
    let mut ort = Ort::open(model, &feeds, threads)?;
    let mut ours = Reflex::open(model, &feeds, threads, options.mode)?;
    let mut samples = [vec![], vec![]];
    let engines: [&mut dyn Run; 2] = [&mut ort, &mut ours];
    let mut lanes: Vec<_> = engines.into_iter().zip(&mut samples).collect();
    // The first round settles tiers and caches and is not counted.
    let start = Instant::now();
    for round in 0.. {
        for (engine, sample) in &mut lanes {
            measure(*engine, feeds.len(), sample)?;
            if round == 0 {
                sample.clear();
            }
        }
        let enough = lanes.iter().all(|(_, s)| s.len() >= 30) && round >= ROUNDS;
        if enough && start.elapsed().as_secs_f64() > options.min_time {
            break;
        }
    }
    let [a, b] = samples.map(Latency::of);
    let (a, b) = (a.ok_or("no sample")?, b.ok_or("no sample")?);
    let peak = |engine| start::peak_of(engine, model, cases, threads, options.mode);
    Ok(format!(
        "{:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {:.0} | {:.0}",
        a.p50_us,
        a.p99_us,
        b.p50_us,
        b.p99_us,
        b.p50_us / a.p50_us,
        peak("ort")?,
        peak("reflex")?
    ))
}

/// A round: a pause, an uncounted call of each feed, then whole cycles of the feeds.
fn measure(engine: &mut dyn Run, feeds: usize, sample: &mut Vec<f64>) -> Result<()> {
    std::thread::sleep(PAUSE);
    (0..feeds).try_for_each(|feed| engine.run(feed))?;
    let round = Instant::now();
    while round.elapsed() < ROUND {
        for feed in 0..feeds {
            let call = Instant::now();
            engine.run(feed)?;
            sample.push(call.elapsed().as_nanos() as f64 / 1e3);
        }
    }
    Ok(())
}
