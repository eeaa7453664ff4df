//! Runs oracles over tiers on random programs for a while: `dig SECONDS [SEED]`.
//!
//! Without libFuzzer, so on any toolchain, under sanitizers, and for mutants. An oracle that does
//! not hold panics; what a number of programs did is printed at the end.

use std::time::{Duration, Instant};

use arbitrary::Unstructured;
use reflex_fuzz::oracles;

/// Most bytes that a program is made from.
const SIZE: usize = 2_000;
/// One program in so many also runs on several threads.
const THREADS: u64 = 8;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let (seconds, mut state) = (args.next().unwrap_or(60), args.next().unwrap_or(1));
    let (start, mut programs) = (Instant::now(), 0);
    let mut total = oracles::Tally::default();
    while start.elapsed() < Duration::from_secs(seconds) {
        let bytes: Vec<u8> = (0..SIZE).map(|_| random(&mut state)).collect();
        let Ok(case) = Unstructured::new(&bytes).arbitrary() else { continue };
        let tally = oracles::tiers(&case);
        if programs % THREADS == 0 {
            oracles::threads(&case);
        }
        programs += 1;
        total.traces += tally.traces;
        total.exits += tally.exits;
        total.whole += tally.whole;
        total.raw += tally.raw;
    }
    let rate = programs as f64 / start.elapsed().as_secs_f64();
    println!("{programs} programs, {rate:.0} a second, {total:?}");
}

/// A byte of a random stream.
fn random(state: &mut u64) -> u8 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 56) as u8
}
