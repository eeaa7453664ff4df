//! Reflex beside other engines: latency, peak memory, time to start, as Markdown tables; with
//! `--precision bf16`, latency and errors in bfloat16 ([`bf16`]).
//!
//! Latency: the engines take turns in rounds of calls, so that the machine's drift hits all alike
//! while each has its own data in the caches. A pause before each round lets the others' threads
//! go to sleep (ONNX Runtime's spin for a while after a call). Reflex is warmed up before, and the
//! first round is not counted.

mod bf16;
mod engines;
mod lanes;
mod start;

use std::path::{Path, PathBuf};

use engines::{OpenVino, Ort, Reflex, Result, Rten};
use lanes::{Lane, ROUNDS, boxed};
use reflex::stats::Comparison;
use reflex::{Feed, Mode, Precision, numpy};

struct Options {
    data: PathBuf,
    reflex: PathBuf,
    threads: Vec<usize>,
    models: Vec<String>,
    min_time: f64,
    mode: Mode,
    precision: Precision,
    /// Python with OpenVINO; without it, OpenVINO is left out.
    openvino: Option<PathBuf>,
    rten: bool,
    /// Whether to measure memory and starts.
    processes: bool,
    /// Child mode: engine, model path, npz path.
    memory: Option<[String; 3]>,
}

fn main() -> Result<()> {
    let options = parse()?;
    if let Some([engine, model, cases]) = &options.memory {
        let (feeds, threads) = (feeds(Path::new(cases))?, options.threads[0]);
        return start::memory_child(engine, Path::new(model), &feeds, threads, options.mode);
    }
    let cases = cases(&options)?;
    if options.precision == Precision::Bf16 {
        return bf16::table(&cases, &options);
    }
    println!(
        "p50 in microseconds of a call, of the mean call of a pass over its shapes where a case \
         has several; Reflex in mode {}. Ratio: Reflex over ONNX Runtime, with a 95% \
         bootstrap interval over the medians of rounds. Best: Reflex over the fastest other. Tail: \
         p99 over p50 of 500 calls, of Reflex and of a spin loop as long on as many threads that \
         takes turns with it alone; of ONNX Runtime by itself, whose threads spin after its calls.\n",
        options.mode
    );
    println!(
        "| model / case | threads | ONNX Runtime | OpenVINO f32 | rten | Reflex | tail | of spin \
         | of ONNX Runtime | ratio | best | peak MB ONNX Runtime | Reflex |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let mut rows: Vec<(usize, Ratios)> = vec![];
    for (name, model, cases) in &cases {
        for &threads in &options.threads {
            match row(model, cases, threads, &options) {
                Ok((text, ratios)) => {
                    println!("| {name} | {threads} | {text} |");
                    rows.push((threads, ratios));
                }
                Err(error) => println!("| {name} | {threads} | {error} |"),
            }
        }
    }
    for &threads in &options.threads {
        let rows: Vec<&Ratios> =
            rows.iter().filter(|(t, _)| *t == threads).map(|(_, r)| r).collect();
        let mean = |pick: fn(&Ratios) -> f64| {
            let logs: f64 = rows.iter().map(|r| pick(r).ln()).sum();
            (logs / rows.len().max(1) as f64).exp()
        };
        println!(
            "\nGeometric means, {threads} threads: ratio {:.3}, best {:.3}. Tails of {} of {} rows \
             are at most 1.2 times those of the spin loop.",
            mean(|r| r.ort),
            mean(|r| r.best),
            rows.iter().filter(|r| r.tail <= 1.2).count(),
            rows.len()
        );
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
        precision: Precision::default(),
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
            "--precision" => options.precision = value()?.parse()?,
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
    Ok(numpy::read_cases(cases)?.into_iter().map(|c| c.inputs).collect())
}

/// Reflex over something, in one row.
struct Ratios {
    /// p50 over ONNX Runtime's.
    ort: f64,
    /// p50 over the fastest other's.
    best: f64,
    /// p99 over p50, over that of the spin loop.
    tail: f64,
}

/// A row's cells.
fn row(model: &Path, cases: &Path, threads: usize, options: &Options) -> Result<(String, Ratios)> {
    let feeds = feeds(cases)?;
    let openvino = match &options.openvino {
        Some(python) => boxed(OpenVino::open(python, (model, cases), threads, "f32")),
        None => Err("left out".into()),
    };
    let rten = match options.rten {
        true => boxed(Rten::open(model, &feeds, threads)),
        false => Err("left out".into()),
    };
    let mut ours = Reflex::open(model, &feeds, threads, (options.mode, options.precision))?;
    ours.warm_up()?;
    let mut spin = lanes::spin_like(&mut ours, feeds.len(), threads)?;
    let mut lanes = [
        Lane::new(boxed(Ort::open(model, &feeds, threads)), feeds.len()),
        Lane::new(openvino, feeds.len()),
        Lane::new(rten, feeds.len()),
        Lane::new(boxed(Ok(ours)), feeds.len()),
    ];
    lanes::take_turns(&mut lanes, options.min_time);
    let [mut ort, openvino, rten, mut ours] = lanes;
    let [ours_tail, spin_tail] = lanes::tails([&mut ours, &mut spin])?;
    let [ort_tail] = lanes::tails([&mut ort])?;
    let tail = ours.measured()?;
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
        "{} | {} | {} | {:.1} | {:.2} | {:.2} | {:.2} | {:.3} [{:.3}, {:.3}] | {best:.3} | {} | {}",
        ort.cell(),
        openvino.cell(),
        rten.cell(),
        tail.p50_us,
        ours_tail,
        spin_tail,
        ort_tail,
        versus.ratio,
        versus.low,
        versus.high,
        peak("ort")?,
        peak("reflex")?
    );
    Ok((text, Ratios { ort: versus.ratio, best, tail: ours_tail / spin_tail }))
}
