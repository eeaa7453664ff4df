//! The examples build and run: in C with the system's compiler, in Rust, and in Python.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use reflex::Engine;

#[allow(dead_code)] // its `main`
#[path = "../examples/mlp.rs"]
mod mlp;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo put the shared library that belongs to this test.
fn libraries() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let dir = own.parent().expect("in a folder").to_path_buf();
    assert!(dir.join("libreflex.so").exists(), "no libreflex.so in {}", dir.display());
    dir
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

/// Runs a command and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}{error}", output.status);
    said.into_owned()
}

#[test]
fn the_c_example_builds_and_runs() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples-mlp-c");
    let libraries = libraries();
    run(Command::new("cc")
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root().join("include"))
        .arg(root().join("examples/mlp.c"))
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", libraries.display()))
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-lreflex", "-lpthread"]));
    // Cargo's own search path comes first, where an older build may lie.
    let said = run(Command::new(program).arg(model()).env("LD_LIBRARY_PATH", &libraries));
    assert!(said.contains("TypeError: `main` expects 2 arguments"), "{said}");
    assert!(said.contains("warm after 21 calls"), "{said}");
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn the_header_is_c_plus_plus_too() {
    if Command::new("c++").arg("--version").output().is_err() {
        println!("skipped: no C++ compiler");
        return;
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
    let Some(python) = std::env::var_os("REFLEX_TVM_PYTHON") else {
        println!("skipped: REFLEX_TVM_PYTHON is not set; ./x test sets it");
        return;
    };
    let said = run(Command::new(python)
        .arg(root().join("examples/mlp.py"))
        .arg(model())
        .env("PYTHONPATH", root().join("python"))
        .env("REFLEX_LIBRARY", libraries().join("libreflex.so")));
    assert!(said.ends_with("done\n"), "{said}");
}
