//! The host's floating-point state is none of a run's business: results are the same whatever it
//! is, and it is as it was after every run, also one that fails.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::path::Path;

use reflex::{Array, Engine, Feed, Mode, Program};

/// Flush to zero, denormals are zero, rounding towards zero, every exception masked; an overflow
/// was seen.
const HOST: u32 = 1 << 15 | 1 << 6 | 3 << 13 | 0x1f80 | 1 << 3;

/// Large enough for two threads. The sums are subnormal numbers.
const MODEL: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((300, 64), dtype="float32"), w: R.Tensor((64, 512), dtype="float32")) -> R.Tensor((300, 512), dtype="float32"):
        h: R.Tensor((300, 512), dtype="float32") = R.matmul(x, w)
        y: R.Tensor((300, 512), dtype="float32") = R.add(h, h)
        return y
"#;

fn read() -> u32 {
    let mut word = 0_u32;
    // SAFETY: stores the control word to a local of the right size.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

fn write(word: u32) {
    // SAFETY: loads a control word without reserved bits.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}

/// Runs `body` in the host's state; returns its result and the state after it.
fn in_host_state<T>(body: impl FnOnce() -> T) -> (T, u32) {
    let before = read();
    write(HOST);
    let result = body();
    let after = read();
    write(before);
    (result, after)
}

fn filled(shape: [i64; 2], value: impl Fn(u32) -> f32) -> Array {
    let count = (shape[0] * shape[1]) as u32;
    Array::of(&shape, &(0..count).map(value).collect::<Vec<_>>()).expect("as many as the shape has")
}

fn load(path: &Path, threads: usize) -> Program {
    Engine::builder().threads(threads).build().and_then(|e| e.load(path)).expect("loads")
}

#[test]
fn runs_leave_the_hosts_state_and_do_not_see_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.py");
    std::fs::write(&path, MODEL).expect("writable");
    let x = filled([300, 64], |i| (i % 7 + 1) as f32 * 1e-41);
    let w = filled([64, 512], |i| (i % 5) as f32 * 0.25 + 0.125);
    let feed = Feed::from([("x".to_owned(), x), ("w".to_owned(), w)]);
    let mut expected: Option<Vec<u8>> = None;
    for threads in [1, 2] {
        let program = load(&path, threads);
        let prepared = program.prepare("main", &feed).expect("fits");
        for mode in Mode::ALL {
            let at = format!("{mode}, {threads} threads");
            let mut session = program.session(mode).expect("a session");
            let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
            let plain = outputs[0].1.clone();
            let subnormal = |v: &f32| *v > 0.0 && *v < f32::MIN_POSITIVE;
            assert!(plain.to_vec::<f32>().expect("float32").iter().all(subnormal), "{at}");
            let plain = expected.get_or_insert(plain.data);
            let mut bound = session.bind(&prepared).expect("runs");
            let (outcome, after) = in_host_state(|| bound.run());
            outcome.expect("runs");
            assert_eq!(after, HOST, "{at}: a bound run left {after:#x}");
            drop(bound);
            // Often enough that tiers have seen it.
            for _ in 0..40 {
                let (outputs, after) = in_host_state(|| session.call(&prepared));
                assert_eq!(after, HOST, "{at}: a call left {after:#x}");
                let outputs = outputs.and_then(|o| o.arrays()).expect("runs");
                assert!(outputs[0].1.data == *plain, "{at}: other bits");
            }
            session.set_fuel(Some(0));
            let (outcome, after) = in_host_state(|| session.call(&prepared).map(|_| ()));
            assert!(outcome.is_err(), "{at}: no fuel, and no failure");
            assert_eq!(after, HOST, "{at}: a failure left {after:#x}");
            session.set_fuel(None);
        }
    }
}
