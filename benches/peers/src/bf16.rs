//! Precision `bf16` compared with OpenVINO's default, which is bfloat16 where the CPU has
//! instructions for it, and ONNX Runtime in float32 for orientation. A faster wrong answer is none:
//! the errors of both against ONNX Runtime's outputs are in the table too.

use reflex::numpy;
use reflex::stats::Comparison;

use crate::disturbance::{self, Disturbance, Watch};
use crate::engines::{About, Ort, Reflex, Result, openvino};
use crate::interleave::{Contender, interleave};
use crate::report::Report;
use crate::{Case, Options, table};

/// Cells of a row, and Reflex over OpenVINO where that has the model.
type Row = (String, Option<f64>);

/// Prints the table.
pub fn table(cases: &[Case], options: &Options, report: &mut Report) -> Result<()> {
    report.line(&format!(
        "p50 in microseconds of a call, of the mean call of a pass over its shapes where a case \
         has several; Reflex in mode {}. {} Ratios: Reflex over the other engine, the second with \
         a 95% bootstrap interval over the medians of rounds. Error: root mean square difference \
         of the outputs from float32's, relative to that of the outputs. {}\n",
        options.mode,
        table::warm_up_legend(options),
        disturbance::legend(options)
    ))?;
    report.line(
        "| model / case | threads | ONNX Runtime f32 | OpenVINO default | its precision \
         | Reflex bf16 | Reflex p99 | over ONNX Runtime | over OpenVINO | error of OpenVINO \
         | of Reflex | machine |",
    )?;
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    let mut ratios: Vec<(usize, f64)> = vec![];
    for case in cases {
        for &threads in &options.threads {
            let text = match disturbance::quietest(options, || row(case, threads, options)) {
                Ok(((text, ratio), found, attempts)) => {
                    ratios.extend(ratio.map(|r| (threads, r)));
                    format!("{text} | {}", found.cell(attempts, options))
                }
                Err(error) => error.to_string(),
            };
            report.line(&format!("| {} | {threads} | {text} |", case.name))?;
        }
    }
    for &threads in &options.threads {
        let of_threads: Vec<f64> = ratios.iter().filter(|r| r.0 == threads).map(|r| r.1).collect();
        report.line(&format!(
            "\nGeometric mean over OpenVINO, {threads} threads, {} cases: {:.3}",
            of_threads.len(),
            table::geometric_mean(&of_threads)
        ))?;
    }
    Ok(())
}

fn row(case: &Case, threads: usize, options: &Options) -> Result<(Row, Disturbance)> {
    let watch = Watch::start()?;
    let cases = numpy::read_cases(&case.npz)?;
    let feeds: Vec<_> = cases.iter().map(|c| c.inputs.clone()).collect();
    let python = options.openvino.as_ref().ok_or("needs --openvino")?;
    let openvino = openvino(python, case, threads, "default");
    let about: Option<About> = openvino.as_ref().ok().map(|o| o.about.clone());
    let mut ours = Reflex::open(&case.model, &feeds, threads, options.mode, options.precision)?;
    let warm_up = ours.compile_what_is_hot()?.max(options.warm_up());
    let error = ours.error(&cases)?;
    let spin = Contender::spin(&mut ours, feeds.len(), threads)?;
    let mut contenders = [
        Contender::new(Ort::open(&case.model, &feeds, threads), feeds.len()),
        Contender::new(openvino, feeds.len()),
        Contender::new(Ok(ours), feeds.len()),
        spin,
    ];
    interleave(&mut contenders, warm_up, options.min_time);
    let [ort, openvino, ours, spin] = contenders;
    let disturbance = watch.stop(&[&spin.medians])?;
    let tail = ours.measured()?;
    let over = |other: &Contender| Comparison::of(&other.medians, &ours.medians, 0);
    let relative = |e: Option<f64>| e.map_or("-".to_string(), |e| format!("{e:.1e}"));
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
        relative(about.as_ref().and_then(|a| a.error)),
        relative(error),
    );
    Ok(((text, versus.map(|c| c.ratio)), disturbance))
}
