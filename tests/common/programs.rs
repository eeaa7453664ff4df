//! Programs in other languages that use `libreflex.so`.

#[path = "skip.rs"]
pub mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo put the shared library that belongs to this test.
pub fn libraries() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let dir = own.parent().expect("in a folder").to_path_buf();
    assert!(dir.join("libreflex.so").exists(), "no libreflex.so in {}", dir.display());
    dir
}

/// A folder of this process with the shared library, under the names that a linker and a program that
/// starts look for.
pub fn linked_libraries() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    for name in ["libreflex.so", concat!("libreflex.so.0.", env!("CARGO_PKG_VERSION_MINOR"))] {
        let made = std::os::unix::fs::symlink(libraries().join("libreflex.so"), dir.join(name));
        assert!(made.is_ok() || dir.join(name).exists(), "{made:?}");
    }
    dir
}

/// Runs a command and returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}{error}", output.status);
    said.into_owned()
}

/// Compiles a C program with the system's compiler, runs it and returns what it printed.
pub fn run_c(source: &Path, program: &Path, args: &[&Path]) -> String {
    let libraries = linked_libraries();
    run(Command::new("cc")
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(source)
        .arg("-o")
        .arg(program)
        .arg(format!("-L{}", libraries.display()))
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-lreflex", "-lpthread"]));
    // Cargo's own search path comes first, where an older build may lie.
    run(Command::new(program).args(args).env("LD_LIBRARY_PATH", &libraries))
}

/// Runs Python, which has tvm-ffi, with our module; None, recorded as a skip, where that is not set up.
pub fn run_python(args: &[&Path]) -> Option<String> {
    let python = skip::variable("REFLEX_TVM_PYTHON")?;
    Some(run(Command::new(python)
        .args(args)
        .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("python"))
        .env("REFLEX_LIBRARY", libraries().join("libreflex.so"))))
}
