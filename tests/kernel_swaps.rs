//! Kernels are replaced while they are called: by calls of their own thread and by others. `./x tsan` runs this under the thread
//! sanitizer.

use std::path::Path;

use reflex::{Array, Engine, Feed, KernelTier, Mode, Prepared, Program};

const MODEL: &str = "tests/filetests/relax/mlp.py";

fn load(policy: &str, cache: &Path) -> Program {
    let policy = policy.parse().expect("a policy");
    let engine = Engine::builder().tier(policy).cache(cache).build().expect("an engine");
    engine.load(MODEL).expect("loads")
}

fn feed(program: &Program, rows: i64) -> Prepared {
    let values = |count: i64, step: f32| (0..count).map(|i| (i as f32 * step).sin()).collect();
    let x: Vec<f32> = values(rows * 8, 0.7);
    let w: Vec<f32> = values(40, 1.3);
    let x = Array::of(&[rows, 8], &x).expect("a tensor");
    let w = Array::of(&[8, 5], &w).expect("a tensor");
    let feed = Feed::from([("x".to_owned(), x), ("w".to_owned(), w)]);
    program.prepare("main", &feed).expect("fits")
}

/// The bits of the answers of calls with several numbers of rows.
fn answers(program: &Program, mode: Mode, calls: usize) -> Vec<Vec<u32>> {
    let mut session = program.session(mode).expect("a session");
    let one = |call: usize| {
        let prepared = feed(program, [1, 3, 16][call % 3]);
        let outputs = session.call(&prepared).expect("runs").arrays().expect("arrays");
        outputs[0].1.to_vec::<f32>().expect("floats").iter().map(|v| v.to_bits()).collect()
    };
    (0..calls).map(one).collect()
}

#[test]
fn kernels_are_replaced_while_calls_go_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let expected = answers(&load("kernels=llvm", &dir.path().join("llvm")), Mode::Bytecode, 3);
    for mode in Mode::ALL {
        let cache = dir.path().join(mode.to_string());
        let program = load("kernels=tiered,threshold=2,compile=sync,shapes=0", &cache);
        let before = program.kernel_states();
        assert!(!before.is_empty(), "no kernel is tiered");
        for kernel in &before {
            assert_eq!((kernel.tier, kernel.calls), (KernelTier::Baseline, 0), "{kernel}");
            assert_eq!(kernel.reason, "not called yet");
        }
        let round: Vec<_> = expected.iter().cycle().take(12).cloned().collect();
        assert_eq!(answers(&program, mode, 12), round, "{mode}");
        program.wait_for_kernels();
        for kernel in program.kernel_states() {
            assert_eq!(kernel.tier, KernelTier::Optimised, "{kernel}");
            assert!(kernel.calls > 0 && kernel.reason.starts_with("replaced after"), "{kernel}");
        }
        assert_eq!(answers(&program, mode, 12), round, "{mode}, replaced");
        // The next start finds LLVM's kernels in the cache, where nothing is left to replace.
        let again = load("kernels=tiered", &cache);
        assert!(again.kernel_states().is_empty());
        let tiers = again.kernels().expect("compiled here");
        assert!(tiers.iter().all(|(_, tier)| *tier == KernelTier::Optimised), "{tiers:?}");
    }
}

/// Each call replaces the code that all threads call, in the interpreter, in compiled functions and in
/// traces.
#[test]
fn threads_call_while_every_call_replaces_kernels() {
    let dir = tempfile::tempdir().expect("a folder");
    let expected = answers(&load("kernels=llvm", &dir.path().join("llvm")), Mode::Bytecode, 3);
    let policy =
        "kernels=tiered,kernel-swaps=forced,threshold=2,compile=sync,shapes=0,code-cache=64K";
    let program = load(policy, &dir.path().join("tiered"));
    std::thread::scope(|scope| {
        for mode in Mode::ALL {
            let (program, expected) = (&program, &expected);
            scope.spawn(move || {
                for (call, answer) in answers(program, mode, 60).iter().enumerate() {
                    assert_eq!(answer, &expected[call % 3], "{mode}, call {call}");
                }
            });
        }
    });
    // Programs that share the kernels, and one that is gone.
    let fork = program.fork().expect("a fork");
    drop(program);
    assert_eq!(answers(&fork, Mode::Tiered, 30)[..3], expected[..]);
}

#[test]
fn a_tiered_program_is_saved_with_kernels_of_llvm() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = load("kernels=tiered", &dir.path().join("cache"));
    let path = dir.path().join("mlp.so");
    program.save(&path).expect("saves");
    assert!(program.kernel_states().iter().all(|k| k.tier == KernelTier::Optimised));
    let saved = Engine::new().expect("an engine").load(&path).expect("loads");
    let answer = |program: &Program| answers(program, Mode::Tiered, 6);
    assert_eq!(answer(&saved), answer(&program));
}
