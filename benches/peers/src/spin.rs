//! A spin loop as the control: the spread of its calls is the machine's.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engines::{Peer, Result};

/// A fixed number of empty steps on each of some threads; each call waits for the last thread.
pub struct Spin {
    steps: u64,
    feeds: usize,
    threads: usize,
}

impl Spin {
    /// Calls that take so many microseconds.
    pub fn like(micros: f64, feeds: usize, threads: usize) -> Spin {
        let time = || {
            let start = Instant::now();
            spin(1000);
            start.elapsed().as_nanos() as f64 / 1e3
        };
        let measured = (0..20).map(|_| time()).fold(f64::INFINITY, f64::min);
        Spin { steps: (micros / measured * 1000.0).max(1.0) as u64, feeds, threads }
    }
}

fn spin(steps: u64) {
    for step in 0..steps {
        black_box(step);
        spin_loop();
    }
}

impl Peer for Spin {
    fn round(&mut self, duration: Duration) -> Result<Vec<f64>> {
        // Calls begun, and calls that other threads have finished, summed over threads; u64::MAX
        // ends the threads.
        let (calls, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let (steps, others) = (self.steps, self.threads as u64 - 1);
        let serve = || {
            for call in 1.. {
                while calls.load(Ordering::Acquire) < call {
                    spin_loop();
                }
                if calls.load(Ordering::Acquire) == u64::MAX {
                    return;
                }
                spin(steps);
                done.fetch_add(1, Ordering::Release);
            }
        };
        std::thread::scope(|scope| {
            (0..others).for_each(|_| drop(scope.spawn(serve)));
            let mut sample = vec![];
            let start = Instant::now();
            while sample.len() < 2 * self.feeds || start.elapsed() < duration {
                for _ in 0..self.feeds {
                    let begin = Instant::now();
                    let call = calls.fetch_add(1, Ordering::Release) + 1;
                    spin(steps);
                    while done.load(Ordering::Acquire) < call * others {
                        spin_loop();
                    }
                    sample.push(begin.elapsed().as_nanos() as f64 / 1e3);
                }
            }
            calls.store(u64::MAX, Ordering::Release);
            // The threads started during the first pass.
            sample.drain(..self.feeds);
            Ok(sample)
        })
    }
}
