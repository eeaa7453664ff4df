//! Engines in turns: rounds of calls of each, one after the other.

use std::time::{Duration, Instant};

use reflex::stats::Latency;

use crate::engines::{Peer, Result, Spin};

const ROUND: Duration = Duration::from_millis(60);
const PAUSE: Duration = Duration::from_millis(15);
/// A round where only two take turns and neither keeps threads busy after its calls.
const TURN: Duration = Duration::from_millis(20);
/// Counted rounds, at least.
pub const ROUNDS: usize = 7;
/// Passes of which a tail is taken at least, and for how long, unless so many take [`LONGEST`].
const PASSES: usize = 500;
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(10);

/// An engine that measures a case, or why it does not.
pub struct Lane {
    pub peer: Result<Box<dyn Peer>>,
    /// Feeds of the case.
    feeds: usize,
    /// Mean microseconds of a call in each pass over the feeds.
    sample: Vec<f64>,
    /// One median a round.
    pub medians: Vec<f64>,
}

impl Lane {
    pub fn new(peer: Result<Box<dyn Peer>>, feeds: usize) -> Lane {
        Lane { peer, feeds, sample: vec![], medians: vec![] }
    }

    /// A round; an engine that fails is out.
    fn round(&mut self, counted: bool) {
        let Ok(peer) = &mut self.peer else { return };
        std::thread::sleep(PAUSE);
        match peer.round(ROUND) {
            Ok(calls) if counted => {
                let sample = self.passes(&calls);
                self.medians.extend(Latency::of(&sample).map(|t| t.p50_us));
                self.sample.extend(sample);
            }
            Ok(_) => {}
            Err(error) => self.peer = Err(error),
        }
    }

    /// The mean call of each pass over the feeds: calls of several shapes have several medians, a
    /// pass over all of them has one.
    fn passes(&self, calls: &[f64]) -> Vec<f64> {
        let passes = calls.chunks_exact(self.feeds);
        passes.map(|pass| pass.iter().sum::<f64>() / pass.len() as f64).collect()
    }

    /// Of all counted rounds, or why there are none.
    pub fn measured(&self) -> Result<Latency> {
        match &self.peer {
            Ok(_) => Ok(Latency::of(&self.sample).ok_or("no sample")?),
            Err(error) => Err(error.to_string().into()),
        }
    }

    pub fn tail(&self) -> Option<Latency> {
        self.measured().ok()
    }

    pub fn cell(&self) -> String {
        self.tail().map_or("-".to_string(), |t| format!("{:.1}", t.p50_us))
    }
}

/// A spin loop on so many threads, whose calls are as long as those of `peer`, which is warm then.
pub fn spin_like(peer: &mut impl Peer, feeds: usize, threads: usize) -> Result<Lane> {
    peer.round(ROUND)?;
    let calls = Latency::of(&peer.round(ROUND)?).ok_or("no sample")?;
    Ok(Lane::new(boxed(Ok(Spin::like(calls.p50_us, feeds, threads))), feeds))
}

/// p99 over p50 of those that take turns, so that what the machine does hits all alike.
pub fn tails<const N: usize>(mut lanes: [&mut Lane; N]) -> Result<[f64; N]> {
    let mut samples = [const { vec![] }; N];
    let start = Instant::now();
    let few = |samples: &[Vec<f64>; N]| samples.iter().any(|sample| sample.len() < PASSES);
    while start.elapsed() < if few(&samples) { LONGEST } else { SHORTEST } {
        for (lane, sample) in lanes.iter_mut().zip(&mut samples) {
            let calls = match &mut lane.peer {
                Ok(peer) => peer.round(TURN)?,
                Err(error) => return Err(error.to_string().into()),
            };
            sample.extend(lane.passes(&calls));
        }
    }
    let mut tails = [0.0; N];
    for (tail, sample) in tails.iter_mut().zip(&samples) {
        *tail = Latency::of(sample).map(|t| t.p99_us / t.p50_us).ok_or("no sample")?;
    }
    Ok(tails)
}

/// An engine as a lane takes it.
pub fn boxed<T: Peer + 'static>(peer: Result<T>) -> Result<Box<dyn Peer>> {
    peer.map(|p| Box::new(p) as Box<dyn Peer>)
}

/// Rounds of all, for at least `min_time` seconds and until each that works has 30 calls.
pub fn take_turns(lanes: &mut [Lane], min_time: f64) {
    let start = Instant::now();
    for round in 0.. {
        lanes.iter_mut().for_each(|lane| lane.round(round > 0));
        let enough = lanes.iter().all(|l| l.peer.is_err() || l.sample.len() * l.feeds >= 30);
        if enough && round >= ROUNDS && start.elapsed().as_secs_f64() > min_time {
            return;
        }
    }
}
