//! Python with TVM, which `./x test` sets up.

#[path = "skip.rs"]
pub mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python that has apache-tvm; None, recorded as a skip, where that is not set up.
pub fn python() -> Option<PathBuf> {
    skip::variable("REFLEX_TVM_PYTHON").map(PathBuf::from)
}

/// Runs a script of tests/tvm, which finds the packages of ONNX where these are installed apart,
/// and returns what it printed.
pub fn script(python: &Path, name: &str, args: &[&str]) -> String {
    let mut command = Command::new(python);
    if let Some(ort) = std::env::var_os("REFLEX_ORT_PYTHON") {
        let site = "import onnx, pathlib; print(pathlib.Path(onnx.__file__).parents[1])";
        let found = Command::new(ort).args(["-c", site]).output().expect("python runs");
        command.env("REFLEX_ONNX_SITE", String::from_utf8_lossy(&found.stdout).trim());
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let script = here.map(|dir| dir.join("tests/tvm").join(name)).find(|script| script.exists());
    let script = script.unwrap_or_else(|| panic!("no tests/tvm/{name}"));
    let output = command.arg(script).args(args).output().expect("python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
