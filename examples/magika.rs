//! Names the type of files with Google's magika model, in every mode, with a latency table.
//!
//! usage: magika --model target/reflex/models/magika.onnx [FILE...]
//!
//! The model (Apache-2.0, package magika 1.0.3) reads the first and the last kilobyte of a
//! file, stripped of white space, and gives a probability for each of 214 types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use reflex::stats::Latency;
use reflex::{Array, DType, Engine, Error, Feed, Mode, Prepared, Program, Result};
use serde::Deserialize;

/// The model's own configuration, from its package.
#[derive(Deserialize)]
struct Config {
    beg_size: usize,
    end_size: usize,
    block_size: usize,
    padding_token: i32,
    target_labels_space: Vec<String>,
}

#[derive(Deserialize)]
struct ContentType {
    description: Option<String>,
}

/// Files to name when none is given: some of our own, of different types.
const DEFAULT: [&str; 5] =
    ["examples/magika.rs", "Cargo.toml", "x", "README.md", "tests/models/fetch.py"];

fn main() -> Result<()> {
    let (model, files) = arguments()?;
    let config: Config = read_json(&model.with_extension("config.json"))?;
    let types: BTreeMap<String, ContentType> = read_json(&model.with_extension("types.json"))?;

    let program = Engine::builder().build()?.load(&model)?;
    let mut session = program.session(Mode::default())?;
    for file in &files {
        let feed = prepare(&program, &config, file)?;
        let output = &session.call(&feed)?.arrays()?[0].1;
        let scores = output.to_f64();
        let best = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
        let best = best.ok_or_else(|| Error::input("the model gave no score"))?;
        let label = &config.target_labels_space[best];
        let words = types.get(label).and_then(|t| t.description.clone()).unwrap_or(label.clone());
        println!("{} is {words}, {:.1}%", file.display(), scores[best] * 100.0);
    }
    println!();
    latencies(&program, &prepare(&program, &config, &files[0])?)
}

fn arguments() -> Result<(PathBuf, Vec<PathBuf>)> {
    let mut model = PathBuf::from("target/reflex/models/magika.onnx");
    let mut files = vec![];
    let mut args = std::env::args_os().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--model" {
            model = args.next().ok_or_else(|| Error::input("--model needs a path"))?.into();
        } else {
            files.push(PathBuf::from(arg));
        }
    }
    if files.is_empty() {
        files = DEFAULT.iter().map(PathBuf::from).collect();
    }
    Ok((model, files))
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).map_err(|e| Error::io(path, &e))?;
    serde_json::from_slice(&text).map_err(|e| Error::input(format!("{}: {e}", path.display())))
}

/// The model's features of a file: both ends, stripped, padded to a fixed length.
fn prepare(program: &Program, config: &Config, file: &Path) -> Result<Prepared> {
    let bytes = std::fs::read(file).map_err(|e| Error::io(file, &e))?;
    let head = bytes[..bytes.len().min(config.block_size)].trim_ascii_start();
    let tail = bytes[bytes.len().saturating_sub(config.block_size)..].trim_ascii_end();
    let head = &head[..head.len().min(config.beg_size)];
    let tail = &tail[tail.len().saturating_sub(config.end_size)..];

    let mut features = vec![config.padding_token; config.beg_size + config.end_size];
    let start = features.len() - tail.len();
    features.iter_mut().zip(head).for_each(|(f, b)| *f = i32::from(*b));
    features[start..].iter_mut().zip(tail).for_each(|(f, b)| *f = i32::from(*b));

    let shape = vec![1, features.len() as i64];
    let data = features.iter().flat_map(|f| f.to_le_bytes()).collect();
    let name = program.signature("main")?.inputs[0].name.clone();
    program.prepare("main", &Feed::from([(name, Array { dtype: DType::I32, shape, data })]))
}

/// One line per mode; each has a program of its own, and they take turns, so that the machine's
/// drift hits all alike.
fn latencies(program: &Program, feed: &Prepared) -> Result<()> {
    let mut lanes = Mode::ALL
        .into_iter()
        .map(|mode| Ok((mode, program.fork()?.session(mode)?, vec![])))
        .collect::<Result<Vec<_>>>()?;
    for round in 0..60 {
        for (_, session, sample) in &mut lanes {
            let start = Instant::now();
            session.call(feed)?;
            if round >= 10 {
                sample.push(start.elapsed().as_nanos() as f64 / 1e3);
            }
        }
    }
    println!("{:10} {:>10} {:>10} {:>10}", "mode", "p50 us", "p99 us", "min us");
    for (mode, _, sample) in lanes {
        if let Some(l) = Latency::of(&sample) {
            println!("{mode:10} {:>10.1} {:>10.1} {:>10.1}", l.p50_us, l.p99_us, l.min_us);
        }
    }
    Ok(())
}
