//! Exports the C ABI from our executables, so that libraries they open find it, and nothing
//! else: exporting every symbol would make all of them relocatable at start.

const EXPORTED: &[&str] = &include!("src/runtime/exported_symbols.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/runtime/exported_symbols.rs");
    for kind in ["bins", "tests", "benches", "examples"] {
        for name in EXPORTED {
            println!("cargo::rustc-link-arg-{kind}=-Wl,--export-dynamic-symbol={name}");
        }
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libreflex.so");
}
