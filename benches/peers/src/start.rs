//! Whole processes: peak memory of each engine alone, and the time from a process's start to
//! its end with one answer given.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reflex::{Engine, Feed, Mode, Precision};

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

/// The child process that `--calls` selects: calls without a pause until every kernel that was called has LLVM's code, or for as
/// long as `limit` says. `benches/kernel_swaps.py` starts such processes.
pub fn calls(model: &Path, feeds: &[Feed], threads: usize, limit: Option<Duration>) -> Result<()> {
    let program = Engine::builder().threads(threads).build()?.load(model)?;
    let mut session = program.session(Mode::Bytecode)?;
    let feed = program.prepare("main", &feeds[0])?;
    session.call(&feed)?;
    let (start, mut took) = (Instant::now(), vec![]);
    let (seconds, last) = std::thread::scope(|scope| -> Result<(f64, Duration)> {
        let kernels = scope.spawn(|| {
            match limit {
                Some(limit) => std::thread::sleep(limit),
                None => program.wait_for_kernels(),
            }
            start.elapsed()
        });
        while !kernels.is_finished() {
            let call = Instant::now();
            session.call(&feed)?;
            took.push(call.elapsed().as_secs_f64());
        }
        let last = kernels.join().map_err(|_| "the thread that waits for kernels panicked")?;
        Ok((start.elapsed().as_secs_f64(), last))
    })?;
    took.sort_by(f64::total_cmp);
    let part = |share: f64| took[((took.len() - 1) as f64 * share) as usize] * 1e3;
    let (median, p99, last) = (part(0.5), part(0.99), last.as_secs_f64());
    let calls = took.len();
    println!(
        r#"{{"calls":{calls},"seconds":{seconds},"median_ms":{median},"p99_ms":{p99},"last_s":{last}}}"#
    );
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
