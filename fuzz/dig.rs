//! Runs oracles over tiers on random programs for a while: `dig SECONDS [SEED [EVERY]]`, of processor
//! time; one program in EVERY (1,024) runs on several threads too.
//!
//! Without libFuzzer, so on any toolchain, under sanitizers, and for mutants. It panics when an
//! oracle fails, and when tensor memory leaks; counts of what the programs did are printed at the
//! end. The same seed makes the same programs.

use arbitrary::Unstructured;
use reflex_fuzz::oracles;
use reflex_runtime::alloc::device::{CPU, DeviceAllocator};

/// Most bytes that programs are made from beyond those that arguments and a few statements take: most
/// programs are small, for they are many, and a mistake shows in few operations.
const SIZES: [u64; 4] = [50, 100, 200, 800];
const LEAST: u64 = 64;
/// One program in so many runs in every way, and one in so many also on several threads by default.
const EVERY: u64 = 256;
const THREADS: u64 = 1024;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let (seconds, mut state) = (args.next().unwrap_or(60), args.next().unwrap_or(1));
    let on_threads = args.next().unwrap_or(THREADS).max(1);
    let mut programs = 0;
    let mut total = oracles::Tally::default();
    let mut bytes = Vec::new();
    let live = || CPU.statistics().live;
    let before = live();
    // Programs take milliseconds, and so does the clock.
    while programs % 16 != 0 || processor_seconds() < seconds as f64 {
        let most = SIZES[random(&mut state) as usize % SIZES.len()];
        let size = LEAST + random(&mut state) % (1 + random(&mut state) % most);
        bytes.clear();
        bytes.extend((0..size).map(|_| random(&mut state) as u8));
        let Ok(case) = Unstructured::new(&bytes).arbitrary() else { continue };
        let every = programs % EVERY == 0;
        total += if every { oracles::tiers(&case) } else { oracles::one_tier(&case) };
        if programs % on_threads == 0 {
            total += oracles::threads(&case);
        }
        assert_eq!(live(), before, "bytes of tensors that no run released, in program {programs}");
        programs += 1;
    }
    let rate = programs as f64 / processor_seconds();
    println!("{programs} programs, {rate:.0} a second, {total:?}");
}

/// Some bits of a random stream.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 40
}

/// Time on a processor that all threads of the process have taken, by a clock of 100 ticks a second.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells what processes take");
    let (_, fields) = stat.rsplit_once(')').expect("the name is in parentheses");
    let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>());
    ticks.map(|ticks| ticks.expect("a number")).sum::<f64>() / 100.0
}
