//! Finds speech in a sound file with silero's voice activity detector, whose state stays in place.
//!
//! usage: vad MODEL FILE.wav      (silero_vad.onnx or a .so made from it; 16 kHz, mono, 16 bits)
//!
//! Answers go to standard output, latencies to standard error.

use std::error::Error;
use std::io::Write;
use std::ops::Range;
use std::time::Instant;

use reflex::stats::Latency;
use reflex::{Array, Engine, Feed, Mode};

/// Samples of a call.
const WINDOW: usize = 512;
/// Samples of the window before, which the model sees again.
const CONTEXT: usize = 64;
const RATE: i64 = 16_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&args, &mut std::io::stdout()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Runs the example with the arguments of its command line.
pub fn run(args: &[String], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [model, file] = args else { return Err("usage: vad MODEL FILE.wav".into()) };
    let samples = read_wave(file)?;
    let program = Engine::new()?.load(model)?;
    let mut session = program.session(Mode::Tiered)?;
    let silence = [0.0_f32; CONTEXT + WINDOW];
    let prepared = program.prepare(
        "main",
        &Feed::from([
            ("input".to_owned(), Array::of(&[1, silence.len() as i64], &silence)?),
            ("state".to_owned(), Array::of(&[2, 1, 128], &[0.0_f32; 256])?),
            ("sr".to_owned(), Array::of(&[], &[RATE])?),
        ]),
    )?;
    session.warm_up(&prepared)?;
    let mut call = session.bind(&prepared)?;
    call.alias(1, 1)?; // the state that a run returns is the one that the next run reads

    let (mut probabilities, mut times) = (vec![], vec![]);
    for window in samples.chunks_exact(WINDOW) {
        let input = call.input_mut::<f32>(0)?;
        input.copy_within(WINDOW.., 0);
        input[CONTEXT..].copy_from_slice(window);
        let start = Instant::now();
        call.run()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        probabilities.push(call.output::<f32>(0)?[0]);
    }

    let seconds = |windows: usize| (windows * WINDOW) as f64 / RATE as f64;
    for speech in segments(&probabilities) {
        let sum: f64 = probabilities[speech.clone()].iter().copied().map(f64::from).sum();
        let (from, to) = (seconds(speech.start), seconds(speech.end));
        let mean = sum / speech.len() as f64;
        writeln!(out, "speech from {from:.2} to {to:.2} s, probability {mean:.3}")?;
    }
    if let Some(latency) = Latency::of(&times) {
        let Latency { mean_us, p99_us, n, .. } = latency;
        eprintln!("{n} calls: mean {mean_us:.1} us, 99th percentile {p99_us:.1} us");
    }
    Ok(())
}

/// Windows with speech: from a probability of 0.5 until four windows in a row are below 0.35.
fn segments(probabilities: &[f32]) -> Vec<Range<usize>> {
    let (mut found, mut start, mut end) = (vec![], None, 0);
    for (at, probability) in probabilities.iter().enumerate() {
        if *probability >= 0.5 {
            start = start.or(Some(at));
        }
        if *probability >= 0.35 {
            end = at + 1;
        }
        if at + 1 - end >= 4 {
            found.extend(start.take().map(|from| from..end));
        }
    }
    found.extend(start.map(|from| from..end));
    found
}

/// The samples of a wave file, from -1 to 1.
fn read_wave(path: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let head = |at: usize, size: usize| bytes.get(at..at + size).unwrap_or_default();
    let pcm_mono = [1, 0, 1, 0];
    let rate = (RATE as u32).to_le_bytes();
    if head(8, 8) != b"WAVEfmt " || head(20, 4) != pcm_mono || head(24, 4) != rate {
        return Err(format!("{path}: not a wave file of 16 kHz and one channel").into());
    }
    let mut at = 12;
    loop {
        let size = head(at + 4, 4).try_into().map_err(|_| format!("{path}: no samples"))?;
        let size = u32::from_le_bytes(size) as usize;
        if head(at, 4) == b"data" {
            let samples = head(at + 8, size).chunks_exact(2);
            let sample = |b: &[u8]| f32::from(i16::from_le_bytes([b[0], b[1]])) / 32768.0;
            return Ok(samples.map(sample).collect());
        }
        at += 8 + size;
    }
}
