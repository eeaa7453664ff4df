//! Exports the C ABI from the command line, so that libraries which the system's loader opens for it
//! find it, and nothing else: exporting every symbol would make all of them relocatable at start. Tells
//! builds apart, for stored programs: a hash of the source of everything that lowers a model.

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

/// A hash of the sources; empty in a packaged crate, which has those of the façade alone, and stores no
/// programs.
fn source_hash() -> io::Result<String> {
    if !Path::new("src/lower/lib.rs").exists() {
        return Ok(String::new());
    }
    let mut files = vec![];
    sources("src".as_ref(), &mut files)?;
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(&fs::read(file)?);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rustc-env=REFLEX_SOURCES={}", source_hash()?);
    // The metadata of reflex-runtime's build script, which cargo passes on.
    let exported = std::env::var("DEP_REFLEX_RUNTIME_EXPORTED_SYMBOLS").unwrap_or_default();
    assert!(!exported.is_empty(), "reflex-runtime names the symbols to export");
    for name in exported.split(',') {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
    }
    if std::env::var("CARGO_CFG_TARGET_FAMILY").as_deref() == Ok("wasm") {
        // The host puts the functions of kernels into the table.
        println!("cargo::rustc-cdylib-link-arg=--export-table");
        println!("cargo::rustc-cdylib-link-arg=--growable-table");
        println!("cargo::rustc-cdylib-link-arg=--export=__stack_pointer");
    } else {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{}", soname());
    }
    Ok(())
}

/// The name that programs look for when they start. It has the part of the version in which the C
/// interface only grows: before 1.0 the minor version, later the major one.
fn soname() -> String {
    let part = |name: &str| std::env::var(format!("CARGO_PKG_VERSION_{name}")).unwrap_or_default();
    match part("MAJOR").as_str() {
        "0" => format!("libreflex.so.0.{}", part("MINOR")),
        major => format!("libreflex.so.{major}"),
    }
}
