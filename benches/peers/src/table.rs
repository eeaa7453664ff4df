//! The table of latencies, tails and memory, and that of start-up times.

use reflex::stats::Comparison;

use crate::disturbance::{self, Disturbance, Watch};
use crate::engines::{Ort, Reflex, Result, Rten, openvino};
use crate::interleave::{Contender, ROUNDS, interleave, tails};
use crate::report::Report;
use crate::{Case, Options, start};

/// A row: its cells, and the ratios that the summary is made of.
struct Row {
    cells: String,
    /// p50 of Reflex over ONNX Runtime's.
    ort: f64,
    /// p50 of Reflex over that of the fastest other engine.
    best: f64,
    /// p99 over p50, over that of the spin loop.
    tail: f64,
}

/// The result of a case on some number of threads.
struct Measured<'a> {
    case: &'a str,
    threads: usize,
    row: Row,
    disturbed: bool,
}

/// Prints both tables and their summary.
pub fn table(cases: &[Case], options: &Options, report: &mut Report) -> Result<()> {
    report.line(&format!(
        "p50 in microseconds of a call, of the mean call of a pass over its shapes where a case \
         has several; Reflex in mode {}. {} Ratio: Reflex over ONNX Runtime, with a 95% bootstrap \
         interval over the medians of rounds. Best: Reflex over the fastest other engine. Tail: \
         p99 over p50 of 500 calls, of Reflex and of a spin loop as long on as many threads, the \
         two interleaved; of ONNX Runtime by itself, whose threads spin after its calls. {}\n",
        options.mode,
        warm_up_legend(options),
        disturbance::legend(options)
    ))?;
    report.line(
        "| model / case | threads | ONNX Runtime | OpenVINO f32 | rten | Reflex | tail \
         | of spin loop | of ONNX Runtime | ratio | best | peak MB ONNX Runtime | Reflex \
         | machine |",
    )?;
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    let mut rows = vec![];
    for case in cases {
        for &threads in &options.threads {
            let text = match disturbance::quietest(options, || measure(case, threads, options)) {
                Ok((row, found, attempts)) => {
                    let text = format!("{} | {}", row.cells, found.cell(attempts, options));
                    let disturbed = found.is_beyond(options);
                    rows.push(Measured { case: &case.name, threads, row, disturbed });
                    text
                }
                Err(error) => error.to_string(),
            };
            report.line(&format!("| {} | {threads} | {text} |", case.name))?;
        }
    }
    for &threads in &options.threads {
        summary(threads, &rows, report)?;
    }
    if options.latency_only { Ok(()) } else { starts(cases, options, report) }
}

/// The sentence on warm-up that precedes a table.
pub fn warm_up_legend(options: &Options) -> String {
    format!(
        "Every engine is warmed up for the same time before its first counted round: {} s of \
         uncounted calls, or as long as Reflex took until nothing more was compiled, where that is \
         longer.",
        options.warm_up
    )
}

/// Means, tails, and the rows in which Reflex is not the fastest.
fn summary(threads: usize, rows: &[Measured<'_>], report: &mut Report) -> Result<()> {
    let rows: Vec<_> = rows.iter().filter(|m| m.threads == threads).collect();
    let mean = |pick: fn(&Row) -> f64| {
        geometric_mean(&rows.iter().map(|m| pick(&m.row)).collect::<Vec<_>>())
    };
    let slower = rows.iter().filter(|m| m.row.best > 1.0);
    let slower: Vec<_> = slower.map(|m| format!("{} ({:.3})", m.case, m.row.best)).collect();
    report.line(&format!(
        "\nGeometric means, {threads} threads: ratio {:.3}, best {:.3}. Tails of {} of {} rows are \
         at most 1.2 times those of the spin loop. Slower than the fastest other engine: {}. \
         Disturbed rows: {}.",
        mean(|r| r.ort),
        mean(|r| r.best),
        rows.iter().filter(|m| m.row.tail <= 1.2).count(),
        rows.len(),
        if slower.is_empty() { "none".to_string() } else { slower.join(", ") },
        rows.iter().filter(|m| m.disturbed).count()
    ))
}

pub fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp()
}

/// Measures a row once.
fn measure(case: &Case, threads: usize, options: &Options) -> Result<(Row, Disturbance)> {
    let watch = Watch::start()?;
    let feeds = crate::feeds(&case.npz)?;
    let count = feeds.len();
    let openvino = match &options.openvino {
        Some(python) => Contender::new(openvino(python, case, threads, "f32"), count),
        None => Contender::left_out(count),
    };
    let rten = match options.rten {
        true => Contender::new(Rten::open(&case.model, &feeds, threads), count),
        false => Contender::left_out(count),
    };
    let ort = Contender::new(Ort::open(&case.model, &feeds, threads), count);
    let mut ours = Reflex::open(&case.model, &feeds, threads, options.mode, options.precision)?;
    let warm_up = ours.compile_what_is_hot()?.max(options.warm_up());
    let spin = Contender::spin(&mut ours, count, threads)?;
    let mut contenders = [ort, openvino, rten, Contender::new(Ok(ours), count), spin];
    interleave(&mut contenders, warm_up, options.min_time);
    let [mut ort, openvino, rten, mut ours, mut spin] = contenders;
    let [ours_tail, spin_tail] = tails([&mut ours, &mut spin])?;
    let [ort_tail] = tails([&mut ort])?;
    let disturbance = watch.stop(&[&spin.medians])?;
    let tail = ours.measured()?;
    let others = [&ort, &openvino, &rten].into_iter().filter_map(Contender::tail);
    let fastest = others.map(|t| t.p50_us).fold(f64::INFINITY, f64::min);
    let best = tail.p50_us / fastest;
    let versus = Comparison::of(&ort.medians, &ours.medians, 0).ok_or("no ONNX Runtime")?;
    let peak = |engine| match options.latency_only {
        true => Ok("-".to_string()),
        false => start::peak_of(engine, &case.model, &case.npz, threads, options.mode)
            .map(|mb| format!("{mb:.0}")),
    };
    let cells = format!(
        "{} | {} | {} | {:.1} | {ours_tail:.2} | {spin_tail:.2} | {ort_tail:.2} \
         | {:.3} [{:.3}, {:.3}] | {best:.3} | {} | {}",
        ort.cell(),
        openvino.cell(),
        rten.cell(),
        tail.p50_us,
        versus.ratio,
        versus.low,
        versus.high,
        peak("ort")?,
        peak("reflex")?
    );
    Ok((Row { cells, ort: versus.ratio, best, tail: ours_tail / spin_tail }, disturbance))
}

fn starts(cases: &[Case], options: &Options, report: &mut Report) -> Result<()> {
    report.line(
        "\nWhole processes of `reflex check` (bytecode), milliseconds: ONNX with an empty kernel \
         cache, with a warm one, and compiled to a .so.\n",
    )?;
    report.line("| model / case | cold | warm | .so |\n|---|---|---|---|")?;
    // One case of each model, `main` where there is one: its one feed is one answer.
    let mut sorted: Vec<&Case> = cases.iter().collect();
    sorted.sort_by_key(|case| !case.name.ends_with("/ main"));
    let mut seen = vec![];
    for case in sorted {
        if !seen.contains(&&case.model) {
            let [cold, warm, opened] =
                start::starts(&options.reflex, &case.model, &case.npz, ROUNDS)?;
            report.line(&format!("| {} | {cold:.0} | {warm:.1} | {opened:.1} |", case.name))?;
            seen.push(&case.model);
        }
    }
    Ok(())
}
