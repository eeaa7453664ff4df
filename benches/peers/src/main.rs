//! Latency and peak memory of ONNX Runtime (its C API, through `ort`) and of Reflex.
//!
//! Latency: both engines in one process, taking turns call by call, medians. Peak memory: each
//! engine alone in a child process (`--memory ENGINE`), after five calls.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor};
use reflex::npz::{self, Array, Feed};
use reflex::stats::Latency;
use reflex::{DType, Engine, Mode, Prepared};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Options {
    data: PathBuf,
    threads: Vec<usize>,
    models: Vec<String>,
    min_time: f64,
    mode: Mode,
    /// Child mode: engine, model path, npz path.
    memory: Option<[String; 3]>,
}

fn main() -> Result<()> {
    let options = parse()?;
    if let Some([engine, model, cases]) = &options.memory {
        return memory_child(engine, Path::new(model), Path::new(cases), &options);
    }
    println!("| model / case | threads | ONNX Runtime p50 us | p99 | Reflex ({}) p50 us | p99 | ratio | peak MB ORT | Reflex |", options.mode);
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, model, cases) in cases(&options)? {
        for &threads in &options.threads {
            match row(&model, &cases, threads, &options) {
                Ok(text) => println!("| {name} | {threads} | {text} |"),
                Err(error) => println!("| {name} | {threads} | {error} |"),
            }
        }
    }
    Ok(())
}

fn parse() -> Result<Options> {
    let mut options = Options {
        data: "target/reflex".into(),
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
            "--threads" => {
                options.threads = value()?.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
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

fn row(model: &Path, cases: &Path, threads: usize, options: &Options) -> Result<String> {
    let feeds: Vec<Feed> = npz::read_cases(cases)?.into_iter().map(|c| c.inputs).collect();
    let mut ort = Ort::open(model, &feeds, threads)?;
    let mut ours = Ours::open(model, &feeds, threads, options.mode)?;
    let (mut a, mut b) = (vec![], vec![]);
    let start = Instant::now();
    for k in 0.. {
        let feed = k % feeds.len();
        let warm = k >= 10 && start.elapsed() > Duration::from_millis(300);
        for (engine, sample) in [(&mut ort as &mut dyn Run, &mut a), (&mut ours, &mut b)] {
            let call = Instant::now();
            engine.run(feed)?;
            if warm {
                sample.push(call.elapsed().as_nanos() as f64 / 1e3);
            }
        }
        if b.len() >= 30 && start.elapsed().as_secs_f64() > options.min_time {
            break;
        }
    }
    let (a, b) = (Latency::of(a).ok_or("no sample")?, Latency::of(b).ok_or("no sample")?);
    let peak = |engine| peak_of(engine, model, cases, threads, options);
    Ok(format!(
        "{:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {} | {}",
        a.p50_us, a.p99_us, b.p50_us, b.p99_us, b.p50_us / a.p50_us, peak("ort")?, peak("reflex")?
    ))
}

trait Run {
    fn run(&mut self, feed: usize) -> Result<()>;
}

struct Ort {
    session: Session,
    feeds: Vec<Vec<(String, DynValue)>>,
}

impl Ort {
    fn open(model: &Path, feeds: &[Feed], threads: usize) -> Result<Ort> {
        let session = Session::builder()?
            .with_intra_threads(threads)?
            .with_inter_threads(1)?
            .commit_from_file(model)?;
        let value = |(name, array): (&String, &Array)| Ok((name.clone(), ort_value(array)?));
        let feeds = feeds.iter().map(|f| f.iter().map(value).collect()).collect::<Result<_>>()?;
        Ok(Ort { session, feeds })
    }
}

impl Run for Ort {
    fn run(&mut self, feed: usize) -> Result<()> {
        let inputs: Vec<(&str, SessionInputValue<'_>)> =
            self.feeds[feed].iter().map(|(n, v)| (n.as_str(), SessionInputValue::from(v))).collect();
        std::hint::black_box(&self.session.run(inputs)?);
        Ok(())
    }
}

fn ort_value(array: &Array) -> Result<DynValue> {
    macro_rules! tensor { ($t:ty) => {{
        let values: Vec<$t> = array
            .data
            .chunks_exact(size_of::<$t>())
            .map(|c| <$t>::from_le_bytes(c.try_into().expect("exact chunk")))
            .collect();
        Tensor::from_array((array.shape.clone(), values))?.into_dyn()
    }} }
    Ok(match array.dtype {
        DType::F32 => tensor!(f32),
        DType::I64 => tensor!(i64),
        DType::I32 => tensor!(i32),
        other => return Err(format!("no ONNX Runtime input of type {other} in these models").into()),
    })
}

struct Ours {
    session: reflex::Session,
    feeds: Vec<Prepared>,
}

impl Ours {
    fn open(model: &Path, feeds: &[Feed], threads: usize, mode: Mode) -> Result<Ours> {
        let program = Engine::builder().threads(threads).build()?.load(model)?;
        let prepare = |f| program.prepare("main", f);
        let feeds = feeds.iter().map(prepare).collect::<reflex::Result<_>>()?;
        Ok(Ours { session: program.session(mode)?, feeds })
    }
}

impl Run for Ours {
    fn run(&mut self, feed: usize) -> Result<()> {
        std::hint::black_box(&self.session.call(&self.feeds[feed])?);
        Ok(())
    }
}

/// Runs this program again with one engine only, and reads the peak it prints.
fn peak_of(engine: &str, model: &Path, cases: &Path, threads: usize, o: &Options) -> Result<String> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--threads", &threads.to_string(), "--mode", &o.mode.to_string(), "--memory", engine])
        .args([model, cases])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_string())
}

fn memory_child(engine: &str, model: &Path, cases: &Path, options: &Options) -> Result<()> {
    let feeds: Vec<Feed> = npz::read_cases(cases)?.into_iter().map(|c| c.inputs).collect();
    let threads = options.threads[0];
    let mut run: Box<dyn Run> = match engine {
        "ort" => Box::new(Ort::open(model, &feeds, threads)?),
        _ => Box::new(Ours::open(model, &feeds, threads, options.mode)?),
    };
    for k in 0..5 * feeds.len() {
        run.run(k % feeds.len())?;
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib: f64 = line.split_whitespace().next().ok_or("no VmHWM")?.parse()?;
    println!("{:.0}", kib / 1024.0);
    Ok(())
}
