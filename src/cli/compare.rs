//! `reflex bench --ab A,B`: two modes or code generators interleaved, their ratio with a confidence interval, and a
//! spin loop next to them as a control for the machine's own jitter.
//!
//! Modes are measured in rounds, each with sessions opened anew, the other one first: where their
//! code and data lie makes a per cent or two of difference, also between a mode and itself.

use std::fmt::Display;
use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use reflex::stats::{Comparison, Histogram, Latency};
use reflex::{Error, Prepared, Result};
use serde::Serialize;

use super::measured_mode::MeasuredMode;
use super::output::{Format, println};
use super::{plot, progress};

/// Pairs of sessions.
const ROUNDS: usize = 10;
/// Most calls measured per mode and round: enough, together, for the 99.9th percentile.
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
    latency: Latency,
}

/// Options of a comparison.
pub struct Comparing<'a, S> {
    /// Each prints its name.
    pub sides: [S; 2],
    /// Seconds to measure each side.
    pub min_time: f64,
    /// File for the histogram.
    pub svg: Option<&'a Path>,
    pub format: Format,
}

/// Microseconds of calls, by round and by mode, and of the control.
struct Samples {
    rounds: Vec<[Vec<f64>; 2]>,
    control: Vec<f64>,
}

/// Compares two sides, in sessions that `open` warms up, and reports.
pub fn run<S: Display>(
    options: &Comparing<'_, S>,
    open: impl FnMut(&S) -> Result<MeasuredMode>,
    feeds: &[Prepared],
) -> Result<ExitCode> {
    let Samples { rounds, control } = measure(options, open, feeds)?;
    let all = |side: usize| rounds.iter().flat_map(|r| r[side].iter().copied()).collect();
    let samples: [Vec<f64>; 3] = [all(0), all(1), control];
    let [a, b] = options.sides.each_ref().map(ToString::to_string);
    let names = [a, b, "spin loop".to_string()];
    let none = || Error::input("no calls were measured");
    let side = |k: usize| -> Result<Side> {
        let latency = Latency::of(&samples[k]).ok_or_else(none)?;
        Ok(Side { name: names[k].clone(), latency })
    };
    let views: Vec<[&[f64]; 2]> = rounds.iter().map(|[a, b]| [&a[..], &b[..]]).collect();
    let comparison = Comparison::of_rounds(&views, 0).ok_or_else(none)?;
    let report = Report { a: side(0)?, b: side(1)?, control: side(2)?, comparison };
    let histogram = |bins| Histogram::of(&[&samples[0], &samples[1]], bins);
    if let Some(path) = options.svg {
        let histogram = histogram(SVG_BINS).ok_or_else(none)?;
        let text = plot::svg(&histogram, &names[..2], &summary(&report));
        std::fs::write(path, text).map_err(|e| Error::io(path, &e))?;
    }
    match options.format {
        Format::Json => println!("{}", serde_json::to_string(&report).expect("plain data")),
        Format::Text => {
            print_table(&report);
            if let Some(histogram) = histogram(BINS) {
                println!("{}", plot::text(&histogram, &names[..2]).trim_end());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure<S>(
    options: &Comparing<'_, S>,
    mut open: impl FnMut(&S) -> Result<MeasuredMode>,
    feeds: &[Prepared],
) -> Result<Samples> {
    let budget = Duration::from_secs_f64(options.min_time.max(0.0)) * 3 / ROUNDS as u32;
    let progress = progress::bar();
    let mut rounds: Vec<[Vec<f64>; 2]> = vec![];
    let mut spins = vec![];
    let mut control = None;
    for round in 0..ROUNDS {
        progress.report("rounds of fresh sessions", round, ROUNDS);
        let first = round % 2;
        let (one, other) = (open(&options.sides[first])?, open(&options.sides[1 - first])?);
        let mut sides = if first == 0 { [one, other] } else { [other, one] };
        let control = match &mut control {
            Some(control) => control,
            None => control.insert(Spin::like(&mut sides[0], feeds)?),
        };
        let start = Instant::now();
        for k in 0..MAX_CALLS {
            // The order alternates, so that neither side always finds the other's data in caches.
            let first = k % 2;
            for side in [first, 1 - first] {
                sides[side].measure(&feeds[k % feeds.len()])?;
            }
            spins.push(control.measure());
            if k + 1 >= MIN_CALLS && start.elapsed() >= budget {
                break;
            }
        }
        rounds.push(sides.map(|side| side.sample));
    }
    progress.report("rounds of fresh sessions", ROUNDS, ROUNDS);
    Ok(Samples { rounds, control: spins })
}

fn print_table(report: &Report) {
    println!(
        "{:10} {:>11} {:>11} {:>11} {:>11} {:>7}",
        "", "p50 us", "p90 us", "p99 us", "p99.9 us", "n"
    );
    for Side { name, latency: l } in [&report.a, &report.b, &report.control] {
        println!(
            "{name:10} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>7}",
            l.p50_us, l.p90_us, l.p99_us, l.p999_us, l.n
        );
    }
    println!("\n{}\n", summary(report));
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
    /// A loop that takes about as long as a call of `side`.
    fn like(side: &mut MeasuredMode, feeds: &[Prepared]) -> Result<Spin> {
        let mut calls = Vec::with_capacity(CALIBRATION);
        for _ in 0..CALIBRATION {
            let start = Instant::now();
            side.call(&feeds[0])?;
            calls.push(start.elapsed().as_secs_f64());
        }
        // The first calls find caches that another session has filled.
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
