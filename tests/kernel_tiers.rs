//! Kernels in two tiers: Cranelift's run at once, LLVM's replace them, and no caller sees a difference.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use reflex::{Array, Engine, Feed, KernelTier, Mode, Prepared, Program};
use tempfile::TempDir;

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

/// A folder with a model, and a code generator that is a shell script.
fn folder_with(script: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::copy(MODEL, dir.path().join("mlp.py")).expect("copies");
    let path = dir.path().join("codegen");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writes");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("an executable file");
    dir
}

/// Runs the model with kernels in two tiers, warmed up, so that LLVM has been asked for every kernel.
fn run(dir: &Path, cache: &str, variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(["run", "mlp.py", "--shape", "x=3x8", "--seed", "5", "--warm-up", "--json"]);
    command.current_dir(dir).env("REFLEX_TIER", "kernels=tiered");
    command.env("REFLEX_CACHE", dir.join(cache)).env("RUST_BACKTRACE", "0");
    command.envs(variables.iter().copied()).output().expect("the command runs")
}

fn outputs(output: &Output) -> serde_json::Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["outputs"].clone()
}

/// A code generator that is killed, and one that is removed after the start: the program goes on, and
/// says so once.
#[test]
fn a_program_outlives_its_code_generator() {
    let dir = folder_with("kill -KILL $$");
    let expected = outputs(&run(dir.path(), "cache", &[]));
    let killed = dir.path().join("codegen");
    let output = run(dir.path(), "killed", &[("REFLEX_CODEGEN", &killed)]);
    assert_eq!(outputs(&output), expected);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("those of Cranelift stay").count(), 1, "{said}");
    assert!(said.contains("codegen: the process failed"), "{said}");
    // It removes itself at the first request, so that the second finds none.
    let dir = folder_with("rm -f \"$0\"; exit 1");
    let removed = dir.path().join("codegen");
    let output = run(dir.path(), "removed", &[("REFLEX_CODEGEN", &removed)]);
    assert_eq!(outputs(&output), expected);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("those of Cranelift stay").count(), 1, "{said}");
}

#[test]
fn a_damaged_cache_and_a_full_disk_cost_time_only() {
    let dir = folder_with("exit 1");
    let expected = outputs(&run(dir.path(), "cache", &[]));
    let cache = dir.path().join("cache");
    let mut damaged = 0;
    for entry in std::fs::read_dir(&cache).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "kernel") {
            let bytes = std::fs::read(&path).expect("reads");
            std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("writes");
            damaged += 1;
        }
    }
    assert!(damaged >= 2, "kernels of both tiers are in the cache");
    assert_eq!(outputs(&run(dir.path(), "cache", &[])), expected);
    // Every write to the device is refused as if the disk were full.
    let full = dir.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).expect("a link");
    let output = run(dir.path(), "full", &[]);
    assert_eq!(outputs(&output), expected);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("kernels cannot be stored").count(), 1, "{said}");
}

#[test]
fn inspect_says_the_tier_of_each_kernel_and_why() {
    let dir = folder_with("kill -KILL $$");
    let inspect = |variables: &[(&str, &Path)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.args(["inspect", "mlp.py", "--kernel-tiers", "--shape", "x=3x8"]);
        command.current_dir(dir.path()).env("REFLEX_TIER", "kernels=tiered");
        command.env("REFLEX_CACHE", "off").envs(variables.iter().copied());
        let output = command.output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = inspect(&[]);
    assert!(text.lines().all(|line| line.starts_with("llvm ")), "{text}");
    assert!(text.contains("(replaced after 1 call)"), "{text}");
    let text = inspect(&[("REFLEX_CODEGEN", &dir.path().join("codegen"))]);
    assert!(text.lines().all(|line| line.starts_with("cranelift ")), "{text}");
    assert!(text.contains("(stays: "), "{text}");
}
