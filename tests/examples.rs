//! The examples build and run: in C with the system's compiler, in Rust, and in Python.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use programs::{run, run_c, run_python};
use reflex::Engine;

#[path = "common/programs.rs"]
mod programs;

#[allow(dead_code)] // its `main`
#[path = "../examples/mlp.rs"]
mod mlp;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The model of the examples as a library, so that they need no compiler.
fn model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples-mlp.so");
        let engine = Engine::builder().build().expect("an engine");
        let script = root().join("tests/filetests/relax/mlp.py");
        engine.load(&script).expect("compiles").save(&path).expect("saves");
        path
    })
}

#[test]
fn the_c_example_builds_and_runs() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples-mlp-c");
    let said = run_c(&root().join("examples/mlp.c"), &program, model());
    assert!(said.contains("InternalError: `main` expects 2 arguments"), "{said}");
    assert!(said.contains("warm after 21 calls"), "{said}");
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn the_header_is_c_plus_plus_too() {
    if Command::new("c++").arg("--version").output().is_err() {
        return programs::skip::skip("a C++ compiler");
    }
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.cc");
    std::fs::write(&source, "#include \"reflex.h\"\nReflexValue v = reflex_int(1);\n")
        .expect("writes");
    run(Command::new("c++")
        .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(root().join("include"))
        .arg(source));
}

#[test]
fn the_rust_example_runs() {
    mlp::run(model()).expect("the example runs");
}

#[test]
fn the_python_example_runs() {
    let example = root().join("examples/mlp.py");
    let Some(said) = run_python(&[&example, model()]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}
