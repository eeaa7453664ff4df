//! Reflex compared with other engines, or with another build of itself: latency, peak memory and
//! start-up time, as Markdown.
//!
//! Latency: the engines of a row run interleaved in rounds of calls, so that drift of the machine
//! affects all of them alike while each has its own data in the caches. A pause before each round
//! lets the threads of the previous engine go to sleep (ONNX Runtime's spin for a while after a
//! call). Before the first counted round every engine is warmed up for the same time. A row during
//! which something else used the machine is measured again ([`disturbance`]).

mod against;
mod bf16;
mod disturbance;
mod engines;
mod interleave;
mod library;
mod remote;
mod report;
mod spin;
mod start;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use engines::Result;
use reflex::{Feed, Mode, Precision, numpy};

/// Reflex compared with other engines, or with another build of itself, as Markdown.
#[derive(Parser)]
#[command(name = "reflex-peers", max_term_width = 100)]
struct Options {
    /// Folder with models/ and refs/ of `./x refs`.
    #[arg(long, default_value = "target/reflex", value_name = "DIR")]
    data: PathBuf,
    /// The `reflex` command, for start-up times.
    #[arg(long, default_value = "target/release/reflex", value_name = "FILE")]
    reflex: PathBuf,
    /// Threads of every engine, one row each.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_name = "N,..")]
    threads: Vec<usize>,
    /// Only these models (default: every model with references).
    #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
    models: Vec<String>,
    /// Counted rounds of a row go on for this many seconds at least.
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    min_time: f64,
    /// Seconds of uncounted calls of every engine before its first counted round; as long as
    /// Reflex takes until nothing more is compiled, where that is longer.
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    warm_up: f64,
    /// Execution mode of Reflex.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    mode: Mode,
    /// Arithmetic of Reflex; bf16 compares with OpenVINO's default precision.
    #[arg(long, default_value = "f32", value_name = "f32|f32-fast|bf16|int8")]
    precision: Precision,
    /// Python with OpenVINO; without it, OpenVINO is left out.
    #[arg(long, value_name = "FILE")]
    openvino: Option<PathBuf>,
    /// Measure rten too.
    #[arg(long)]
    rten: bool,
    /// Leave out peak memory and start-up times.
    #[arg(long)]
    latency_only: bool,
    /// Compare with the build of Reflex whose libreflex.so this is, and with nothing else.
    #[arg(long, value_name = "LIB", conflicts_with_all = ["openvino", "rten"])]
    against: Option<PathBuf>,
    /// The libreflex.so that `--against` compares with.
    #[arg(long, default_value = "target/release/libreflex.so", value_name = "LIB")]
    library: PathBuf,
    /// Fresh processes of both builds that `--against` takes per row.
    #[arg(long, default_value_t = 5, value_name = "N")]
    set_ups: usize,
    /// Times that a disturbed row is measured again at most.
    #[arg(long, default_value_t = 2, value_name = "N")]
    reruns: usize,
    /// A row is disturbed when other processes use more than this many CPUs during it.
    #[arg(long, default_value_t = 0.05, value_name = "CPUS")]
    max_other_cpu: f64,
    /// A row is disturbed when the 90th percentile of the rounds of a spin loop is more than this
    /// many times their median.
    #[arg(long, default_value_t = 1.1, value_name = "RATIO")]
    max_spin: f64,
    /// Write the Markdown to this file too.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Lines that precede the table, such as date, commit and CPU.
    #[arg(long, default_value = "", hide = true)]
    header: String,
    /// Child process: prints the peak memory of one engine.
    #[arg(long, num_args = 3, value_names = ["ENGINE", "MODEL", "NPZ"], hide = true)]
    memory: Option<Vec<String>>,
    /// Child process: loads a model, calls it once, and prints how long both took, in seconds.
    #[arg(long, num_args = 3, value_names = ["ENGINE", "MODEL", "NPZ"], hide = true)]
    first_answer: Option<Vec<String>>,
    /// Child process: calls a model until its kernels are replaced (0), or for so many seconds, and prints how long calls took.
    #[arg(long, num_args = 3, value_names = ["SECONDS", "MODEL", "NPZ"], hide = true)]
    calls: Option<Vec<String>>,
    /// Child process: rounds of calls through a libreflex.so.
    #[arg(long, num_args = 3, value_names = ["LIB", "MODEL", "NPZ"], hide = true)]
    serve: Option<Vec<PathBuf>>,
}

/// A model with its feeds and reference outputs.
struct Case {
    /// `model / case`.
    name: String,
    model: PathBuf,
    npz: PathBuf,
}

impl Options {
    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some([engine, model, npz]) = options.memory.as_deref() {
        let feeds = feeds(Path::new(npz))?;
        let threads = options.threads[0];
        return start::memory_child(engine, Path::new(model), &feeds, threads, options.mode);
    }
    if let Some([engine, model, npz]) = options.first_answer.as_deref() {
        let feeds = feeds(Path::new(npz))?;
        return start::first_answer(engine, Path::new(model), &feeds[..1], options.threads[0]);
    }
    if let Some([seconds, model, npz]) = options.calls.as_deref() {
        let (feeds, limit) = (feeds(Path::new(npz))?, Duration::from_secs_f64(seconds.parse()?));
        let limit = (!limit.is_zero()).then_some(limit);
        return start::calls(Path::new(model), &feeds, options.threads[0], limit);
    }
    if let Some([library, model, npz]) = options.serve.as_deref() {
        let feeds = feeds(npz)?;
        return library::serve(library, model, &feeds, options.threads[0], options.mode);
    }
    let cases = cases(&options)?;
    let mut report = report::Report::new(options.output.as_deref())?;
    report.line(&options.header)?;
    if options.against.is_some() {
        against::table(&cases, &options, &mut report)
    } else if options.precision == Precision::Bf16 {
        bf16::table(&cases, &options, &mut report)
    } else {
        table::table(&cases, &options, &mut report)
    }
}

/// Every case with references, sorted by name.
fn cases(options: &Options) -> Result<Vec<Case>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(options.data.join("refs"))? {
        let npz = entry?.path();
        let file = npz.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((model, case)) = file.strip_suffix(".npz").and_then(|f| f.split_once('.')) else {
            continue;
        };
        if options.models.is_empty() || options.models.iter().any(|m| m == model) {
            let name = format!("{model} / {case}");
            let model = options.data.join("models").join(format!("{model}.onnx"));
            found.push(Case { name, model, npz });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    match found.is_empty() {
        true => Err("no case has references; run ./x refs".into()),
        false => Ok(found),
    }
}

fn feeds(npz: &Path) -> Result<Vec<Feed>> {
    Ok(numpy::read_cases(npz)?.into_iter().map(|c| c.inputs).collect())
}
