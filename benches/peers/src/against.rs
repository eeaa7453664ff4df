//! Two builds of Reflex in one run, interleaved, each through its C interface.

use reflex::stats::{Comparison, Latency};

use crate::disturbance::{self, Disturbance, Watch};
use crate::engines::Result;
use crate::interleave::{Contender, interleave};
use crate::report::Report;
use crate::{Case, Options, library};

/// Prints the table, a line per case and number of threads.
pub fn table(cases: &[Case], options: &Options, report: &mut Report) -> Result<()> {
    let against = options.against.as_deref().unwrap_or(&options.library);
    report.line(&format!(
        "p50 in microseconds of a call through the C interface, of the mean call of a pass over \
         its shapes where a case has several, Reflex in mode {}. Before is `{}`, after is `{}`. \
         Each row takes {} set-ups: fresh processes of both builds, warmed up until nothing more \
         is compiled and for another {} s, then interleaved rounds for at least {} s. Ratio: after \
         over before, the geometric mean over set-ups, with a 95% bootstrap interval. {}\n",
        options.mode,
        against.display(),
        options.library.display(),
        options.set_ups,
        options.warm_up,
        options.min_time,
        disturbance::legend(options)
    ))?;
    report.line("| model / case | threads | before | after | ratio | machine |")?;
    report.line("|---|---|---|---|---|---|")?;
    for case in cases {
        for &threads in &options.threads {
            let row = disturbance::quietest(options, || measure(case, threads, options));
            let text = match row {
                Ok((row, found, attempts)) => format!("{row} | {}", found.cell(attempts, options)),
                Err(error) => error.to_string(),
            };
            report.line(&format!("| {} | {threads} | {text} |", case.name))?;
        }
    }
    Ok(())
}

/// The cells of a row, and how quiet the machine was.
fn measure(case: &Case, threads: usize, options: &Options) -> Result<(String, Disturbance)> {
    let against = options.against.as_deref().ok_or("no other build")?;
    let feeds = crate::feeds(&case.npz)?.len();
    let watch = Watch::start()?;
    let mut set_ups = vec![];
    for n in 0..options.set_ups.max(1) {
        let open = |path| library::open(path, case, threads, options.mode);
        let (old, mut new) = (open(against)?, open(&options.library)?);
        let spin = Contender::spin(&mut new, feeds, threads)?;
        let (old, new) = (Contender::new(Ok(old), feeds), Contender::new(Ok(new), feeds));
        // Each build comes first in every other set-up.
        let order = n % 2;
        let mut contenders = if order == 0 { [old, new, spin] } else { [new, old, spin] };
        interleave(&mut contenders, options.warm_up(), options.min_time);
        let [first, second, spin] = contenders;
        set_ups.push(if order == 0 { [first, second, spin] } else { [second, first, spin] });
    }
    let spins: Vec<&[f64]> = set_ups.iter().map(|[_, _, spin]| &spin.medians[..]).collect();
    let disturbance = watch.stop(&spins)?;
    for [old, new, _] in &set_ups {
        old.measured().map_err(|e| format!("before: {e}"))?;
        new.measured().map_err(|e| format!("after: {e}"))?;
    }
    let rounds: Vec<[&[f64]; 2]> =
        set_ups.iter().map(|[old, new, _]| [&old.medians[..], &new.medians[..]]).collect();
    let ratio = Comparison::of_rounds(&rounds, 0).ok_or("no rounds")?;
    let p50 = |side: usize| {
        let medians: Vec<f64> = rounds.iter().flat_map(|r| r[side].iter().copied()).collect();
        Latency::of(&medians).map_or(f64::NAN, |t| t.p50_us)
    };
    let cells = format!(
        "{:.1} | {:.1} | {:.3} [{:.3}, {:.3}]",
        p50(0),
        p50(1),
        ratio.ratio,
        ratio.low,
        ratio.high
    );
    Ok((cells, disturbance))
}
