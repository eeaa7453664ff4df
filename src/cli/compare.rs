//! `reflex bench --ab A,B`: two modes in turns, their ratio with an interval, and a spin loop
//! beside them as the machine's own jitter.
//!
//! Modes are measured in rounds, each with sessions opened anew, the other one first: where their
//! code and data lie makes a per cent or two of difference, also between a mode and itself.

use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use reflex::stats::{Comparison, Histogram, Latency};
use reflex::{Error, Mode, Prepared, Result};
use serde::Serialize;

use super::bench::Lane;
use super::output::println;
use super::{plot, progress};

/// Pairs of sessions.
const ROUNDS: usize = 10;
/// Most calls measured a mode and round: enough, together, for the 99.9th percentile.
const MAX_CALLS: usize = 2000;
const MIN_CALLS: usize = 5;
/// Calls whose median is the length of the control.
const CALIBRATION: usize = 15;
/// Bins of the histogram in the terminal, and in the SVG file.
const BINS: usize = 16;
const SVG_BINS: usize = 120;

#[derive(Serialize)]
struct Report {
    a: Side,
    b: Side,
    control: Side,
    #[serde(flatten)]
    comparison: Comparison,
}

#[derive(Serialize)]
struct Side {
    name: String,
    #[serde(flatten)]
    tail: Latency,
}

/// Measures two modes against each other, in lanes that `open` makes warm, and reports.
pub fn run(
    modes: [Mode; 2],
    mut open: impl FnMut(Mode) -> Result<Lane>,
    feeds: &[Prepared],
    min_time: f64,
    svg: Option<&Path>,
    json: bool,
) -> Result<ExitCode> {
    let budget = Duration::from_secs_f64(min_time.max(0.0)) * 3 / ROUNDS as u32;
    let progress = progress::bar();
    let mut rounds: Vec<[Vec<f64>; 2]> = vec![];
    let mut spins = vec![];
    let mut control = None;
    for round in 0..ROUNDS {
        progress.report("rounds of fresh sessions", round, ROUNDS);
        let first = round % 2;
        let (one, other) = (open(modes[first])?, open(modes[1 - first])?);
        let mut lanes = if first == 0 { [one, other] } else { [other, one] };
        let control = match &mut control {
            Some(control) => control,
            None => control.insert(Spin::like(&mut lanes[0], feeds)?),
        };
        let start = Instant::now();
        for k in 0..MAX_CALLS {
            // The order changes, so that neither always runs on what the other left in the caches.
            let first = k % 2;
            for side in [first, 1 - first] {
                lanes[side].measure(&feeds[k % feeds.len()])?;
            }
            spins.push(control.measure());
            if k + 1 >= MIN_CALLS && start.elapsed() >= budget {
                break;
            }
        }
        rounds.push(lanes.map(|lane| lane.sample));
    }
    progress.report("rounds of fresh sessions", ROUNDS, ROUNDS);
    let all = |side: usize| rounds.iter().flat_map(|r| r[side].iter().copied()).collect();
    let samples: [Vec<f64>; 3] = [all(0), all(1), spins];
    let samples = samples.each_ref().map(|s| &s[..]);
    let names = [modes[0].to_string(), modes[1].to_string(), "spin loop".to_string()];
    let none = || Error::input("no calls were measured");
    let side = |k: usize| -> Result<Side> {
        let tail = Latency::of(samples[k]).ok_or_else(none)?;
        Ok(Side { name: names[k].clone(), tail })
    };
    let views: Vec<[&[f64]; 2]> = rounds.iter().map(|[a, b]| [&a[..], &b[..]]).collect();
    let comparison = Comparison::of_rounds(&views, 0).ok_or_else(none)?;
    let report = Report { a: side(0)?, b: side(1)?, control: side(2)?, comparison };
    if let Some(path) = svg {
        let histogram = Histogram::of(&samples[..2], SVG_BINS).ok_or_else(none)?;
        let text = plot::svg(&histogram, &names[..2], &summary(&report));
        std::fs::write(path, text).map_err(|e| Error::io(path, &e))?;
    }
    if json {
        println!("{}", serde_json::to_string(&report).expect("plain data"));
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{:10} {:>11} {:>11} {:>11} {:>11} {:>7}",
        "", "p50 us", "p90 us", "p99 us", "p99.9 us", "n"
    );
    for Side { name, tail: t } in [&report.a, &report.b, &report.control] {
        println!(
            "{name:10} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>7}",
            t.p50_us, t.p90_us, t.p99_us, t.p999_us, t.n
        );
    }
    println!("\n{}\n", summary(&report));
    if let Some(histogram) = Histogram::of(&samples[..2], BINS) {
        println!("{}", plot::text(&histogram, &names[..2]).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(report: &Report) -> String {
    let Comparison { ratio, low, high, confidence } = report.comparison;
    let verdict = match () {
        () if high < 1.0 => format!("{:.2} times faster", 1.0 / ratio),
        () if low > 1.0 => format!("{ratio:.2} times slower"),
        () => "no difference shown".to_string(),
    };
    format!(
        "{} / {}: {ratio:.4} [{low:.4}, {high:.4}] at {:.0}%: {verdict}",
        report.b.name,
        report.a.name,
        confidence * 100.0
    )
}

/// Work of a fixed number of steps: its spread is the machine's.
struct Spin {
    steps: u64,
}

impl Spin {
    /// A loop that takes about as long as a call of `lane`.
    fn like(lane: &mut Lane, feeds: &[Prepared]) -> Result<Spin> {
        let mut calls = Vec::with_capacity(CALIBRATION);
        for _ in 0..CALIBRATION {
            let start = Instant::now();
            lane.call(&feeds[0])?;
            calls.push(start.elapsed().as_secs_f64());
        }
        // The first calls find caches that another lane has filled.
        let aim = *calls.select_nth_unstable_by(CALIBRATION / 2, f64::total_cmp).1;
        let mut spin = Spin { steps: 1000 };
        let measured = (0..5).map(|_| spin.measure()).fold(f64::INFINITY, f64::min) / 1e6;
        spin.steps = ((aim / measured * 1000.0) as u64).max(1);
        Ok(spin)
    }

    /// Microseconds of one round.
    fn measure(&mut self) -> f64 {
        let start = Instant::now();
        for step in 0..self.steps {
            black_box(step);
            spin_loop();
        }
        start.elapsed().as_nanos() as f64 / 1e3
    }
}
