//! Interleaved rounds of calls of several engines.

use std::time::{Duration, Instant};

use reflex::stats::Latency;

use crate::engines::{Peer, Result};
use crate::spin::Spin;

const ROUND: Duration = Duration::from_millis(60);
const PAUSE: Duration = Duration::from_millis(15);
/// A round where only two alternate and neither keeps threads busy after its calls.
const SHORT_ROUND: Duration = Duration::from_millis(20);
/// Counted rounds, at least.
pub const ROUNDS: usize = 7;
/// Passes that a tail is taken of at least, and for how long, unless so many take [`LONGEST`].
const PASSES: usize = 500;
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(10);

/// An engine that measures a case, or why it does not.
pub struct Contender {
    pub peer: Result<Box<dyn Peer>>,
    /// Feeds of the case.
    feeds: usize,
    /// Mean microseconds of a call in each pass over the feeds.
    sample: Vec<f64>,
    /// One median a round.
    pub medians: Vec<f64>,
}

impl Contender {
    pub fn new<T: Peer + 'static>(peer: Result<T>, feeds: usize) -> Contender {
        let peer = peer.map(|p| Box::new(p) as Box<dyn Peer>);
        Contender { peer, feeds, sample: vec![], medians: vec![] }
    }

    /// An engine that the options leave out.
    pub fn left_out(feeds: usize) -> Contender {
        Contender { peer: Err("left out".into()), feeds, sample: vec![], medians: vec![] }
    }

    /// A spin loop on so many threads, whose calls are as long as those of `like`, which is warm.
    pub fn spin(like: &mut impl Peer, feeds: usize, threads: usize) -> Result<Contender> {
        like.round(ROUND)?;
        let calls = Latency::of(&like.round(ROUND)?).ok_or("no sample")?;
        Ok(Contender::new(Ok(Spin::like(calls.p50_us, feeds, threads)), feeds))
    }

    /// Uncounted calls for so long.
    pub fn warm_up(&mut self, duration: Duration) {
        if let Ok(peer) = &mut self.peer
            && let Err(error) = peer.round(duration)
        {
            self.peer = Err(error);
        }
    }

    /// A counted round; an engine that fails is out.
    fn round(&mut self) {
        let Ok(peer) = &mut self.peer else { return };
        std::thread::sleep(PAUSE);
        match peer.round(ROUND) {
            Ok(calls) => {
                let sample = self.passes(&calls);
                self.medians.extend(Latency::of(&sample).map(|t| t.p50_us));
                self.sample.extend(sample);
            }
            Err(error) => self.peer = Err(error),
        }
    }

    /// The mean call of each pass over the feeds: calls of several shapes have several medians, a
    /// pass over all of them has one.
    fn passes(&self, calls: &[f64]) -> Vec<f64> {
        let passes = calls.chunks_exact(self.feeds);
        passes.map(|pass| pass.iter().sum::<f64>() / pass.len() as f64).collect()
    }

    /// Percentiles of all counted rounds, or why there are none.
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

/// Warms every contender up for `warm_up`, then runs interleaved rounds of all, for at least
/// `min_time` seconds and until each that works has 30 calls.
pub fn interleave(contenders: &mut [Contender], warm_up: Duration, min_time: f64) {
    contenders.iter_mut().for_each(|c| c.warm_up(warm_up));
    let start = Instant::now();
    for round in 1.. {
        contenders.iter_mut().for_each(Contender::round);
        let enough = contenders.iter().all(|c| c.peer.is_err() || c.sample.len() * c.feeds >= 30);
        if enough && round >= ROUNDS && start.elapsed().as_secs_f64() > min_time {
            return;
        }
    }
}

/// p99 over p50 of interleaved contenders, so that what the machine does affects all alike.
pub fn tails<const N: usize>(mut contenders: [&mut Contender; N]) -> Result<[f64; N]> {
    let mut samples = [const { vec![] }; N];
    let start = Instant::now();
    let few = |samples: &[Vec<f64>; N]| samples.iter().any(|sample| sample.len() < PASSES);
    while start.elapsed() < if few(&samples) { LONGEST } else { SHORTEST } {
        for (contender, sample) in contenders.iter_mut().zip(&mut samples) {
            let calls = match &mut contender.peer {
                Ok(peer) => peer.round(SHORT_ROUND)?,
                Err(error) => return Err(error.to_string().into()),
            };
            sample.extend(contender.passes(&calls));
        }
    }
    let mut tails = [0.0; N];
    for (tail, sample) in tails.iter_mut().zip(&samples) {
        *tail = Latency::of(sample).map(|t| t.p99_us / t.p50_us).ok_or("no sample")?;
    }
    Ok(tails)
}
