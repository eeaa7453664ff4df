//! Runs oracles over tiers on random programs for a while: `dig SECONDS [SEED]`.
//!
//! Without libFuzzer, so on any toolchain, under sanitizers, and for mutants. An oracle that does
//! not hold panics; what a number of programs did is printed at the end. The same seed makes the
//! same programs.

use std::time::{Duration, Instant};

use arbitrary::Unstructured;
use reflex_fuzz::oracles;

/// Most bytes that a program is made from.
const SIZE: u64 = 800;
/// One program in so many runs in every way, and one in so many also on several threads.
const EVERY: u64 = 64;
const THREADS: u64 = 256;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let (seconds, mut state) = (args.next().unwrap_or(60), args.next().unwrap_or(1));
    let (start, mut programs) = (Instant::now(), 0);
    let mut total = oracles::Tally::default();
    let mut bytes = Vec::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        // Most programs are small: they are many, and a mistake shows in few operations.
        let size = 1 + random(&mut state) % (1 + random(&mut state) % SIZE);
        bytes.clear();
        bytes.extend((0..size).map(|_| random(&mut state) as u8));
        let Ok(case) = Unstructured::new(&bytes).arbitrary() else { continue };
        let every = programs % EVERY == 0;
        total += if every { oracles::tiers(&case) } else { oracles::one_tier(&case) };
        if programs % THREADS == 0 {
            total += oracles::threads(&case);
        }
        programs += 1;
    }
    let rate = programs as f64 / start.elapsed().as_secs_f64();
    println!("{programs} programs, {rate:.0} a second, {total:?}");
}

/// Some bits of a random stream.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 40
}
