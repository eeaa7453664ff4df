//! Modules that TVM built, with the answers of its virtual machine.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::tvm::{python, script};

/// The folder of modules that TVM built, shared by every test of the workspace; None as of
/// [`python`].
pub fn modules() -> Option<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let python = python()?;
    let build = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-modules");
        script(&python, "modules.py", &[folder.to_str().expect("UTF-8")]);
        folder
    };
    Some(BUILT.get_or_init(build))
}
