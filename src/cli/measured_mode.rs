//! One mode of a benchmark.

use std::time::{Duration, Instant};

use reflex::{Mode, Prepared, Program, Result, Session};

/// A mode under measurement: its session and its sample.
pub struct MeasuredMode {
    pub mode: Mode,
    session: Session,
    pub load_ms: f64,
    pub first_ms: f64,
    /// Microseconds by call.
    pub sample: Vec<f64>,
}

impl MeasuredMode {
    /// Opens a warm session on a program of its own, so that no mode runs what another compiled.
    pub fn open(
        program: &Program,
        mode: Mode,
        load_ms: f64,
        feeds: &[Prepared],
    ) -> Result<MeasuredMode> {
        let program = program.fork()?;
        let start = Instant::now();
        let mut session = program.session(mode)?;
        let open_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        session.call(&feeds[0])?;
        let first_ms = start.elapsed().as_secs_f64() * 1e3;
        let mut measured =
            MeasuredMode { mode, session, load_ms: load_ms + open_ms, first_ms, sample: vec![] };
        measured.warm_up(feeds)?;
        Ok(measured)
    }

    /// One call that is not measured, with the device's work.
    pub fn call(&mut self, feed: &Prepared) -> Result<()> {
        self.session.call(feed)?;
        self.session.synchronize()
    }

    /// One measured call, its outputs' release included.
    pub fn measure(&mut self, feed: &Prepared) -> Result<()> {
        let start = Instant::now();
        self.call(feed)?;
        self.sample.push(start.elapsed().as_nanos() as f64 / 1e3);
        Ok(())
    }

    /// Compiles hot code, then runs every feed once and for a fifth of a second, until caches and
    /// clock rates are steady.
    fn warm_up(&mut self, feeds: &[Prepared]) -> Result<()> {
        self.session.warm_up_all(feeds)?;
        let start = Instant::now();
        for k in 0.. {
            if k >= feeds.len() && start.elapsed() > Duration::from_millis(200) {
                break;
            }
            self.call(&feeds[k % feeds.len()])?;
        }
        self.sample.reserve(1 << 16);
        Ok(())
    }
}
