//! The cost of tiering up: compiling a trace, calls while code is compiled, pauses.
//!
//! `cargo bench --bench tiering` prints a line for each figure. Every sample is a program that was
//! just loaded. Criterion is of no use here: what is measured happens once in a program's life.

#[path = "common/kernels.rs"]
mod kernels;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernels::{CALLS, CONSTS, Kernels, checks};
use reflex::DType;
use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

fn load(text: &str, options: TierOptions) -> (Arc<Program>, Arc<CraneliftTier>) {
    let exec = verify(listing::parse(text).expect("a listing")).expect("valid");
    let program = Program::load(exec, &[&Kernels]).expect("loads");
    let tier = Arc::new(CraneliftTier::with_options(options).expect("a tier"));
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    (Arc::new(program), tier)
}

fn session(program: &Arc<Program>, mode: Mode) -> Session {
    Session::new(program, Options { mode, ..Options::default() }).expect("a session")
}

fn float() -> Any {
    Tensor::zeros(&[1], DType::F32).expect("memory").into()
}

/// A function of `count` calls of a kernel.
fn calls(count: usize) -> String {
    let mut text = format!("{CONSTS}@main(x, y) regs=2:\n");
    for at in 0..count {
        let _ = writeln!(text, "  call  add1 in: %{}, %{} dst: %void", at % 2, 1 - at % 2);
    }
    text + "  ret   %0\n"
}

/// 100 iterations of eight checks and two shapes, and the kernel that counts.
fn tiny_loop() -> String {
    let mut body = String::new();
    for _ in 0..4 {
        body += &checks(3, 0);
    }
    for _ in 0..2 {
        body += "  call  vm.builtin.make_prim_value in: %void, i0, i7 dst: %4\n  \
                 call  vm.builtin.copy in: %4 dst: %6\n  \
                 call  vm.builtin.null_value in: dst: %6\n";
    }
    let operations = body.lines().count();
    format!(
        "{CONSTS}@main(n, i, c, x) regs=7:\n  call  set_n in: %0, %1 dst: %void\n{body}  \
         call  dec in: %1, %2 dst: %void\n  call  vm.builtin.read_if_cond in: %2 dst: %5\n  \
         If    %5, 2\n  goto  -{}\n  ret   %3\n",
        operations + 3
    )
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Time to record and compile a trace of 100 calls, on the calling thread.
fn compile_trace() {
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    let args = [float(), float()];
    let mut samples = Vec::new();
    for _ in 0..40 {
        let (program, tier) = load(&calls(100), options.clone());
        let mut session = session(&program, Mode::Tiered);
        session.call("main", &args).expect("runs");
        let start = Instant::now();
        session.call("main", &args).expect("runs");
        samples.push(us(start.elapsed()));
        assert_eq!(tier.traces(&program).len(), 1);
    }
    println!("a trace of 100 calls recorded and compiled: {:.0} us", median(samples));
}

/// Speed-up of a loop of tiny operations.
fn loop_ratio() {
    let number = |n: i64| Any::from(Tensor::from_slice(&[1], &[n]).expect("memory"));
    let flag = Any::from(Tensor::zeros(&[], DType::BOOL).expect("memory"));
    let args = [number(100), number(0), flag, float()];
    let views = AnyView::slice(&args);
    let options = TierOptions { compile_mode: CompileMode::Synchronous, ..TierOptions::default() };
    let mut times = Vec::new();
    for mode in [Mode::Bytecode, Mode::Tiered] {
        let (program, _) = load(&tiny_loop(), options.clone());
        let mut session = session(&program, mode);
        let main = program.find("main").expect("defined");
        let mut samples = Vec::new();
        for round in 0..2000 {
            let before = CALLS.load(Ordering::Relaxed);
            let start = Instant::now();
            session.call_func(main, views).expect("runs");
            if round >= 1000 {
                samples.push(us(start.elapsed()));
            }
            assert_eq!(CALLS.load(Ordering::Relaxed) - before, 101);
        }
        times.push(median(samples));
    }
    println!(
        "100 iterations of 14 builtins and a kernel: bytecode {:.2} us, tiered {:.2} us, ratio {:.1}",
        times[0],
        times[1],
        times[0] / times[1]
    );
}

/// CPU time of the calling thread; time that other threads have the CPU does not count.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local `timespec`, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time of one call, in microseconds.
#[derive(Clone, Copy)]
struct Took {
    /// By the thread's own clock.
    own: f64,
    /// By the wall clock.
    wall: f64,
}

/// The first calls of a fresh program.
fn first_calls(text: &str, mode: Mode) -> Vec<Took> {
    let (program, _) = load(text, TierOptions::default());
    let mut session = session(&program, mode);
    let (main, args) = (program.find("main").expect("defined"), [float(), float()]);
    let views = AnyView::slice(&args);
    let mut times = Vec::with_capacity(CALLS_EACH);
    for _ in 0..CALLS_EACH {
        let (own, wall) = (thread_time(), Instant::now());
        session.call_func(main, views).expect("runs");
        let wall = us(wall.elapsed());
        times.push(Took { own: us(thread_time() - own), wall });
    }
    times
}

/// Calls of each fresh program.
const CALLS_EACH: usize = 2000;
/// Rounds: in each, a run of the interpreter, one that tiers up, and one more of the interpreter.
const ROUNDS: usize = 61;
/// Resamples of a bootstrap interval.
const RESAMPLES: usize = 1000;

/// Numbers of calls after which sums are compared. The first calls touch memory for the first time,
/// in either mode.
fn looks() -> Vec<usize> {
    std::iter::successors(Some(20), |at: &usize| Some(at + at / 8 + 1))
        .take_while(|&at| at < CALLS_EACH)
        .chain([CALLS_EACH])
        .collect()
}

/// For each look: by how much the sum of the second series was longer.
fn ratios(first: &[Took], second: &[Took], clock: fn(&Took) -> f64) -> Vec<f64> {
    let sums = |series: &[Took]| {
        let all = series.iter().scan(0.0, |sum, took| {
            *sum += clock(took);
            Some(*sum)
        });
        all.collect::<Vec<f64>>()
    };
    let (first, second) = (sums(first), sums(second));
    looks().into_iter().map(|at| second[at - 1] / first[at - 1]).collect()
}

/// The median over rounds at the look where that is most.
fn at_worst(rounds: &[&Vec<f64>]) -> f64 {
    let looks = rounds.first().map_or(0, |round| round.len());
    (0..looks).map(|at| median(rounds.iter().map(|round| round[at]).collect())).fold(0.0, f64::max)
}

/// The same with the interval that 95 of 100 resamples of the rounds are in.
fn with_interval(rounds: &[Vec<f64>]) -> String {
    let mut state = 1_u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &rounds[(state >> 33) as usize % rounds.len()]
    };
    let mut all: Vec<f64> = (0..RESAMPLES)
        .map(|_| at_worst(&(0..rounds.len()).map(|_| draw()).collect::<Vec<_>>()))
        .collect();
    all.sort_by(f64::total_cmp);
    let (low, high) = (all[RESAMPLES / 40], all[RESAMPLES - 1 - RESAMPLES / 40]);
    format!("{:.3} [{low:.3}, {high:.3}]", at_worst(&rounds.iter().collect::<Vec<_>>()))
}

