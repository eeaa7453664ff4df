//! Detects that something else used the machine while a row was measured: CPU time of other
//! processes, time that the hypervisor gave to other machines, and a spin loop whose rounds do not
//! take the same time.

use std::time::Instant;

use reflex::stats::Latency;

use crate::Options;
use crate::engines::Result;

/// Linux reports CPU time to programs in hundredths of a second on every x86-64 kernel.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time so far, in clock ticks.
struct Ticks {
    /// Of all CPUs, stolen time included.
    busy: f64,
    /// Of this process and its children, living and finished.
    own: f64,
}

/// Begins with a row.
pub struct Watch {
    ticks: Ticks,
    start: Instant,
}

/// Load by other processes during a row.
#[derive(Clone, Copy)]
pub struct Disturbance {
    /// CPUs that others used, on average.
    pub other_cpu: f64,
    /// 90th percentile of a spin loop's rounds over their median.
    pub spin: f64,
}

impl Watch {
    pub fn start() -> Result<Watch> {
        Ok(Watch { ticks: ticks()?, start: Instant::now() })
    }

    /// Returns the disturbance since the start; `spins` are medians of rounds of spin loops, each
    /// with calls of one length.
    pub fn stop(&self, spins: &[&[f64]]) -> Result<Disturbance> {
        let now = ticks()?;
        let others = (now.busy - self.ticks.busy) - (now.own - self.ticks.own);
        let other_cpu = others.max(0.0) / TICKS_PER_SECOND / self.start.elapsed().as_secs_f64();
        let over_median = |rounds: &&[f64]| {
            let median = Latency::of(rounds).map_or(1.0, |t| t.p50_us);
            rounds.iter().map(|round| round / median).collect::<Vec<_>>()
        };
        let rounds: Vec<f64> = spins.iter().flat_map(over_median).collect();
        Ok(Disturbance { other_cpu, spin: Latency::of(&rounds).map_or(1.0, |t| t.p90_us) })
    }
}

impl Disturbance {
    /// Returns true beyond the bounds of the options.
    pub fn is_beyond(self, options: &Options) -> bool {
        self.excess(options) > 1.0
    }

    /// The larger of both figures over its bound.
    fn excess(self, options: &Options) -> f64 {
        let spin = (self.spin - 1.0) / (options.max_spin - 1.0).max(1e-9);
        (self.other_cpu / options.max_other_cpu.max(1e-9)).max(spin)
    }

    /// The cell of a table, after so many attempts.
    pub fn cell(self, attempts: usize, options: &Options) -> String {
        let mark = if self.is_beyond(options) { "**disturbed**" } else { "quiet" };
        let again = match attempts {
            1 => String::new(),
            n => format!(", attempt {n}"),
        };
        format!("{mark}{again} ({:.2} CPUs, spin {:.2})", self.other_cpu, self.spin)
    }
}

/// The explanation that precedes a table.
pub fn legend(options: &Options) -> String {
    format!(
        "Machine: CPUs that other processes used during the row, and the 90th percentile of the \
         rounds of a spin loop over their median. A row with more than {} CPUs or {} is measured \
         again up to {} times; the least disturbed attempt is shown, marked where it is beyond \
         these bounds still.",
        options.max_other_cpu, options.max_spin, options.reruns
    )
}

/// Measures until an attempt is not disturbed; returns the least disturbed one, and how many there
/// were.
pub fn quietest<T>(
    options: &Options,
    mut measure: impl FnMut() -> Result<(T, Disturbance)>,
) -> Result<(T, Disturbance, usize)> {
    let (mut best, mut found) = measure()?;
    let mut attempts = 1;
    while found.is_beyond(options) && attempts <= options.reruns {
        let (row, disturbance) = measure()?;
        attempts += 1;
        if disturbance.excess(options) < found.excess(options) {
            (best, found) = (row, disturbance);
        }
    }
    Ok((best, found, attempts))
}

fn ticks() -> Result<Ticks> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().ok_or("no CPUs in /proc/stat")?;
    let fields = all.split_whitespace().skip(1).map(str::parse::<f64>);
    let fields: Vec<f64> = fields.collect::<std::result::Result<_, _>>()?;
    // user nice system idle iowait irq softirq steal; guests are counted in user.
    let busy = fields.iter().take(8).enumerate().filter(|(n, _)| ![3, 4].contains(n));
    Ok(Ticks { busy: busy.map(|(_, ticks)| ticks).sum(), own: own_ticks()? })
}

/// CPU time of this process and of its children: those that are gone count where they were waited
/// for.
fn own_ticks() -> Result<f64> {
    let own = std::process::id();
    let mut sum = 0.0;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process that ended since the folder was read is no child that is waited for.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if id == own || fields[1].parse() == Ok(own) {
            // utime, stime, cutime, cstime.
            let times = fields[11..15].iter().map(|ticks| ticks.parse::<f64>());
            sum += times.sum::<std::result::Result<f64, _>>()?;
        }
    }
    Ok(sum)
}
