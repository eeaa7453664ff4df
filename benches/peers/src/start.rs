//! Whole processes: peak memory of each engine alone, and the time from a process's start to
//! its end with one answer given.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use reflex::{Feed, Mode, Precision};

use crate::engines::{Native, Ort, Reflex, Result};

/// Peak resident memory in MB of a process that loads the model with one engine, warms up and calls
/// it five times a feed.
pub fn peak_of(
    engine: &str,
    model: &Path,
    cases: &Path,
    threads: usize,
    mode: Mode,
) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--threads", &threads.to_string(), "--mode", &mode.to_string(), "--memory", engine])
        .args([model, cases])
        .stderr(Stdio::inherit())
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// The child process of [`peak_of`], which `--memory` selects.
pub fn memory_child(
    engine: &str,
    model: &Path,
    feeds: &[Feed],
    threads: usize,
    mode: Mode,
) -> Result<()> {
    let mut run: Box<dyn Native> = match engine {
        "ort" => Box::new(Ort::open(model, feeds, threads)?),
        _ => {
            let mut ours = Reflex::open(model, feeds, threads, mode, Precision::F32)?;
            ours.compile_what_is_hot()?;
            Box::new(ours)
        }
    };
    for k in 0..5 * feeds.len() {
        run.run(k % feeds.len())?;
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib: f64 = line.split_whitespace().next().ok_or("no VmHWM")?.parse()?;
    println!("{:.1}", kib / 1024.0);
    Ok(())
}

/// The child process that `--first-answer` selects: what a program that embeds an engine does until it has an answer.
/// `benches/first_answer.py` measures such processes from outside.
pub fn first_answer(engine: &str, model: &Path, feeds: &[Feed], threads: usize) -> Result<()> {
    let start = Instant::now();
    match engine {
        "ort" => Ort::open(model, feeds, threads)?.run(0)?,
        "reflex" => {
            Reflex::open(model, feeds, threads, Mode::Tiered, Precision::F32)?.run(0)?;
        }
        other => return Err(format!("no engine {other}; there are ort and reflex").into()),
    }
    println!("{}", start.elapsed().as_secs_f64());
    Ok(())
}

/// Milliseconds from the start of `reflex run` to its end: ONNX with an empty kernel cache, ONNX
/// with a warm one, and the compiled `.so`. Medians of `rounds`, of three for the first.
pub fn starts(reflex: &Path, model: &Path, cases: &Path, rounds: usize) -> Result<[f64; 3]> {
    let folder = std::env::temp_dir().join(format!("reflex-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let run = |model: &Path, cache: &Path| -> Result<f64> {
        let start = Instant::now();
        let status = Command::new(reflex)
            .args(["check", "--mode", "bytecode", "--npz"])
            .args([cases, model])
            .env("REFLEX_CACHE", cache)
            .stdout(Stdio::null())
            .status()?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        if status.success() {
            Ok(took)
        } else {
            Err(format!("{}: {status}", model.display()).into())
        }
    };
    let cold = (0..3).map(|k| run(model, &folder.join(k.to_string()))).collect::<Result<_>>()?;
    let warm = (0..rounds).map(|_| run(model, &folder.join("0"))).collect::<Result<_>>()?;
    let library = folder.join("model.so");
    let compiled = Command::new(reflex)
        .arg("compile")
        .arg(model)
        .arg("-o")
        .arg(&library)
        .env("REFLEX_CACHE", folder.join("0"))
        .stdout(Stdio::null())
        .status()?;
    if !compiled.success() {
        return Err(format!("{}: {compiled}", model.display()).into());
    }
    let opened = (0..rounds).map(|_| run(&library, &folder)).collect::<Result<_>>()?;
    std::fs::remove_dir_all(&folder)?;
    Ok([median(cold), median(warm), median(opened)])
}

fn median(mut sample: Vec<f64>) -> f64 {
    sample.sort_by(f64::total_cmp);
    sample[sample.len() / 2]
}
