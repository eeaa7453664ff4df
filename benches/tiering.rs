//! What it costs to become fast: compiling a trace, calls while code is made, pauses.
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
use reflex_cranelift::{Compiling, CraneliftTier, TierOptions};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::listing;
use reflex_vm::program::Program;
use reflex_vm::session::{Mode, Options, Session};
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
    let options =
        TierOptions { threshold: 2, compiling: Compiling::AtOnce, ..TierOptions::default() };
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

/// How much faster a loop of tiny operations becomes.
fn loop_ratio() {
    let number = |n: i64| Any::from(Tensor::from_slice(&[1], &[n]).expect("memory"));
    let flag = Any::from(Tensor::zeros(&[], DType::BOOL).expect("memory"));
    let args = [number(100), number(0), flag, float()];
    let views = AnyView::slice(&args);
    let options = TierOptions { compiling: Compiling::AtOnce, ..TierOptions::default() };
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

/// Time of the calling thread alone, whoever else has the processor meanwhile.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Times of the first calls of a fresh program, each by the thread's own clock.
fn first_calls(text: &str, mode: Mode, count: usize) -> Vec<f64> {
    let (program, _) = load(text, TierOptions::default());
    let mut session = session(&program, mode);
    let (main, args) = (program.find("main").expect("defined"), [float(), float()]);
    let views = AnyView::slice(&args);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = thread_time();
        session.call_func(main, views).expect("runs");
        times.push(us(thread_time() - start));
    }
    times
}

/// How much longer the second of two series of calls took than the first, wherever that was most.
fn at_worst(first: &[f64], second: &[f64]) -> f64 {
    let (mut sums, mut ratio) = ((0.0, 0.0), 0.0_f64);
    for (number, (a, b)) in first.iter().zip(second).enumerate() {
        sums = (sums.0 + a, sums.1 + b);
        // The first calls touch memory for the first time, in either mode.
        if number >= 20 {
            ratio = ratio.max(sums.1 / sums.0);
        }
    }
    ratio
}

/// How a run that tiers up compares with the interpreter at its worst, and its longest call, with
/// `busy` threads beside it.
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
        let (mut worst, mut control, mut longest) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..15 {
            let bytecode = first_calls(&text, Mode::Bytecode, 2000);
            let tiered = first_calls(&text, Mode::Tiered, 2000);
            worst.push(at_worst(&bytecode, &tiered));
            control.push(at_worst(&bytecode, &first_calls(&text, Mode::Bytecode, 2000)));
            let usual = median(bytecode);
            longest.push(tiered.iter().fold(0.0, |a: f64, b| a.max(*b)) - usual);
        }
        stop.store(true, Ordering::Relaxed);
        println!(
            "tiering up beside {busy} busy threads: at worst {:.3} times the interpreter so far, as \
             the interpreter itself is {:.3} times; longest pause of a call {:.0} us (median of 15 runs), {:.0} us (longest of all)",
            median(worst),
            median(control),
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