/// Microseconds of a call by one of the clocks.
type Clock = fn(&Took) -> f64;

/// Compares a run that tiers up with the interpreter, and prints its longest call, with
/// `busy` other threads.
fn tiering_up(busy: usize) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let text = calls(1000);
        let clocks: [(&str, Clock); 2] =
            [("the thread's own clock", |took| took.own), ("the wall's clock", |took| took.wall)];
        let mut found = [(); 2].map(|()| (Vec::new(), Vec::new()));
        let (mut longest, mut longest_wall) = (Vec::new(), [Vec::new(), Vec::new()]);
        for round in 0..ROUNDS {
            // Each run comes first in turn.
            let mut runs = [const { Vec::new() }; 3];
            for at in 0..runs.len() {
                let which = (at + round) % runs.len();
                let mode = if which == 1 { Mode::Tiered } else { Mode::Bytecode };
                runs[which] = first_calls(&text, mode);
            }
            let [bytecode, tiered, again] = &runs;
            for ((_, clock), (worst, control)) in clocks.iter().zip(&mut found) {
                worst.push(ratios(bytecode, tiered, *clock));
                control.push(ratios(bytecode, again, *clock));
            }
            let most = |run: &[Took], clock: Clock| run.iter().map(clock).fold(0.0, f64::max);
            let usual = median(bytecode.iter().map(|took| took.own).collect());
            longest.push(most(tiered, clocks[0].1) - usual);
            longest_wall[0].push(most(tiered, clocks[1].1));
            longest_wall[1].push(most(bytecode, clocks[1].1));
        }
        stop.store(true, Ordering::Relaxed);
        println!("tiering up with {busy} other busy threads, {ROUNDS} rounds:");
        for ((name, _), (worst, control)) in clocks.iter().zip(&found) {
            println!(
                "  by {name}: at worst {} times the interpreter so far; the interpreter itself {}",
                with_interval(worst),
                with_interval(control)
            );
        }
        let [tiered, bytecode] = longest_wall.map(median);
        println!(
            "  longest pause of a call: {:.0} us (median of runs), {:.0} us (of all); longest call \
             by the wall's clock {tiered:.0} us, of the interpreter {bytecode:.0} us (medians)",
            median(longest.clone()),
            longest.iter().fold(0.0, |a: f64, b| a.max(*b)),
        );
    });
}

fn main() {
    compile_trace();
    loop_ratio();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    for busy in [0, cores] {
        tiering_up(busy);
    }
}
