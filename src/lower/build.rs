//! Tells builds of the kernel passes, and of the code generator in process, apart, for the kernel
//! cache: a hash of their source.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The Rust files below `dir`, but for tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let mut files = vec![];
    for dir in [".", "../tir", "../../jit/baseline"].map(Path::new) {
        println!("cargo::rerun-if-changed={}", dir.display());
        // A packaged crate has no neighbour; its version stands for the one it was packaged with.
        if dir.exists() {
            sources(dir, &mut files)?;
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    hasher.write(env!("CARGO_PKG_VERSION").as_bytes());
    for file in files {
        hasher.write(&fs::read(file)?);
    }
    println!("cargo::rustc-env=REFLEX_KERNEL_PASSES={:016x}", hasher.finish());
    Ok(())
}
