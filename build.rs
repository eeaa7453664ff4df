//! Exports the C ABI from the command line, so that libraries which the system's loader opens for it
//! find it, and nothing else: exporting every symbol would make all of them relocatable at start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The metadata of reflex-runtime's build script, which cargo passes on.
    let exported = std::env::var("DEP_REFLEX_RUNTIME_EXPORTED_SYMBOLS").unwrap_or_default();
    assert!(!exported.is_empty(), "reflex-runtime names the symbols to export");
    for name in exported.split(',') {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{}", soname());
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
