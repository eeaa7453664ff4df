//! Kernels in two tiers by the command line: what it says of them, and what it does where the code generator, the cache or the disk fail.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const MODEL: &str = "tests/filetests/relax/mlp.py";

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
        if path.extension().is_some_and(|e| e == "kernel" || e == "kernels") {
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
