//! Precision `bf16` beside OpenVINO's default, which is bfloat16 where the CPU has instructions for
//! it, and ONNX Runtime in float32 for orientation. A faster wrong answer is none: the error of
//! both against ONNX Runtime's outputs stands beside the times.

use std::path::{Path, PathBuf};

use reflex::numpy::{self, Case};
use reflex::stats::Comparison;

use crate::Options;
use crate::engines::{About, OpenVino, Ort, Reflex, Result};
use crate::lanes::{Lane, boxed, take_turns};

/// Prints the table.
pub fn table(cases: &[(String, PathBuf, PathBuf)], options: &Options) -> Result<()> {
    println!(
        "p50 in microseconds of a call, of the mean call of a pass over its shapes where a case \
         has several; Reflex in mode {}. Ratios: Reflex over the other engine, the second with a \
         95% bootstrap interval over the medians of rounds. Error: the root mean square of what \
         outputs differ by from float32's, as a part of theirs.\n",
        options.mode
    );
    println!(
        "| model / case | threads | ONNX Runtime f32 | OpenVINO default | its precision \
         | Reflex bf16 | Reflex p99 | over ONNX Runtime | over OpenVINO | error of OpenVINO \
         | of Reflex |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let mut ratios: Vec<(usize, f64)> = vec![];
    for (name, model, file) in cases {
        for &threads in &options.threads {
            match row(model, file, threads, options) {
                Ok((text, ratio)) => {
                    println!("| {name} | {threads} | {text} |");
                    ratios.extend(ratio.map(|r| (threads, r)));
                }
                Err(error) => println!("| {name} | {threads} | {error} |"),
            }
        }
    }
    for &threads in &options.threads {
        let logs: Vec<f64> = ratios.iter().filter(|r| r.0 == threads).map(|r| r.1.ln()).collect();
        let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
        println!(
            "\nGeometric mean over OpenVINO, {threads} threads, {} cases: {mean:.3}",
            logs.len()
        );
    }
    Ok(())
}

/// A row's cells, and Reflex over OpenVINO where that has the model.
fn row(
    model: &Path,
    file: &Path,
    threads: usize,
    options: &Options,
) -> Result<(String, Option<f64>)> {
    let cases: Vec<Case> = numpy::read_cases(file)?;
    let feeds: Vec<_> = cases.iter().map(|c| c.inputs.clone()).collect();
    let python = options.openvino.as_ref().ok_or("needs --openvino")?;
    let openvino = OpenVino::open(python, (model, file), threads, "default");
    let about: Option<About> = openvino.as_ref().ok().map(|o| o.about.clone());
    let mut ours = Reflex::open(model, &feeds, threads, (options.mode, options.precision))?;
    ours.warm_up()?;
    let error = ours.error(&cases)?;
    let mut lanes = [
        Lane::new(boxed(Ort::open(model, &feeds, threads)), feeds.len()),
        Lane::new(boxed(openvino), feeds.len()),
        Lane::new(boxed(Ok(ours)), feeds.len()),
    ];
    take_turns(&mut lanes, options.min_time);
    let [ort, openvino, ours] = lanes;
    let tail = ours.measured()?;
    let over = |other: &Lane| Comparison::of(&other.medians, &ours.medians, 0);
    let part = |e: Option<f64>| e.map_or("-".to_string(), |e| format!("{e:.1e}"));
    let versus = openvino.tail().and_then(|_| over(&openvino));
    let text = format!(
        "{} | {} | {} | {:.1} | {:.1} | {} | {} | {} | {}",
        ort.cell(),
        openvino.cell(),
        about.as_ref().map_or("-", |a| &a.precision),
        tail.p50_us,
        tail.p99_us,
        over(&ort).map_or("-".to_string(), |c| format!("{:.3}", c.ratio)),
        versus
            .as_ref()
            .map_or("-".to_string(), |c| format!("{:.3} [{:.3}, {:.3}]", c.ratio, c.low, c.high)),
        part(about.as_ref().and_then(|a| a.error)),
        part(error),
    );
    Ok((text, versus.map(|c| c.ratio)))
}
